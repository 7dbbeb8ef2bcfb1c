//! `rxlab load`: offers load to a target and measures the responses.

mod cpus;
mod find;
mod measure;
mod placement;
mod server_watch;
mod spread;
mod watch;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::typed::{number_of, whole};
use super::{Global, files, output, place};
use crate::error::{CommandError, Kind, Result};
use cpus::{Cpus, Threads};
use rxlab_base::grammar::sh;
use rxlab_base::units::parse_duration;
use rxlab_faces::report::html;
use rxlab_load::{
    Body, ClientError, ConnectTo, Header, HttpVersion, Joint, LoadError, Pacing, Pattern, Pointed, Promql,
    Rate, Rcodes, Report, Spec, Statuses, Target, Url, csv, distribution, parse_paths, parse_targets, render,
};
use rxlab_sys::{Host, LiveHost, netns_path};
use rxlab_trial::search::margins::judge;
use rxlab_trial::search::slo::Slo;
use spread::Spread;

/// Generate load and measure the responses.
///
/// Without --rate each connection sends its next request when a response has arrived (closed loop).
/// With --rate requests follow a fixed schedule, and latency counts from the moment a request
/// was due, so a stalling target cannot hide the requests it held up. The result includes the
/// client's own CPU use and whether the client was the limit. --find-max searches for the
/// highest rate that keeps the limits of --slo, by repeated runs in random order.
///
/// Exits with 5 if no response was successful, or if the target was unreachable at the end, and with 1 if a limit of
/// --slo was missed; the result is printed in any case.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("open loop").args(["rate", "find_max"]))]
pub struct Args {
    /// http://HOST:PORT/PATH, https://..., tcp://HOST:PORT (connections), udp://HOST:PORT (echo), udp-sink://HOST:PORT (one way),
    /// udp-tracker://HOST:PORT/announce (or /scrape, /connect; BEP 15), dns://HOST/NAME?type=A
    ///
    /// Of several addresses of a host, the first reachable one is the target. {hex:N} (digits), {bytes:N} (as %xx), {bytes:N/M} (one
    /// of M such values) and {int:A..B} in a path are filled in for each request, the same in every run; %7B is a literal brace.
    /// tcp:// opens connections and sends nothing: the connection is the request, and is reset at once. Each flow of a tracker's load
    /// is a peer with its own id, key and port, and takes a thousand torrents in turn (?torrents=N); it renews its connection id when
    /// that is 50 s old, was refused, or two announces in a row had no answer.
    url: Url,
    /// TCP connections, or UDP flows (source ports)
    ///
    /// Up to 1000000. The limit of open files is raised as needed: up to the hard limit, and as root beyond it. Before the load, at
    /// most 512 are opened at a time.
    #[arg(long, short, value_name = "N", visible_alias = "flows", default_value_t = 64, value_parser = number_of)]
    connections: usize,
    /// Outstanding requests per connection, or per flow of a load without --rate; with --http2 and --http3, streams
    ///
    /// On a stream, a late response does not hold up the others. A connection with streams is opened again if nothing arrives on it
    /// for twice --timeout.
    #[arg(long, short, value_name = "D", visible_alias = "streams", default_value_t = 1)]
    pipeline: usize,
    /// Use HTTP/2: as agreed with the server (ALPN) over https://, at once over http://
    #[arg(long)]
    http2: bool,
    /// Use HTTP/3: over QUIC, and nothing else; needs https://
    ///
    /// Each connection has a UDP port of its own. Sessions are not resumed.
    #[arg(long, conflicts_with = "http2")]
    http3: bool,
    /// HTTP method
    #[arg(long, short = 'X', value_name = "METHOD", default_value = "GET", hide_default_value = true)]
    method: String,
    /// HTTP header line, such as 'Accept: text/html'; may be given more than once
    #[arg(long, short = 'H', value_name = "LINE")]
    header: Vec<Header>,
    /// Body of every request; @FILE reads it from a file, byte for byte
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// File with paths or URLs, one per line, to request in turn instead of a path in the URL; with dns://
    /// names, or names and types
    #[arg(long, value_name = "FILE")]
    urls: Option<PathBuf>,
    /// File with requests to send in turn, in vegeta's format: METHOD URL, header lines, @FILE for a body; or JSON lines
    ///
    /// The headers of a request replace those of --header. A JSON line has method, url, header and body (in base64).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["urls", "method", "body"])]
    targets: Option<PathBuf>,
    /// Statuses of successful responses, such as 2xx,404
    ///
    /// By default 2xx. Redirects are not followed.
    #[arg(long, value_name = "LIST", default_value_t, hide_default_value = true)]
    expect_status: Statuses,
    /// Count responses whose status is expected but whose body differs from this as errors; @FILE reads it from a file
    #[arg(long, value_name = "TEXT")]
    expect_body: Option<String>,
    /// Count responses whose body has no match of this regular expression as errors
    ///
    /// In the syntax of https://docs.rs/regex. Bodies above 1 MiB have no match.
    #[arg(long, value_name = "REGEX")]
    expect_match: Option<Pattern>,
    /// Count responses without this value in their JSON body as errors: /KEY/... (a JSON pointer), or /KEY/...=VALUE
    ///
    /// A VALUE that is not JSON is a string: /status=ok. Bodies above 1 MiB do not have it.
    #[arg(long, value_name = "POINTER")]
    expect_json: Option<Pointed>,
    /// Announce to a BitTorrent tracker: count responses with a failure reason as errors, and add a query to
    /// a URL without one
    ///
    /// The query is that of one of a thousand torrents, and of another client and port each time.
    #[arg(long, conflicts_with = "expect_body")]
    announce: bool,
    /// Open a new connection for each request
    ///
    /// Latency counts from its opening.
    #[arg(long)]
    no_keepalive: bool,
    /// Connect to this address instead of that of the URL's host: HOST:ADDR or HOST:ADDR:PORT. Host and TLS server name stay
    #[arg(long, value_name = "HOST:ADDR", conflicts_with = "unix")]
    connect_to: Option<ConnectTo>,
    /// With dns://: response codes that count as success, such as NOERROR,NXDOMAIN
    ///
    /// By default NOERROR.
    #[arg(long, value_name = "LIST", default_value_t, hide_default_value = true)]
    expect_rcode: Rcodes,
    /// With dns://: query with EDNS, and allow responses of this size over UDP
    ///
    /// A response that did not fit (TC) is asked for over TCP, on a connection of its own; its latency counts from the first send.
    #[arg(long, value_name = "BYTES")]
    edns: Option<u16>,
    /// Connect to this unix socket instead of the URL's host and port
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    /// With https://: trust these certificates (PEM) instead of those of the system; a server's own will do
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// With https://: this client's certificate and its chain (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// With https://: resume earlier sessions instead of a full handshake for each connection
    ///
    /// Without it, --no-keepalive measures full handshakes, whose cost does not depend on the run before.
    #[arg(long)]
    tls_resume: bool,
    /// With https://: accept any certificate
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// Source addresses of connections and flows, in turn
    ///
    /// Each allows some 28,000 connections at a time (net.ipv4.ip_local_port_range).
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',')]
    source: Vec<IpAddr>,
    /// Offer the load from this client instead of from here, such as 'ssh gen1 rxlab client'; may be given more than once
    ///
    /// Each client, of the same version, offers the whole load (--rate, --connections); their counts and histograms add up exactly.
    /// Files are read here, but those of --netns, --ca, --cert and --key on the client. All begin on one message, so their clocks
    /// need not agree; the result is client-limited if one of them was the limit, which it names.
    #[arg(
        long, value_name = "COMMAND",
        conflicts_with_all = ["requests", "source", "unix", "find_max", "hdr_log", "csv"],
    )]
    client: Vec<String>,
    #[command(flatten)]
    spread: Spread,
    /// Threads, each with its share of the connections; auto: one for each CPU of --cpus, or that --cpus auto would
    /// take [default: 1, or with --cpus auto auto]
    #[arg(long, short, value_name = "T")]
    threads: Option<Threads>,
    /// Length of the load [default: that of the steps and ramps of --rate, or 5s]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Send this many requests, and end when all are answered; without --for it takes as long as needed, but
    /// ends when the target has been unreachable for 10 s
    ///
    /// A --timeout above 10 s takes the place of these 10 s.
    #[arg(long, value_name = "N", value_parser = whole)]
    requests: Option<u64>,
    /// Run this long before measuring
    ///
    /// With --rate, at its first value.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "requests")]
    warm_up: Option<Duration>,
    /// Requests per second on a fixed schedule, over all threads: 1000, 0.5, 100..5000/10s (a ramp),
    /// or 1000/5s,2000/5s,4000 (steps); the last rate continues
    ///
    /// 0/2s is a pause. Request n is due when the integral of the rate reaches n + 0.5, so errors do not accumulate. Latency counts
    /// from that moment.
    #[arg(long, short, value_name = "R")]
    rate: Option<Rate>,
    /// With --rate: send requests at random (a Poisson process) instead of evenly
    #[arg(long, requires = "open loop")]
    poisson: bool,
    /// With --poisson: seed of the random arrivals; by default the same in every run on one machine, and different
    /// between machines. Two generators on one machine need different seeds
    ///
    /// `rxlab merge` refuses results with equal seeds.
    #[arg(long, value_name = "N", requires = "poisson", conflicts_with = "find_max")]
    seed: Option<u32>,
    /// With --rate: precise (polls; takes a whole CPU), timer (sleeps), or coarse (wakes up once per
    /// millisecond; takes the least CPU)
    ///
    /// Precise polls for the last 60 us before a request; timer is some tens of microseconds late. The resolution of latency with
    /// coarse is 1 ms.
    #[arg(long, value_name = "HOW", default_value_t, requires = "open loop")]
    pacing: Pacing,
    /// Search for the highest rate that keeps the limits of --slo; --for is the length of one run [default: 1s]
    ///
    /// A run takes up to 10 s if a limit needs more requests. Before each measurement the rate is held for a quarter of the run, for
    /// the time that the limits allow, or for that of a response in the closed loop, whichever is longest. With udp-sink:// rates are
    /// rates of arrivals and losses are errors; a receiver that does not report arrivals is refused. Connections are reset at the end
    /// of a run, so runs do not use up the ports.
    #[arg(
        long,
        conflicts_with_all = ["requests", "warm_up", "hdr_log", "csv", "html", "histogram", "prometheus"],
    )]
    find_max: bool,
    /// Limits, separated by commas: p50, p90, p99, p99.9 or max below a time, and errors below a percentage:
    /// 'p99<5ms,errors<0.1%'. A load that misses one exits with 1
    #[arg(long, value_name = "LIMITS")]
    slo: Option<Slo>,
    /// Time over which --find-max spreads the fresh runs that confirm its answer; choose it longer than a busy or quiet phase
    /// of the machine lasts
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_duration, requires = "find_max")]
    confirm: Duration,
    /// CPUs to pin the threads to, such as 0-3,8; auto takes one CPU per core, without those that take interrupts of an interface
    ///
    /// It also leaves out their hyper-threads, unless there are no others. Threads take the CPUs in turn.
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    cpus: Cpus,
    /// Write the latencies of each second to this file, for HdrHistogram tools
    ///
    /// The last line has the ages of unanswered requests.
    #[arg(long, value_name = "FILE")]
    hdr_log: Option<PathBuf>,
    /// Write the figures of each second to this file, as comma-separated values
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Show the distribution of the latencies
    #[arg(long)]
    histogram: bool,
    /// Write the result with a plot of the latencies to this file, as a page that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// After the load, send --prometheus-query to this Prometheus (http://HOST:PORT) for the time of the load
    ///
    /// Shows mean and maximum of each series. Its scrape interval has to be shorter than the load. The query ends after 5 s or at
    /// 16 MiB.
    #[arg(long, value_name = "URL", requires = "prometheus_query")]
    prometheus: Option<Url>,
    /// Query in PromQL, such as one for the CPU time of the server's machine
    #[arg(long, value_name = "QUERY", requires = "prometheus")]
    prometheus_query: Option<String>,
    /// Timeout of a request
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    timeout: Duration,
    /// UDP payload, at least 24
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    size: usize,
    /// UDP: send up to N datagrams of a flow at once, as one train (GSO), and receive them the same way
    /// (GRO); at most 64, which is also a good choice. --pipeline then counts trains
    ///
    /// Every datagram is counted; those of a train share the latency to the receive that returned them. With --rate, a train has
    /// what is due when the client gets to it. Over loopback and veth a train crosses the receive path as one packet, so a trial of
    /// that path would measure something else. Where trains are not possible, datagrams are sent one by one, and the result says so.
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: usize,
}

