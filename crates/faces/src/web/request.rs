//! Requests: parsed from bytes, without sockets.

/// Longest request line plus headers.
pub(super) const MAX_HEAD: usize = 16 * 1024;
pub(super) const MAX_HEADERS: usize = 64;

/// A GET or HEAD request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// The path, without the query.
    pub path: String,
    /// Text after `?`; empty without one.
    pub query: String,
    /// HEAD: no body is wanted.
    pub is_head: bool,
    headers: Vec<(String, String)>,
}

/// A request that is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadRequest {
    /// The status to answer with.
    pub status: u16,
    /// Why, in a line.
    pub why: &'static str,
}

impl Request {
    /// Parses the head of a request; `None` while it is incomplete. A body is ignored: the connection ends with the
    /// response.
    pub fn parse(input: &[u8]) -> Option<Result<Self, BadRequest>> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&input[..input.len().min(MAX_HEAD)]) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) if input.len() < MAX_HEAD => return None,
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                return Some(Err(BadRequest { status: 431, why: "the head of the request is too large" }));
            }
            Err(_) => return Some(Err(BadRequest { status: 400, why: "not an HTTP request" })),
        }
        let is_head = match request.method {
            Some("GET") => false,
            Some("HEAD") => true,
            _ => return Some(Err(BadRequest { status: 405, why: "only GET and HEAD are answered" })),
        };
        let target = request.path.unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let headers = request.headers.iter().map(|header| {
            (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).trim().to_owned())
        });
        let headers = headers.collect();
        Some(Ok(Self { path: path.to_owned(), query: query.to_owned(), is_head, headers }))
    }

    /// The value of a header, named in lower case. `None` if it is absent, or given twice with different values.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values =
            self.headers.iter().filter(|header| header.0 == name).map(|header| header.1.as_str());
        let first = values.next()?;
        values.all(|value| value == first).then_some(first)
    }

    /// True if a header, named in lower case, is there at all.
    pub(super) fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|header| header.0 == name)
    }

    /// The value of a parameter of the query, as it is written there.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .find_map(|part| part.split_once('=').filter(|pair| pair.0 == name).map(|pair| pair.1))
    }

    /// The value of a cookie.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let cookies = self.header("cookie")?.split(';').map(str::trim);
        cookies.filter_map(|cookie| cookie.split_once('=')).find(|pair| pair.0 == name).map(|pair| pair.1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::Request;

    #[test]
    fn a_request_and_its_parts() {
        let text = "GET /a?x=1&y=2 HTTP/1.1\r\nHost: here:1\r\nCookie: a=b; token=t\r\nHost: here:1\r\nX: 1\r\nX: 2\r\n\r\n";
        assert_eq!(Request::parse(&text.as_bytes()[..text.len() - 2]), None);
        let request = Request::parse(text.as_bytes()).expect("complete").expect("valid");
        assert_eq!(
            (request.path.as_str(), request.query.as_str(), request.is_head),
            ("/a", "x=1&y=2", false)
        );
        assert_eq!((request.parameter("y"), request.parameter("z")), (Some("2"), None));
        assert_eq!((request.header("host"), request.header("x")), (Some("here:1"), None));
        assert_eq!((request.cookie("token"), request.cookie("c")), (Some("t"), None));
    }

    #[test]
    fn what_is_not_answered() {
        let status = |text: &str| Request::parse(text.as_bytes()).and_then(Result::err).map(|bad| bad.status);
        assert_eq!(status("PUT / HTTP/1.1\r\n\r\n"), Some(405));
        assert_eq!(status("\0\r\n\r\n"), Some(400));
        assert_eq!(status(&format!("GET /{} HTTP/1.1\r\n", "a".repeat(17_000))), Some(431));
    }

    proptest! {
        #[test]
        fn a_request_is_read_as_written(
            path in "/[a-z.]{0,9}", value in "[a-z0-9]{0,9}", token in "[a-z]{0,9}", is_head: bool,
            rest in proptest::collection::vec(any::<u8>(), 0..100), cut in any::<proptest::sample::Index>(),
        ) {
            let method = if is_head { "HEAD" } else { "GET" };
            let head = format!("{method} {path}?x={value} HTTP/1.1\r\nCookie: token={token}\r\n\r\n");
            prop_assert_eq!(Request::parse(&head.as_bytes()[..cut.index(head.len())]), None);
            let request = Request::parse(&[head.as_bytes(), &rest].concat()).expect("complete").expect("valid");
            prop_assert_eq!((&request.path, request.is_head), (&path, is_head));
            prop_assert_eq!((request.parameter("x"), request.cookie("token")), (Some(&*value), Some(&*token)));
        }
    }
}
