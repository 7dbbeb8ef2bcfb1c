//! Target URL of a load.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::protocol::Protocol;
use rxlab_base::serde_as_text;
use rxlab_base::units::digits;

/// Target of the load: `http://host:port/path`, `https://...`, `tcp://host:port`, `udp://host:port`,
/// `udp-sink://host:port`, `udp-tracker://host:port/announce` or `dns://host:port/name?type=A`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct Url {
    /// Protocol.
    pub protocol: Protocol,
    /// `https://`: with TLS.
    pub tls: bool,
    /// Name or address; an IPv6 address without its brackets.
    pub host: String,
    /// Port; the default is 80 for HTTP, 443 for HTTPS and 53 for DNS.
    pub port: u16,
    /// HTTP: path and query, starting with `/`; tracker or name server: the query, with `/` alone for none
    /// yet; else empty.
    pub path: String,
}

/// Invalid URL for a load.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UrlError {
    /// Not in the form of any protocol.
    #[error("invalid load URL `{0}`: must be {forms}", forms = forms())]
    Form(String),
    /// In the form of a URL, with a part that cannot be sent.
    #[error("invalid load URL `{url}`: {why}")]
    Part {
        /// The text.
        url: String,
        /// What is wrong, or what to write instead.
        why: &'static str,
    },
}

/// The forms of all protocols.
fn forms() -> String {
    let [first @ .., last] = Protocol::ALL.map(|protocol| protocol.definition().form());
    format!("{} or {last}", first.join(", "))
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let bad = || UrlError::Form(text.to_owned());
        let part = |why: &'static str| UrlError::Part { url: text.to_owned(), why };
        let (scheme, rest) = text.split_once("://").ok_or_else(bad)?;
        // RFC 3986, 3.1: a scheme has no case.
        let (protocol, tls) = Protocol::of_scheme(&scheme.to_ascii_lowercase()).ok_or_else(bad)?;
        let split = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(split);
        // The path goes into the request line unchanged.
        if path.contains('#') {
            return Err(part("a fragment (#...) is never sent: leave it out"));
        }
        if !path.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(part("write spaces and letters beyond ASCII in the path as %XX"));
        }
        if authority.contains('@') {
            return Err(part("it has a user: send -H 'Authorization: ...' instead"));
        }
        if authority.contains('%') {
            return Err(part("a zone (%eth0) is not supported: use an address without one"));
        }
        if !authority.is_ascii() {
            return Err(part("write the host in its ASCII form (xn--...)"));
        }
        if authority.ends_with(':') {
            return Err(part("no port follows the colon"));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(bad)?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| bad())?;
                (host, port.strip_prefix(':').or(port.is_empty().then_some("")).ok_or_else(bad)?)
            }
            None => authority.split_once(':').unwrap_or((authority, "")),
        };
        if host.is_empty()
            || !host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':'))
        {
            return Err(bad());
        }
        let port = if port.is_empty() {
            protocol.definition().port(tls).ok_or_else(|| part("it needs a port: HOST:PORT"))?
        } else {
            digits(port).filter(|port| *port > 0).ok_or_else(|| part("a port is a number from 1 to 65535"))?
        };
        let path = protocol.definition().path(path).ok_or_else(bad)?;
        Ok(Self { protocol, tls, host: host.to_owned(), port, path })
    }
}

impl Url {
    /// Scheme, such as `https`.
    pub(super) fn scheme(&self) -> &'static str {
        self.protocol.definition().scheme(self.tls).unwrap_or_default()
    }

    /// The value of a `Host` header: without the port where the scheme implies it, as browsers and curl write it (RFC 9110
    /// 4.2.3). Virtual hosts are found by exactly this text.
    pub fn host_header(&self) -> String {
        let authority = self.authority();
        let implied = if self.tls { ":443" } else { ":80" };
        authority.strip_suffix(implied).map_or(authority.clone(), str::to_owned)
    }

    /// `host:port`, with brackets where needed.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme(), self.authority(), self.path)
    }
}

serde_as_text!(Url);

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::Url;

    fn url(text: &str) -> Url {
        text.parse().expect("a URL")
    }

    /// A virtual host by exact name answered 404 to everything.
    #[test]
    fn a_host_header_has_no_port_that_the_scheme_implies() {
        for (text, host) in [
            ("http://a.example/", "a.example"),
            ("http://a.example:443/", "a.example:443"),
            ("https://a.example:443/", "a.example"),
            ("https://a.example:80/", "a.example:80"),
            ("http://[::1]:80/", "[::1]"),
            ("http://[::80]:8080/", "[::80]:8080"),
        ] {
            assert_eq!(url(text).host_header(), host, "{text}");
        }
    }

    #[test]
    fn urls_read_as_they_are_written() {
        for text in [
            "http://127.0.0.1:8080/compute?us=5",
            "http://[::1]:80/",
            "https://127.0.0.1:8443/a",
            "tcp://a-b.c:9",
            "udp://a-b.c:9",
            "udp-sink://[fe80::1]:7",
            "udp-tracker://h:6969/scrape?torrents=5",
            "dns://[::1]:53/a.example?type=AAAA",
        ] {
            assert_eq!(url(text).to_string(), text);
        }
        assert_eq!(url("http://localhost").to_string(), "http://localhost:80/");
        assert_eq!(url("https://localhost").to_string(), "https://localhost:443/");
        assert_eq!(url("http://h:1?x=1").path, "/?x=1");
        assert_eq!(url("udp://h:1/").to_string(), "udp://h:1");
        assert_eq!(url("udp-tracker://h:1").to_string(), "udp-tracker://h:1/announce");
        assert_eq!(url("dns://h/a.b").to_string(), "dns://h:53/a.b");
        assert_eq!(url("dns://h").path, "/");
    }

    #[test]
    fn bad_urls_are_refused() {
        for bad in [
            "",
            "localhost:80",
            "http://",
            "http://:80/",
            "http://h:/",
            "http://h:0/",
            "http://h:65536/",
            "http://h:+1/",
            "http://h/a b",
            "http://h/\r\nX: y",
            "http://h/#x",
            "http://u@h/",
            "http://[::1",
            "http://[x]/",
            "http://[::1]80/",
            "tcp://h",
            "tcp://h:1/x",
            "udp://h",
            "udp://h:1/x",
            "udp-sink://h:",
            "udp-tracker://h/announce",
            "udp-tracker://h:1/files",
            "dns://h/a..b",
            "dns://h/a?type=B",
            "http://::1/",
        ] {
            assert!(bad.parse::<Url>().is_err(), "{bad:?} gives {:?}", bad.parse::<Url>());
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            ("http://h/#x", "fragment"),
            ("http://h#x", "fragment"),
            ("http://user:pw@h/", "Authorization"),
            ("http://[fe80::1%25eth0]/", "zone"),
            ("http://b\u{fc}cher.example/", "xn--"),
            ("http://h/b\u{fc}cher", "%XX"),
            ("http://h:/", "no port follows"),
            ("http://h:65536/", "from 1 to 65535"),
            ("tcp://h", "needs a port"),
            ("ftp://h/", "must be http://HOST"),
        ] {
            let error = text.parse::<Url>().expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert_eq!(url("HTTP://h/").to_string(), "http://h:80/");
    }

    proptest! {
        #[test]
        fn any_text_parses_or_errs(text in "(http|https|tcp|udp|udp-sink|udp-tracker|dns|x)(://)?.{0,30}") {
            if let Ok(url) = text.parse::<Url>() {
                prop_assert_eq!(url.to_string().parse::<Url>(), Ok(url));
            }
        }
    }
}