/// Default length of a load.
const DURATION: Duration = Duration::from_secs(5);
/// Default length of one run of a search.
const RUN: Duration = Duration::from_secs(1);

pub fn run(global: &Global, args: &Args) -> Result {
    if args.find_max && args.slo.is_none() {
        let limits = if args.url.protocol.is_one_way() { "errors<0.1%" } else { "p99<5ms,errors<0.1%" };
        let url = sh::word(&args.url.to_string());
        return Err(CommandError::usage("--find-max needs --slo: the limits that the rate has to keep")
            .hint(format!("for example: {} load {url} --find-max --slo '{limits}'", global.program())));
    }
    let length = args.rate.as_ref().and_then(Rate::length);
    let default = if args.requests.is_some() { Duration::MAX } else { DURATION };
    let duration = args.duration.or(length).unwrap_or(default);
    if (args.hdr_log.is_some() || args.histogram || args.html.is_some()) && args.url.protocol.is_one_way() {
        return Err(CommandError::usage(
            "a one-way load has no latency for --hdr-log, --histogram or --html",
        ));
    }
    [&args.csv, &args.html].into_iter().flatten().try_for_each(|path| files::check(path))?;
    if duration < Duration::from_millis(10) {
        return Err(CommandError::usage("--for is too short to measure anything: give at least 10ms"));
    }
    if !args.client.is_empty() && (args.cpus == Cpus::Auto || args.threads == Some(Threads::Auto)) {
        return Err(CommandError::usage("auto counts this machine's CPUs, not a --client's: give numbers"));
    }
    let (cpus, threads) = args.cpus.place(global, args.threads, args.connections)?;
    let (sources, source_ports) = args.spread.sources(args)?;
    let spec = Spec {
        url: url(args),
        expect_status: args.expect_status.clone(),
        expect_body: args.expect_body.as_deref().map(body).transpose()?,
        expect_match: args.expect_match.clone(),
        expect_json: args.expect_json.clone(),
        announce: args.announce,
        method: args.method.clone(),
        headers: args.header.clone(),
        body: args.body.as_deref().map(body).transpose()?.unwrap_or_default(),
        paths: paths(args)?,
        targets: targets(args)?,
        http_version: http_version(args),
        no_keepalive: args.no_keepalive,
        connect_to: args.connect_to.clone(),
        expect_rcode: args.expect_rcode.clone(),
        edns: args.edns,
        unix: args.unix.clone(),
        ca: args.ca.clone(),
        cert: args.cert.clone(),
        key: args.key.clone(),
        tls_resume: args.tls_resume,
        insecure: args.insecure,
        sources,
        source_ports,
        requests: args.requests,
        connections: args.connections,
        pipeline: args.pipeline,
        threads,
        rate: args.rate.clone(),
        poisson: args.poisson,
        seed: seed(args),
        pacing: args.pacing,
        cpus,
        timeout: args.timeout,
        size: args.size,
        batch: args.batch,
        netns: global.netns.as_deref().map(netns_path),
    };
    if args.url.protocol.is_one_way() && args.slo.as_ref().is_some_and(Slo::needs_latency) {
        return Err(CommandError::usage("a one-way load has no latency: give errors<PERCENT"));
    }
    if let Some(slo) = args.slo.as_ref().filter(|_| args.find_max) {
        // Each run has its own rate, with random arrivals if asked for.
        Spec { rate: Some(Rate::steady(1.0)), ..spec.clone() }.check().map_err(LoadError::from)?;
        let run = args.duration.unwrap_or(RUN);
        return find::run(global, &spec, slo, run, args.confirm, &*place::stop_flag()?);
    }
    spec.check().map_err(LoadError::from)?;
    let stop = place::stop_flag()?;
    let measured = measure::measure(args, &spec, duration, &stop)?;
    let Joint { spec, interval, limit } = measured.joint;
    let question = args.prometheus.as_ref().zip(args.prometheus_query.as_ref());
    let prometheus = question.map(|(url, query)| Promql::ask(url, query, measured.begun));
    let interrupted = stop.load(Ordering::Relaxed);
    let report = Report::new(&spec, &interval)
        .with_limit(limit)
        .with_server(measured.server)
        .of_run(measured.begun, interrupted);
    let limits = args.slo.as_ref().map(|slo| judge(slo, &interval)).unwrap_or_default();
    let report = Report { series: measured.series, prometheus, limits, ..report };
    let missed = report.limits.iter().any(|limit| limit.kept == Some(false));
    let unknown = report.limits.iter().find(|limit| limit.kept.is_none());
    // If nothing was sent at all, the rate is below one request in this time.
    let is_empty = interval.error_count() == 0 && interval.in_flight == 0;
    let failed = interval.requests == 0 && !(is_empty && spec.rate.is_some());
    let ended = if interrupted {
        Err(CommandError::silent(Kind::Interrupted))
    } else if failed {
        Err(CommandError::failed(format!("no successful response from {}", spec.url)))
    } else if report.unreachable {
        Err(CommandError::failed(format!("{} was unreachable at the end of the load", spec.url))
            .hint("the result includes the time in which it was down; check whether it still runs"))
    } else if missed {
        Err(CommandError::silent(Kind::Findings))
    } else if let Some(limit) = unknown {
        Err(CommandError::failed(format!("too few requests to tell if {} was kept", limit.limit))
            .hint("send more: a longer --for, a higher --rate, or more --requests"))
    } else {
        Ok(())
    };
    let csv = args.csv.as_ref().map(|path| (path, csv(&report.series)));
    let html = args.html.as_ref().map(|path| (path, html::load_page(&report)));
    let written =
        [csv, html].into_iter().flatten().try_for_each(|(path, text)| files::write(path, text.as_bytes()));
    let text = || {
        render(&report) + &if args.histogram { format!("\n{}", distribution(&report)) } else { String::new() }
    };
    CommandError::after_output(ended, output::print(global, &report, text).and(written))
}

