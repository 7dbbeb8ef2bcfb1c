//! Trains of datagrams: several of one size, sent or received in one system call (UDP_SEGMENT and
//! UDP_GRO). Unsafe code: sendmsg(2) and recvmsg(2) with options that rustix does not have.

#![allow(unsafe_code)] // System calls that read and write structures of ours.

use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::{from_mut, from_ref, null_mut};

use rustix::io::Errno;
use socket2::SockAddr;

use super::socket::{last_error, turn_on};

/// Most datagrams in a train. Kernels before 6.11 accept no more (UDP_MAX_SEGMENTS of `linux/udp.h`).
pub const MAX_TRAIN: usize = 64;

/// Room for one control message with a number: its header is 16 bytes on 64-bit machines.
type Control = [u64; 4];
/// Length of a control message with a UDP_SEGMENT, without the padding after it.
const SEGMENT_LEN: usize = size_of::<libc::cmsghdr>() + size_of::<u16>();

/// Result of one receive: datagrams of `segment` bytes each, the last one maybe shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Train {
    /// Bytes of all of them.
    pub length: usize,
    /// Bytes of each datagram but the last, which may be shorter.
    pub segment: usize,
}

impl Train {
    pub fn datagrams(&self) -> usize {
        // An empty datagram is also one.
        if self.length <= self.segment { 1 } else { self.length.div_ceil(self.segment) }
    }

    /// The datagrams in `bytes`, which must be the first [`Train::length`] bytes of the receive buffer.
    pub fn split<'b>(&self, bytes: &'b [u8]) -> impl Iterator<Item = &'b [u8]> + use<'b> {
        // `chunks` yields nothing for an empty slice.
        let empty = (bytes.is_empty()).then_some(bytes);
        empty.into_iter().chain(bytes.chunks(self.segment.max(1)))
    }
}

/// Lets the kernel deliver datagrams of one flow together (UDP_GRO). From then on the caller must read them with
/// [`receive`] or [`receive_from`]: recv(2) alone does not show where one ends. ENOPROTOOPT: a kernel before 5.0.
pub fn receive_trains(socket: impl AsFd) -> Result<(), Errno> {
    turn_on(socket, libc::SOL_UDP, libc::UDP_GRO)
}

/// Receives a datagram or a train from a connected socket.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> Result<Train, Errno> {
    message(socket, buffer, null_mut(), &mut 0)
}

/// Receives a datagram or a train, and its sender's address.
pub fn receive_from(socket: impl AsFd, buffer: &mut [u8]) -> Result<(Train, SockAddr), Errno> {
    let mut received = Err(Errno::IO);
    // SAFETY: the kernel writes an address and its length, or the error below discards both.
    let address = unsafe {
        SockAddr::try_init(|storage, length| {
            received = message(socket, buffer, storage.cast(), &mut *length);
            received.map(drop).map_err(Into::into)
        })
    };
    let train = received?;
    let ((), address) = address.map_err(|_| Errno::IO)?;
    Ok((train, address))
}

fn message(
    socket: impl AsFd,
    buffer: &mut [u8],
    name: *mut libc::c_void,
    name_length: &mut libc::socklen_t,
) -> Result<Train, Errno> {
    let mut control: Control = [0; 4];
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all zeros are an empty message.
    let mut head: libc::msghdr = unsafe { zeroed() };
    (head.msg_name, head.msg_namelen) = (name, *name_length);
    (head.msg_iov, head.msg_iovlen) = (from_mut(&mut vector), 1);
    (head.msg_control, head.msg_controllen) = (control.as_mut_ptr().cast(), size_of::<Control>());
    // SAFETY: every pointer in `head` is null with a length of 0, or to memory of the length stored with it
    // that nothing else uses until the call is over.
    let length = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut head, 0) };
    let length = usize::try_from(length).map_err(|_| last_error())?;
    *name_length = head.msg_namelen;
    // SAFETY: the buffer is aligned as a control message is, and zeroed where the kernel wrote nothing.
    let first: libc::cmsghdr = unsafe { control.as_ptr().cast::<libc::cmsghdr>().read() };
    let told = head.msg_controllen >= size_of::<libc::cmsghdr>() + size_of::<libc::c_int>()
        && (first.cmsg_level, first.cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO);
    let segment = if told {
        // SAFETY: four bytes follow the header, by the check before.
        unsafe { control.as_ptr().cast::<libc::cmsghdr>().add(1).cast::<libc::c_int>().read() }
    } else {
        0
    };
    // Without a train the kernel may send no control message.
    let segment = usize::try_from(segment).ok().filter(|segment| *segment > 0).unwrap_or(length);
    Ok(Train { length, segment })
}

