//! The machines of fixtures/field through every command: what show and doctor say of each, that every plan for it can be applied,
//! undone and exported, and that the answers do not contradict each other. Which interrupt is whose is tested in `rxlab-advise`.

#![allow(clippy::disallowed_methods)] // Opens the fixtures.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rxlab_advise::doctor::{DoctorReport, doctor};
use rxlab_advise::plan::{Options, Policy};
use rxlab_base::parse::irqbalance_setup;
use rxlab_base::units::{CpuMask, Direction};
use rxlab_change::apply::{self, BeginInfo, Transaction};
use rxlab_change::journal::{Memory, Store};
use rxlab_faces::report::{findings, receive_path};
use rxlab_path::model::{Model, Rates};
use rxlab_record::snapshot::Snapshot;
use rxlab_setting::export::{Format, export};
use rxlab_setting::{Plan, Setting, Target, simulation};
use rxlab_sys::{Failpoint, FlakyHost, Host, RecordedHost};

/// What is right about a machine.
struct Machine {
    name: &'static str,
    /// Words of the map.
    shown: &'static [&'static str],
    /// Beginning of the first finding's title; empty if nothing is wrong, or nothing can be said.
    finding: &'static str,
    /// The plan that the doctor tries first, and its interface; none if no setting helps.
    first: Option<(&'static str, &'static str)>,
    /// Words that the doctor must not say.
    unsaid: &'static [&'static str],
}

const fn machine(
    name: &'static str,
    shown: &'static [&'static str],
    finding: &'static str,
    first: Option<(&'static str, &'static str)>,
    unsaid: &'static [&'static str],
) -> Machine {
    Machine { name, shown, finding, first, unsaid }
}

const ELSEWHERE: &str = "another network namespace";

