//! Losses that namespaces can make: each is counted by the kernel, and reported with its place; none where there is none.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rxlab::lab::Namespace;
use rxlab_advise::diagnose::{Finding, Severity, Subject};
use rxlab_advise::doctor::{DoctorReport, doctor};
use rxlab_base::units::{CpuId, Fact};
use rxlab_path::drop_reasons::DropReasons;
use rxlab_path::ledger::Stage;
use rxlab_path::model::{Model, Rates};
use rxlab_path::sample::{Counters, Inventory, Scope, losing_sockets};
use rxlab_probe::{Budget, drop_reasons};
use rxlab_sys::datagrams::send_train;
use rxlab_sys::{Host, LiveHost, enter_netns, pin_thread};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::doctor::finding;
use crate::lab::{host_in, inside};
use crate::process::{Ended, json, rxlab, wait_for};
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
    // A child that another test is starting has our sockets too, until it executes its program.
    let pid = std::process::id().to_string();
    let has_us = |text: &str| text.split(|c: char| !c.is_ascii_digit()).any(|number| number == pid);
    let is_ours = |subject: &Subject| matches!(subject, Subject::Process { .. });
    assert!(found.evidence.iter().any(|seen| is_ours(&seen.subject) && has_us(&seen.text)), "{found:?}");
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

const CONNTRACK_MAX: &str = "proc/sys/net/netfilter/nf_conntrack_max";

impl Limit {
    fn set(value: &str) -> Option<Self> {
        let host = LiveHost::open(Path::new("/")).expect("this machine");
        let before = host.read(CONNTRACK_MAX).ok()?;
        host.write(CONNTRACK_MAX, value.as_bytes()).ok()?;
        Some(Self(host, before))
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.0.write(CONNTRACK_MAX, &self.1).expect("put back");
    }
}

#[test]
fn a_full_table_of_connections_is_named() {
    require::needs!(netns, root, program("nft", "nft", "--version"));
    let _settings = quiet::settings();
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
    let _settings = quiet::settings();
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

/// The queue of tbf that drops all but the first datagrams.
const SLOW: &str = "qdisc add dev v0 root tbf rate 8kbit burst 1540 limit 1600";

/// Has a filter of `w0`, which must have clsact, drop all.
fn drop_at_w0(namespace: &Namespace) {
    const SHOT: &str = "1,6 0 0 2";
    let filter = ["filter", "add", "dev", "w0", "ingress", "bpf", "da", "bytecode", SHOT];
    inside(namespace, "tc").args(filter).exits(0);
}

#[test]
fn a_filter_that_drops_is_named_with_its_interface() {
    require::needs!(netns, program("tc", "tc", "-V"));
    let _alone = quiet::alone();
    let namespace = pair();
    tc(&namespace, "qdisc add dev w0 clsact");
    assert_eq!(lost(&during(&namespace, || send(&namespace, 500))), [], "no filter yet");
    drop_at_w0(&namespace);
    let report = during(&namespace, || send(&namespace, 500));
    assert_eq!(lost(&report), [(Stage::Tc, "w0", "tc filters")]);
    assert!(report.load.ledger.in_words().ends_with("drops/s"), "{:?}", report.load.ledger);
    let drops = found(&report, "interface-drops");
    assert_eq!(drops.nic.as_ref().map(|nic| nic.as_str()), Some("w0"), "{drops:?}");
    assert_eq!(drops.severity, Severity::Note, "mostly on purpose");
    only(&report, &["interface-drops"]);
}

#[test]
fn a_queue_that_limits_a_veth_is_named() {
    require::needs!(netns, program("tc", "tc", "-V"));
    let _alone = quiet::alone();
    let namespace = pair();
    tc(&namespace, SLOW);
    let report = during(&namespace, || send(&namespace, 500));
    assert_eq!(lost(&report), [(Stage::Tc, "v0", "tc queues")]);
    let drops = found(&report, "interface-drops");
    assert_eq!(drops.nic.as_ref().map(|nic| nic.as_str()), Some("v0"), "{drops:?}");
    assert!(drops.why.starts_with("its queueing discipline is full or limits the rate"), "{drops:?}");
    only(&report, &["interface-drops"]);
}

#[test]
fn an_interface_without_another_end_is_named_as_such() {
    require::needs!(netns);
    let _alone = quiet::alone();
    let namespace = pair();
    assert_eq!(lost(&during(&namespace, || send(&namespace, 500))), [], "both ends are up");
    namespace.ip("link set w0 down").expect("set");
    // The kernel tells the other end up to a second later (net/core/link_watch.c).
    let host = host_in(&namespace);
    wait_for("v0 knows it", || {
        host.read_text("sys/class/net/v0/operstate").is_ok_and(|state| state.trim() != "up")
    });
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

/// Counts the reasons of a namespace for a second.
fn reasons(namespace: &Namespace) -> DropReasons {
    let host = host_in(namespace);
    let model = Model::new(&Inventory::take(&host, Scope::Load));
    let whole: Budget = "100%".parse().expect("a budget");
    match drop_reasons(&host, &model, (Duration::from_secs(1), whole), &AtomicBool::new(false)) {
        Fact::Known(reasons) => reasons,
        absent => panic!("{absent:?}"),
    }
}

/// Runs `act` again and again, on CPU 0, until `look` returns.
fn meanwhile<T>(mut act: impl FnMut() + Send, look: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin_thread(CpuId(0)).expect("pinned");
            while !is_over.load(Ordering::SeqCst) {
                act();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let seen = look();
        is_over.store(true, Ordering::SeqCst);
        seen
    })
}

#[test]
fn the_kernel_s_reason_has_its_interface_and_cpu_and_only_those_of_the_namespace() {
    require::needs!(netns, bpf);
    let (namespace, other) = (namespace(), namespace());
    let ((reader, to), (sender, _)) = within(&namespace, || (bound(), bound()));
    let send = || (0..50).for_each(|_| drop(sender.send_to(&[7; 1_000], to)));
    // Fills the socket first.
    (0..20).for_each(|_| send());
    let elsewhere = || {
        std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| reasons(&other));
            (reasons(&namespace), elsewhere.join().expect("no panic"))
        })
    };
    let (here, elsewhere) = meanwhile(send, elsewhere);
    assert_eq!(elsewhere.packets, []);
    let [freed] = &here.packets[..] else { panic!("{here:?}") };
    assert_eq!((freed.reason.as_str(), freed.cpu), ("SOCKET_RCVBUFF", CpuId(0)), "{here:?}");
    assert_eq!(freed.nic.as_ref().map(|nic| nic.as_str()), Some("lo"));
    let dropped = u64::from(rxlab_sys::socket::dropped(&reader).expect("reported"));
    assert!((1..=dropped).contains(&freed.packets), "{here:?}, {dropped} dropped by the socket");
}