/// Sends `bytes` as a train of datagrams of `segment` bytes each, the last one maybe shorter; without `to`,
/// to the peer of a connected socket. All of them are sent or none. EINVAL, EMSGSIZE, EIO and EOPNOTSUPP:
/// this path does not support such a train; EINVAL with more than [`MAX_TRAIN`] also.
pub fn send_train(
    socket: impl AsFd,
    bytes: &[u8],
    segment: usize,
    to: Option<&SockAddr>,
) -> Result<(), Errno> {
    let segment = u16::try_from(segment).map_err(|_| Errno::INVAL)?;
    let mut control: Control = [0; 4];
    let header = control.as_mut_ptr().cast::<libc::cmsghdr>();
    // SAFETY: all zeros are an empty message, or an empty control message.
    let (mut head, mut first): (libc::msghdr, libc::cmsghdr) = unsafe { (zeroed(), zeroed()) };
    (first.cmsg_level, first.cmsg_type) = (libc::SOL_UDP, libc::UDP_SEGMENT);
    first.cmsg_len = SEGMENT_LEN;
    // SAFETY: the buffer is aligned as a control message is, and has room for it and two bytes.
    unsafe {
        header.write(first);
        header.add(1).cast::<u16>().write(segment);
    }
    // The kernel reads, and writes to none of these.
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    if let Some(to) = to {
        (head.msg_name, head.msg_namelen) = (to.as_ptr().cast_mut().cast(), to.len());
    }
    (head.msg_iov, head.msg_iovlen) = (from_mut(&mut vector), 1);
    // With its padding, as CMSG_SPACE has it.
    (head.msg_control, head.msg_controllen) = (header.cast(), SEGMENT_LEN.next_multiple_of(8));
    // SAFETY: every pointer in `head` is null with a length of 0, or to memory of the length stored with it.
    let sent = unsafe { libc::sendmsg(socket.as_fd().as_raw_fd(), from_ref(&head), libc::MSG_NOSIGNAL) };
    if sent >= 0 { Ok(()) } else { Err(last_error()) }
}

/// True if an error of [`send_train`] means that trains cannot be sent on this path at all.
pub fn refuses_trains(error: Errno) -> bool {
    [Errno::INVAL, Errno::MSGSIZE, Errno::IO, Errno::OPNOTSUPP, Errno::NOPROTOOPT].contains(&error)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use rustix::io::Errno;

    use super::{Train, receive, receive_from, receive_trains, refuses_trains, send_train};

    fn pair(address: &str) -> (UdpSocket, UdpSocket) {
        let [one, other] = [0, 1].map(|_| UdpSocket::bind(address).expect("bound"));
        one.connect(other.local_addr().expect("bound")).expect("connected");
        (one, other)
    }

    #[test]
    fn a_train_arrives_whole_or_as_its_datagrams() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (sender, receiver) = pair(address);
            let bytes: Vec<u8> = (0..130).collect();
            let mut buffer = [0; 1024];
            send_train(&sender, &bytes, 32, None).expect("sent");
            for part in bytes.chunks(32) {
                let train = receive(&receiver, &mut buffer).expect("received");
                assert_eq!(train, Train { length: part.len(), segment: part.len() });
                assert_eq!((train.datagrams(), &buffer[..train.length]), (1, part));
            }
            receive_trains(&receiver).expect("an option of the kernel");
            send_train(&sender, &bytes, 32, None).expect("sent");
            let (train, from) = receive_from(&receiver, &mut buffer).expect("received");
            assert_eq!((train, train.datagrams()), (Train { length: 130, segment: 32 }, 5));
            assert_eq!(train.split(&buffer[..130]).collect::<Vec<_>>(), bytes.chunks(32).collect::<Vec<_>>());
            assert_eq!((from.as_socket(), &buffer[..130]), (sender.local_addr().ok(), &bytes[..]));
            // And back, to an address.
            send_train(&receiver, &bytes[..64], 32, Some(&from)).expect("sent");
            assert_eq!(sender.recv(&mut buffer).expect("received"), 32);
            sender.send(b"").expect("sent");
            let train = receive(&receiver, &mut buffer).expect("received");
            assert_eq!((train, train.datagrams()), (Train { length: 0, segment: 0 }, 1));
            assert_eq!(train.split(&[]).count(), 1);
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let (sender, receiver) = pair("127.0.0.1:0");
        let refused = send_train(&sender, &[0; 20_000], 8, None).expect_err("too many");
        assert!(refuses_trains(refused), "{refused}");
        assert!(!refuses_trains(Errno::AGAIN) && !refuses_trains(Errno::CONNREFUSED));
        receiver.set_nonblocking(true).expect("set");
        assert_eq!(receive(&receiver, &mut [0; 8]), Err(Errno::AGAIN));
        assert_eq!(receive_from(&receiver, &mut [0; 8]).map(|(train, _)| train), Err(Errno::AGAIN));
    }
}
