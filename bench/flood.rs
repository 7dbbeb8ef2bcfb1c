//! Connections that send nothing, next to the samples of a server of rxlab: `cargo run --release --example flood
//! [PROGRAM [CONNECTIONS [SECONDS]]]`, `target/release/rxlab`, 10,000 and 60 by default, as root for so many descriptors.
//!
//! The flood comes from 100 addresses of 127.0.1.0/24 and opens each connection again that is closed. Meanwhile a client of
//! another address scrapes once a second. For the exporter and the page: what was opened and refused, scrapes that were
//! answered, samples that failed, and the most memory, threads and descriptors of the server.

#![allow(clippy::disallowed_methods)] // Starts a program and reads what the kernel says of it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Socket, Type};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().unwrap_or_else(|| "target/release/rxlab".to_owned());
    let mut number =
        |default: usize| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (connections, seconds) = (number(10_000), number(60) as u64);
    rxlab_sys::allow_files(connections as u64 + 500).expect("descriptors");
    for (name, path, every) in [("exporter", "/metrics", "1s"), ("serve", "/", "1s")] {
        let state = tempfile::tempdir().expect("a temporary directory");
        let mut command = Command::new(&program);
        command
            .args([name, "--listen", "127.0.0.1:0", "--every", every])
            .env("RXLAB_STATE_DIR", state.path());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("read");
        let address =
            line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address");
        run(name, path, &mut child, address.trim().parse().expect("an address"), connections, seconds);
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::TERM,
        );
        child.wait().expect("ended");
    }
}

fn run(name: &str, path: &str, child: &mut Child, server: SocketAddr, connections: usize, seconds: u64) {
    let pid = child.id();
    // Its first sample.
    std::thread::sleep(Duration::from_secs(5));
    let before = Held::of(pid);
    let (stop, opened, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let (mut asked, mut answered, mut frames) = (0, 0, 0);
    let mut most = before;
    std::thread::scope(|scope| {
        scope.spawn(|| flood(server, connections, &stop, &opened, &refused));
        let watched = (name == "serve").then(|| scope.spawn(|| events(server, &stop)));
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(seconds) {
            std::thread::sleep(Duration::from_secs(1));
            asked += 1;
            answered += u32::from(get(server, path).is_ok_and(|text| text.starts_with("HTTP/1.1 200 ")));
            most = most.most(Held::of(pid));
        }
        stop.store(true, Ordering::SeqCst);
        frames = watched.map_or(0, |watched| watched.join().expect("no panic"));
    });
    let after = Held::of(pid);
    let samples = if name == "serve" {
        format!("{frames} frames of {seconds} arrived")
    } else {
        let text = get(server, path).expect("answered");
        let value = |family: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{family} ")));
            line.and_then(|line| line.split(' ').nth(1)).unwrap_or("none").to_owned()
        };
        format!("{} samples failed", value("rxlab_sample_failures_total"))
    };
    println!(
        "{name}: {connections} connections for {seconds} s: {} opened, {} closed by the server; {answered} of {asked} requests of \
         another address answered; {samples}\n  memory {} kB before, {} kB at most, {} kB after; threads {} before, {} at most; \
         descriptors {} before, {} at most",
        opened.into_inner(),
        refused.into_inner(),
        before.memory,
        most.memory,
        after.memory,
        before.threads,
        most.threads,
        before.files,
        most.files,
    );
}

/// Keeps so many connections open.
fn flood(server: SocketAddr, connections: usize, stop: &AtomicBool, opened: &AtomicU64, refused: &AtomicU64) {
    let mut open: BTreeMap<i32, TcpStream> = BTreeMap::new();
    while !stop.load(Ordering::SeqCst) {
        for _ in 0..(connections - open.len()).min(200) {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            socket.set_nonblocking(true).expect("set");
            let number = opened.fetch_add(1, Ordering::Relaxed);
            let own = SocketAddr::from((Ipv4Addr::new(127, 0, 1, (number % 100) as u8 + 1), 0));
            // In progress, or out of ports: it is opened again then.
            if socket.bind(&own.into()).is_ok() {
                let _ = socket.connect(&server.into());
                open.insert(socket.as_raw_fd(), socket.into());
            }
        }
        let mut all: Vec<PollFd<'_>> = open.values().map(|one| PollFd::new(one, PollFlags::IN)).collect();
        let time = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let _ = poll(&mut all, Some(&time));
        let ended: Vec<bool> = all.iter().map(|one| !one.revents().is_empty()).collect();
        let ended: Vec<i32> =
            open.keys().copied().zip(ended).filter(|(_, ended)| *ended).map(|(key, _)| key).collect();
        refused.fetch_add(ended.len() as u64, Ordering::Relaxed);
        ended.iter().for_each(|key| drop(open.remove(key)));
    }
}

/// Frames that arrive until `stop` is set.
fn events(server: SocketAddr, stop: &AtomicBool) -> u32 {
    let mut stream = TcpStream::connect(server).expect("connected");
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 0\r\n\r\n").expect("sent");
    let mut frames = 0;
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        frames += u32::from(line == "event: frame");
        if stop.load(Ordering::SeqCst) {
            break;
        }
    }
    frames
}

fn get(server: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// What a process holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    memory: u64,
    threads: u64,
    files: u64,
}

impl Held {
    fn of(pid: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
            line.split_whitespace().next().expect("a number").parse().expect("a number")
        };
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count() as u64;
        Self { memory: value("VmRSS:"), threads: value("Threads:"), files }
    }

    fn most(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            threads: self.threads.max(other.threads),
            files: self.files.max(other.files),
        }
    }
}
