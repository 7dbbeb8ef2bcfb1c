//! Socket options that rustix and socket2 lack, or lack as one call. Unsafe code: getsockopt(2)
//! and setsockopt(2).

#![allow(unsafe_code)] // System calls that read and write numbers of ours.

use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use rustix::net::{AddressFamily, SocketType};

/// Number of values in SO_MEMINFO, and the position of the drops (`linux/sock_diag.h`).
const MEMINFO: usize = 9;
const DROPS: usize = 8;

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
    let mut numbers = [0u32; MEMINFO];
    let mut length = size_of::<[u32; MEMINFO]>() as libc::socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes to numbers that outlive the call, and the number of
    // bytes written to `length`.
    let result = unsafe {
        libc::getsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let told = result == 0 && length as usize >= (DROPS + 1) * size_of::<u32>();
    told.then_some(numbers[DROPS])
}

/// `SO_NETNS_COOKIE` of the calling thread's network namespace: a number that no other namespace has before
/// the next boot. `None` before Linux 5.14, and if no socket can be opened.
pub(super) fn netns_cookie() -> Option<u64> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None).ok()?;
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to a number that outlives the call, and the number of
    // bytes written to `length`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    (result == 0 && length as usize == size_of::<u64>()).then_some(cookie)
}

/// Defers the port choice of a socket that is bound to port 0 until it connects, so that connections to
/// different destinations may share it.
pub fn choose_port_late(socket: impl AsFd) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads `length` bytes of a number that outlives the call.
    let result = unsafe {
        libc::setsockopt(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, (&raw const on).cast(), length)
    };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use super::{dropped, receive_buffer};

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
