//! Responses of the server: the page, its style and its script, and the events that it draws.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::recording::Recordings;
use rxlab_faces::report::heat;
use rxlab_faces::web::{Access, Computed, Denied, Event, Hub, Request, Response};

/// Nothing from elsewhere, no script in the page, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Longest wait for an event; then a comment shows a proxy, and the server, that the reader is still there.
const KEEP_ALIVE: Duration = Duration::from_millis(500);

/// Answers a request. The first hub has the intervals, the second the trials.
pub(super) fn answer<'a>(
    recordings: &Recordings<'_>,
    request: &Request,
    access: &Access,
    hubs: (&'a Hub, &'a Hub),
    stop: &'a AtomicBool,
) -> Response<'a> {
    let response = match access.check(request) {
        Err(Denied::Host) => Response::text(421, "use a literal address, or localhost, in the URL"),
        Err(Denied::Site) => Response::text(403, "requests from other sites are refused"),
        Err(Denied::Token) => Response::text(401, "the token is missing: open /?token=TOKEN"),
        Ok(()) => match (access.cookie(request), request.path.as_str()) {
            // Out of the address bar and of the history.
            (Some(cookie), "/") => {
                Response::text(303, "see /").with("Location", "/").with("Set-Cookie", cookie)
            }
            (_, "/") => Response::ok("text/html; charset=utf-8", include_str!("page.html")),
            (_, "/page.css") => Response::ok("text/css; charset=utf-8", include_str!("page.css")),
            (_, "/heat.css") => Response::ok("text/css; charset=utf-8", heat::CSS),
            (_, "/page.js") => Response::ok("text/javascript; charset=utf-8", include_str!("page.js")),
            (_, "/events") => events(request, hubs, stop),
            (_, "/recording") => json(recordings.span()),
            (_, "/recorded") => match request.parameter("to").and_then(|to| to.parse().ok()) {
                Some(to_ms) => json(recordings.stretch(to_ms)),
                None => Response::text(400, "give the end as milliseconds since 1970: ?to=N"),
            },
            _ => Response::text(404, "no such page"),
        },
    };
    response
        .with("Content-Security-Policy", POLICY)
        .with("Referrer-Policy", "no-referrer")
        .with("Cross-Origin-Resource-Policy", "same-origin")
}

/// JSON, or the reason why there is none.
fn json<'a>(text: Option<Computed>) -> Response<'a> {
    match text {
        Some(Ok(text)) => Response::shared("application/json", text),
        Some(Err(why)) => Response::text(503, &why),
        None => Response::busy("busy with other requests for recorded times; try again", 1),
    }
}

fn events<'a>(request: &Request, (frames, trials): (&'a Hub, &'a Hub), stop: &'a AtomicBool) -> Response<'a> {
    // A browser that lost the connection names the last event it has; only those of intervals are numbered for it.
    let last = request.header("last-event-id").map_or(0, |id| frames.number(id));
    Response::stream("text/event-stream", Box::new(move |out| send(out, (frames, trials), last, stop)))
}

fn send(
    out: &mut dyn Write,
    (frames, trials): (&Hub, &Hub),
    mut last: u64,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut last_trials = 0;
    while !stop.load(Ordering::SeqCst) {
        for event in trials.after(last_trials, Duration::ZERO) {
            last_trials = event.number;
            write!(out, "event: {}\ndata: {}\n\n", event.name, event.data)?;
        }
        let new: Vec<Arc<Event>> = frames.after(last, KEEP_ALIVE);
        if new.is_empty() {
            out.write_all(b":\n\n")?;
        }
        for event in new {
            last = event.number;
            out.write_all(event.as_text().as_bytes())?;
        }
        out.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use clap::Parser;

    use super::{POLICY, Recordings, answer};
    use crate::commands::Global;
    use rxlab_faces::web::{Access, Body, Hub, Request};

    /// Options of a command line whose state directory is empty.
    fn global() -> Global {
        let words = ["rxlab", "--state-dir", "/nonexistent", "serve"];
        crate::commands::Cli::try_parse_from(words).expect("valid").global
    }

    fn status_and_headers(
        target: &str,
        host: &str,
        token: Option<&str>,
    ) -> (u16, Vec<(&'static str, String)>) {
        let text = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let request = Request::parse(text.as_bytes()).expect("complete").expect("valid");
        let access = Access::new("127.0.0.1:1".parse().expect("an address"), token.map(str::to_owned));
        let (frames, trials, stop) = (Hub::new(1), Hub::new(1), AtomicBool::new(true));
        let (global, stop) = (global(), stop);
        let response = answer(&Recordings::new(&global), &request, &access, (&frames, &trials), &stop);
        (response.status, response.headers)
    }

    #[test]
    fn only_its_own_pages_to_whom_it_knows() {
        for path in ["/", "/page.css", "/heat.css", "/page.js", "/events"] {
            assert_eq!(status_and_headers(path, "localhost:1", None).0, 200, "{path}");
        }
        assert_eq!(status_and_headers("/../etc/passwd", "localhost:1", None).0, 404);
        assert_eq!(status_and_headers("/recording", "localhost:1", None).0, 200);
        assert_eq!(status_and_headers("/recorded?to=soon", "localhost:1", None).0, 400);
        assert_eq!(status_and_headers("/", "evil.example", None).0, 421);
        let (status, headers) = status_and_headers("/events", "localhost:1", Some("secret12"));
        assert!(status == 401 && headers.iter().any(|header| header.1 == POLICY));
        let (status, headers) = status_and_headers("/?token=secret12", "localhost:1", Some("secret12"));
        assert!(status == 303 && headers.iter().any(|header| header.0 == "Set-Cookie"));
    }

    #[test]
    fn a_reader_that_comes_back_gets_what_it_missed() {
        let (frames, trials, stop) = (Hub::new(5), Hub::new(1), AtomicBool::new(false));
        frames.publish("frame", "1".into());
        frames.publish("frame", "2".into());
        trials.publish("trials", "[]".into());
        let first = frames.after(0, std::time::Duration::ZERO).remove(0).as_text();
        let id = first.lines().next().expect("an id").strip_prefix("id: ").expect("an id");
        let head = format!("GET /events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: {id}\r\n\r\n");
        let request = Request::parse(head.as_bytes()).expect("complete").expect("valid");
        let access = Access::new("127.0.0.1:1".parse().expect("an address"), None);
        let global = global();
        let recordings = Recordings::new(&global);
        let Body::Stream(stream) = answer(&recordings, &request, &access, (&frames, &trials), &stop).body
        else {
            panic!("a stream")
        };
        /// Ends once it has some text.
        struct Short(Vec<u8>);
        impl std::io::Write for Short {
            fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
                self.0.extend_from_slice(text);
                Ok(text.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
        }
        let mut out = Short(Vec::new());
        stream(&mut out).expect_err("closed");
        assert_eq!(
            String::from_utf8_lossy(&out.0),
            format!(
                "event: trials\ndata: []\n\nid: {}-2\nevent: frame\ndata: 2\n\n",
                id.trim_end_matches("-1")
            )
        );
    }
}
