//! irqbalance's socket, for reading and setting the interrupts it leaves alone.
//!
//! Any process can take this name and bind an abstract socket, so no peer is trusted: not to
//! be irqbalance unless it runs as root, not to stop sending, and not to be quick.

#![allow(clippy::disallowed_methods)] // Starts a program that takes a late answer.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, UCred, connect, recv, sendmsg, socket_with,
};
use rustix::process::{Pid, Uid, getegid, geteuid, getpid};

use rxlab_base::units::IrqId;

use super::shell::inherit_no_files;
use super::signals::held_back;

/// irqbalance answers from its main loop. After a change of its list it sleeps for a whole period, 10 s by default, and answers
/// then: no command waits for that.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause between two looks whether it still sleeps.
const PAUSE: Duration = Duration::from_millis(20);

/// Maximum length of an answer: under a hundred bytes per interrupt, for thousands of interrupts.
const LONGEST: usize = 1 << 20;

/// Maximum length of a list of interrupts: some versions truncate a longer one, possibly in the middle
/// of a number.
const LONGEST_LIST: usize = 255;

/// The answer to `setup` of the irqbalance with this process ID. It answers only root: EACCES
/// for others.
pub(super) fn setup(pid: u32) -> Result<Vec<u8>, Errno> {
    match say(pid, Uid::ROOT, SOCKET_TIMEOUT, b"setup")? {
        answer if answer.is_empty() => Err(Errno::ACCESS),
        answer => Ok(answer),
    }
}

/// Bans these interrupts by number and lifts every other ban. It never answers, even if it ignores
/// us; [`setup`] shows the result. EMSGSIZE: the list is too long to send.
pub(super) fn ban(pid: u32, irqs: &[IrqId]) -> Result<(), Errno> {
    let list = ban_list(irqs)?;
    if !geteuid().is_root() {
        return Err(Errno::PERM);
    }
    say(pid, Uid::ROOT, SOCKET_TIMEOUT, format!("settings ban irqs {list}").as_bytes()).map(|_| ())
}

fn ban_list(irqs: &[IrqId]) -> Result<String, Errno> {
    // Some versions take a 0 for the end of the list. It is the timer's, which is never balanced.
    let numbers = irqs.iter().filter(|irq| irq.0 != 0).map(ToString::to_string);
    let list = numbers.collect::<Vec<_>>().join(" ");
    match list.len() {
        0 => Ok("NONE".to_owned()),
        length if length <= LONGEST_LIST => Ok(list),
        _ => Err(Errno::MSGSIZE),
    }
}

/// Sends a message to the process if it is this user's, and returns its answer; all of it takes at most
/// `patience`, and signals wait for it: irqbalance ends by SIGPIPE if we end before it answers. While it sleeps, nothing is sent.
fn say(pid: u32, owner: Uid, patience: Duration, message: &[u8]) -> Result<Vec<u8>, Errno> {
    held_back(|| answer(pid, owner, patience, message))
}

fn answer(pid: u32, owner: Uid, patience: Duration, message: &[u8]) -> Result<Vec<u8>, Errno> {
    let deadline = Instant::now() + patience;
    while sleeps(pid) {
        if Instant::now() >= deadline {
            return Err(Errno::TIMEDOUT);
        }
        std::thread::sleep(PAUSE);
    }
    let socket = connected(pid, owner, deadline)?;
    // It requires the sender's credentials in the message itself.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let own = UCred { pid: getpid(), uid: geteuid(), gid: getegid() };
    let fits = ancillary.push(SendAncillaryMessage::ScmCredentials(own));
    assert!(fits, "the buffer was made for it");
    let mut send = || sendmsg(&socket, &[IoSlice::new(message)], &mut ancillary, SendFlags::NOSIGNAL);
    retry_on_intr(&mut send).map_err(late)?;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while answer.len() <= LONGEST {
        let receive = || {
            wait_until(&socket, deadline)?;
            recv(&socket, &mut part, RecvFlags::empty())
        };
        // SIGCONT interrupts a wait that has a limit (signal(7)): no answer.
        let received = retry_on_intr(receive).map_err(late);
        if let (Err(errno), true) = (&received, answer.is_empty()) {
            leave_open(socket);
            return Err(*errno);
        }
        match received?.0 {
            // It closes the connection after its answer, or at once if it gives none.
            0 => return Ok(answer),
            length => answer.extend_from_slice(&part[..length]),
        }
    }
    Err(Errno::MSGSIZE)
}

