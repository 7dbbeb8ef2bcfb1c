//! Text forms of types: the words of an enum, and text as the serialized form.

/// Serializes types as what `Display` writes, and reads them with `FromStr`, whose error it passes on.
macro_rules! serde_as_text {
    ($($name:ty),+) => {$(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

/// Writes each variant of an enum in these words.
macro_rules! display_as {
    ($name:ident: $($variant:ident => $words:literal,)+) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self { $(Self::$variant => $words),+ })
            }
        }
    };
}

pub(crate) use {display_as, serde_as_text};
