//! One request and its answers over one socket: numbered, so that leftovers of an earlier answer
//! are never taken for this one.

use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{
    Emitable, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP,
    NLMSG_OVERRUN, NetlinkBuffer, NetlinkHeader,
};
use netlink_sys::{Socket, SocketAddr};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, recv};

use rxlab_base::parse::one_message;

/// Length of a netlink message's header.
const HEADER: usize = 16;

/// Attempts at a consistent dump. Each takes a millisecond or so; a machine that
/// changes during every attempt cannot be dumped consistently.
const DUMP_TRIES: u32 = 8;

/// One request, one for all objects, or one that changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    One,
    Dump,
    /// A change, which the kernel acknowledges.
    Change,
}

/// Carries packets to the kernel and back.
pub(crate) trait Wire {
    fn send(&self, packet: &[u8]) -> Result<(), Errno>;

    /// The next packet; blocks until it comes.
    fn receive(&self) -> Result<Vec<u8>, Errno>;

    /// Discards the packets that have already come.
    fn discard(&self);
}

/// A socket and the number of its last request.
#[derive(Debug)]
pub(crate) struct Channel<W = Socket> {
    wire: W,
    sequence: u32,
}

impl Channel {
    /// A channel to the kernel, in the network namespace of the calling thread.
    pub(super) fn open(protocol: isize) -> Result<Self, Errno> {
        let mut socket = Socket::new(protocol).map_err(errno)?;
        socket.bind_auto().map_err(errno)?;
        socket.connect(&SocketAddr::new(0, 0)).map_err(errno)?;
        Ok(Self { wire: socket, sequence: 0 })
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}

impl<W: Wire> Channel<W> {
    /// Sends one request and collects its answers: up to the end mark of a dump, else one. `skip` bytes at
    /// the start of each answer are a header without new information. A dump that was never consistent
    /// is EINTR.
    pub(super) fn exchange(
        &mut self,
        kind: u16,
        payload: &[u8],
        extent: Extent,
        skip: usize,
    ) -> Result<Vec<u8>, Errno> {
        for _ in 0..DUMP_TRIES {
            // Unsolicited messages from the kernel have number 0.
            self.sequence = self.sequence.checked_add(1).unwrap_or(1);
            self.wire.send(&request(self.sequence, kind, payload, extent))?;
            match self.answers(extent, skip) {
                Ok(None) => {}
                Ok(Some(answers)) => return Ok(answers),
                Err(errno) => {
                    // The kernel rejects a dump request while it has one to finish. It sends the
                    // next part as soon as one is taken, so whatever arrives at once is all there is.
                    self.wire.discard();
                    return Err(errno);
                }
            }
        }
        Err(Errno::INTR)
    }

    /// `None` if the objects changed while the kernel listed them: some may be missing or duplicated.
    fn answers(&self, extent: Extent, skip: usize) -> Result<Option<Vec<u8>>, Errno> {
        let (mut answers, mut is_interrupted) = (Vec::new(), false);
        loop {
            let packet = self.wire.receive()?;
            let (mut rest, mut ours) = (packet.as_slice(), false);
            while !rest.is_empty() {
                let message = NetlinkBuffer::new_checked(rest).map_err(|_| Errno::BADMSG)?;
                let length = message.length() as usize;
                let body = rest.get(HEADER..length).ok_or(Errno::BADMSG)?;
                // Messages are padded to four bytes; the last one need not be.
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
                if message.sequence_number() != self.sequence {
                    continue;
                }
                ours = true;
                is_interrupted |= message.flags() & NLM_F_DUMP_INTR != 0;
                match message.message_type() {
                    NLMSG_NOOP => {}
                    NLMSG_OVERRUN => return Err(Errno::NOBUFS),
                    // Both carry an errno, 0 for "done" and "acknowledged".
                    NLMSG_ERROR | NLMSG_DONE => {
                        return failure(body).map_or(Ok((!is_interrupted).then_some(answers)), Err);
                    }
                    _ => answers.extend(one_message(body.get(skip..).ok_or(Errno::BADMSG)?)),
                }
            }
            if ours && extent == Extent::One {
                return Ok((!is_interrupted).then_some(answers));
            }
        }
    }
}

impl Wire for Socket {
    fn send(&self, packet: &[u8]) -> Result<(), Errno> {
        retry_on_intr(|| Socket::send(self, packet, 0).map_err(errno)).map(|_| ())
    }

