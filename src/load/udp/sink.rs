//! Asks a sink what arrived.

use std::cell::Cell;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::target::{self, SINK_TOTALS_LEN, sink_query};

/// How long one query may take; there are [`SinkTotals::TRIES`] of them: on a machine with more to do than CPUs the
/// sink may not have its turn for a second.
const PATIENCE: Duration = Duration::from_millis(100);

/// For how long nothing must come in for a sink to have settled: longer than its threads wait for a CPU.
const STILL: Duration = Duration::from_millis(100);

/// What a sink has counted since its start, from all senders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) packets: u64,
    /// Those of them that came after a later one of their flow.
    pub(crate) reordered: u64,
}

/// A socket of its own towards the sink, made in the load's network namespace.
#[derive(Debug)]
pub(crate) struct SinkTotals {
    socket: UdpSocket,
    queries: Cell<u64>,
}

impl SinkTotals {
    /// Queries until an answer comes.
    pub(crate) const TRIES: usize = 20;

    /// A socket towards `sink`.
    pub(crate) fn connect(sink: SocketAddr) -> std::io::Result<Self> {
        let any: SocketAddr = if sink.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
        let socket = UdpSocket::bind(any)?;
        socket.connect(sink)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { socket, queries: Cell::new(0) })
    }

    /// What the sink has counted, and when the query was sent: it queues behind the packets
    /// of this host, so it counts what was sent before that moment, however late the answer is.
    /// `None` when nothing at that address answers such queries. An error: nothing listens there.
    pub(crate) fn arrived(&self) -> std::io::Result<Option<(Arrived, Instant)>> {
        for _ in 0..Self::TRIES {
            match self.query() {
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => return Err(error),
                Err(_) => {}
                answer => return answer,
            }
        }
        Ok(None)
    }

    /// The same with one query only: `None` when its answer did not come in time.
    pub(crate) fn ask(&self) -> Option<(Arrived, Instant)> {
        self.query().ok().flatten()
    }

    fn query(&self) -> std::io::Result<Option<(Arrived, Instant)>> {
        let query = self.queries.get() + 1;
        self.queries.set(query);
        let sent = Instant::now();
        self.socket.send(&sink_query(query))?;
        Ok(self.answer(query)?.map(|arrived| (arrived, sent)))
    }

    /// The answer to `query`. A drowned sink answers late, when nobody waits any more: what belongs
    /// to an earlier query is old and passed over.
    fn answer(&self, query: u64) -> std::io::Result<Option<Arrived>> {
        let mut answer = [0; SINK_TOTALS_LEN + 1];
        loop {
            let length = self.socket.recv(&mut answer)?;
            match target::SinkTotals::parse(&answer[..length]) {
                Some(target::SinkTotals { query: of, packets, reordered, .. }) if of == query => {
                    return Ok(Some(Arrived { packets, reordered }));
                }
                Some(totals) if totals.query < query => {}
                _ => return Ok(None),
            }
        }
    }

    /// The packets once no more of them come in: what was sent just now can still be on its way, or lie in the queue
    /// of another socket of the sink than the one that answers.
    pub(crate) fn settled(&self) -> Option<(Arrived, Instant)> {
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

    use super::{Arrived, SinkTotals};

    /// A drowned sink answered the first query after the patience with it: its old count was then
    /// taken for the answer to the next query, and nothing seemed to have arrived in between.
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
        let arrived = |packets| Some(Arrived { packets, reordered: 3 });
        assert_eq!(totals.arrived().expect("there").map(|(count, _)| count), arrived(10));
        assert_eq!(totals.arrived().expect("there").map(|(count, _)| count), arrived(50));
        answers.join().expect("answered");
    }
}
