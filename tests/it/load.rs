//! The load generator against its own target, against misbehaving servers, and as a program. Everything runs on
//! 127.0.0.1 or in a namespace created here.

mod blame;
mod cli;
mod dns;
mod expect;
mod find;
mod freeze;
mod http;
mod pace;
mod requests;
mod results;
mod rogue;
mod sink;
mod target;
mod tracker;
mod udp;

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rxlab_load::servers::Target;
use rxlab_load::{Interval, Rate, Session, SoFar, Spec};
use serde_json::Value;

use crate::process::Running;

/// A target with all three servers, on ports chosen by the kernel.
pub(crate) fn target(threads: usize) -> Target {
    let any = Some(([127, 0, 0, 1], 0).into());
    let spec =
        rxlab_load::servers::Spec { http: any, udp_echo: any, udp_sink: any, threads, ..Default::default() };
    Target::start(&spec).expect("the target starts")
}

/// A target, and the URL of a path of its HTTP server.
fn serve_http(path: &str) -> (Target, String) {
    let target = target(1);
    let url = format!("http://{}{path}", target.addresses().http.expect("served"));
    (target, url)
}

/// A target, and a load on the path `/simple` of its HTTP server.
fn simple() -> (Target, Spec) {
    let (target, url) = serve_http("/simple");
    (target, spec(&url))
}

/// Serves every TCP connection with `behave`, each on a separate thread.
pub(crate) fn connections(behave: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let behave = behave.clone();
            std::thread::spawn(move || behave(stream));
        }
    });
    address
}

/// Calls `behave` with every datagram and its sender.
fn datagrams(mut behave: impl FnMut(&UdpSocket, &mut [u8], SocketAddr) + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let address = socket.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            behave(&socket, &mut buffer[..length], from);
        }
    });
    address
}

/// The program with these arguments.
pub(crate) fn rxlab(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rxlab"));
    command.args(args).stdin(Stdio::null());
    command
}

/// A target with one thread as a separate process, killed when the handle is dropped, and its addresses.
fn serve() -> (Running, Value) {
    let servers = ["--http", "127.0.0.1:0", "--udp-echo", "127.0.0.1:0"];
    let mut server = Running::start(rxlab(&["--json", "target", "--threads", "1"]).args(servers));
    let mut started: Value = serde_json::from_str(&server.first_line()).expect("JSON");
    (server, started["addresses"].take())
}

fn spec(url: &str) -> Spec {
    Spec::new(url.parse().expect("a URL"))
}

fn steady(rate: f64) -> Option<Rate> {
    Some(Rate::steady(rate))
}

/// Runs a load for `time` with a cut in the middle, and waits for its last responses. Runs up to a second longer if
/// nothing has ended by the cut: a machine that has too little CPU time or memory may stop its threads for that long.
fn run(spec: &Spec, time: Duration) -> Interval {
    let _noise = crate::quiet::noisy();
    run_held(spec, time)
}

/// The same for callers that already hold the lock.
fn run_held(spec: &Spec, time: Duration) -> Interval {
    let mut session = Session::start(spec).expect("the load starts");
    let begun = Instant::now();
    std::thread::sleep(time / 2);
    let ended = |SoFar { requests, failed, .. }| requests + failed;
    while ended(session.so_far(None)) == 0 && begun.elapsed() < time / 2 + millis(1000) {
        std::thread::sleep(millis(5));
    }
    let first = session.mark();
    std::thread::sleep(time / 2);
    first.then(&session.stop())
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
