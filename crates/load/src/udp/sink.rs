//! Queries a sink for its arrivals.

use std::cell::Cell;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::unspecified;
use crate::interval::Arrivals;
use crate::servers::{self as target, SINK_TOTALS_LEN, sink_query};

/// Time limit of one query; there are [`SinkTotals::TRIES`] of them: on a machine with more work than CPUs
/// the sink may not be scheduled for a second.
const QUERY_TIMEOUT: Duration = Duration::from_millis(100);

/// A sink has settled after this long without arrivals: longer than its threads wait for a CPU.
const STILL: Duration = Duration::from_millis(100);

/// A separate socket to the sink, opened in the load's network namespace.
#[derive(Debug)]
pub(crate) struct SinkTotals {
    socket: UdpSocket,
    queries: Cell<u64>,
}

impl SinkTotals {
    /// Queries before giving up.
    pub(crate) const TRIES: usize = 20;

    pub(crate) fn connect(sink: SocketAddr) -> std::io::Result<Self> {
        let socket = UdpSocket::bind(unspecified(sink))?;
        socket.connect(sink)?;
        socket.set_read_timeout(Some(QUERY_TIMEOUT))?;
        Ok(Self { socket, queries: Cell::new(0) })
    }

    /// Reads the sink's counts since its start; also returns when the query was sent: it queues behind the packets of this
    /// host, so it counts what was sent before that moment, however late the response is. `None` if nothing
    /// at that address answers such queries; an error if nothing listens there.
    pub(crate) fn arrived(&self) -> std::io::Result<Option<(Arrivals, Instant)>> {
        for _ in 0..Self::TRIES {
            match self.query() {
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => return Err(error),
                Err(_) => {}
                answer => return answer,
            }
        }
        Ok(None)
    }

    /// Queries once: `None` if the response did not arrive in time.
    pub(crate) fn ask(&self) -> Option<(Arrivals, Instant)> {
        self.query().ok().flatten()
    }

    fn query(&self) -> std::io::Result<Option<(Arrivals, Instant)>> {
        let query = self.queries.get() + 1;
        self.queries.set(query);
        let sent = Instant::now();
        self.socket.send(&sink_query(query))?;
        Ok(self.answer(query)?.map(|arrived| (arrived, sent)))
    }

    /// The response to `query`. An overloaded sink responds late, after the query was given up: responses to
    /// earlier queries are skipped.
    fn answer(&self, query: u64) -> std::io::Result<Option<Arrivals>> {
        let mut answer = [0; SINK_TOTALS_LEN + 1];
        loop {
            let length = self.socket.recv(&mut answer)?;
            match target::SinkTotals::parse(&answer[..length]) {
                Some(target::SinkTotals { query: of, packets, reordered, .. }) if of == query => {
                    return Ok(Some(Arrivals { packets, reordered }));
                }
                Some(totals) if totals.query < query => {}
                _ => return Ok(None),
            }
        }
    }

    /// The counts once no more packets come in: packets just sent can still be on their way, or in the queue
    /// of another socket of the sink than the one that responds.
    pub(crate) fn settled(&self) -> Option<(Arrivals, Instant)> {
        let begun = Instant::now();
        let mut last = self.arrived().ok()??;
        let mut still = begun;
        while still.elapsed() < STILL && begun.elapsed() < STILL * 20 {
            std::thread::sleep(Duration::from_millis(5));
            let now = self.arrived().ok()??;
            if now.0.packets != last.0.packets {
                (last, still) = (now, Instant::now());
            }
        }
        Some(last)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::{Arrivals, SinkTotals};

    /// An overloaded sink once answered the first query after its time limit: the old count was then taken
    /// for the response to the next query, and nothing seemed to have arrived in between.
    #[test]
    fn a_late_answer_is_not_taken_for_the_next_one() {
        let sink = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let totals = SinkTotals::connect(sink.local_addr().expect("bound")).expect("connected");
        let answers = std::thread::spawn(move || {
            let asked = || sink.recv_from(&mut [0; 64]).expect("asked").1;
            let say = |number: u64, packets: u64, to| {
                let answer = [number, packets, 0, 3].map(u64::to_le_bytes).concat();
                sink.send_to(&answer, to).expect("sent")
            };
            let asker = asked();
            say(1, 10, asker);
            say(1, 20, asker);
            asked();
            say(2, 50, asker)
        });
        let arrived = |packets| Some(Arrivals { packets, reordered: 3 });
        assert_eq!(totals.arrived().expect("there").map(|(count, _)| count), arrived(10));
        assert_eq!(totals.arrived().expect("there").map(|(count, _)| count), arrived(50));
        answers.join().expect("answered");
    }
}