fn http_version(args: &Args) -> HttpVersion {
    match args {
        Args { http2: true, .. } => HttpVersion::Http2,
        Args { http3: true, .. } => HttpVersion::Http3,
        _ => HttpVersion::default(),
    }
}

/// Seed of random arrivals. The default derives from the machine's identity: arrivals of machines that run side by side
/// are independent, and each machine repeats its own. The host name distinguishes containers that share an identity or
/// have none. The runs of a search have their own seeds.
fn seed(args: &Args) -> u32 {
    if !args.poisson || args.find_max {
        return 0;
    }
    if let Some(seed) = args.seed {
        return seed;
    }
    let host = LiveHost::open("/".as_ref()).ok();
    let read = |path| host.as_ref().and_then(|host| host.read(path).ok()).unwrap_or_default();
    crc32fast::hash(&[read("etc/machine-id"), read("proc/sys/kernel/hostname")].concat())
}

/// Query of a tracker's clients: a different client each time, and one of a thousand torrents.
const ANNOUNCE: &str = "?info_hash={bytes:20/1000}&peer_id=-RX0001-{hex:12}&port={int:1024..65535}\
                        &uploaded=0&downloaded=0&left={int:0..1000000000}&compact=1&numwant=50";

/// The URL; with --announce it gets a query if it has none.
fn url(args: &Args) -> Url {
    let mut url = args.url.clone();
    // A list replaces its path.
    if args.urls.is_none() {
        announce(args, &mut url.path);
    }
    url
}