/// True if a process is in `nanosleep`, as irqbalance is between two looks at the CPUs; it waits for messages in `poll`.
/// False if the kernel does not tell.
fn sleeps(pid: u32) -> bool {
    let Ok(call) = std::fs::read_to_string(format!("/proc/{pid}/syscall")) else { return false };
    let number = call.split_whitespace().next().and_then(|number| number.parse().ok());
    number.is_some_and(|number| [libc::SYS_nanosleep, libc::SYS_clock_nanosleep].contains(&number))
}

/// Has another program take the answer, whenever it comes.
fn leave_open(socket: OwnedFd) {
    // The limit of our own wait is the socket's. Where that or the program fails, the connection is closed.
    let _ = set_socket_timeout(&socket, Timeout::Recv, None);
    let mut shell = Command::new("sh");
    inherit_no_files(&mut shell);
    // A program in the background has no other input than this.
    shell.args(["-c", "exec 3<&0; timeout 600 cat <&3 3<&- &"]).current_dir("/").process_group(0);
    shell.stdin(Stdio::from(socket)).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = shell.status();
}

/// A connection to the process itself, under the first of its names that exists.
fn connected(pid: u32, owner: Uid, deadline: Instant) -> Result<OwnedFd, Errno> {
    let mut failure = Errno::NOENT;
    for address in addresses(pid)? {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // Connecting can also block: on the queue of a listener that never accepts.
        let reach = || {
            wait_until(&socket, deadline)?;
            connect(&socket, &address)
        };
        match retry_on_intr(reach).map_err(late) {
            // A name outlives a killed process, and the last one has no process ID.
            Ok(()) => {
                let peer = socket_peercred(&socket)?;
                if Some(peer.pid) == pid_of(pid) && peer.uid == owner {
                    return Ok(socket);
                }
            }
            Err(Errno::NOENT | Errno::CONNREFUSED) => {}
            Err(errno) => failure = errno,
        }
    }
    Err(failure)
}

/// Limits blocking operations on the socket to this deadline.
fn wait_until(socket: &OwnedFd, deadline: Instant) -> Result<(), Errno> {
    let left = deadline.saturating_duration_since(Instant::now());
    // A zero timeout would mean no limit.
    if left.is_zero() {
        return Err(Errno::TIMEDOUT);
    }
    for side in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(socket, side, Some(left))?;
    }
    Ok(())
}