const MACHINES: [Machine; 73] = [
    machine("al-eth", &["199"], "CPU 0 is full", Some(("spread.irq", "eth1")), &[ELSEWHERE]),
    machine("am65-cpsw", &["279"], "CPU 0 is full", Some(("rps", "eth0")), &[ELSEWHERE]),
    machine("am65-cpsw-interface-name", &["279"], "CPU 0 is full", Some(("rps", "eth0")), &[ELSEWHERE]),
    machine(
        "atlantic-one-name",
        &["128"],
        "CPU 3 handles",
        Some(("spread.irq", "enp1s0")),
        &["too-few-queues"],
    ),
    machine(
        "azure-mlx5-vf",
        &["enP41394s1"],
        "enP41394s1 is on node 0, its interrupts land on node 1",
        Some(("numa-local.irq", "enP41394s1")),
        &[ELSEWHERE],
    ),
    machine(
        "bcmgenet-arch-timer",
        &["eth0"],
        "CPU 0 is full",
        Some(("rps", "eth0")),
        &[ELSEWHERE, "arch_timer"],
    ),
    machine("cxgb4", &["enp5s0f4"], "CPU 17 handles", Some(("spread.irq", "enp5s0f4")), &[ELSEWHERE]),
    machine("cxgb4-vendor", &["enp5s0f4"], "CPU 17 handles", Some(("spread.irq", "enp5s0f4")), &[ELSEWHERE]),
    machine("device-drops-idle", &["eth0"], "eth0 drops 900 packets/s", None, &["\"no drops\""]),
    machine(
        "ena-over-allowance",
        &["ens5"],
        "the host delays or drops 2,400 packets/s of ens5",
        None,
        &["one-core-hotspot", "too-few-queues"],
    ),
    machine("ena-xdp", &["ens5"], "ens5 has 2 RX queues", Some(("rps", "ens5")), &["channels ens5"]),
    machine("gve-1queue", &["38"], "CPU 8 is full", Some(("rps", "ens4")), &[ELSEWHERE]),
    machine("hinic-uncounted", &["ens8"], "CPU 3 is full", Some(("spread.irq", "ens8")), &[ELSEWHERE]),
    machine("ice-128queue", &["em3"], "", None, &[]),
    machine(
        "ice-32queue",
        &["ens2f1"],
        "CPUs 0-3 each handle the interrupts of 8 busy queues",
        Some(("spread.irq", "ens2f1")),
        &[],
    ),
    machine(
        "ice-vectors-exhausted",
        &["ens2f0"],
        "6,600 interrupts/s of ens2f0 on isolated CPUs 2-5",
        Some(("isolate.channels", "ens2f0")),
        &["irq_affinity"],
    ),
    machine(
        "ice-vendor-two-queues-a-vector",
        &["ens2f1"],
        "CPUs 0-3 each handle the interrupts of 4 busy queues",
        Some(("spread.irq", "ens2f1")),
        &[],
    ),
    machine("igb-squeezes", &["eth0"], "", None, &["time-squeeze"]),
    machine("iptables-4500-rules", &["ens3"], "CPU 2 is full", Some(("rps", "ens3")), &["not-packets"]),
    machine(
        "ixgbe-16queue",
        &["enp3s0f0"],
        "enp3s0f0 has 16 RX queues",
        Some(("rps", "enp3s0f0")),
        &["channels"],
    ),
    machine(
        "ixgbe-40queue",
        &["enp3s0f0"],
        "rx-0 and 15 more queues take 100 %",
        Some(("rps", "enp3s0f0")),
        &["channels enp3s0f0 ="],
    ),
    machine(
        "kvm-capped-cpu",
        &["eth0"],
        "the hypervisor takes 40 % of the time",
        None,
        &["one-core-hotspot", "single-queue-no-rps"],
    ),
    machine("lxcfs", &[], "", None, &["one-core-hotspot"]),
    machine("lxcfs-docker", &[], "", None, &["one-core-hotspot"]),
    machine("be2net-default-queue", &["rx-4"], "CPU 0 is full", Some(("rps", "ens2f0")), &["no drops"]),
    machine("dpaa2-portals", &["eth1"], "CPU 2 is full", Some(("rps", "eth1")), &["no drops", ELSEWHERE]),
    machine("e1000-one-line", &["16"], "CPU 3 is full", Some(("rps", "eth0")), &["already takes another"]),
    machine(
        "hns3-uncounted",
        &["eth0"],
        "CPU 0 is full",
        Some(("rps", "eth0")),
        &[ELSEWHERE, "fewer packets"],
    ),
    machine("mlx4-beside-igb", &["81"], "CPU 1 is full", Some(("rps", "ens5")), &["set channels eno1"]),
    machine("mlx5-representors", &["81"], "CPU 2 is full", Some(("rps", "enp8s0f0npf0vf0")), &[ELSEWHERE]),
    machine("mvneta-percpu", &["37"], "CPU 0 is full", Some(("rps", "eth0")), &["no drops"]),
    machine("mvpp2-queue-full", &["eth0"], "eth0 loses 1,200 packets/s", None, &["no drops"]),
    machine("octeontx2-drops", &["eth0"], "eth0 drops 20,000 packets/s", None, &["nothing to do"]),
    machine("mt7622-dsa", &["143"], "all 85,000 packets/s of eth0", Some(("rfs", "eth0")), &[ELSEWHERE]),
    machine("mt7996-napi-threads", &["eth0"], "CPU 3 is full", None, &["too-few-queues", "channels"]),
    machine("plic-no-trigger", &["eth0"], "CPU 0 is full", Some(("rps", "eth0")), &[ELSEWHERE]),
    machine("pppoe-bnx2x", &["eth3"], "CPU 6 is full", Some(("rps", "eth3")), &["too-few-queues"]),
    machine(
        "r8125-beside-soc-nics",
        &["eth2", "26"],
        "CPU 0 is full",
        Some(("spread.irq", "eth2")),
        &["it receives all packets of eth0"],
    ),
    machine("tunnel-drops", &["wg0"], "wg0 drops 900 packets/s", Some(("rfs", "eth0")), &["no drops"]),
    machine("tunnel-drops-idle", &["wg0"], "wg0 drops 900 packets/s", None, &["no drops"]),
    machine("usb-nic", &["25"], "CPU 3 is full", Some(("rps", "eth1")), &[ELSEWHERE]),
    machine(
        "veth-8queue",
        &["veth00000000"],
        "7 of 8 queues of veth00000000 have no RPS mask",
        Some(("rps", "veth00000000")),
        &[],
    ),
    machine(
        "vmxnet3-46cpu",
        &["ens192"],
        "CPU 0 is full",
        Some(("spread.irq", "ens192")),
        &["0 packets/s\""],
    ),
    machine(
        "wireguard",
        &["wireguard.cali"],
        "wireguard.cali drops 900 packets/s",
        Some(("rps", "wireguard.cali")),
        &["no drops"],
    ),
    machine("xen-3.10-ixgbevf", &["100"], "CPU 0 is full", Some(("rps", "eth0")), &["will spread it"]),
    machine("xen-3.10-ixgbevf-8cpu", &["100"], "CPU 0 is full", Some(("rps", "eth0")), &["will spread it"]),
    machine("xen-ixgbevf", &["100"], "CPU 0 is full", Some(("rps", "eth0")), &["will spread it"]),
    machine("aliyun-two-enis", &["32"], "CPU 4 is full", Some(("rps", "eth1")), &[ELSEWHERE]),
    machine("armada-xp-mvneta", &["eth1"], "CPU 0 is full", Some(("rps", "eth1")), &[ELSEWHERE]),
    machine("asahi-atlantic", &["80"], "enp3s0 drops 18,000 packets/s", None, &["no drops"]),
    machine("bnx2-interrupts", &["70"], "", None, &["interrupt-rate"]),
    machine(
        "cm4-igb-4port",
        &["54"],
        "CPU 0 is full",
        Some(("rps", "eth1")),
        &["move the interrupts", "queues-share-a-cpu"],
    ),
    machine("ena-8queue-64cpu", &["131"], "CPU 0 is full", Some(("spread.irq", "eth0")), &[ELSEWHERE]),
    machine(
        "idpf-224cpu",
        &["101"],
        "enp54s0 is on node 0, its interrupts land on node 1",
        Some(("numa-local.irq", "enp54s0")),
        &[],
    ),
    machine("igb-all-on-cpu0", &["27"], "CPU 0 is full", Some(("spread.irq", "eth0")), &[]),
    machine("ipq4019-ipqess", &["85"], "CPU 0 does 94 %", Some(("spread.irq", "eth0")), &[ELSEWHERE]),
    machine("ipq8065-gmac", &["30"], "CPU 0 is full", Some(("spread.irq", "eth0")), &[ELSEWHERE]),
    machine("ipq8074-edma", &["wan"], "CPU 0 is full", Some(("rps", "wan")), &[ELSEWHERE, "br-lan has no"]),
    machine("joyent-two-virtio", &["25"], "CPU 1 is full", Some(("rps", "eth0")), &[ELSEWHERE]),
    machine("kata-hotplug", &["39"], "CPU 3 spends 85 %", Some(("rps", "eth0")), &[]),
    machine("lantiq-xrx200", &["eth0"], "CPU 0 is full", Some(("rps", "eth0")), &[ELSEWHERE]),
    machine("mt7621-napi-thread", &["22"], "CPU 2 is full", None, &[ELSEWHERE, "phy0-ap0/rx-0 ="]),
    machine("mt7986-two-macs", &["131"], "CPU 0 is full", Some(("rps", "eth1")), &[ELSEWHERE]),
    machine("oci-virtio", &["61"], "CPU 1 does 51 %", Some(("rps", "ens3")), &[ELSEWHERE, "a NIC's"]),
    machine("octeon-pow", &["eth0"], "CPU 0 is full", Some(("rps", "eth0")), &[ELSEWHERE]),
    machine("orin-nvethernet", &["eth0"], "CPU 0 is full", Some(("rps", "eth0")), &[ELSEWHERE]),
    machine("r8169-renamed", &["125"], "CPU 1 is full", Some(("rps", "net0")), &[ELSEWHERE]),
    machine("rk3399-gmac", &["24"], "CPU 0 is full", Some(("rps", "eth0")), &[]),
    machine("rk3576-r8125", &["95"], "CPU 0 is full", Some(("rps", "eth0")), &["queues-share-a-cpu"]),
    machine("rk3588-two-r8125", &["140"], "CPU 2 spends 90 %", Some(("rps", "eth1")), &[]),
    machine("rp1-macb", &["106"], "CPU 0 is full", Some(("rps", "eth0")), &[]),
    machine("s390-qeth", &["encf5f0"], "CPU 2 is full", Some(("rps", "encf5f0")), &[ELSEWHERE]),
    machine("xu4-usb", &["eth0"], "CPU 7 does 80 %", Some(("rps", "eth0")), &[ELSEWHERE]),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/field")
}