fn announce(args: &Args, path: &mut String) {
    if args.announce && !path.contains('?') {
        *path += ANNOUNCE;
    }
}

/// Body given on the command line: text, or @FILE.
fn body(text: &str) -> Result<Body> {
    match text.strip_prefix('@') {
        Some(path) => files::read_bytes("body", path.as_ref()).map(Body::from),
        None => Ok(text.into()),
    }
}

fn paths(args: &Args) -> Result<Vec<String>> {
    let Some(file) = &args.urls else { return Ok(Vec::new()) };
    let mut paths = parse_paths(&files::read("list of URLs", file)?, &args.url)
        .map_err(|error| CommandError::usage(format!("{}: {error}", file.display())))?;
    if paths.is_empty() {
        return Err(CommandError::usage(format!("no URL in {}", file.display())));
    }
    paths.iter_mut().for_each(|path| announce(args, path));
    Ok(paths)
}

/// The requests of --targets; bodies are named from where the command runs, as with vegeta.
fn targets(args: &Args) -> Result<Vec<Target>> {
    let Some(file) = &args.targets else { return Ok(Vec::new()) };
    let read = |path: &str| {
        let bytes = files::read_bytes("body", path.as_ref());
        bytes.map(Body::from).map_err(|error| error.message)
    };
    let targets = parse_targets(&files::read("list of targets", file)?, &args.url, read)
        .map_err(|error| CommandError::usage(format!("{}: {error}", file.display())))?;
    if targets.is_empty() {
        return Err(CommandError::usage(format!("no target in {}", file.display())));
    }
    Ok(targets)
}

