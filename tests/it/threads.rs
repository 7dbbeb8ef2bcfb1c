//! A thread that never pauses, and the queues that it does not read, as reported by the kernel.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::thread::gettid;
use rxlab::lab::Range;
use rxlab_base::parse::Scheduling;
use rxlab_base::units::{CpuId, Fact};
use rxlab_path::model::{HeldRates, ProcessRates, Rates};
use rxlab_path::sample::{Counters, Inventory, Scope, Transport, busiest};
use rxlab_sys::{Action, Host, LiveHost, enter_netns, pin_thread};

use crate::doctor::{finding, look};
use crate::flood::Flood;
use crate::lab::{host_in, range};
use crate::process::Stop;
use crate::quiet;

/// A policy of include/uapi/linux/sched.h.
const SCHED_FIFO: u32 = 1;

fn live() -> LiveHost {
    LiveHost::open("/".as_ref()).expect("this machine")
}

/// ID of this thread. It gets real-time priority if permitted: a thread that waits for a CPU is not without pauses.
/// The kernel leaves 5 % of the time to other threads.
fn before_all_others() -> u32 {
    let pid = u32::try_from(gettid().as_raw_nonzero().get()).expect("above 0");
    let scheduling = Scheduling { policy: SCHED_FIFO, priority: 1, nice: 0 };
    let _ = live().act(&Action::ThreadPolicy { pid, scheduling });
    pid
}

/// Rates of this process between two samples a second apart.
fn ourselves(between: impl FnOnce()) -> ProcessRates {
    let host = live();
    let look = || Counters::take(&host, &Inventory::take(&host, Scope::Load));
    let before = look();
    between();
    std::thread::sleep(Duration::from_secs(1));
    let after = look();
    let programs = busiest(&host, &before, &after);
    let programs = programs.known().expect("programs are seen");
    programs.iter().find(|process| process.pid == std::process::id()).expect("we spin").clone()
}

/// One unread server of each kind: a UDP socket, connections that are not accepted, and connections that are accepted
/// but not read.
#[test]
fn a_thread_without_a_pause_and_its_waiting_sockets() {
    let _alone = quiet::alone();
    let any = (Ipv4Addr::LOCALHOST, 0);
    let datagrams = UdpSocket::bind(any).expect("bound");
    let waiting = TcpListener::bind(any).expect("bound");
    let left_alone = TcpListener::bind(any).expect("bound");
    let address = |listener: &TcpListener| listener.local_addr().expect("bound");
    let to = datagrams.local_addr().expect("bound");
    let sender = UdpSocket::bind(any).expect("bound");
    let send = || assert_eq!(sender.send_to(&[7; 100], to).expect("sent"), 100);
    send();
    let connect = |listener: &TcpListener| TcpStream::connect(address(listener)).expect("connected");
    let _clients = [connect(&waiting), connect(&waiting)];
    let mut asking = [connect(&left_alone), connect(&left_alone), connect(&left_alone)];
    let _accepted = [(); 3].map(|()| left_alone.accept().expect("accepted"));

    let done = AtomicBool::new(false);
    let (told, number) = mpsc::channel();
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            told.send(before_all_others()).expect("it is waited for");
            while !done.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        let number = number.recv().expect("the thread began");
        // One of three sends a request; then a second one.
        asking[0].write_all(b"ask").expect("sent");
        let found = (0..20).find_map(|_| {
            let found = ourselves(|| {
                send();
                asking[1].write_all(b"ask").expect("sent");
            });
            let thread = found.each.iter().find(|thread| thread.tid == number);
            let thread = thread.expect("it was in both samples").clone();
            assert!(thread.ran + thread.waited > 0.8, "it runs or waits all the time: {thread:?}");
            (thread.ran >= 0.9).then_some(found)
        });
        done.store(true, Relaxed);
        found
    });
    let found = found.expect("it had a CPU for most of one sample out of 20");

    let sockets = found.sockets.known().expect("asked for");
    let held = |transport, port| -> &HeldRates {
        let held = sockets.held.iter().find(|held| held.transport == transport && held.port == port);
        held.unwrap_or_else(|| panic!("{transport:?} {port}: {sockets:?}"))
    };
    let udp = held(Transport::Udp, to.port());
    assert!(udp.queued_before > 0 && udp.queued > udp.queued_before, "{udp:?}");
    assert_eq!((udp.dropped, &udp.unread), (0.0, &Fact::NotAsked));
    let tcp = held(Transport::Tcp, address(&waiting).port());
    assert_eq!((tcp.queued_before, tcp.queued), (2, 2), "{tcp:?}");
    let tcp = held(Transport::Tcp, address(&left_alone).port());
    assert_eq!((tcp.queued, &tcp.unread), (0, &Fact::Known(2)), "two of three ask: {tcp:?}");
}