fn recorded(name: &str) -> Snapshot {
    let file = File::open(folder().join(format!("{name}.tar.zst"))).expect("a machine");
    Snapshot::read(file).expect("a snapshot")
}

#[test]
fn every_machine_is_in_the_table() {
    let files = std::fs::read_dir(folder()).expect("listed");
    let files = files.map(|file| file.expect("listed").file_name().into_string().expect("text"));
    let files: BTreeSet<String> =
        files.filter_map(|file| Some(file.strip_suffix(".tar.zst")?.to_owned())).collect();
    assert_eq!(files, MACHINES.iter().map(|machine| machine.name.to_owned()).collect());
}

/// What is wrong about the machine that `machine` describes.
fn wrong(machine: &Machine) -> Vec<String> {
    let snapshot = recorded(machine.name);
    let (model, rates) = snapshot.interval().expect("two samples");
    let report = doctor(&model, &rates, "rxlab");
    let map = receive_path::overview(&model);
    let mut wrong: Vec<String> = machine
        .shown
        .iter()
        .filter(|words| !map.contains(**words))
        .map(|words| format!("`{words}` is not shown"))
        .collect();
    wrong.extend(said(machine, &report));
    wrong.extend(contradictions(&model, &rates, &report));
    for plan in plans(&model, &rates, &report) {
        let of_plan = unproven(&model, &plan).into_iter().chain(not_applied(&snapshot, &model, &plan));
        let of_plan = of_plan.chain(not_exported(&model, &plan));
        wrong.extend(of_plan.map(|why| format!("{}: {why}", plan.name)));
    }
    wrong.into_iter().map(|why| format!("{}: {why}", machine.name)).collect()
}