    fn receive(&self) -> Result<Vec<u8>, Errno> {
        retry_on_intr(|| self.recv_from_full().map_err(errno)).map(|(packet, _)| packet)
    }

    fn discard(&self) {
        // Only the start of each packet is read, which discards the rest of it.
        let next = || recv(self, &mut [0; HEADER], RecvFlags::DONTWAIT);
        while matches!(next(), Ok(_) | Err(Errno::INTR | Errno::NOBUFS)) {}
    }
}

fn request(sequence: u32, kind: u16, payload: &[u8], extent: Extent) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.length = u32::try_from(HEADER + payload.len()).expect("requests are short");
    header.message_type = kind;
    header.flags = match extent {
        Extent::One => NLM_F_REQUEST,
        Extent::Dump => NLM_F_REQUEST | NLM_F_DUMP,
        Extent::Change => NLM_F_REQUEST | NLM_F_ACK,
    };
    header.sequence_number = sequence;
    let mut bytes = vec![0; HEADER];
    header.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// The errno at the start of an error or an end mark, if it is one.
fn failure(body: &[u8]) -> Option<Errno> {
    let code = i32::from_ne_bytes(*body.first_chunk()?);
    (code != 0).then(|| Errno::from_raw_os_error(code.saturating_neg()))
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::VecDeque;

    use netlink_packet_core::{
        Emitable, NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer, NetlinkHeader,
    };
    use netlink_sys::protocols::NETLINK_ROUTE;
    use rustix::io::Errno;

    use super::{Channel, DUMP_TRIES, Extent, HEADER, Wire};
    use rxlab_base::parse::messages;

    const KIND: u16 = 16;
    const END: Message = Message { kind: NLMSG_DONE, flags: 0, body: &[0; 4], age: 0 };

    #[derive(Clone, Copy)]
    struct Message {
        kind: u16,
        flags: u16,
        body: &'static [u8],
        /// Request that it answers: 0 = the latest, 1 = the one before.
        age: u32,
    }

    const fn object(body: &'static [u8]) -> Message {
        Message { kind: KIND, flags: 0, body, age: 0 }
    }

    /// Answers each request with the next of its scripts: packets of messages. After the end of a script
    /// there is nothing to receive, as with a kernel: that ends a test that waits for more.
    #[derive(Default)]
    struct Script {
        scripts: RefCell<VecDeque<Vec<Vec<Message>>>>,
        waiting: RefCell<VecDeque<Vec<u8>>>,
        asked: Cell<u32>,
    }

    impl Wire for Script {
        fn send(&self, packet: &[u8]) -> Result<(), Errno> {
            let request = NetlinkBuffer::new_checked(packet).expect("a request");
            assert!(self.waiting.borrow().is_empty(), "the kernel has an earlier dump to finish: EBUSY");
            self.asked.set(self.asked.get() + 1);
            for messages in self.scripts.borrow_mut().pop_front().expect("no request more than scripts") {
                let sequence = request.sequence_number();
                let packet = messages.iter().flat_map(|message| bytes(*message, sequence)).collect();
                self.waiting.borrow_mut().push_back(packet);
            }
            Ok(())
        }

        fn receive(&self) -> Result<Vec<u8>, Errno> {
            self.waiting.borrow_mut().pop_front().ok_or(Errno::AGAIN)
        }

        fn discard(&self) {
            self.waiting.borrow_mut().clear();
        }
    }

    fn bytes(message: Message, sequence: u32) -> Vec<u8> {
        let mut header = NetlinkHeader::default();
        header.length = u32::try_from(HEADER + message.body.len()).expect("short");
        header.message_type = message.kind;
        header.flags = message.flags;
        header.sequence_number = sequence - message.age;
        let mut bytes = vec![0; HEADER];
        header.emit(&mut bytes);
        bytes.extend_from_slice(message.body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn channel(scripts: Vec<Vec<Vec<Message>>>) -> Channel<Script> {
        Channel { wire: Script { scripts: RefCell::new(scripts.into()), ..Script::default() }, sequence: 6 }
    }

    fn query(channel: &mut Channel<Script>, extent: Extent) -> Result<Vec<Vec<u8>>, Errno> {
        let answer = channel.exchange(KIND, &[], extent, 1)?;
        Ok(messages(&answer).expect("messages").into_iter().map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn a_dump_ends_at_its_mark() {
        let mut channel =
            channel(vec![vec![vec![object(b"_a"), object(b"_bc")], vec![object(b"_d")], vec![END]]]);
        assert_eq!(query(&mut channel, Extent::Dump), Ok(vec![b"a".to_vec(), b"bc".to_vec(), b"d".to_vec()]));
    }

    #[test]
    fn an_error_is_one_wherever_it_comes() {
        let refused = -Errno::OPNOTSUPP.raw_os_error();
        let body: &'static [u8] = Box::leak(Box::new(refused.to_ne_bytes()));
        for kind in [NLMSG_ERROR, NLMSG_DONE] {
            let end = Message { kind, body, ..END };
            let mut channel = channel(vec![vec![vec![object(b"_a")], vec![end]]]);
            assert_eq!(query(&mut channel, Extent::Dump), Err(Errno::OPNOTSUPP));
        }
    }

    /// The rest of a dump whose first part could not be parsed once answered the next query.
    #[test]
    fn what_is_left_of_one_answer_is_no_answer_to_the_next() {
        let too_short = object(b"");
        let dump = vec![vec![too_short], vec![object(b"_old")], vec![END]];
        let mut after_error = channel(vec![dump, vec![vec![object(b"_new")]]]);
        assert_eq!(query(&mut after_error, Extent::Dump), Err(Errno::BADMSG));
        assert_eq!(query(&mut after_error, Extent::One), Ok(vec![b"new".to_vec()]));

        let (old, end) = (Message { age: 1, ..object(b"_old") }, Message { age: 1, ..END });
        let late = vec![vec![old], vec![end, object(b"_new")]];
        assert_eq!(query(&mut channel(vec![late]), Extent::One), Ok(vec![b"new".to_vec()]));
    }

    #[test]
    fn an_interrupted_dump_is_asked_for_again() {
        let changed = Message { flags: NLM_F_DUMP_INTR, ..object(b"_a") };
        let (bad, good) = (vec![vec![changed], vec![END]], vec![vec![object(b"_b")], vec![END]]);
        let at_end = vec![vec![object(b"_a")], vec![Message { flags: NLM_F_DUMP_INTR, ..END }]];
        let mut calm = channel(vec![bad.clone(), at_end, good]);
        assert_eq!(query(&mut calm, Extent::Dump), Ok(vec![b"b".to_vec()]));

        let mut restless = channel(vec![bad; DUMP_TRIES as usize]);
        assert_eq!(query(&mut restless, Extent::Dump), Err(Errno::INTR));
        assert_eq!(restless.wire.asked.get(), DUMP_TRIES);
    }

    /// The kernel repeats the number of the request in every message.
    #[test]
    fn the_kernel_answers_after_an_error() {
        const RTM_GETLINK: u16 = 18;
        let mut channel = Channel::open(NETLINK_ROUTE).expect("a socket");
        let mut links = |skip| channel.exchange(RTM_GETLINK, &[0; 16], Extent::Dump, skip);
        assert_eq!(links(1 << 20), Err(Errno::BADMSG));
        let answer = links(0).expect("an answer");
        assert!(
            rxlab_base::parse::links(&answer)
                .expect("links")
                .iter()
                .any(|link| link.name.to_string() == "lo")
        );
    }
}
