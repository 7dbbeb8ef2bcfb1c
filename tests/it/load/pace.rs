//! The open loop: rates, arrivals, pacing, and a stalled server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use rxlab_load::servers::Target;
use rxlab_load::{Interval, Pacing, Session, Spec};

use super::{connections, millis, run, spec, steady};

/// A target, and a load on it with 8 connections and 2 threads.
fn simple() -> (Target, Spec) {
    let (target, spec) = super::simple();
    (target, Spec { connections: 8, threads: 2, ..spec })
}

fn offered(interval: &Interval) -> f64 {
    interval.offered.expect("open loop") * interval.seconds
}

#[test]
fn the_open_loop_keeps_its_rate() {
    let _noise = crate::quiet::noisy();
    let (_target, mut spec) = simple();
    for rate in [400.0, 2.5] {
        spec.rate = steady(rate);
        let mut session = Session::start(&spec).expect("started");
        std::thread::sleep(millis(1000));
        let interval = session.mark();
        // The actual length of that second counts; it differs a little between threads.
        let (due, offered, sent) = (rate * interval.seconds, offered(&interval), interval.sent as f64);
        assert!((offered - due).abs() <= 1.0 + due / 20.0, "{offered} offered of {due} at {rate}/s");
        assert!(sent <= offered + 1.0 && sent >= 0.75 * due, "{sent} sent of {offered} at {rate}/s");
    }
}

/// The number due follows from the clock alone, at any rate, number of threads and pacing.
#[test]
fn all_due_requests_are_sent_and_no_others() {
    let (_target, mut spec) = simple();
    for (rate, pacing, poisson) in [
        ("2000.5", Pacing::Timer, false),
        ("2000", Pacing::Coarse, false),
        ("2000", Pacing::Precise, false),
        ("2000", Pacing::Timer, true),
        ("500..3500/1s", Pacing::Timer, false),
        ("1000/250ms,2000/250ms,0/250ms,4000", Pacing::Coarse, false),
    ] {
        (spec.rate, spec.pacing, spec.poisson) = (rate.parse().ok(), pacing, poisson);
        let _noise = crate::quiet::noisy();
        let mut session = Session::start(&spec).expect("started");
        std::thread::sleep(millis(1000));
        let running = session.mark();
        let (sent, due) = (running.sent as f64, offered(&running));
        // A stalled CPU may delay due requests. More than the number due are never sent.
        assert!(sent <= due + 0.5 && sent > 0.7 * due, "{rate}, {pacing}: {sent} of {due}");
        let total = running.then(&session.stop());
        assert_eq!((total.requests, total.errors.len()), (total.sent, 0), "{rate}, {pacing}");
        assert_eq!(total.pacing_error.len(), total.sent, "{rate}, {pacing}");
    }
}

#[test]
fn a_ramp_offers_the_area_under_its_curve() {
    let _noise = crate::quiet::noisy();
    let (_target, mut spec) = simple();
    spec.rate = "0..2000/1s,2000..0/1s".parse().ok();
    let mut session = Session::start(&spec).expect("started");
    std::thread::sleep(millis(1000));
    let up = session.mark();
    let expected = 1000.0 * up.seconds.min(1.0).powi(2);
    assert!((offered(&up) - expected).abs() < 0.1 * expected, "{} of {expected}", offered(&up));
    std::thread::sleep(millis(1100));
    let all = up.then(&session.mark());
    assert!((offered(&all) - 2000.0).abs() < 1.0, "{} offered", offered(&all));
    std::thread::sleep(millis(50));
    assert_eq!(session.mark().sent, 0, "the ramp is at its end");
}

/// Precision costs CPU time, coarseness costs punctuality; the result shows both.
#[test]
fn each_pacing_has_its_cost() {
    let (_target, mut spec) = simple();
    (spec.rate, spec.threads) = (steady(5000.0), 1);
    let mut price = |pacing| {
        spec.pacing = pacing;
        let total = run(&spec, millis(600));
        (total.client_cpu[0].clone(), total.pacing_error.value_at_quantile(0.5))
    };
    let (precise, precise_late) = price(Pacing::Precise);
    let (coarse, coarse_late) = price(Pacing::Coarse);
    assert!(precise.spinning > 0.0 && precise.spinning <= precise.share, "{precise:?}");
    assert_eq!(coarse.spinning, 0.0);
    assert!(coarse.share < precise.share, "{} against {}", coarse.share, precise.share);
    assert!(precise_late < coarse_late, "{precise_late} ns against {coarse_late} ns");
}

/// A server that stalls for half a second, 700 ms after the first request (the load may have to wait for its turn),
/// and the times of its responses.
struct Frozen {
    address: SocketAddr,
    answers: Arc<Mutex<Vec<Instant>>>,
}

impl Frozen {
    fn serve() -> Self {
        let (start, answers) = (Arc::new(OnceLock::new()), Arc::default());
        let kept = Arc::clone(&answers);
        let address = connections(move |stream| Self::answer(stream, &start, &kept));
        Self { address, answers }
    }

    fn answer(mut stream: TcpStream, start: &OnceLock<Instant>, answers: &Mutex<Vec<Instant>>) {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            while (millis(700)..millis(1200)).contains(&start.get_or_init(Instant::now).elapsed()) {
                std::thread::sleep(millis(1));
            }
            let requests = buffer[..length].windows(4).filter(|w| w == b"\r\n\r\n").count();
            let text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".repeat(requests);
            if stream.write_all(text.as_bytes()).is_err() {
                break;
            }
            answers.lock().expect("counted").extend(vec![Instant::now(); requests]);
        }
    }

    /// The p99 in milliseconds as seen by the server: its responses in order, against the times at which a constant
    /// rate makes the requests due. The fastest response determines the time of the first request, so this is too low
    /// by the time of that response. Other delays on this machine are included, like the freeze.
    fn p99(&self, rate: f64) -> f64 {
        let mut answers = self.answers.lock().expect("counted").clone();
        answers.sort();
        let after_due =
            |(n, answer): (usize, &Instant)| (*answer - answers[0]).as_secs_f64() - n as f64 / rate;
        let mut late: Vec<f64> = answers.iter().enumerate().map(after_due).collect();
        late.sort_by(f64::total_cmp);
        1000.0 * (late[late.len() * 99 / 100] - late[0])
    }
}

/// Other load generators report a p99 of a millisecond here: they stop sending during the freeze and never count the
/// requests that they held back.
#[test]
fn a_freeze_shows_in_the_percentiles() {
    let server = Frozen::serve();
    let mut spec = spec(&format!("http://{}/", server.address));
    let rate = 2000.0;
    (spec.connections, spec.rate) = (4, steady(rate));
    let total = run(&spec, millis(2500));
    // Of the requests due in those 500 ms, the first waited longest. 1 % of all requests waited longer than the p99.
    let least = 500.0 - 1000.0 * 0.01 * total.sent as f64 / rate;
    let truth = server.p99(rate);
    assert!(truth > 0.95 * least, "the server stalled: {truth} ms of {least} ms");
    let p99 = total.latency.value_at_quantile(0.99) as f64 / 1e6;
    assert!((p99 - truth).abs() < 0.1 * truth, "p99 is {p99} ms, the truth {truth} ms");
    // Delayed requests were sent afterwards, not dropped.
    assert_eq!(total.sent, total.requests);
}
