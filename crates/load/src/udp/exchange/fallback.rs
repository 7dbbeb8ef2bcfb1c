//! Requests asked again over TCP, because their response did not fit into a datagram (RFC 7766 5).

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::{Domain, Socket, Type};

use super::Exchange;
use crate::error_class::{ErrorClass, lack, of_attempt};
use crate::reasons::{Failure, text};
use crate::tally::Tally;
use crate::udp::flow::Echoed;
use crate::udp::talk::Heard;
use rxlab_sys::socket::choose_port_late;

/// One request on a TCP connection of its own.
pub(super) struct Fallback {
    flow: usize,
    number: u64,
    socket: Socket,
    /// What is left to be written: the length of the request, and the request.
    out: Vec<u8>,
    is_open: bool,
    /// What has arrived of the length and the response.
    input: Vec<u8>,
}

impl Fallback {
    /// From the address of a flow to its peer.
    fn open(from: SocketAddr, to: SocketAddr) -> std::io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        // Closed first and without a reset, each would hold its port for a minute.
        socket.set_linger(Some(Duration::ZERO))?;
        // Without it (before Linux 4.2) fewer ports are available.
        let _ = choose_port_late(&socket);
        socket.bind(&SocketAddr::new(from.ip(), 0).into())?;
        match socket.connect(&to.into()) {
            Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
            _ => Ok(socket),
        }
    }

    /// Writes and reads as far as the socket allows; true once the response is complete.
    fn proceed(&mut self, buffer: &mut [u8], tally: &mut Tally) -> std::io::Result<bool> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        while !self.out.is_empty() {
            match send(&self.socket, &self.out, SendFlags::NOSIGNAL) {
                Ok(length) => {
                    self.is_open = true;
                    drop(self.out.drain(..length));
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(of_attempt(errno.into())),
            }
        }
        loop {
            match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(Error::new(ErrorKind::UnexpectedEof, "closed without a response")),
                Ok((length, _)) => {
                    tally.bytes += length as u64;
                    self.input.extend_from_slice(&buffer[..length]);
                    if self.response().is_some() {
                        return Ok(true);
                    }
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// The response, once it is complete.
    fn response(&self) -> Option<&[u8]> {
        let length = self.input.first_chunk()?;
        self.input.get(2..2 + usize::from(u16::from_be_bytes(*length)))
    }
}

/// Why a request has no response over TCP; `is_open`: there was a connection.
fn failed(error: &Error, is_open: bool) -> Failure {
    let class = if is_open { ErrorClass::Truncated } else { ErrorClass::of_connect(error) };
    let lack = lack(error.raw_os_error()).filter(|_| class == ErrorClass::Local);
    Failure::new(class, lack.map_or_else(|| format!("over TCP: {}", text(error)), str::to_owned))
}

impl Exchange {
    /// Asks again over TCP for a request whose response was cut off.
    pub(super) fn fall_back(&mut self, flow: usize, number: u64, tally: &mut Tally) {
        let is_asked = |other: &Fallback| (other.flow, other.number) == (flow, number);
        if self.fallbacks.iter().flatten().any(is_asked) || !self.flows[flow].window.is_open(number) {
            tally.datagrams.surplus += 1;
            return;
        }
        let begin = || -> std::io::Result<(Socket, usize)> {
            let ends = &self.flows[flow].socket;
            let socket = Fallback::open(ends.local_addr()?, ends.peer_addr()?)?;
            let place = self.fallbacks.iter().position(Option::is_none).unwrap_or(self.fallbacks.len());
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            self.poller.add(&socket, self.flows.len() + place, flags)?;
            Ok((socket, place))
        };
        match begin() {
            Ok((socket, place)) => {
                let mut out = vec![0; 2];
                self.talk.ask(flow, number, self.poller.now(), &mut out);
                let length = out.len() as u16 - 2;
                out[..2].copy_from_slice(&length.to_be_bytes());
                let fallback = Fallback { flow, number, socket, out, is_open: false, input: Vec::new() };
                self.fallbacks.resize_with(self.fallbacks.len().max(place + 1), || None);
                self.fallbacks[place] = Some(fallback);
            }
            Err(error) => self.end_over_tcp(flow, number, Some(failed(&error, false)), tally),
        }
    }

    /// Goes on with the fallback at `place`.
    pub(super) fn proceed(&mut self, place: usize, tally: &mut Tally) {
        let Some(mut fallback) = self.fallbacks.get_mut(place).and_then(Option::take) else { return };
        let (flow, number) = (fallback.flow, fallback.number);
        let failure = match fallback.proceed(&mut self.buffer, tally) {
            Ok(false) => return self.fallbacks[place] = Some(fallback),
            Ok(true) => {
                let response = fallback.response().unwrap_or_default();
                match self.talk.hear(flow, number..number + 1, response, self.poller.now()) {
                    Heard::Answer(heard, failure) if heard == number => failure,
                    Heard::CutOff(_) => Some(Failure::new(ErrorClass::Truncated, "cut off over TCP too")),
                    _ => Some(Failure::new(ErrorClass::Garbage, "over TCP: not a response to the query")),
                }
            }
            Err(error) => Some(failed(&error, fallback.is_open)),
        };
        self.end_over_tcp(flow, number, failure, tally);
        self.supply(flow, tally);
    }

    fn end_over_tcp(&mut self, flow: usize, number: u64, failure: Option<Failure>, tally: &mut Tally) {
        let Echoed::Answer(from) = self.flows[flow].window.echoed(number) else { return };
        match failure {
            Some(failure) => tally.failed_for(failure, 1),
            None => tally.complete_all(1, self.poller.now().saturating_sub(from)),
        }
        tally.datagrams.over_tcp += 1;
        // It has responded, if not over TCP.
        tally.unreached = 0;
    }

    /// Drops the connections of requests that were given up.
    pub(super) fn drop_overdue_fallbacks(&mut self) {
        for place in &mut self.fallbacks {
            let is_over = |fallback: &Fallback| !self.flows[fallback.flow].window.is_open(fallback.number);
            if place.as_ref().is_some_and(is_over) {
                *place = None;
            }
        }
    }
}
