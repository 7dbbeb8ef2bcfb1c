//! Socket options that rustix and socket2 lack, or lack as one call. Unsafe code: getsockopt(2)
//! and setsockopt(2).

#![allow(unsafe_code)] // System calls that read and write numbers of ours.

use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use rustix::net::{AddressFamily, SocketType};

/// Length of SO_MEMINFO: nine numbers, of which the last one is that of the drops (`linux/sock_diag.h`).
const MEMINFO: usize = 9 * size_of::<u32>();

/// Length of `struct tcp_info` up to and with `tcpi_bytes_acked` (`linux/tcp.h`).
const TCP_INFO_TO_ACKED: usize = 120 + size_of::<u64>();

/// `include/uapi/asm-generic/socket.h`; the libc crate does not have it.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// Gives a socket a receive buffer of `bytes`. Without CAP_NET_ADMIN the kernel clamps it to `rmem_max`.
pub fn receive_buffer(socket: impl AsFd, bytes: usize) -> Result<(), Errno> {
    let socket = socket.as_fd();
    set_socket_recv_buffer_size_force(socket, bytes).or_else(|_| set_socket_recv_buffer_size(socket, bytes))
}

/// Packets that a socket has dropped so far, most of them for lack of room in its receive buffer;
/// it wraps. `None` before Linux 4.12.
pub fn dropped(socket: impl AsFd) -> Option<u32> {
    let numbers: [u8; MEMINFO] = option(socket, libc::SOL_SOCKET, libc::SO_MEMINFO)?;
    numbers.last_chunk().copied().map(u32::from_ne_bytes)
}

/// `SO_NETNS_COOKIE` of the calling thread's network namespace: a number that no other namespace has before
/// the next boot. `None` before Linux 5.14, and if no socket can be opened.
pub(super) fn netns_cookie() -> Option<u64> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None).ok()?;
    option(socket, libc::SOL_SOCKET, SO_NETNS_COOKIE).map(u64::from_ne_bytes)
}

/// Bytes sent on a TCP connection that the peer's kernel has acknowledged. `None` for other sockets, and before Linux 4.1.
pub fn acknowledged(socket: impl AsFd) -> Option<u64> {
    let info: [u8; TCP_INFO_TO_ACKED] = option(socket, libc::SOL_TCP, libc::TCP_INFO)?;
    // The SYN counts as a byte.
    info.last_chunk().copied().map(u64::from_ne_bytes)?.checked_sub(1)
}

/// Defers the port choice of a socket that is bound to port 0 until it connects, so that connections to
/// different destinations may share it.
pub fn choose_port_late(socket: impl AsFd) -> Result<(), Errno> {
    turn_on(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT)
}

/// An option of a socket, of exactly so many bytes; `None` if the kernel does not have it.
fn option<const N: usize>(socket: impl AsFd, level: libc::c_int, name: libc::c_int) -> Option<[u8; N]> {
    let mut value = [0; N];
    let mut length = N as libc::socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes to a value that outlives the call, and the number of
    // bytes written to `length`.
    let result = unsafe { libc::getsockopt(socket, level, name, value.as_mut_ptr().cast(), &raw mut length) };
    (result == 0 && length as usize == N).then_some(value)
}

/// Turns on an option of a socket.
pub(super) fn turn_on(socket: impl AsFd, level: libc::c_int, name: libc::c_int) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads `length` bytes of a number that outlives the call.
    let result = unsafe { libc::setsockopt(socket, level, name, (&raw const on).cast(), length) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// The error of the latest system call of this thread that failed.
pub(super) fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::{Duration, Instant};

    use super::{acknowledged, dropped, receive_buffer};

    #[test]
    fn a_connection_tells_what_arrived() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let mut server = listener.accept().expect("connected").0;
        assert_eq!(acknowledged(&client), Some(0));
        client.write_all(&[0; 1000]).expect("written");
        server.read_exact(&mut [0; 1000]).expect("read");
        // The answer carries the acknowledgement.
        server.write_all(&[0]).expect("written");
        client.read_exact(&mut [0]).expect("read");
        assert_eq!(acknowledged(&client), Some(1000));
        assert_eq!(acknowledged(UdpSocket::bind("127.0.0.1:0").expect("bound")), None);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("bound");
        sender.connect(receiver.local_addr().expect("bound")).expect("connected");
        receive_buffer(&receiver, 4096).expect("set");
        assert_eq!(dropped(&receiver), Some(0));
        for _ in 0..100 {
            sender.send(&[0; 1000]).expect("sent");
        }
        receiver.set_nonblocking(true).expect("set");
        let deadline = Instant::now() + Duration::from_secs(30);
        let (mut received, mut lost) = (0, 0);
        // A busy machine delivers later than `send` returns; reading before a drop makes room.
        while received + lost < 100 {
            assert!(Instant::now() < deadline, "{received} received, {lost} dropped");
            if lost > 0 {
                received += std::iter::from_fn(|| receiver.recv(&mut [0; 2000]).ok()).count() as u32;
            }
            lost = dropped(&receiver).expect("told");
        }
        assert_eq!(received + lost, 100);
        assert!(received > 0, "{lost} dropped");
    }
}
