//! Access rules: any user of this machine may read; from elsewhere, a token is required.
//!
//! A page of another site can send requests to an address of this machine and, with a name of its own that resolves to
//! it, read the answers (DNS rebinding). The names in the Host header are therefore checked. Browsers also say which
//! site a request comes from (Fetch Metadata, Sec-Fetch-Site): other sites may link to a page here, and load nothing.

use std::net::{IpAddr, SocketAddr};

use super::Request;

/// Requirements for requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    address: SocketAddr,
    token: Option<String>,
}

/// Reason to refuse a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// The Host header names another machine.
    Host,
    /// A page of another site asks.
    Site,
    /// The token is missing or wrong.
    Token,
}

/// Name of the cookie with the token.
const COOKIE: &str = "rxlab_token";

impl Access {
    /// Access to a server on `address`. With a `token`, every request needs it.
    pub fn new(address: SocketAddr, token: Option<String>) -> Self {
        Self { address, token }
    }

    pub fn check(&self, request: &Request) -> Result<(), Denied> {
        if !request.header("host").is_some_and(|host| self.is_ours(host)) {
            return Err(Denied::Host);
        }
        if Self::is_of_another_site(request) {
            return Err(Denied::Site);
        }
        match &self.token {
            Some(token) if !self.given(request).is_some_and(|given| is_same(given, token)) => {
                Err(Denied::Token)
            }
            _ => Ok(()),
        }
    }

    /// True if a browser sends the request for a page of another site, or of another port of this machine, unless the
    /// user follows a link.
    pub fn is_of_another_site(request: &Request) -> bool {
        let is = |name: &str, value: &str| request.header(name) == Some(value);
        // Given twice, it was not a browser.
        let is_own = !request.has("sec-fetch-site")
            || is("sec-fetch-site", "same-origin")
            || is("sec-fetch-site", "none");
        let is_link = is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document");
        !is_own && !is_link
    }

    /// The cookie to set after a request that carried the token in its query, so that it leaves the address bar.
    pub fn cookie(&self, request: &Request) -> Option<String> {
        let token = self.token.as_ref().filter(|_| request.parameter("token").is_some())?;
        Some(format!("{COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/"))
    }

    fn given<'r>(&self, request: &'r Request) -> Option<&'r str> {
        let bearer = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        bearer.or_else(|| request.parameter("token")).or_else(|| request.cookie(COOKIE))
    }

    /// A literal address cannot be rebound; `localhost` is one by definition (RFC 6761). Behind a token any literal
    /// address is fine: the server may listen on all of them.
    fn is_ours(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.parse::<u16>().is_ok() => name,
            _ => host,
        };
        let literal = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match literal {
            Ok(address) => address.is_loopback() || address == self.address.ip() || self.token.is_some(),
            Err(_) => name.eq_ignore_ascii_case("localhost"),
        }
    }
}

/// Compares in a time that depends only on the lengths.
fn is_same(given: &str, token: &str) -> bool {
    given.len() == token.len()
        && given.bytes().zip(token.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::{Access, Denied};
    use crate::web::Request;

    fn request(target: &str, headers: &str) -> Request {
        let text = format!("GET {target} HTTP/1.1\r\n{headers}\r\n");
        Request::parse(text.as_bytes()).expect("complete").expect("valid")
    }

    #[test]
    fn only_names_of_this_machine() {
        let access = Access::new("127.0.0.1:9100".parse().expect("an address"), None);
        let checked = |host: &str| access.check(&request("/", &format!("Host: {host}\r\n")));
        for host in ["127.0.0.1:9100", "localhost:9100", "LOCALHOST", "[::1]:9100", "127.0.0.1"] {
            assert_eq!(checked(host), Ok(()), "{host}");
        }
        for host in
            ["evil.example:9100", "192.0.2.1:9100", "localhost.evil.example", "127.0.0.1.evil.example", ""]
        {
            assert_eq!(checked(host), Err(Denied::Host), "{host}");
        }
        assert_eq!(access.check(&request("/", "")), Err(Denied::Host));
        assert_eq!(
            access.check(&request("/", "Host: localhost\r\nHost: evil.example\r\n")),
            Err(Denied::Host)
        );
    }

    #[test]
    fn other_sites_link_and_load_nothing() {
        let access = Access::new("127.0.0.1:9100".parse().expect("an address"), None);
        let checked = |headers: &str| access.check(&request("/", &format!("Host: localhost\r\n{headers}")));
        for own in ["", "Sec-Fetch-Site: same-origin\r\n", "Sec-Fetch-Site: none\r\n"] {
            assert_eq!(checked(own), Ok(()), "{own}");
        }
        let link = "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n";
        let frame = "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n";
        for site in ["cross-site", "same-site", "whatever", "none\r\nSec-Fetch-Site: cross-site"] {
            let site = format!("Sec-Fetch-Site: {site}\r\n");
            assert_eq!(checked(&format!("{site}{link}")), Ok(()), "{site}");
            assert_eq!(checked(&format!("{site}{frame}")), Err(Denied::Site), "{site}");
            assert_eq!(checked(&format!("{site}Sec-Fetch-Mode: cors\r\n")), Err(Denied::Site), "{site}");
        }
    }

    #[test]
    fn a_token_by_query_header_or_cookie() {
        let access = Access::new("0.0.0.0:9100".parse().expect("an address"), Some("secret".into()));
        let checked = |target: &str, header: &str| {
            access.check(&request(target, &format!("Host: 192.0.2.1:9100\r\n{header}")))
        };
        assert_eq!(checked("/", ""), Err(Denied::Token));
        assert_eq!(checked("/?token=secreT", ""), Err(Denied::Token));
        assert_eq!(checked("/?token=", ""), Err(Denied::Token));
        assert_eq!(checked("/?token=secret", ""), Ok(()));
        assert_eq!(checked("/", "Authorization: Bearer secret\r\n"), Ok(()));
        assert_eq!(checked("/", "Cookie: rxlab_token=secret\r\n"), Ok(()));
        let cookie = access.cookie(&request("/?token=secret", "")).expect("a cookie");
        assert!(cookie.starts_with("rxlab_token=secret; HttpOnly; SameSite=Strict"), "{cookie}");
        assert_eq!(access.cookie(&request("/", "")), None);
    }
}