fn said(machine: &Machine, report: &DoctorReport) -> Vec<String> {
    let screen = findings::everything(report, "rxlab");
    let mut wrong = Vec::new();
    let title = findings::worst_first(&report.findings).first().map_or("", |first| first.title.as_str());
    if !title.starts_with(machine.finding) || title.is_empty() != machine.finding.is_empty() {
        wrong.push(format!("the doctor begins with `{title}`"));
    }
    let first = report.plans.first().map(|first| (first.plan.name.as_str(), first.nic.as_str()));
    if first != machine.first {
        wrong.push(format!("the first plan is {first:?}"));
    }
    wrong.extend(
        machine
            .unsaid
            .iter()
            .filter(|words| screen.contains(**words))
            .map(|words| format!("`{words}` is said:\n{screen}")),
    );
    wrong
}

/// Plans that a finding names exist, and are what `plan` makes; the command of each tries it.
fn contradictions(model: &Model, rates: &Rates, report: &DoctorReport) -> Vec<String> {
    let mut wrong = Vec::new();
    for finding in &report.findings {
        for name in &finding.plans {
            if !report.plans.iter().any(|made| made.addresses(finding) && made.name() == Some(*name)) {
                wrong.push(format!("{} names the plan {name}, which is not made", finding.id));
            }
        }
    }
    for proposal in &report.plans {
        let settings = &proposal.plan.settings;
        if !report.tries(proposal) {
            wrong.push(format!("`{:?}` does not try {}", proposal.next, proposal.plan.name));
        }
        let after = simulated(model, &proposal.plan);
        let again = doctor(&after, rates, "rxlab");
        let back = again.plans.iter().find(|again| {
            let undoes = |planned: &rxlab_setting::PlannedSetting| {
                settings.iter().any(|done| {
                    done.set.knob == planned.set.knob
                        && done.set.target == planned.set.target
                        && done.set.value != planned.set.value
                })
            };
            again.nic == proposal.nic
                && again.plan.name == proposal.plan.name
                && again.plan.settings.iter().any(undoes)
        });
        if let Some(back) = back {
            wrong.push(format!(
                "{} of {} is planned again, otherwise: {:?}",
                back.plan.name, back.nic, back.plan.settings
            ));
        }
    }
    wrong
}

fn simulated(model: &Model, plan: &Plan) -> Model {
    let mut after = model.clone();
    plan.settings.iter().for_each(|planned| simulation::simulate(&mut after, &planned.set));
    after
}

/// Those of the doctor, and one by each policy.
fn plans(model: &Model, rates: &Rates, report: &DoctorReport) -> Vec<Plan> {
    let by_policy = Policy::ALL.iter().map(|(name, policy)| {
        let plan = policy.plan(model, rates, &Options::default(), None).plan;
        Plan { name: (*name).to_owned(), ..plan }
    });
    let made = report.plans.iter().map(|proposal| proposal.plan.clone()).chain(by_policy);
    made.filter(|plan| !plan.settings.is_empty()).collect()
}