/// A server with one thread that works longer on a packet than the next one takes to arrive: the doctor names it.
#[test]
fn a_saturated_single_threaded_server_is_named() {
    let _alone = quiet::alone();
    let Some(range) = range(1) else { return };
    let done = AtomicBool::new(false);
    let address = (Range::SERVER, 9000);
    let (told, number) = mpsc::channel();
    let (server, client) = (range.server.path(), range.client.path());
    let (found, number) = std::thread::scope(|scope| {
        let _stop = Stop(&done);
        scope.spawn(|| {
            enter_netns(&server).expect("entered");
            pin_thread(CpuId(1)).expect("CPU 1 exists");
            let socket = UdpSocket::bind(address).expect("bound");
            socket.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
            told.send(before_all_others()).expect("it is waited for");
            while !done.load(Relaxed) {
                if socket.recv(&mut [0; 200]).is_ok() {
                    let began = Instant::now();
                    while began.elapsed() < Duration::from_micros(250) {
                        std::hint::spin_loop();
                    }
                }
            }
        });
        let number = number.recv().expect("the thread began");
        scope.spawn(|| {
            enter_netns(&client).expect("entered");
            pin_thread(CpuId(0)).expect("CPU 0 exists");
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("bound");
            let began = Instant::now();
            let mut sent = 0.0;
            while !done.load(Relaxed) {
                // However long a sleep of a millisecond is here: twice what the server can process.
                while sent < began.elapsed().as_secs_f64() * 8e3 {
                    socket.send_to(&[7; 100], address).expect("sent");
                    sent += 1.0;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        // While other work fills the other CPU, the load waits for CPUs.
        let found = (0..120).find_map(|_| {
            let (_, report) = look(&range);
            Some((finding(&report, "single-thread-limit")?, report["load"]["thread"].clone()))
        });
        (found, number)
    });
    let (finding, room) = found.expect("named in one sample");
    assert_eq!(finding["severity"], "warning", "{finding:#}");
    assert_eq!(
        (room["pid"].as_u64(), room["tid"].as_u64()),
        (Some(std::process::id().into()), Some(number.into()))
    );
    let evidence = finding["evidence"].to_string();
    assert!(evidence.contains("UDP port 9000: ") && evidence.contains("on CPU 1"), "{finding:#}");
}

/// Time of polling threads is system time: a CPU full of it was once shown without receive work.
#[test]
fn polling_threads_are_receive_time() {
    let Some(flood) = Flood::start("0", &[]) else { return };
    let host = host_in(&flood.range.server);
    if !flood.has_napi() {
        return;
    }
    let look = || {
        let inventory = Inventory::take(&host, Scope::Load);
        (Counters::take(&host, &inventory), inventory)
    };
    let between = || {
        let (before, _) = look();
        std::thread::sleep(Duration::from_secs(1));
        let (after, inventory) = look();
        Rates::between(&before, &after).expect("time went by").accounted(&inventory)
    };
    let polls = |rates: &Rates| rates.cpus.iter().map(|cpu| cpu.napi).sum::<f64>();
    assert_eq!(polls(&between()), 0.0, "in softirqs");
    host.write("sys/class/net/srv0/threaded", b"1").expect("written");
    let rates = between();
    let ran: f64 = look().0.napi_threads.values().map(|thread| thread.ran_ns as f64 / 1e9).sum();
    assert!(polls(&rates) > 0.02, "the flood takes more than that: {rates:?}");
    assert!(polls(&rates) * rates.seconds <= ran, "{ran} s since they began: {rates:?}");
    assert_eq!(rates.unseen, []);
}