#[test]
fn a_filter_and_a_queue_have_their_own_reasons() {
    require::needs!(netns, bpf, program("tc", "tc", "-V"));
    let first_of = |namespace: &Namespace, nic: &str| {
        let seen = meanwhile(|| send(namespace, 5), || reasons(namespace));
        let of = seen.by_reason(|entry| entry.nic.as_ref().is_some_and(|name| name.as_str() == nic));
        of.first().map_or(String::new(), |(reason, _)| (*reason).to_owned())
    };
    let filtered = pair();
    tc(&filtered, "qdisc add dev w0 clsact");
    drop_at_w0(&filtered);
    assert_eq!(first_of(&filtered, "w0"), "TC_INGRESS");
    let limited = pair();
    tc(&limited, SLOW);
    assert!(first_of(&limited, "v0").starts_with("QDISC_"));
}

/// A socket whose frames leave an interface with an EtherType that nothing here takes (IEEE 802: one for experiments).
#[allow(unsafe_code)]
fn unknown_protocol(host: &LiveHost, nic: &str) -> (Socket, SockAddr) {
    const TYPE: u16 = 0x88b5;
    const BROADCAST: [u8; 6] = [0xff; 6];
    let ifindex = host.read_text(&format!("sys/class/net/{nic}/ifindex")).expect("an interface");
    let ifindex: i32 = ifindex.trim().parse().expect("a number");
    // struct sockaddr_ll of packet(7): family, protocol, interface, hardware and packet type, address.
    let family = u16::try_from(std::ffi::c_int::from(Domain::PACKET)).expect("a small number").to_ne_bytes();
    let address: Vec<u8> =
        [&family[..], &TYPE.to_be_bytes(), &ifindex.to_ne_bytes(), &[0, 0, 0, 6], &BROADCAST, &[0; 2]]
            .concat();
    // SAFETY: the storage is larger than the address, and its length is that of the address.
    let ((), to) = unsafe {
        SockAddr::try_init(|storage, length| {
            std::ptr::copy_nonoverlapping(address.as_ptr(), storage.cast(), address.len());
            *length = u32::try_from(address.len()).expect("20 bytes");
            Ok(())
        })
    }
    .expect("an address");
    (Socket::new(Domain::PACKET, Type::DGRAM, None).expect("root"), to)
}

#[test]
fn an_unknown_protocol_is_the_cause_that_the_doctor_names() {
    require::needs!(netns, bpf);
    let namespace = pair();
    let (socket, to) = within(&namespace, || unknown_protocol(&host_in(&namespace), "v0"));
    let state = tempfile::tempdir().expect("a temporary directory");
    let send = || {
        for _ in 0..20 {
            socket.send_to(&[7; 64], &to).expect("sent");
        }
    };
    let out = meanwhile(send, || {
        let mut doctor = rxlab(state.path(), &["doctor", "--json", "--for", "1s"]);
        doctor.arg("--netns").arg(namespace.path()).output().expect("rxlab runs")
    });
    let report = json(&out);
    let found = finding(&report, "interface-drops").expect("found");
    assert_eq!(found["nic"], "w0", "{found}");
    assert!(
        found["why"].as_str().expect("text").starts_with("no protocol of this machine takes them"),
        "{found}"
    );
    let seen = found["evidence"].as_array().expect("a list").last().expect("some")["text"].to_string();
    assert!(seen.contains("UNHANDLED_PROTO "), "{found}");
}
