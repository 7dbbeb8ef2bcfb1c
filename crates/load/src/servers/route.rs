//! Route of a request, by its method and path.

use rxlab_base::units::digits;

/// Longest work of one `/compute` request, in microseconds.
const MAX_COMPUTE_US: u64 = 1_000_000;
/// Longest body of one `/bytes` request.
const MAX_BYTES: u64 = 1 << 30;
/// Longest wait of one `/delay` request, in microseconds.
const MAX_DELAY_US: u64 = 60_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Simple,
    Usual,
    Compute(u64),
    Bytes(u64),
    Delay(u64),
    /// `/`: the list of the others.
    Index,
    /// A response with an error status; the connection may stay open.
    Refuse(u16),
}

impl Route {
    pub(super) fn parse(method: &str, target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let number = |name: &str, most: u64| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let value = pairs.filter(|(key, _)| *key == name).find_map(|(_, value)| digits(value));
            value.filter(|value| *value <= most)
        };
        let route = match path {
            "/" => Some(Route::Index),
            "/simple" => Some(Route::Simple),
            "/usual" => Some(Route::Usual),
            "/compute" => number("us", MAX_COMPUTE_US).map(Route::Compute),
            "/bytes" => number("n", MAX_BYTES).map(Route::Bytes),
            "/delay" => number("us", MAX_DELAY_US).map(Route::Delay),
            _ => return Route::Refuse(404),
        };
        match method {
            "GET" | "HEAD" => route.unwrap_or(Route::Refuse(400)),
            _ => Route::Refuse(405),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::{MAX_BYTES, MAX_COMPUTE_US, MAX_DELAY_US, Route};

    #[test]
    fn routes() {
        for (method, target, route) in [
            ("GET", "/simple", Route::Simple),
            ("HEAD", "/simple?x=1", Route::Simple),
            ("GET", "/usual", Route::Usual),
            ("GET", "/compute?us=100", Route::Compute(100)),
            ("GET", "/compute?a=b&us=1000000", Route::Compute(1_000_000)),
            ("GET", "/compute?us=1000001", Route::Refuse(400)),
            ("GET", "/compute?us=-1", Route::Refuse(400)),
            ("GET", "/compute?us=99999999999999999999", Route::Refuse(400)),
            ("GET", "/compute", Route::Refuse(400)),
            ("GET", "/bytes?n=0", Route::Bytes(0)),
            ("GET", "/bytes?n=1073741824", Route::Bytes(1 << 30)),
            ("GET", "/bytes?n=1073741825", Route::Refuse(400)),
            ("GET", "/bytes?us=1", Route::Refuse(400)),
            ("GET", "/delay?us=60000000", Route::Delay(60_000_000)),
            ("GET", "/delay?us=60000001", Route::Refuse(400)),
            ("GET", "/", Route::Index),
            ("HEAD", "/?x=1", Route::Index),
            ("POST", "/", Route::Refuse(405)),
            ("GET", "/index.html", Route::Refuse(404)),
            ("DELETE", "/simple", Route::Refuse(405)),
            ("POST", "/bytes?n=1", Route::Refuse(405)),
        ] {
            assert_eq!(Route::parse(method, target), route, "{method} {target}");
        }
    }

    proptest! {
        #[test]
        fn only_listed_targets_do_work(method in "GET|HEAD|POST|.{0,5}", target in "/(compute|bytes|delay|[a-z]{0,9})(\\?(us|n|x)=[0-9]{0,10})?|.{0,20}") {
            let route = Route::parse(&method, &target);
            let is_refused = matches!(route, Route::Refuse(400 | 404 | 405));
            prop_assert!(is_refused || ["GET", "HEAD"].contains(&&*method));
            let (number, most) = match route {
                Route::Compute(us) => (us, MAX_COMPUTE_US),
                Route::Bytes(count) => (count, MAX_BYTES),
                Route::Delay(us) => (us, MAX_DELAY_US),
                _ => return Ok(()),
            };
            let given = format!("={number}");
            prop_assert!(number <= most && (target.ends_with(&given) || target.contains("=0")), "{target}");
        }
    }
}
