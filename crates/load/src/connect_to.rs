//! Another address for the host of the URL: `HOST:ADDR`, with or without a port.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;

use rxlab_base::serde_as_text;
use rxlab_base::units::digits;

/// Where to connect instead of the URL's host. Host and TLS server name stay those of the URL.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct ConnectTo {
    /// Host of the URL.
    pub host: String,
    /// Name or address to connect to; an IPv6 address without its brackets.
    pub to: String,
    /// Port to connect to; `None` is that of the URL.
    pub port: Option<u16>,
}

/// Not a host and an address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid address `{0}`: must be HOST:ADDR or HOST:ADDR:PORT, such as example.com:192.0.2.1:8443")]
pub struct ConnectToError(String);

impl FromStr for ConnectTo {
    type Err = ConnectToError;

    fn from_str(text: &str) -> Result<Self, ConnectToError> {
        let bad = || ConnectToError(text.to_owned());
        let (host, rest) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:"),
            None => text.split_once(':'),
        }
        .ok_or_else(bad)?;
        let bare = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(rest);
        let (to, port) = if let Ok(address) = bare.parse::<IpAddr>() {
            (address.to_string(), None)
        } else if let Ok(address) = rest.parse::<SocketAddr>() {
            (address.ip().to_string(), Some(address.port()))
        } else {
            match rest.split_once(':') {
                Some((name, port)) => (name.to_owned(), Some(digits(port).ok_or_else(bad)?)),
                None => (rest.to_owned(), None),
            }
        };
        let is_host = |host: &str| {
            !host.is_empty()
                && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':'))
        };
        if !is_host(host) || !is_host(&to) || port == Some(0) {
            return Err(bad());
        }
        Ok(Self { host: host.to_owned(), to, port })
    }
}

impl fmt::Display for ConnectTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bracketed = |host: &str| if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        write!(f, "{}:{}", bracketed(&self.host), bracketed(&self.to))?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

serde_as_text!(ConnectTo);

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::ConnectTo;

    #[test]
    fn addresses_read_as_they_are_written() {
        let read = |text: &str| text.parse::<ConnectTo>().ok().map(|to| (to.host, to.to, to.port));
        let is = |host: &str, to: &str, port| Some((host.to_owned(), to.to_owned(), port));
        assert_eq!(read("a.b:192.0.2.1"), is("a.b", "192.0.2.1", None));
        assert_eq!(read("a.b:192.0.2.1:81"), is("a.b", "192.0.2.1", Some(81)));
        assert_eq!(read("a.b:[2001:db8::1]:81"), is("a.b", "2001:db8::1", Some(81)));
        assert_eq!(read("a.b:2001:db8::1"), is("a.b", "2001:db8::1", None));
        assert_eq!(read("[::1]:a.c:81"), is("::1", "a.c", Some(81)));
        for bad in ["", "a", "a:", ":b", "a:b:", "a:b:0", "a:b:70000", "a:b:c:1", "a:b c", "[::1]a"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_none(text in "[a.:0-9\\[\\]]{0,14}|.{0,9}") {
            if let Ok(to) = text.parse::<ConnectTo>() {
                prop_assert_eq!(to.to_string().parse::<ConnectTo>(), Ok(to));
            }
        }
    }
}
