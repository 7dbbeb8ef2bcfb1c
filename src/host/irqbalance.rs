//! irqbalance's socket, on which it tells what it leaves alone.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, UCred, connect, recv, sendmsg, socket_with,
};
use rustix::process::{Pid, getegid, geteuid, getpid};

/// irqbalance answers from its main loop, which at times rebalances; it never takes this long.
const PATIENCE: Duration = Duration::from_secs(2);

/// The answer to `setup` of the irqbalance with this process id. To anybody but the superuser it says
/// nothing: EACCES.
pub(super) fn setup(pid: u32) -> Result<Vec<u8>, Errno> {
    let socket = connected(pid)?;
    for side in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&socket, side, Some(PATIENCE))?;
    }
    // It wants to be shown who asks, in the message itself.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let own = UCred { pid: getpid(), uid: geteuid(), gid: getegid() };
    let fits = ancillary.push(SendAncillaryMessage::ScmCredentials(own));
    assert!(fits, "the buffer was made for it");
    sendmsg(&socket, &[IoSlice::new(b"setup")], &mut ancillary, SendFlags::NOSIGNAL).map_err(late)?;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        match recv(&socket, &mut part, RecvFlags::empty()).map_err(late)?.0 {
            // It closes the connection behind its answer, or at once when it gives none.
            0 if answer.is_empty() => return Err(Errno::ACCESS),
            0 => return Ok(answer),
            length => answer.extend_from_slice(&part[..length]),
        }
    }
}

/// A connection to the process itself, under the first of its names that it has.
fn connected(pid: u32) -> Result<OwnedFd, Errno> {
    let mut failure = Errno::NOENT;
    for address in addresses(pid)? {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        match connect(&socket, &address) {
            // A name outlives a process that was killed, and the last one is nobody's in particular.
            Ok(()) if Some(socket_peercred(&socket)?.pid) == pid_of(pid) => return Ok(socket),
            Ok(()) | Err(Errno::NOENT | Errno::CONNREFUSED) => {}
            Err(errno) => failure = errno,
        }
    }
    Err(failure)
}

fn pid_of(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// The names of its socket: in a directory since 1.4; where that could not be made, an abstract one, which
/// before 1.4 carried the process id and since then is all zeros.
fn addresses(pid: u32) -> Result<[SocketAddrUnix; 3], Errno> {
    Ok([
        SocketAddrUnix::new(format!("/run/irqbalance/irqbalance{pid}.sock"))?,
        SocketAddrUnix::new_abstract_name(format!("irqbalance{pid}.sock").as_bytes())?,
        SocketAddrUnix::new_abstract_name(&[0; 107])?,
    ])
}

fn late(errno: Errno) -> Errno {
    if errno == Errno::AGAIN { Errno::TIMEDOUT } else { errno }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use rustix::io::Errno;

    use super::setup;

    /// This process stands in for irqbalance: an abstract name needs no directory.
    fn serve(answer: &'static [u8]) -> Result<Vec<u8>, Errno> {
        let pid = std::process::id();
        let name = SocketAddr::from_abstract_name(format!("irqbalance{pid}.sock")).expect("a name");
        let listener = UnixListener::bind_addr(&name).expect("bound");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut peer, _) = listener.accept().expect("a connection");
                let mut asked = [0; 5];
                peer.read_exact(&mut asked).expect("a question");
                assert_eq!(&asked, b"setup");
                peer.write_all(answer).expect("answered");
            });
            setup(pid)
        })
    }

    #[test]
    fn silence_is_a_refusal() {
        assert_eq!(serve(b"SLEEP 10 BANNED 0"), Ok(b"SLEEP 10 BANNED 0".to_vec()));
        assert_eq!(serve(b""), Err(Errno::ACCESS));
        assert_eq!(setup(i32::MAX.unsigned_abs()), Err(Errno::NOENT), "no such process");
    }
}
