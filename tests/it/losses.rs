//! Losses that namespaces can make: each is counted by the kernel, and reported with its place; none where there is none.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Stdio;

use rxlab::lab::Namespace;
use rxlab_advise::diagnose::{Finding, Subject};
use rxlab_advise::doctor::{DoctorReport, doctor};
use rxlab_path::ledger::Stage;
use rxlab_path::model::{Model, Rates};
use rxlab_path::sample::{Counters, Inventory, Scope, losing_sockets};
use rxlab_sys::datagrams::send_train;
use rxlab_sys::{Host, LiveHost, enter_netns};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::lab::{host_in, inside};
use crate::process::{Ended, wait_for};
use crate::{quiet, require};

const IDS: [&str; 4] = ["interface-drops", "conntrack-full", "socket-drops", "listen-overflow"];

/// A namespace whose loopback interface is up.
fn namespace() -> Namespace {
    let namespace = Namespace::new().expect("made");
    namespace.ip("link set lo up").expect("up");
    namespace
}

/// Runs `act` on a thread in a namespace.
fn within<T: Send>(namespace: &Namespace, act: impl FnOnce() -> T + Send) -> T {
    let path = namespace.path();
    let run = || {
        enter_netns(&path).expect("entered");
        act()
    };
    std::thread::scope(|scope| scope.spawn(run).join().expect("no panic"))
}

/// The doctor's report of a namespace between two samples, with `act` in between.
fn during(namespace: &Namespace, act: impl FnOnce()) -> DoctorReport {
    let host = host_in(namespace);
    let inventory = Inventory::take(&host, Scope::Load);
    let before = Counters::take(&host, &inventory);
    act();
    let after = Counters::take(&host, &inventory);
    let rates = Rates::between(&before, &after).expect("an interval").accounted(&inventory);
    let rates = Rates { losing: losing_sockets(&host, &before, &after), ..rates };
    doctor(&Model::new(&inventory), &rates, "rxlab")
}

#[track_caller]
fn found<'a>(report: &'a DoctorReport, id: &str) -> &'a Finding {
    let found = report.findings.iter().find(|finding| finding.id == id);
    found.unwrap_or_else(|| panic!("{:?} {:?}", report.findings, report.load.ledger))
}

/// None of the findings but these.
fn only(report: &DoctorReport, ids: &[&str]) {
    let other = report
        .findings
        .iter()
        .find(|finding| IDS.contains(&finding.id.as_str()) && !ids.contains(&finding.id.as_str()));
    assert_eq!(other, None);
}

fn bound() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
    let address = socket.local_addr().expect("bound");
    (socket, address)
}

#[test]
fn a_udp_socket_that_is_not_read_is_named_with_its_process() {
    require::needs!(netns);
    let namespace = namespace();
    let ((reader, to), (sender, _)) = within(&namespace, || (bound(), bound()));
    let report = during(&namespace, || {
        for _ in 0..4_000 {
            sender.send_to(&[7; 64], to).expect("sent");
        }
    });
    let found = found(&report, "socket-drops");
    assert!(found.title.starts_with(&format!("UDP port {} of ", to.port())), "{found:?}");
    let is_ours =
        |subject: &Subject| matches!(subject, Subject::Process { pid, .. } if *pid == std::process::id());
    assert!(found.evidence.iter().any(|seen| is_ours(&seen.subject)), "{found:?}");
    only(&report, &["socket-drops"]);
    let lost = report.load.ledger.lines.iter().find(|line| line.counter == "UdpRcvbufErrors");
    let lost = lost.expect("counted").per_second * report.seconds;
    let kernel = rxlab_sys::socket::dropped(&reader).expect("reported");
    assert!((lost - f64::from(kernel)).abs() < 0.5, "{lost} lost, {kernel} by the socket");
}

#[test]
fn a_full_accept_queue_is_named_with_its_limit() {
    require::needs!(netns);
    let namespace = namespace();
    let (listener, to) = within(&namespace, || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
        rustix::net::listen(&listener, 1).expect("listens");
        let to = listener.local_addr().expect("bound");
        (listener, to)
    });
    let clients = || -> Vec<Socket> {
        let connect = |_| {
            let client = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("made");
            client.set_nonblocking(true).expect("set");
            // In progress; or refused by the queue, which the client does not hear of.
            drop(client.connect(&SockAddr::from(to)));
            client
        };
        (0..60).map(connect).collect()
    };
    let mut open = Vec::new();
    let report = during(&namespace, || open = within(&namespace, clients));
    let found = found(&report, "listen-overflow");
    assert!(found.title.starts_with(&format!("TCP port {} of ", to.port())), "{found:?}");
    assert!(found.seen()[1].ends_with(", at most 1"), "{found:?}");
    assert!(found.remedy.contains("the program's backlog of listen() is 1"), "{found:?}");
    only(&report, &["listen-overflow"]);
    drop((open, listener));
}

/// The kernel's limit on all tracked connections, restored when dropped.
struct Limit(LiveHost, Vec<u8>);

const LIMIT: &str = "proc/sys/net/netfilter/nf_conntrack_max";

