//! `rxlab target`: small servers to test a load against.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::typed::address;
use super::{Global, output, place};
use crate::error::{CommandError, Kind, Result};
use rxlab_base::units::{CpuMask, parse_duration};
use rxlab_load::servers::{Addresses, Counters, Served, Spec, Target, TargetError};
use rxlab_sys::netns_path;

/// Run small servers to test a load against, until interrupted.
///
/// HTTP/1.1 answers /simple with a few bytes, /usual with the headers that servers usually send as well (155 bytes),
/// /bytes?n=N with N, up to 1 GiB, /compute?us=N after N microseconds of work, up to a second, in which other requests of
/// the thread wait, and /delay?us=N after a wait of N microseconds, up to a minute; / lists them. Responses on one
/// connection keep their order. The UDP echo sends every datagram back; the UDP sink counts them and
/// reports to `rxlab load` what arrived, and how much of it out of order. Port 0 lets the kernel choose; the addresses
/// are printed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Serve HTTP here
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    http: Option<SocketAddr>,
    /// Echo UDP here
    ///
    /// It answers no datagram from its own port or from one below 1024, which may be another echo. After one datagram with a
    /// forged source, two echoes on different ports answer each other until one of them ends.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    udp_echo: Option<SocketAddr>,
    /// Count UDP here
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    udp_sink: Option<SocketAddr>,
    /// Answer announces and scrapes here as a BitTorrent tracker over UDP, each with the same response (BEP 15)
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    udp_tracker: Option<SocketAddr>,
    /// Receive datagrams one by one instead of merging those of a flow (UDP_GRO)
    #[arg(long)]
    plain_udp: bool,
    /// Threads, each with its own sockets
    ///
    /// They share the port (SO_REUSEPORT). At the end each reports what it served and its CPU time.
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// CPUs to pin the threads to, such as 0-3,8
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    cpus: CpuMask,
    /// Serve for this long [default: until interrupted]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
}

/// Interval between checks for signals and the end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Serialize)]
struct Started {
    schema: &'static str,
    addresses: Addresses,
}

#[derive(Serialize)]
struct Ended {
    schema: &'static str,
    counters: Counters,
    cpu_seconds: f64,
    threads: Vec<Served>,
}

const SCHEMA: &str = "rxlab.target/1";

pub fn run(global: &Global, args: &Args) -> Result {
    let stop = place::stop_flag()?;
    let spec = Spec {
        http: args.http,
        udp_echo: args.udp_echo,
        udp_sink: args.udp_sink,
        udp_tracker: args.udp_tracker,
        plain_udp: args.plain_udp,
        threads: args.threads,
        cpus: args.cpus.clone(),
        netns: global.netns.as_deref().map(netns_path),
    };
    let target = Target::start(&spec).map_err(explain)?;
    let start = Instant::now();
    output::line(global, &Started { schema: SCHEMA, addresses: target.addresses() }, || {
        let Addresses { http, udp_echo, udp_sink, udp_tracker } = target.addresses();
        [("http", http), ("udp", udp_echo), ("udp-sink", udp_sink), ("udp-tracker", udp_tracker)]
            .into_iter()
            .filter_map(|(scheme, address)| Some(format!("serving {scheme}://{}\n", address?)))
            .collect()
    })?;
    while !stop.load(Ordering::Relaxed) && args.duration.is_none_or(|duration| start.elapsed() < duration) {
        let left = args.duration.map_or(POLL_INTERVAL, |duration| duration.saturating_sub(start.elapsed()));
        std::thread::sleep(POLL_INTERVAL.min(left));
    }
    let threads = target.stop_each();
    let cpu_seconds: f64 = threads.iter().filter_map(|thread| thread.cpu_seconds).sum();
    let counters: Counters = threads.iter().map(|thread| thread.counters).sum();
    output::line(global, &Ended { schema: SCHEMA, counters, cpu_seconds, threads: threads.clone() }, || {
        let several = threads.len() > 1;
        let parts = threads.iter().filter(|_| several).map(|thread| {
            let place = thread.cpu_pinned.map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
            let cpu = thread.cpu_seconds.unwrap_or(0.0);
            format!("thread {}{place}: {}, {cpu:.2} s of CPU\n", thread.thread, in_words(&thread.counters))
        });
        let sum = format!("{}\n{cpu_seconds:.2} s of CPU\n", in_words(&counters).replace("; ", "\n"));
        std::iter::once(sum).chain(parts).collect()
    })?;
    Ok(())
}

fn in_words(counters: &Counters) -> String {
    let Counters { connections, requests, refused, echoed, sink_packets, sink_bytes, .. } = counters;
    let Counters { sink_reordered, tracked, tracker_refused, .. } = counters;
    format!(
        "answered {requests} requests ({refused} refused) on {connections} connections; \
         echoed {echoed} packets; the sink counted {sink_packets} ({sink_bytes} bytes, {sink_reordered} out of order); \
         answered {tracked} announces and scrapes ({tracker_refused} refused)"
    )
}

fn explain(error: TargetError) -> CommandError {
    let kind = match &error {
        TargetError::Nothing | TargetError::Threads(_) | TargetError::Pin { .. } => Kind::Usage,
        TargetError::Namespace(cause) if cause.is_denied() => Kind::Denied,
        TargetError::Namespace(_) => Kind::Usage,
        TargetError::Bind { error, .. } => Kind::from(error),
        TargetError::Thread(_) => Kind::Failed,
    };
    let example = "for example: rxlab target --http 127.0.0.1:8080";
    let hint = matches!(error, TargetError::Nothing).then_some(example);
    CommandError::new(kind, error).hint_all(hint)
}
