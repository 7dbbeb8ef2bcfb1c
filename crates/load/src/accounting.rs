//! Every request sent ends once: each engine against peers that break off, repeat themselves, answer what was not asked,
//! and reset.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use proptest::prelude::{ProptestConfig, any, proptest};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use socket2::SockRef;

use crate::certified;
use crate::servers::bep15::{Answer, Request, Said};
use crate::{Interval, Random, Rate, Session, Spec};

/// A peer in threads of its own, until it is dropped. It behaves until it is let go.
struct Adversary {
    address: SocketAddr,
    is_loose: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Adversary {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn adversary(address: SocketAddr, run: impl FnOnce(&AtomicBool, &AtomicBool) + Send + 'static) -> Adversary {
    let (is_loose, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let flags = (Arc::clone(&is_loose), Arc::clone(&stop));
    let thread = Some(std::thread::spawn(move || run(&flags.0, &flags.1)));
    Adversary { address, is_loose, stop, thread }
}

const PATIENCE: Duration = Duration::from_millis(10);

/// Opens a port again after a moment. Another test may have it by then, for as long as it takes.
fn closed_for_a_moment<T>(open: impl Fn() -> std::io::Result<T>, stop: &AtomicBool) -> Option<T> {
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(PATIENCE);
        if let Ok(open) = open() {
            return Some(open);
        }
    }
    None
}

/// With `tls` the peer has TLS, most of the time.
fn tcp(seed: u64, tls: bool) -> Adversary {
    let tls = tls.then(|| Arc::new(certified::server(b"http/1.1")));
    let mut listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    listener.set_nonblocking(true).expect("set");
    let address = listener.local_addr().expect("bound");
    adversary(address, move |is_loose, stop| {
        std::thread::scope(|scope| {
            for turn in 1.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                if turn % 16 == 0 && is_loose.load(Ordering::Relaxed) {
                    // Closed for a moment: the kernel refuses what arrives.
                    drop(listener);
                    let Some(again) = closed_for_a_moment(|| TcpListener::bind(address), stop) else {
                        return;
                    };
                    listener = again;
                    listener.set_nonblocking(true).expect("set");
                }
                match listener.accept() {
                    Ok((stream, _)) => {
                        let (tls, random) = (tls.clone(), Random::after(seed + turn));
                        scope.spawn(move || greet(stream, tls, random, is_loose, stop));
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        });
    })
}

/// One connection, at times without the TLS that it should have.
fn greet(
    mut socket: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    mut random: Random,
    is_loose: &AtomicBool,
    stop: &AtomicBool,
) {
    socket.set_nonblocking(false).expect("set");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let raw = socket.try_clone().expect("another descriptor");
    let is_plain = is_loose.load(Ordering::Relaxed) && random.next_u64().is_multiple_of(8);
    match tls.filter(|_| !is_plain) {
        Some(tls) => {
            let session = ServerConnection::new(tls).expect("its settings are right");
            converse(&mut StreamOwned::new(session, socket), &raw, random, is_loose, stop);
        }
        None => converse(&mut socket, &raw, random, is_loose, stop),
    }
}

/// What it does depends on chance, not on what is asked.
fn converse(
    stream: &mut (impl Read + Write),
    mut raw: &TcpStream,
    mut random: Random,
    is_loose: &AtomicBool,
    stop: &AtomicBool,
) {
    const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let mut buffer = [0; 4096];
    while !stop.load(Ordering::Relaxed) {
        let asked = stream.read(&mut buffer);
        if asked.as_ref().is_ok_and(|length| *length == 0) {
            return;
        }
        let chance = if is_loose.load(Ordering::Relaxed) { random.next_u64() % 16 } else { 15 };
        if asked.is_err() && (chance > 2 || !is_loose.load(Ordering::Relaxed)) {
            continue;
        }
        let requests =
            asked.map_or(0, |length| buffer[..length].windows(4).filter(|w| w == b"\r\n\r\n").count());
        let said: &[u8] = match chance {
            0 => return,
            1 => {
                let _ = SockRef::from(raw).set_linger(Some(Duration::ZERO));
                return;
            }
            2 => b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            3 => b"SSH-2.0-OpenSSH\r\n",
            4 => b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok",
            5 => b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
            6 => b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
            7 => b"HTTP/1.1 200 OK\r\n\r\nup to the end",
            8 => {
                // Below TLS, where there is TLS.
                let _ = raw.write_all(b"not a record\r\n");
                continue;
            }
            9 => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 20",
            _ => &GOOD.repeat(requests + usize::from(chance == 10)),
        };
        // In two parts, at times.
        let middle = if chance % 2 == 0 { said.len() / 2 } else { 0 };
        if stream.write_all(&said[..middle]).and_then(|()| stream.write_all(&said[middle..])).is_err()
            || [4, 7].contains(&chance)
        {
            return;
        }
    }
}

fn udp(seed: u64) -> Adversary {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let address = socket.local_addr().expect("bound");
    adversary(address, move |is_loose, stop| {
        std::thread::scope(|scope| {
            // Another test may have the port of TCP.
            if let Ok(listener) = TcpListener::bind(address) {
                scope.spawn(move || over_tcp(&listener, Random::after(seed + 1), stop));
            }
            over_udp(socket, address, Random::after(seed), is_loose, stop);
        });
    })
}

/// A name server over TCP, whose responses are cut off, late, wrong or missing at times.
fn over_tcp(listener: &TcpListener, mut random: Random, stop: &AtomicBool) {
    listener.set_nonblocking(true).expect("set");
    while !stop.load(Ordering::Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        stream.set_nonblocking(false).expect("set");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut query = [0; 2048];
        let Ok(length @ 3..) = stream.read(&mut query) else { continue };
        let answer = answer(&query[2..length], 31);
        let mut said = [&(answer.len() as u16).to_be_bytes()[..], &answer].concat();
        match random.next_u64() % 8 {
            0 => continue,
            1 => {
                let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
                continue;
            }
            2 => said.truncate(said.len() / 2),
            3 => said[2] ^= 1,
            // Beyond the timeout.
            4 => std::thread::sleep(3 * PATIENCE),
            _ => {}
        }
        // The client may have given up.
        let _ = stream.write_all(&said);
    }
}

fn over_udp(
    mut socket: UdpSocket,
    address: SocketAddr,
    mut random: Random,
    is_loose: &AtomicBool,
    stop: &AtomicBool,
) {
    let (mut buffer, mut earlier) = ([0; 2048], Vec::new());
    while !stop.load(Ordering::Relaxed) {
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let chance = if is_loose.load(Ordering::Relaxed) { random.next_u64() % 32 } else { 31 };
        let answer = answer(&buffer[..length], chance);
        let said = match chance {
            0 => {
                // Closed for a moment: the kernel refuses what arrives.
                drop(socket);
                let Some(again) = closed_for_a_moment(|| UdpSocket::bind(address), stop) else { return };
                socket = again;
                continue;
            }
            1..4 => continue,
            4 => answer[..answer.len() / 2].to_vec(),
            5 => b"not an answer to anything at all".to_vec(),
            6 => std::mem::replace(&mut earlier, answer),
            _ => answer,
        };
        (0..=usize::from(chance == 7)).for_each(|_| drop(socket.send_to(&said, from)));
    }
}

/// What a peer of any of the protocols says to a datagram: a tracker, an echo, or a name server, which returns the query
/// with other flags.
fn answer(datagram: &[u8], chance: u64) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(request) = Request::parse(datagram) {
        let (transaction, said) = match request {
            Request::Connect { transaction } => (transaction, Said::Connection(7)),
            Request::Announce { transaction, .. } => (transaction, Said::Peers(60, 1, &[0; 12])),
            Request::Scrape { transaction, .. } => (transaction, Said::Torrents(&[0; 12])),
        };
        let said = if chance == 8 { Said::Error(b"no") } else { said };
        Answer { transaction, said }.write(&mut out);
        return out;
    }
    out.extend_from_slice(datagram);
    if datagram.get(2..6) == Some(&[1, 0, 0, 1]) {
        out[2..4].copy_from_slice(&[0x81 | u8::from(chance == 9) << 1, (chance % 12 == 10) as u8 * 3]);
    }
    out
}

/// Runs `spec` over two measurements, each of which, and both together, has to add up. The peer misbehaves once it `is_loose`.
pub(super) fn adds_up(spec: &Spec, is_loose: &AtomicBool) {
    let mut spec = spec.clone();
    let mut load = loop {
        match Session::start(&spec) {
            Ok(load) => break load,
            // A busy machine may need longer for a handshake.
            Err(error) => assert!(spec.timeout < Duration::from_secs(10), "the peer behaves, but {error}"),
        }
        spec.timeout *= 2;
    };
    is_loose.store(true, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(60));
    let mut first = load.mark();
    // On a busy machine the load may have had no CPU yet.
    for _ in 0..500 {
        if first.sent > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        first = first.then(&load.mark());
    }
    std::thread::sleep(Duration::from_millis(60));
    let second = load.stop();
    let ended = |interval: &Interval| interval.requests + interval.error_count() - interval.errors_not_sent;
    assert_eq!(first.sent, ended(&first) + first.in_flight, "{first:?}");
    assert_eq!(first.in_flight + second.sent, ended(&second) + second.in_flight, "{second:?}");
    let whole = first.then(&second);
    assert_eq!(whole.sent, ended(&whole) + whole.in_flight, "{whole:?}");
    assert!(whole.sent > 0, "{whole:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn every_request_over_tcp_ends_once(
        seed in any::<u32>(), rate in 0u32..3, pipeline in 1usize..4, kind in 0..6, connections in 1usize..6,
    ) {
        let peer = tcp(seed.into(), kind > 3);
        let scheme = if kind == 0 { "tcp" } else if kind < 4 { "http" } else { "https" };
        let mut spec = Spec::new(format!("{scheme}://{}", peer.address).parse().expect("a URL"));
        (spec.connections, spec.timeout) = (connections, Duration::from_millis(25));
        spec.no_keepalive = kind == 1 || kind == 4;
        spec.insecure = kind > 3;
        spec.pipeline = if spec.no_keepalive || kind == 0 { 1 } else { pipeline };
        spec.rate = (rate > 0).then(|| Rate::steady(f64::from(rate * rate) * 500.0));
        adds_up(&spec, &peer.is_loose);
    }

    #[test]
    fn every_datagram_ends_once(
        seed in any::<u32>(), rate in 0u32..3, scheme in 0usize..4, connections in 1usize..6,
    ) {
        let peer = udp(seed.into());
        let (scheme, path) =
            [("udp", ""), ("udp-tracker", "/announce"), ("dns", "/a.example"), ("udp-sink", "")][scheme];
        let mut spec = Spec::new(format!("{scheme}://{}{path}", peer.address).parse().expect("a URL"));
        (spec.connections, spec.timeout) = (connections, Duration::from_millis(25));
        spec.rate = (rate > 0).then(|| Rate::steady(f64::from(rate * rate) * 1_000.0));
        adds_up(&spec, &peer.is_loose);
    }
}