impl Limit {
    fn set(value: &str) -> Option<Self> {
        let host = LiveHost::open(Path::new("/")).expect("this machine");
        let before = host.read(LIMIT).ok()?;
        host.write(LIMIT, value.as_bytes()).ok()?;
        Some(Self(host, before))
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.0.write(LIMIT, &self.1).expect("put back");
    }
}

#[test]
fn a_full_table_of_connections_is_named() {
    require::needs!(netns, root, program("nft", "nft", "--version"));
    let _settings = require::settings();
    let namespace = namespace();
    let rules = "add table ip t\nadd chain ip t c { type filter hook input priority 0 ; }\n\
                 add rule ip t c ct state established accept\n";
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("rules");
    std::fs::write(&file, rules).expect("written");
    inside(&namespace, "nft").arg("-f").arg(&file).stderr(Stdio::inherit()).exits(0);
    let connections = |count: u16| {
        let (sender, _) = bound();
        for port in 0..count {
            // A packet that is not tracked is refused.
            drop(sender.send_to(&[7], (Ipv4Addr::LOCALHOST, 20_000 + port)));
        }
    };
    let report = during(&namespace, || within(&namespace, || connections(20)));
    only(&report, &[]);
    let Some(_limit) = Limit::set("64") else {
        println!("skipped: nf_conntrack_max cannot be set");
        return;
    };
    let report = during(&namespace, || within(&namespace, || connections(900)));
    let found = found(&report, "conntrack-full");
    assert!(found.seen()[1].contains("connections, at most 64 "), "{found:?}");
    only(&report, &["conntrack-full"]);
}

/// Broadcasts of trains to a bridge: each member takes all datagrams of a train before any is received.
fn broadcast(namespace: &Namespace) {
    within(namespace, || {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).expect("made");
        socket.set_broadcast(true).expect("set");
        let to = SockAddr::from(SocketAddr::from(([10, 9, 0, 255], 9)));
        for _ in 0..5 {
            send_train(&socket, &[7; 6_400], 100, Some(&to)).expect("sent");
        }
    });
}

fn bridge(lines: &str, members: impl Iterator<Item = String>) -> Namespace {
    let namespace = namespace();
    let mut all = format!("link add br0 type bridge\naddress add 10.9.0.1/24 dev br0\n{lines}");
    members.for_each(|lines| all += &lines);
    namespace.ip_batch(&(all + "link set br0 up\n")).expect("built");
    namespace
}

/// Waits until all members forward: that is once their carrier is seen.
fn wait_until_forwarding(namespace: &Namespace) {
    let host = host_in(namespace);
    let ports = "sys/class/net/br0/brif";
    let state = |port: &String| host.read_text(&format!("{ports}/{port}/state")).unwrap_or_default();
    const FORWARDING: &str = "3";
    wait_for("the bridge", || {
        let ports = host.list(ports).expect("a bridge");
        ports.iter().all(|port| state(port).trim() == FORWARDING)
    });
}

/// 64 datagrams for each of 24 members are more than the 1,000 packets that a backlog takes.
#[test]
fn a_full_backlog_is_told_once() {
    require::needs!(netns);
    let _alone = quiet::alone();
    let _settings = require::settings();
    let member = |n| {
        format!(
            "link add v{n} gso_max_segs 1 type veth peer name w{n}\nlink set v{n} master br0 up\nlink set w{n} up\n"
        )
    };
    let namespace = bridge("", (0..24).map(member));
    wait_until_forwarding(&namespace);
    let report = during(&namespace, || broadcast(&namespace));
    found(&report, "backlog-drops");
    only(&report, &[]);
    // Each packet is also a drop of both ends of its veth.
    let ledger = &report.load.ledger;
    let sum = |stage, counter: &str| -> f64 {
        let lines = ledger.lines.iter().filter(|line| line.stage == stage && line.counter == counter);
        lines.map(|line| line.per_second).sum()
    };
    let backlog = sum(Stage::Backlog, "softnet_stat dropped");
    let (received, sent) = (sum(Stage::Interface, "rx_dropped"), sum(Stage::Interface, "tx_dropped"));
    // Sums of rates, in another order.
    const ROUNDING: f64 = 1e-3;
    assert!(received > 0.0 && (received - sent).abs() < ROUNDING, "{ledger:?}");
    assert!(received <= backlog + ROUNDING, "{ledger:?}");
    assert!((ledger.per_second - backlog).abs() < ROUNDING, "{ledger:?}");
}

