//! Steps before the requests: checking that the target is there, and greetings of flows.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use rustix::io::Errno;

use super::Exchange;
use crate::clock::{MILLISECOND, Nanos};
use crate::error_class::{ErrorClass, of_attempt};
use crate::poller::Ready;
use crate::tally::Tally;
use crate::udp::talk::{Greeting, Heard};
use crate::udp::unspecified;

const PROBES: usize = 3;
const PROBE_PATIENCE: Duration = Duration::from_millis(300);

/// Bytes shown of an answer that is none.
const SHOWN: usize = 32;

/// The target answered at once, and not what was asked for: no timeout, and nothing that trying again mends.
fn strange(datagram: &[u8]) -> std::io::Error {
    let begin = datagram[..datagram.len().min(SHOWN)].escape_ascii();
    let text = format!("it answers, but not to what was sent: {} bytes, `{begin}`", datagram.len());
    std::io::Error::new(ErrorKind::InvalidData, text)
}

impl Exchange {
    /// Makes sure that something responds at `address`; for flows that have to greet, [`Exchange::warm`] does
    /// that.
    pub(crate) fn probe(&mut self, address: SocketAddr) -> std::io::Result<()> {
        let socket = UdpSocket::bind(unspecified(address))?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(PROBE_PATIENCE))?;
        if !self.talk.is_open(0, self.poller.now()) {
            return Ok(());
        }
        let mut heard_other = None;
        for _ in 0..PROBES {
            let now = self.poller.now();
            self.out.clear();
            self.talk.ask(0, 0, now, &mut self.out);
            socket.send(&self.out)?;
            match socket.recv(&mut self.buffer) {
                Ok(length) => {
                    let heard = self.talk.hear(0, 0..1, &self.buffer[..length], now);
                    if matches!(heard, Heard::Answer(0, _) | Heard::CutOff(0)) {
                        return Ok(());
                    }
                    heard_other = Some(strange(&self.buffer[..length]));
                }
                // Without a response in time.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(of_attempt(error)),
            }
        }
        Err(heard_other.unwrap_or_else(|| Errno::TIMEDOUT.into()))
    }

    /// Sends all greetings and waits until every flow may send requests. Fails if none may at `until`.
    pub(crate) fn warm(&mut self, until: Nanos) -> std::io::Result<()> {
        // Nothing before the start of the load is counted.
        let mut uncounted = Tally::new();
        let mut refused: Option<Errno> = None;
        loop {
            let now = self.poller.now();
            let open = (0..self.flows.len()).filter(|flow| self.talk.is_open(*flow, now)).count();
            match open {
                _ if open == self.flows.len() => return Ok(()),
                0 if now >= until
                    && let Some(errno) = refused =>
                {
                    return Err(errno.into());
                }
                0 if now >= until && !uncounted.reasons.is_empty() => {
                    let (reason, _) = uncounted.reasons.of(ErrorClass::Connect)[0];
                    let text = format!("it gives no connection id: {reason}");
                    return Err(std::io::Error::new(ErrorKind::InvalidData, text));
                }
                0 if now >= until && uncounted.datagrams.receives > 0 => {
                    return Err(strange(&self.buffer[..self.last]));
                }
                0 if now >= until => return Err(Errno::TIMEDOUT.into()),
                _ if now >= until => return Ok(()),
                _ => {}
            }
            for index in 0..self.flows.len() {
                let unsent = self.greet(index, now, &mut uncounted);
                refused = unsent.filter(|errno| *errno != Errno::AGAIN).or(refused);
            }
            self.poller.wait(now, until.min(now + MILLISECOND), false, &mut 0);
            for event in 0..self.poller.len() {
                if let Some(Ready { index, .. }) = self.poller.ready(event) {
                    refused = self.receive(index, &mut uncounted).or(refused);
                }
            }
        }
    }

    /// Sends a flow's greeting if it is time; returns the error that prevented it.
    pub(super) fn greet(&mut self, index: usize, now: Nanos, tally: &mut Tally) -> Option<Errno> {
        self.out.clear();
        match self.talk.greet(index, now, &mut self.out) {
            Greeting::Nothing => return None,
            Greeting::Written => {}
            Greeting::Again => tally.refused_flow("no connection id within the timeout".to_owned()),
        }
        self.trains.send(&self.flows[index].socket, &self.out, self.out.len(), tally).1
    }
}
