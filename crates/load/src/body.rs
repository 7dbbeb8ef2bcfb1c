//! Body of a request or of an expected response: any bytes, shared.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

/// Bytes; serialized as text if they are UTF-8, else in base64.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Written", into = "Written")]
pub struct Body(Arc<[u8]>);

/// A body in a file.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, deny_unknown_fields)]
enum Written {
    /// Text.
    Text(String),
    /// Other bytes.
    Bytes {
        /// The bytes in base64.
        base64: String,
    },
}

impl Body {
    /// Returns the bytes as they are sent.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn shared(&self) -> Arc<[u8]> {
        Arc::clone(&self.0)
    }

    /// True without any bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Prints the length only: bodies can be long.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.0.len())
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<&str> for Body {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<Body> for Written {
    fn from(body: Body) -> Self {
        match std::str::from_utf8(&body.0) {
            Ok(text) => Written::Text(text.to_owned()),
            Err(_) => Written::Bytes { base64: BASE64_STANDARD.encode(&body.0) },
        }
    }
}

impl TryFrom<Written> for Body {
    type Error = base64::DecodeError;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        match written {
            Written::Text(text) => Ok(text.into_bytes().into()),
            Written::Bytes { base64 } => Ok(BASE64_STANDARD.decode(base64)?.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::Body;

    #[test]
    fn text_stays_readable() {
        assert_eq!(serde_json::to_string(&Body::from("a=b")).expect("written"), r#""a=b""#);
        let bytes = serde_json::to_string(&Body::from(vec![0xff])).expect("written");
        assert_eq!(bytes, r#"{"base64":"/w=="}"#);
        assert!(serde_json::from_str::<Body>(r#"{"base64":"?"}"#).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let body = Body::from(bytes.clone());
            let text = serde_json::to_string(&body).expect("written");
            let read: Body = serde_json::from_str(&text).expect("read");
            prop_assert_eq!(read.bytes(), &bytes[..]);
        }
    }
}
