//! The machines of fixtures/field: which interrupt belongs to which receive queue, what limits the machine and what it loses,
//! what plans must and must not set, and what `apply` refuses.

#![allow(clippy::disallowed_methods)] // Opens the fixtures.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use rxlab_advise::doctor::doctor;
use rxlab_advise::plan::{Options, Policy};
use rxlab_change::apply::check;
use rxlab_path::constraints::{Binds, Constraints};
use rxlab_path::ledger::Verdict;
use rxlab_path::model::{Model, NicKind, Rates};
use rxlab_record::snapshot::Snapshot;
use rxlab_setting::{Plan, Setting, forbids};

/// The interrupt of a receive queue; `None` if it cannot be known.
type Irq = fn(u32) -> Option<u32>;

/// A device of a machine: its name, its number of receive queues, and their interrupts.
type Device = (&'static str, u32, Irq);

const UNKNOWN: Irq = |_| None;

/// The devices of each machine.
const MACHINES: [(&str, &[Device]); 73] = [
    ("al-eth", &[("eth1", 4, |rx| Some(199 + rx))]),
    ("am65-cpsw", &[("eth0", 1, |_| Some(279))]),
    ("am65-cpsw-interface-name", &[("eth0", 1, |_| Some(279))]),
    ("atlantic-one-name", &[("enp1s0", 4, |rx| Some(128 + rx))]),
    ("azure-mlx5-vf", &[("eth0", 8, UNKNOWN), ("enP41394s1", 8, |rx| Some(40 + rx))]),
    // Which of the two receives differs from kernel to kernel.
    ("bcmgenet-arch-timer", &[("eth0", 1, UNKNOWN)]),
    // Its default queue, which `ethtool -l` does not count, is on the first interrupt again.
    ("be2net-default-queue", &[("ens2f0", 5, |rx| Some(40 + rx % 4))]),
    ("cxgb4", &[("enp5s0f4", 24, |rx| Some(39 + rx))]),
    ("cxgb4-vendor", &[("enp5s0f4", 24, |rx| Some(39 + rx))]),
    ("device-drops-idle", &[("eth0", 1, |_| Some(30))]),
    // Any portal may bring the packets of either; `dpni.N` is the link's.
    ("dpaa2-portals", &[("eth1", 1, UNKNOWN), ("eth2", 4, UNKNOWN)]),
    ("e1000-one-line", &[("eth0", 1, |_| Some(16)), ("eth1", 1, |_| Some(16))]),
    ("ena-over-allowance", &[("ens5", 4, |rx| Some(40 + rx))]),
    ("ena-xdp", &[("ens5", 2, |rx| Some(30 + rx))]),
    ("gve-1queue", &[("ens4", 1, |_| Some(38))]),
    ("hinic-uncounted", &[("ens8", 16, |rx| Some(100 + rx))]),
    ("hns3-uncounted", &[("eth0", 16, UNKNOWN)]),
    ("ice-128queue", &[("em3", 128, |rx| Some(930 + rx))]),
    ("ice-32queue", &[("ens2f1", 32, |rx| Some(101 + rx))]),
    (
        "ice-vectors-exhausted",
        &[
            ("ens1f0", 64, |rx| Some(201 + rx)),
            ("ens1f1", 64, |rx| Some(266 + rx)),
            ("ens2f0", 64, |rx| Some(331 + rx)),
        ],
    ),
    ("ice-vendor-two-queues-a-vector", &[("ens2f1", 32, |rx| Some(101 + rx / 2))]),
    ("igb-squeezes", &[("eth0", 8, |rx| Some(40 + rx))]),
    ("iptables-4500-rules", &[("ens3", 1, |_| Some(45))]),
    ("ixgbe-16queue", &[("enp3s0f0", 16, |rx| Some(60 + rx))]),
    ("ixgbe-40queue", &[("enp3s0f0", 40, |rx| Some(60 + rx))]),
    ("kvm-capped-cpu", &[("eth0", 1, |_| Some(25))]),
    ("lxcfs", &[]),
    ("lxcfs-docker", &[]),
    ("mlx4-beside-igb", &[("ens5", 8, UNKNOWN), ("ens5d1", 8, UNKNOWN), ("eno1", 1, |_| Some(81))]),
    (
        "mlx5-representors",
        &[("enp8s0f0np0", 8, |rx| Some(81 + rx)), ("enp8s0f0npf0vf0", 2, |rx| Some(81 + rx))],
    ),
    // The ports of the switch have no interrupts: their packets come by those of eth0. Its first requested interrupt sends, the
    // second receives (mtk_probe in mtk_eth_soc.c).
    ("mt7622-dsa", &[("eth0", 1, |_| Some(143))]),
    ("mt7996-napi-threads", &[("eth0", 1, |_| Some(103)), ("phy0-ap0", 1, |_| Some(118))]),
    ("mvneta-percpu", &[("eth0", 8, |_| Some(37)), ("eth1", 8, |_| Some(38)), ("eth2", 8, |_| Some(39))]),
    ("mvpp2-queue-full", &[("eth0", 4, UNKNOWN)]),
    ("octeontx2-drops", &[("eth0", 4, UNKNOWN)]),
    ("plic-no-trigger", &[("eth0", 1, |_| Some(6))]),
    ("pppoe-bnx2x", &[("eth2", 8, |rx| Some(44 + rx)), ("eth3", 8, |rx| Some(64 + rx))]),
    (
        "r8125-beside-soc-nics",
        &[("eth0", 1, |_| Some(26)), ("eth1", 1, |_| Some(27)), ("eth2", 4, |rx| Some(38 + rx))],
    ),
    ("tunnel-drops", &[("eth0", 1, |_| Some(30))]),
    ("tunnel-drops-idle", &[("eth0", 1, |_| Some(30))]),
    ("usb-nic", &[("eth0", 1, |_| Some(24)), ("eth1", 1, |_| Some(25))]),
    ("veth-8queue", &[("ens3f0", 4, |rx| Some(90 + rx))]),
    ("vmxnet3-46cpu", &[("ens192", 8, |rx| Some(56 + rx))]),
    ("wireguard", &[("ens1np0", 16, |rx| Some(80 + rx))]),
    ("xen-3.10-ixgbevf", &[("eth0", 2, |rx| Some(100 + rx))]),
    ("xen-3.10-ixgbevf-8cpu", &[("eth0", 2, |rx| Some(100 + rx))]),
    ("xen-ixgbevf", &[("eth0", 2, |rx| Some(100 + rx))]),
    ("aliyun-two-enis", &[("eth0", 1, |_| Some(29)), ("eth1", 1, |_| Some(32))]),
    // Before 4.6 both interfaces' interrupts had the name of the driver.
    (
        "armada-xp-mvneta",
        &[("eth0", 1, UNKNOWN), ("eth1", 1, UNKNOWN), ("wlan0", 1, UNKNOWN), ("wlan1", 1, UNKNOWN)],
    ),
    ("asahi-atlantic", &[("enp3s0", 8, |rx| Some(80 + rx))]),
    ("bnx2-interrupts", &[("eth0", 5, |rx| Some(70 + rx))]),
    (
        "cm4-igb-4port",
        &[
            ("eth0", 1, UNKNOWN),
            ("eth1", 1, |_| Some(54)),
            ("eth2", 1, |_| Some(55)),
            ("eth3", 1, |_| Some(56)),
            ("eth4", 1, |_| Some(57)),
        ],
    ),
    ("ena-8queue-64cpu", &[("eth0", 8, |rx| Some(131 + rx))]),
    ("idpf-224cpu", &[("enp54s0", 16, |rx| Some(101 + rx))]),
    ("igb-all-on-cpu0", &[("eth0", 8, |rx| Some(27 + rx))]),
    // Every second receive ring is in use. The ports of the switch have none of their own.
    ("ipq4019-ipqess", &[("eth0", 4, |rx| Some(85 + 2 * rx)), ("phy0-ap0", 1, UNKNOWN)]),
    (
        "ipq8065-gmac",
        &[
            ("eth0", 1, |_| Some(30)),
            ("eth1", 1, |_| Some(31)),
            ("wlan0", 1, |_| Some(46)),
            ("wlan1", 1, |_| Some(47)),
        ],
    ),
    // One receive ring for all ports; ath11k does not say which of its interrupts brings what.
    ("ipq8074-edma", &[("wan", 1, UNKNOWN), ("lan1", 1, UNKNOWN), ("phy1-ap0", 1, UNKNOWN)]),
    ("joyent-two-virtio", &[("eth0", 1, |_| Some(25)), ("eth1", 1, |_| Some(28))]),
    ("kata-hotplug", &[("eth0", 4, |rx| Some(39 + 2 * rx))]),
    ("lantiq-xrx200", &[("eth0", 1, UNKNOWN), ("phy0-ap0", 1, UNKNOWN)]),
    ("mt7621-napi-thread", &[("eth0", 1, |_| Some(22)), ("phy0-ap0", 1, UNKNOWN)]),
    // Two MACs of one device: the second interrupt receives for both.
    ("mt7986-two-macs", &[("eth0", 1, |_| Some(131)), ("eth1", 1, |_| Some(131))]),
    ("oci-virtio", &[("ens3", 2, |rx| Some(61 + 2 * rx))]),
    // One work queue brings the packets of all ports.
    ("octeon-pow", &[("eth0", 1, UNKNOWN), ("eth1", 1, UNKNOWN), ("eth2", 1, UNKNOWN)]),
    // The device tree gives each of four interrupts some of the eight channels.
    ("orin-nvethernet", &[("eth0", 8, UNKNOWN)]),
    ("r8169-renamed", &[("net0", 1, |_| Some(125)), ("lan0", 1, |_| Some(126)), ("wlp1s0", 1, UNKNOWN)]),
    ("rk3399-gmac", &[("eth0", 1, |_| Some(24))]),
    ("rk3576-r8125", &[("eth1", 1, |_| Some(95)), ("eth0", 1, |_| Some(96))]),
    (
        "rk3588-two-r8125",
        &[("eth1", 1, |_| Some(140)), ("eth2", 1, |_| Some(180)), ("eth0", 1, |_| Some(68))],
    ),
    ("rp1-macb", &[("eth0", 1, |_| Some(106))]),
    ("s390-qeth", &[("encf5f0", 1, UNKNOWN)]),
    // On the bus of its host's fast ports, which has no interrupt of its own.
    ("xu4-usb", &[("eth0", 1, UNKNOWN)]),
];

/// Words of the doctor's report about a machine, and words that must not be there.
type Said = (&'static str, &'static [&'static str], &'static [&'static str]);

const ELSEWHERE: &str = "another network namespace";

/// What limits these machines, and what does not.
const CAUSES: [Said; 14] = [
    ("am65-cpsw", &["one-core-hotspot", "IRQ 279 -> CPU 0"], &[ELSEWHERE]),
    ("am65-cpsw-interface-name", &["one-core-hotspot"], &[ELSEWHERE]),
    ("bcmgenet-arch-timer", &["one-core-hotspot"], &[ELSEWHERE, "arch_timer"]),
    (
        "ena-over-allowance",
        &["limited-by-the-host", "pps_allowance_exceeded grows by 2,400/s", "the host limits ens5"],
        &["one-core-hotspot", "too-few-queues", "will spread it", "\"plans\":[{"],
    ),
    ("hinic-uncounted", &["one-core-hotspot"], &[ELSEWHERE, "come from no interface"]),
    ("igb-squeezes", &[], &["costly-packets", "not-packets", "limited-by-the-host"]),
    ("iptables-4500-rules", &["costly-packets", "158 us", "steering only moves"], &["not-packets"]),
    ("ixgbe-40queue", &["hash-imbalance"], &["one flow stays"]),
    // Time of hard interrupts that grows with steal is not that of packets.
    (
        "kvm-capped-cpu",
        &["limited-by-the-host", "the hypervisor takes 40 % of the time"],
        &["costly-packets", "one-core-hotspot", "single-queue-no-rps", "will spread it"],
    ),
    (
        "lxcfs",
        &["CPU times are unknown", "fuse.lxcfs"],
        &["one-core-hotspot", "\"packets\":", "\"headroom\":"],
    ),
    ("lxcfs-docker", &["CPU times are unknown", "fuse.lxcfs"], &["one-core-hotspot", "\"headroom\":"]),
    ("usb-nic", &["one-core-hotspot", "IRQ 25 -> CPU 3"], &[ELSEWHERE]),
    ("vmxnet3-46cpu", &["CPU 0: 160,000 packets/s"], &["CPU 0: 0 packets/s"]),
    ("xen-3.10-ixgbevf", &["CPU 0: 90,000 packets/s"], &["CPU 0: 0 packets/s", "will spread it"]),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/field")
}

fn snapshot(machine: &str) -> Snapshot {
    let file = File::open(folder().join(format!("{machine}.tar.zst"))).expect("a machine");
    Snapshot::read(file).expect("a snapshot")
}

fn interval(machine: &str) -> (Model, Rates) {
    snapshot(machine).interval().expect("two samples")
}

fn model(machine: &str) -> Model {
    interval(machine).0
}

/// Each receive queue of each device with its interrupts.
fn shown(model: &Model) -> Vec<String> {
    let devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
    let queues = devices.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
    let line = |irqs: &[rxlab_path::model::Irq]| irqs.iter().map(|irq| irq.number.0).collect::<Vec<_>>();
    queues.map(|(nic, queue)| format!("{}/rx-{}: {:?}", nic.name, queue.index, line(&queue.irqs))).collect()
}

fn expected(devices: &[Device]) -> Vec<String> {
    let line = |(name, rx, irq): (&str, u32, Irq)| format!("{name}/rx-{rx}: {:?}", Vec::from_iter(irq(rx)));
    devices.iter().flat_map(|(name, count, irq)| (0..*count).map(move |rx| line((name, rx, *irq)))).collect()
}

#[test]
fn interrupts_of_queues() {
    let mut wrong = Vec::new();
    for (machine, devices) in MACHINES {
        let (shown, expected) = (shown(&model(machine)), expected(devices));
        if shown != expected {
            let differing: Vec<&String> =
                shown.iter().filter(|line| !expected.contains(line)).take(4).collect();
            wrong.push(format!("{machine}: shown {differing:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Machines that lose packets: the interface that drops them, and how many per second.
const LOSING: [(&str, &str, &str); 4] = [
    ("device-drops-idle", "eth0", "eth0 drops 900 packets/s (1.5 %)"),
    ("tunnel-drops", "wg0", "wg0 drops 900 packets/s (1.8 %)"),
    ("tunnel-drops-idle", "wg0", "wg0 drops 900 packets/s (1.8 %)"),
    ("wireguard", "wireguard.cali", "wireguard.cali drops 900 packets/s (0.5 %)"),
];

/// Losses of devices, most under names of the drivers' own, which no counter of the interface has.
const LOST_BY_DEVICES: [(&str, &str); 7] = [
    ("asahi-atlantic", "18,000 drops/s"),
    ("be2net-default-queue", "1,500 drops/s"),
    ("dpaa2-portals", "2,000 drops/s"),
    ("e1000-one-line", "800 drops/s"),
    ("mvneta-percpu", "700 drops/s"),
    ("mvpp2-queue-full", "1,200 drops/s"),
    ("octeontx2-drops", "20,000 drops/s"),
];

#[test]
fn losses_are_named() {
    for (machine, nic, title) in LOSING {
        let (model, rates) = interval(machine);
        let report = doctor(&model, &rates, "rxlab");
        let found = report.findings.iter().find(|finding| finding.id == "interface-drops");
        let found = found.map(|found| (found.nic.as_ref().map(|nic| nic.as_str()), found.title.as_str()));
        assert_eq!(found, Some((Some(nic), title)), "{machine}: {:?}", report.findings);
        assert_eq!(report.load.ledger.in_words(), "900 drops/s", "{machine}");
    }
}

/// Most of these recordings have no counters of sockets and connection tracking: what they lack is not known to be 0.
#[test]
fn no_recording_without_counters_has_no_drops() {
    for (machine, _) in MACHINES {
        let (model, rates) = interval(machine);
        let ledger = doctor(&model, &rates, "rxlab").load.ledger;
        assert_ne!(ledger.verdict(), Verdict::None, "{machine}: {:?}", ledger.lines);
        let is_losing = LOSING.iter().any(|(losing, ..)| *losing == machine);
        if let Some((_, lost)) = LOST_BY_DEVICES.iter().find(|(losing, _)| *losing == machine) {
            assert_eq!(ledger.in_words(), *lost, "{machine}: {:?}", ledger.lines);
            continue;
        }
        assert_eq!(ledger.verdict() != Verdict::Unknown, is_losing, "{machine}: {:?}", ledger.lines);
        let has_socket =
            ledger.gaps().iter().any(|gap| gap.starts_with("drops, socket: not read: /proc/net/"));
        assert!(has_socket, "{machine}: {:?}", ledger.gaps());
    }
}

#[test]
fn causes() {
    let mut wrong = Vec::new();
    for (machine, said, unsaid) in CAUSES {
        let (model, rates) = interval(machine);
        let report = serde_json::to_string(&doctor(&model, &rates, "rxlab")).expect("JSON");
        let missing = said.iter().filter(|words| !report.contains(**words));
        wrong.extend(missing.map(|words| format!("{machine}: `{words}` is not said: {report}")));
        let told = unsaid.iter().filter(|words| report.contains(**words));
        wrong.extend(told.map(|words| format!("{machine}: `{words}` is said: {report}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_machine_is_in_the_table() {
    let files = std::fs::read_dir(folder()).expect("listed");
    let files = files.map(|file| file.expect("listed").file_name().into_string().expect("text"));
    let machines: BTreeSet<String> =
        files.filter_map(|file| Some(file.strip_suffix(".tar.zst")?.to_owned())).collect();
    assert_eq!(machines, MACHINES.iter().map(|(name, _)| (*name).to_owned()).collect());
}

/// A plan of a machine by its name (`isolate`, `full.channels`, `doctor`), settings that it must have, and beginnings of those
/// that it must not have.
type Planned = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const PLANS: &[Planned] = &[
    // No vectors are left on CPUs 0-1: fewer queues, and no interrupt is sent there once more.
    (
        "ice-vectors-exhausted",
        "isolate",
        &["channels ens1f0 = combined 2", "channels ens1f1 = combined 2", "channels ens2f0 = combined 2"],
        &["irq_affinity", "rps", "irqbalance"],
    ),
    ("ice-vectors-exhausted", "numa-local", &[], &["irq_affinity", "channels"]),
    ("ice-vectors-exhausted", "doctor", &["channels ens2f0 = combined 2"], &["irq_affinity"]),
    // ena allows half of its four queues while XDP is attached.
    ("ena-xdp", "full", &[], &["channels"]),
    ("ena-xdp", "doctor", &["rps ens5/rx-0 = 4-5", "rps ens5/rx-1 = 6-7"], &["channels"]),
    // RSS reaches 16 queues.
    ("ixgbe-16queue", "full", &[], &["channels"]),
    ("ixgbe-16queue", "doctor", &["rps enp3s0f0/rx-0 = 16"], &["channels"]),
    // Those are on the CPUs of node 0.
    (
        "ixgbe-40queue",
        "doctor",
        &["rps enp3s0f0/rx-0 = 16", "rps enp3s0f0/rx-15 = 38-39"],
        &["channels", "rss"],
    ),
    // One interrupt of two cards: sent once.
    ("e1000-one-line", "full", &[], &["irq_affinity eth1"]),
    ("mlx5-representors", "numa-local", &[], &["irq_affinity enp8s0f0npf0vf0"]),
    // Each CPU has it for itself.
    ("mvneta-percpu", "full", &["rps eth0/rx-0 = 1"], &["irq_affinity"]),
    ("mvneta-percpu", "isolate", &[], &["irq_affinity"]),
    // Threads on CPU 3 poll for all interfaces.
    ("mt7996-napi-threads", "spread", &[], &["rps", "rfs", "irq_affinity"]),
    ("mt7996-napi-threads", "doctor", &[], &["rps", "rfs", "channels"]),
    // The default mask, on the queues that lack it.
    (
        "veth-8queue",
        "doctor",
        &["rps veth00000000/rx-1 = 0-1,32-33", "rps veth00000000/rx-7 = 0-1,32-33"],
        &["rps veth00000000/rx-0"],
    ),
    // Interrupts of the disk are no reason to move those of the NIC, nor to move them twice.
    ("oci-virtio", "spread", &["rps ens3/rx-0 = 2-4", "rps ens3/rx-1 = 5-7"], &["irq_affinity"]),
    // Behind a controller that moves none.
    ("cm4-igb-4port", "numa-local", &["rps eth1/rx-0 = 1-3"], &["irq_affinity"]),
    ("rp1-macb", "numa-local", &["rps eth0/rx-0 = 1-3"], &["irq_affinity"]),
    // Only the fast cores.
    ("rk3576-r8125", "doctor", &["rps eth0/rx-0 = 4-7"], &["irq_affinity"]),
    ("xu4-usb", "doctor", &["rps eth0/rx-0 = 4-6"], &["irq_affinity"]),
    ("asahi-atlantic", "numa-local", &[], &["rps"]),
    // The CPU is full, but not of the packets of the radio.
    ("mt7621-napi-thread", "spread", &[], &["rps", "rfs"]),
    ("ipq8074-edma", "doctor", &["rps wan/rx-0 = 1-3"], &["rps br-lan"]),
    // One interrupt of two interfaces: sent once.
    ("mt7986-two-macs", "isolate", &["irq_affinity eth0/rx-0 = 3"], &["irq_affinity eth1"]),
    (
        "azure-mlx5-vf",
        "numa-local",
        &["irq_affinity enP41394s1/rx-0 = 0"],
        &["irq_affinity eth0", "channels"],
    ),
];

fn settings(model: &Model, rates: &Rates, name: &str) -> Vec<Setting> {
    let plans: Vec<Plan> = match name {
        "doctor" => doctor(model, rates, "").plans.into_iter().map(|proposal| proposal.plan).collect(),
        policy => {
            let policy: Policy = policy.parse().expect("a policy");
            vec![policy.plan(model, rates, &Options::default(), None).plan]
        }
    };
    plans.into_iter().flat_map(|plan| plan.settings).map(|planned| planned.set).collect()
}

#[test]
fn what_plans_must_and_must_not_set() {
    let mut wrong = Vec::new();
    for (machine, name, must, must_not) in PLANS {
        let (model, rates) = snapshot(machine).interval().expect("two samples");
        let set: Vec<String> = settings(&model, &rates, name).iter().map(ToString::to_string).collect();
        let missing = must.iter().filter(|text| !set.iter().any(|set| set == *text));
        wrong.extend(missing.map(|text| format!("{machine} {name}: lacks {text}")));
        let forbidden = set.iter().filter(|set| must_not.iter().any(|start| set.starts_with(start))).take(2);
        wrong.extend(forbidden.map(|set| format!("{machine} {name}: has {set}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_plan_violates_a_constraint() {
    let policies = Policy::ALL.map(|(name, _)| name);
    let mut wrong = Vec::new();
    for (machine, _) in MACHINES {
        let (model, rates) = snapshot(machine).interval().expect("two samples");
        let all = Constraints::measured(&model, &rates);
        for name in policies.iter().chain(&["doctor"]) {
            let violates = |set: &Setting| {
                let why = forbids(&all, &model, set, Binds::Plans)?;
                Some(format!("{machine} {name}: {set}: {why}"))
            };
            wrong.extend(settings(&model, &rates, name).iter().filter_map(violates).take(2));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The kernel would take these.
#[test]
fn what_apply_refuses() {
    let refused = |machine: &str, setting: &str| {
        let (snapshot, model) = (snapshot(machine), model(machine));
        let plan = Plan::new("by hand", &[setting.parse().expect("a setting")]);
        check(snapshot.last(), &model, &plan).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(
        refused("ice-vectors-exhausted", "irq_affinity ens1f0/rx-9 = 40").expect_err("isolated"),
        "irq_affinity ens1f0/rx-9 = 40: CPU 40 is isolated at boot (isolcpus=); choose others"
    );
    assert_eq!(
        refused("veth-8queue", "rps veth00000000/rx-1 = 0-2").expect_err("tickless"),
        "rps veth00000000/rx-1 = 0-2: CPU 2 is tickless (nohz_full=); choose others"
    );
    assert_eq!(refused("veth-8queue", "rps veth00000000/rx-1 = 0-1,32-33"), Ok(()));
}