/// Settings of interrupts that are not known to be a queue's.
fn unproven(model: &Model, plan: &Plan) -> Vec<String> {
    let of_irqs = plan.settings.iter().map(|planned| &planned.set).filter(|set| set.knob == "irq_affinity");
    let is_unproven = |set: &&Setting| match &set.target {
        Target::Queue { nic, queue } if queue.direction == Direction::Rx => {
            let nic = model.nic(nic).expect("on the map");
            nic.rx.get(queue.index as usize).is_some_and(|queue| queue.irqs.is_empty())
        }
        _ => false,
    };
    // Queues that the plan adds get interrupts when they come.
    let adds_queues = plan.settings.iter().any(|planned| planned.set.knob == "channels");
    of_irqs
        .filter(|set| !adds_queues && is_unproven(set))
        .map(|set| format!("{set}: whose interrupt?"))
        .collect()
}

/// Why a plan cannot be applied to the files of the machine and undone. What needs a driver is rehearsed.
fn not_applied(snapshot: &Snapshot, model: &Model, plan: &Plan) -> Option<String> {
    let (files, rest) = snapshot.last().parts();
    let host = RecordedHost::from_parts(files.clone(), rest.clone());
    let host = FlakyHost::new(host, Vec::new(), Failpoint::new(None, || ()));
    let settings = match apply::check(&host, model, plan) {
        Ok(settings) => settings,
        Err(error) => return Some(format!("refused: {error}")),
    };
    if settings.iter().any(|setting| setting.knob == "channels") {
        return apply::rehearse(&host, model, &settings)
            .err()
            .map(|error| format!("cannot be rehearsed: {error}"));
    }
    let store = Store::new(Memory::default());
    let transaction = Transaction::begin(&store, BeginInfo::new(&model.identity)).expect("begun");
    let id = transaction.id().to_owned();
    match transaction.apply(&host, model, &settings, &AtomicBool::new(false)) {
        Err(failure) => return Some(format!("cannot be applied: {}", failure.error)),
        Ok(kept) if kept.is_empty() => return None,
        Ok(_) => {}
    }
    let undone = Transaction::resume(&store, &id, Duration::ZERO).expect("open").undo(&host, model);
    if !undone.is_clean() || !undone.closed {
        return Some(format!("not undone: {undone:?}"));
    }
    let differing: BTreeMap<&String, Vec<u8>> = files
        .iter()
        .filter_map(|(path, before)| {
            Some((path, host.read(path).ok().filter(|after| !is_same(before, after))?))
        })
        .collect();
    (!differing.is_empty()).then(|| format!("not as before: {differing:?}"))
}

/// True for the same text, mask or answer of irqbalance.
fn is_same(before: &[u8], after: &[u8]) -> bool {
    let setup = |bytes| irqbalance_setup(bytes).ok();
    let text = |bytes| std::str::from_utf8(bytes).ok().map(str::trim);
    let mask = |bytes| text(bytes).and_then(|text| CpuMask::from_hex(text).ok());
    before == after
        || text(before) == text(after)
        || mask(before).is_some_and(|one| mask(after) == Some(one))
        || setup(before).is_some_and(|one| setup(after) == Some(one))
}

/// Settings that no format has and none gives a reason for, and interrupts that a script would not find by their name.
fn not_exported(model: &Model, plan: &Plan) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, format) in Format::ALL {
        let exported = export(format, plan, model);
        let text: String = exported.files.iter().map(|file| file.text.as_str()).collect();
        if exported.files.is_empty() && exported.left_out.len() != plan.settings.len() {
            wrong.push(format!("{name} is empty and leaves out {} settings", exported.left_out.len()));
        }
        if format != Format::Sh {
            continue;
        }
        let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("irq ")).collect();
        let left_out = |set: &Setting| exported.left_out.iter().any(|left| left.setting == *set);
        let of_irqs =
            plan.settings.iter().map(|planned| &planned.set).filter(|set| set.knob == "irq_affinity");
        for set in of_irqs.filter(|set| !left_out(set)) {
            let Target::Queue { nic, queue } = &set.target else { continue };
            if queue.direction == Direction::Tx {
                continue;
            }
            let nic = model.nic(nic).expect("on the map");
            let irqs =
                nic.rx.get(queue.index as usize).map(|queue| queue.irqs.as_slice()).unwrap_or_default();
            for irq in irqs {
                if !lines.iter().any(|line| line.contains(irq.action.as_str())) {
                    wrong.push(format!("{name} does not look for `{}` of {set}", irq.action));
                }
            }
        }
    }
    wrong
}

#[test]
fn all_commands_are_right_about_every_machine() {
    let wrong: Vec<String> = MACHINES.iter().flat_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