fn pid_of(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// Addresses of its socket: in a directory since 1.4; if that could not be created, an abstract one, which
/// before 1.4 contained the process ID and since then is all zeros.
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
    use std::io::{ErrorKind, Read, Write};
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    use std::sync::{Mutex, PoisonError};
    use std::time::{Duration, Instant};

    use rustix::io::Errno;
    use rustix::process::{Uid, geteuid};

    use super::{LONGEST_LIST, SOCKET_TIMEOUT, ban_list, say, setup, sleeps};
    use rxlab_base::units::IrqId;

    // This process stands in for irqbalance, and can use the name only once at a time.
    static NAME: Mutex<()> = Mutex::new(());

    /// An abstract name needs no directory.
    fn stand_in<T>(act: impl FnOnce(UnixListener, u32) -> T) -> T {
        let _alone = NAME.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = std::process::id();
        let name = SocketAddr::from_abstract_name(format!("irqbalance{pid}.sock")).expect("a name");
        // A child that another test is starting has the socket of the test before until it runs its program.
        let until = Instant::now() + Duration::from_secs(10);
        let listener = loop {
            match UnixListener::bind_addr(&name) {
                Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                bound => break bound.expect("bound"),
            }
        };
        act(listener, pid)
    }

    /// Result for a peer that answers with `answer`.
    fn served(patience: Duration, answer: impl FnOnce(UnixStream) + Send) -> Result<Vec<u8>, Errno> {
        stand_in(|listener, pid| {
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let (mut peer, _) = listener.accept().expect("a connection");
                    let mut asked = [0; 5];
                    peer.read_exact(&mut asked).expect("a query");
                    assert_eq!(&asked, b"setup");
                    answer(peer);
                });
                say(pid, geteuid(), patience, b"setup")
            })
        })
    }

    fn said(answer: &'static [u8]) -> Result<Vec<u8>, Errno> {
        served(SOCKET_TIMEOUT, |mut peer| peer.write_all(answer).expect("answered"))
    }

    #[test]
    fn silence_is_no_answer() {
        assert_eq!(said(b"SLEEP 10 BANNED 0"), Ok(b"SLEEP 10 BANNED 0".to_vec()));
        assert_eq!(said(b""), Ok(Vec::new()));
        assert_eq!(setup(i32::MAX.unsigned_abs()), Err(Errno::NOENT), "no such process");
    }

    /// A process with this name that never stopped answering once took all memory.
    #[test]
    fn an_endless_answer_is_cut_off() {
        let endless = |mut peer: UnixStream| while peer.write_all(&[b'0'; 4096]).is_ok() {};
        assert_eq!(served(Duration::from_secs(60), endless), Err(Errno::MSGSIZE));
    }

    /// irqbalance, which sleeps for a while, was once ended by a command that had stopped waiting for it.
    #[test]
    fn an_answer_after_the_deadline_is_taken() {
        let late = |mut peer: UnixStream| {
            std::thread::sleep(Duration::from_millis(600));
            peer.write_all(b"SLEEP 10 BANNED 0").expect("taken");
        };
        assert_eq!(served(Duration::from_millis(100), late), Err(Errno::TIMEDOUT));
    }

    /// irqbalance would end by its answer to a process that Ctrl-C ended.
    #[test]
    fn signals_wait_for_the_answer() {
        let thread = rustix::thread::gettid();
        let blocked = |mut peer: UnixStream| {
            let status = std::fs::read(format!("/proc/self/task/{thread}/status")).expect("readable");
            peer.write_all(&status).expect("answered");
        };
        let status = String::from_utf8(served(SOCKET_TIMEOUT, blocked).expect("an answer")).expect("text");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("a mask").trim();
        let mask = u64::from_str_radix(mask, 16).expect("hexadecimal");
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            assert_ne!(mask & (1 << (signal - 1)), 0, "{signal}");
        }
    }

    /// Whoever asked irqbalance and was killed before it woke ended it.
    #[test]
    fn a_process_that_sleeps_is_not_asked() {
        let mut sleep = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        let until = Instant::now() + Duration::from_secs(10);
        while !sleeps(sleep.id()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Without the look, there would be no address.
        let result = say(sleep.id(), geteuid(), Duration::from_millis(100), b"setup");
        sleep.kill().and_then(|()| sleep.wait()).expect("ended");
        assert_eq!(result, Err(Errno::TIMEDOUT));
    }

    #[test]
    fn a_slow_answer_ends_at_the_deadline() {
        let slow = |mut peer: UnixStream| {
            while peer.write_all(b"0").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let (patience, start) = (Duration::from_millis(200), Instant::now());
        // If every byte extended the deadline, neither the peer nor this test would end.
        assert_eq!(served(patience, slow), Err(Errno::TIMEDOUT));
        assert!(start.elapsed() >= patience);
    }

    #[test]
    fn a_queue_that_is_not_emptied_ends_at_the_deadline() {
        let result = stand_in(|listener, pid| {
            rustix::net::listen(&listener, 0).expect("a queue of one");
            let name = listener.local_addr().expect("its name");
            let _first = UnixStream::connect_addr(&name).expect("queued");
            say(pid, geteuid(), Duration::from_millis(100), b"setup")
        });
        assert_eq!(result, Err(Errno::TIMEDOUT));
    }

    #[test]
    fn a_process_of_another_user_is_not_asked() {
        let other_user = Uid::from_raw(geteuid().as_raw() + 1);
        let result = stand_in(|_listener, pid| say(pid, other_user, SOCKET_TIMEOUT, b"setup"));
        assert_eq!(result, Err(Errno::NOENT));
    }

    /// A truncated list bans the interrupt whose number is the beginning of another one.
    #[test]
    fn a_list_too_long_is_not_sent() {
        let list = |count: u32| ban_list(&(100..100 + count).map(IrqId).collect::<Vec<_>>());
        assert_eq!(list(2).as_deref(), Ok("100 101"));
        assert_eq!(list(0).as_deref(), Ok("NONE"));
        assert_eq!(list(64).map(|list| list.len()), Ok(LONGEST_LIST));
        assert_eq!(list(65), Err(Errno::MSGSIZE));
        assert_eq!(ban_list(&[IrqId(0), IrqId(5)]).as_deref(), Ok("5"));
    }
}