/// Kind of an error of a load.
pub(super) fn kind(error: &LoadError) -> Kind {
    match error {
        LoadError::Spec(_) | LoadError::Tls(_) | LoadError::Pin { .. } | LoadError::Files { .. } => {
            Kind::Usage
        }
        LoadError::Namespace(cause) if cause.is_denied() => Kind::Denied,
        LoadError::Namespace(_) => Kind::Usage,
        LoadError::Resolve { .. } | LoadError::Down { .. } => Kind::Failed,
        LoadError::Socket(_) | LoadError::Thread(_) => Kind::Failed,
    }
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        CommandError::new(Kind::Failed, error).hint("try the command by hand: it waits for input")
    }
}

impl From<LoadError> for CommandError {
    fn from(error: LoadError) -> Self {
        let kind = kind(&error);
        let hint = match &error {
            LoadError::Down { .. } if error.remedy().is_some() => error.remedy(),
            LoadError::Down { url, .. } if url.starts_with("https") => Some(
                "check host, port and certificate; --ca FILE trusts another CA, --insecure any certificate",
            ),
            LoadError::Down { .. } => Some("start one with `rxlab target`, or check host and port"),
            LoadError::Files { .. } => Some("raise the limit with `ulimit -n`, or use fewer connections"),
            LoadError::Tls(_) => {
                Some("name root certificates with --ca, or accept any certificate with --insecure")
            }
            LoadError::Pin { .. } => Some("name CPUs that are online and allowed to this process"),
            _ => None,
        };
        CommandError::new(kind, error).hint_all(hint)
    }
}