/// A veth with NAPI has a ring of 256 packets for its other end.
#[test]
fn a_veth_whose_other_end_is_full_is_named() {
    require::needs!(netns, program("ethtool", "ethtool", "--version"));
    let _alone = quiet::alone();
    let member =
        |n| format!("link add m{n} link v0 type macvlan mode private\nlink set m{n} master br0 up\n");
    let pair = "link add v0 gso_max_segs 1 type veth peer name w0\n";
    let namespace = bridge(pair, (0..12).map(member));
    for (nic, feature, value) in [("w0", "gro", "on"), ("v0", "tso", "off")] {
        inside(&namespace, "ethtool").args(["-K", nic, feature, value]).exits(0);
    }
    namespace.ip("link set w0 up").expect("up");
    namespace.ip("link set v0 up").expect("up");
    wait_until_forwarding(&namespace);
    let report = during(&namespace, || broadcast(&namespace));
    let found = found(&report, "interface-drops");
    assert_eq!(found.nic.as_ref().map(|nic| nic.as_str()), Some("v0"), "{found:?}");
    assert!(found.why.starts_with("the other end"), "{found:?}");
    only(&report, &["interface-drops"]);
}

/// Both ends of a veth, the second of which no socket listens behind; and a sender whose datagrams leave by the first.
fn pair() -> Namespace {
    let namespace = namespace();
    let lines = "link add v0 type veth peer name w0\nlink set v0 up\nlink set w0 up\naddress add 10.9.1.1/24 dev v0\n\
                 neighbour add 10.9.1.2 lladdr 02:00:00:00:00:01 dev v0\n";
    namespace.ip_batch(lines).expect("built");
    namespace
}

/// Sends datagrams that no program waits for.
fn send(namespace: &Namespace, count: usize) {
    within(namespace, || {
        let socket = UdpSocket::bind("10.9.1.1:0").expect("bound");
        // Errors tell of what was dropped on the way out.
        (0..count).for_each(|_| drop(socket.send_to(&[7; 64], "10.9.1.2:9")));
    });
}

fn tc(namespace: &Namespace, words: &str) {
    inside(namespace, "tc").args(words.split(' ')).exits(0);
}

/// The lines of the ledger, without what other programs of this machine do to its backlogs.
fn lost(report: &DoctorReport) -> Vec<(Stage, &str, &str)> {
    let lines = report.load.ledger.lines.iter().filter(|line| line.stage != Stage::Backlog);
    lines
        .map(|line| (line.stage, line.nic.as_ref().map_or("", |nic| nic.as_str()), line.counter.as_str()))
        .collect()
}

#[test]
fn a_filter_that_drops_is_named_with_its_interface() {
    require::needs!(netns, program("tc", "tc", "-V"));
    let _alone = quiet::alone();
    let namespace = pair();
    tc(&namespace, "qdisc add dev w0 clsact");
    assert_eq!(lost(&during(&namespace, || send(&namespace, 500))), [], "no filter yet");
    const SHOT: &str = "1,6 0 0 2";
    let filter = ["filter", "add", "dev", "w0", "ingress", "bpf", "da", "bytecode", SHOT];
    inside(&namespace, "tc").args(filter).exits(0);
    let report = during(&namespace, || send(&namespace, 500));
    assert_eq!(lost(&report), [(Stage::Tc, "w0", "tc filters")]);
    assert!(report.load.ledger.in_words().ends_with("drops/s"), "{:?}", report.load.ledger);
    only(&report, &[]);
}

#[test]
fn a_queue_that_limits_a_veth_is_named() {
    require::needs!(netns, program("tc", "tc", "-V"));
    let _alone = quiet::alone();
    let namespace = pair();
    tc(&namespace, "qdisc add dev v0 root tbf rate 8kbit burst 1540 limit 1600");
    let report = during(&namespace, || send(&namespace, 500));
    assert_eq!(lost(&report), [(Stage::Tc, "v0", "tc queues")]);
    only(&report, &[]);
}

#[test]
fn an_interface_without_another_end_is_named_as_such() {
    require::needs!(netns);
    let _alone = quiet::alone();
    let namespace = pair();
    assert_eq!(lost(&during(&namespace, || send(&namespace, 500))), [], "both ends are up");
    namespace.ip("link set w0 down").expect("set");
    let report = during(&namespace, || send(&namespace, 500));
    let down = found(&report, "interface-drops");
    assert_eq!(down.nic.as_ref().map(|nic| nic.as_str()), Some("v0"), "{down:?}");
    assert!(down.why.starts_with("its other end is down"), "{down:?}");
    only(&report, &["interface-drops"]);
}

#[test]
fn a_namespace_without_losses_is_read_whole_and_clean() {
    require::needs!(netns);
    let _alone = quiet::alone();
    let namespace = namespace();
    let work = || {
        let ((reader, to), (sender, _)) = (bound(), bound());
        for _ in 0..2_000 {
            sender.send_to(&[7; 64], to).expect("sent");
            reader.recv(&mut [0; 64]).expect("received");
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
        let to = listener.local_addr().expect("bound");
        for _ in 0..100 {
            let client = std::net::TcpStream::connect(to).expect("connected");
            drop((listener.accept().expect("accepted"), client));
        }
    };
    let report = during(&namespace, || within(&namespace, work));
    only(&report, &[]);
    let ledger = &report.load.ledger;
    assert_eq!(ledger.unread, [], "every source was read");
    // Other programs of this machine may overflow its backlogs.
    let own: Vec<_> = ledger.lines.iter().filter(|line| line.stage != Stage::Backlog).collect();
    assert!(own.is_empty(), "{own:?}");
}
