//! The captured hosts below fixtures/hosts: each is read completely and matches its README.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use rxlab_advise::doctor::doctor;
use rxlab_base::parse::ethtool::Count;
use rxlab_base::units::{CpuId, CpuMask, Need};
use rxlab_path::model::{Fact, Function, Irq, Model, Nic, NicKind, Rates, Source};
use rxlab_path::sample::{Counters, Inventory, Sample, Scope};
use rxlab_record::snapshot::Snapshot;

use crate::tree::look;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Names of the captured hosts, in order.
pub(crate) fn names() -> Vec<String> {
    let entries = std::fs::read_dir(fixtures().join("hosts")).expect("listed");
    let names = entries.map(|entry| entry.expect("listed").file_name().into_string().expect("text"));
    let names: BTreeSet<String> = names.collect();
    assert!(names.len() >= 3, "{names:?}");
    names.into_iter().collect()
}

/// The file of a captured host.
pub(crate) fn captured(name: &str) -> String {
    format!("{}/hosts/{name}/host.tar.zst", fixtures().display())
}

fn host(name: &str) -> Snapshot {
    Snapshot::read(File::open(captured(name)).expect("a captured host")).expect("a snapshot")
}

/// Model and rates of a captured host between its two samples.
pub(crate) fn recorded(name: &str) -> (Model, Rates) {
    let snapshot = host(name);
    let before = Counters::take(snapshot.first(), &Inventory::take(snapshot.first(), Scope::All));
    let inventory = Inventory::take(snapshot.last(), Scope::All);
    let after = Counters::take(snapshot.last(), &inventory);
    let rates = Rates::between(&before, &after).expect("two moments of one boot").accounted(&inventory);
    (Model::new(&inventory), rates)
}

fn model(name: &str) -> Model {
    look(host(name).last(), Scope::All)
}

fn eth0(model: &Model) -> &Nic {
    model.nic(&"eth0".parse().expect("a name")).expect("there")
}

fn cpus(list: &str) -> CpuMask {
    list.parse().expect("a CPU list")
}

/// Allowed and effective CPUs of each receive queue's interrupt.
fn placement(nic: &Nic) -> Vec<(CpuMask, CpuMask)> {
    let known = |fact: &Fact<CpuMask>| fact.known().expect("a readable affinity").clone();
    let one = |queue: &rxlab_path::model::RxQueue| {
        let [irq] = queue.irqs.as_slice() else { panic!("rx-{} has {:?}", queue.index, queue.irqs) };
        assert_eq!(irq.action, format!("virtio{}-input.{}", virtio(nic), queue.index));
        (known(&irq.affinity), known(&irq.effective))
    };
    nic.rx.iter().map(one).collect()
}

/// N of the device `virtioN`, from the one interrupt that every virtio NIC has.
fn virtio(nic: &Nic) -> &str {
    let config = nic.other_irqs.iter().find_map(|irq| irq.action.strip_suffix("-config"));
    config.and_then(|device| device.strip_prefix("virtio")).expect("an interrupt virtioN-config")
}

fn by_node(model: &Model) -> BTreeMap<Option<u32>, CpuMask> {
    let mut nodes: BTreeMap<Option<u32>, CpuMask> = BTreeMap::new();
    for cpu in &model.cpus {
        nodes.entry(cpu.node).or_default().insert(cpu.id);
    }
    nodes
}

/// Texts of all `Fact::Broken` and places of all `Fact::Denied` in a value.
fn unread(value: &serde_json::Value, place: &str) -> Vec<String> {
    let inside = |key: String, value| unread(value, &format!("{place}/{key}"));
    match value {
        serde_json::Value::Object(map) if map.contains_key("broken") || map.contains_key("denied") => {
            vec![format!("{place}: {value}")]
        }
        serde_json::Value::Object(map) => map.iter().flat_map(|(k, v)| inside(k.clone(), v)).collect(),
        serde_json::Value::Array(list) => {
            (0..).zip(list).flat_map(|(n, v): (u32, _)| inside(n.to_string(), v)).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn every_host_has_a_readme_and_is_read_in_full() {
    let broken =
        serde_json::json!([{ "a": Fact::<u32>::Broken("b".into()) }, Fact::<u32>::Denied(Need::Root)]);
    assert_eq!(unread(&broken, "").len(), 2, "the check itself is broken");

    for name in names() {
        let readme = fixtures().join("hosts").join(&name).join("README.md");
        let readme = std::fs::read_to_string(readme).expect("every host has a README.md");
        assert!(readme.starts_with(&format!("# {name}\n")), "{name}");
        assert!(readme.contains("\n- Captured 20"), "{name}");

        let snapshot = host(&name);
        assert!(snapshot.manifest.redacted, "{name}");
        let sample = Sample::take(snapshot.last());
        let model = Model::new(&sample.inventory);
        // Captured where only its own processes were visible.
        let alone = name == "microvm-2cpu";
        let unread = |value: serde_json::Value| {
            let mut found = unread(&value, &name);
            found.retain(|text| !alone || !text.ends_with(r#"{"denied":"all_processes"}"#));
            found
        };
        let seen = format!("{sample:?}");
        let seen = if alone { seen.replace("Denied(AllProcesses)", "") } else { seen };
        assert!(!seen.contains("Broken(") && !seen.contains("Denied("), "{name}: {seen}");
        assert_eq!(unread(serde_json::to_value(&model).expect("JSON")), [""; 0]);
        // Redacted on purpose, not empty by accident.
        assert_eq!(model.identity.hostname, name);
        assert_eq!(model.identity.boot_id, "00000000-0000-4000-8000-000000000001");
        assert!(readme.contains(&model.identity.kernel) && !model.identity.kernel.is_empty(), "{name}");

        let online = model.online();
        let counters = &sample.counters;
        assert_eq!(counters.times.known().map(BTreeMap::len), Some(online.len()), "{name}");
        assert_eq!(counters.cpus.known().map(BTreeMap::len), Some(online.len()), "{name}");
        let threads = if alone { 0 } else { online.len() };
        assert_eq!(counters.ksoftirqd_ns.len(), threads, "{name}");
        assert_eq!(counters.nics.len(), model.nics.len(), "{name}");
        assert_eq!(sample.inventory.settings.exact_softirq_time, Fact::Known(false), "{name}");
        assert_eq!(model.rps_sock_flow_entries, Fact::Known(0), "{name}");
        let nobody = if alone { Fact::Denied(Need::AllProcesses) } else { Fact::Known(None) };
        assert_eq!(model.irqbalance, nobody, "{name}");
        let rps_off = |nic: &Nic| nic.rx.iter().all(|queue| queue.rps_cpus == Fact::Known(CpuMask::new()));
        assert!(model.nics.iter().all(rps_off), "{name}");
        assert_eq!(eth0(&model).kind, NicKind::Device, "{name}");
        let driver = if name == "e1000e-4cpu" { "e1000e" } else { "virtio_net" };
        assert_eq!(eth0(&model).driver.as_deref(), Some(driver), "{name}");
        assert!(eth0(&model).up, "{name}");
    }
}

#[test]
fn microvm_2cpu() {
    let sample = Sample::take(host("microvm-2cpu").last());
    let model = Model::new(&sample.inventory);
    assert_eq!(model.online(), cpus("0-1"));
    assert_eq!(model.cpus[1].siblings, cpus("1"));
    assert_eq!(model.cpus[1].l3, cpus("0-1"));
    let nic = eth0(&model);
    assert_eq!(nic.address.0, "pci:0000:00:03.0");
    assert_eq!(placement(nic), [(cpus("0-1"), cpus("1"))]);
    // 6.18 reports which NAPI polls the queue, and virtio does not report the interrupt to the kernel.
    let napi = nic.rx[0].napi.as_ref().expect("netdev netlink answers");
    // Packets of the queue by netlink, and of the interrupt that is shown for it: that is the one that fired.
    let packets = sample.counters.nics[&nic.name].rx_queues[&0].packets;
    let lines = &sample.counters.interrupts.known().expect("read").irqs;
    let rang = |irq: &Irq| lines[&irq.number].counts.values().sum::<u64>();
    let rung = rang(&nic.rx[0].irqs[0]);
    assert!(packets > 10_000 && rung > 1_000 && rung <= packets, "{rung} interrupts for {packets} packets");
    assert_eq!(nic.other_irqs.iter().map(rang).min(), Some(0), "the configuration did not change");
    assert_eq!((napi.irq, nic.rx[0].irqs[0].source), (None, Source::MsiName));
    assert_eq!(nic.hardware.function, Function::Paravirtual);
    let combined = nic.hardware.channels.known().and_then(|channels| channels.combined);
    assert_eq!(combined, Some(Count { now: 1, max: 1 }));
    // ENOENT on the live machine: a device with one queue has no XPS.
    assert_eq!(nic.tx.iter().map(|tx| &tx.xps_cpus).collect::<Vec<_>>(), [&Fact::Unsupported]);
}

#[test]
fn virtio_8cpu_1queue() {
    let sample = Sample::take(host("virtio-8cpu-1queue").last());
    let model = Model::new(&sample.inventory);
    assert_eq!(model.online(), cpus("0-7"));
    assert_eq!(model.cpus[5].siblings, cpus("4-5"));
    assert_eq!(by_node(&model), BTreeMap::from([(Some(0), cpus("0-7"))]));
    assert_eq!(eth0(&model).node, None, "-1 is unknown");
    assert_eq!(placement(eth0(&model)), [(cpus("2"), cpus("2"))]);

    let irq = eth0(&model).rx[0].irqs[0].number;
    let lines = sample.counters.interrupts.known().expect("read");
    let busiest = lines.irqs[&irq].counts.iter().max_by_key(|(_, count)| **count);
    assert_eq!(busiest.map(|(cpu, _)| *cpu), Some(CpuId(2)));
}

#[test]
fn virtio_32cpu_2node() {
    let model = model("virtio-32cpu-2node");
    assert_eq!(model.online(), cpus("0-31"));
    assert_eq!(by_node(&model), BTreeMap::from([(Some(0), cpus("0-15")), (Some(1), cpus("16-31"))]));
    assert_eq!(model.cpus[20].l3, cpus("16-31"));
    let nic = eth0(&model);
    assert_eq!((nic.node, nic.address.0.as_str()), (Some(1), "pci:0000:81:00.0"), "behind a bridge");
    assert_eq!(placement(nic), [(cpus("16"), cpus("16"))]);
}

#[test]
fn virtio_128cpu_16queue() {
    let model = model("virtio-128cpu-16queue");
    assert_eq!(model.online(), cpus("0-127"));
    let nodes = [(0, "0-31"), (1, "32-63"), (2, "64-95"), (3, "96-127")];
    assert_eq!(by_node(&model), nodes.map(|(node, list)| (Some(node), cpus(list))).into());
    assert_eq!((model.cpus[127].package, &model.cpus[127].siblings), (Some(3), &cpus("126-127")));

    let nic = eth0(&model);
    assert_eq!((nic.rx.len(), nic.tx.len(), nic.node), (16, 16, None));
    let spread: Vec<CpuMask> = (0..16).map(|n| cpus(&format!("{}-{}", 8 * n, 8 * n + 7))).collect();
    let placement = placement(nic);
    assert_eq!(placement.iter().map(|(affinity, _)| affinity.clone()).collect::<Vec<_>>(), spread);
    assert!(placement.iter().all(|(_, effective)| effective.len() == 1));
    // A changed affinity takes effect with the next interrupt: 12 to 15 never had one.
    let moved = placement.iter().map(|(affinity, effective)| !affinity.intersection(effective).is_empty());
    assert_eq!(moved.collect::<Vec<_>>(), [[true; 12].as_slice(), [false; 4].as_slice()].concat());
    // Masks of four groups of 32 bits.
    let xps: Vec<CpuMask> = nic.tx.iter().map(|tx| tx.xps_cpus.known().expect("a mask").clone()).collect();
    assert_eq!(xps, spread);
}

#[test]
fn virtio_8cpu_8queue() {
    let model = model("virtio-8cpu-8queue");
    let each: Vec<_> = (0..8).map(|cpu| (cpus(&cpu.to_string()), cpus(&cpu.to_string()))).collect();
    assert_eq!(placement(eth0(&model)), each);
    assert_eq!(eth0(&model).rx[0].napi, None, "6.1 has no netdev netlink");
    let combined = eth0(&model).hardware.channels.known().and_then(|channels| channels.combined);
    assert_eq!(combined, Some(Count { now: 8, max: 8 }));
}

#[test]
fn virtio_16cpu_2nic() {
    let model = model("virtio-16cpu-2nic");
    assert_eq!(by_node(&model), BTreeMap::from([(Some(0), cpus("0-7")), (Some(1), cpus("8-15"))]));
    let nics = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
    let shape = nics.map(|nic| (nic.name.as_str(), nic.node, nic.rx.len(), placement(nic).len()));
    assert_eq!(shape.collect::<Vec<_>>(), [("eth0", Some(0), 4, 4), ("eth1", Some(1), 1, 1)]);
}

/// Each interrupt of a NIC is a target: those of queues by queue, the others by name.
#[test]
fn every_interrupt_is_a_target() {
    let knob = rxlab_change::knob::find("irq_affinity").expect("registered");
    for (name, tx, others) in
        [("e1000e-4cpu", 1, &["eth0/irq-eth0"][..]), ("virtio-8cpu-8queue", 8, &["eth0/irq-virtio0-config"])]
    {
        let model = model(name);
        let rx = eth0(&model).rx.len();
        let targets = knob.targets(&model);
        let names: Vec<String> = targets.iter().map(ToString::to_string).collect();
        let queues = (0..rx).map(|n| format!("eth0/rx-{n}")).chain((0..tx).map(|n| format!("eth0/tx-{n}")));
        let expected: Vec<String> = queues.chain(others.iter().map(|name| (*name).to_owned())).collect();
        assert_eq!(names, expected, "{name}");
        assert_eq!(targets.len(), rx + eth0(&model).other_irqs.len(), "{name}: all are included");
    }
}

/// One of three interrupts is the queue's; ethtool reports the moderation.
#[test]
fn e1000e_4cpu() {
    let model = model("e1000e-4cpu");
    let nic = eth0(&model);
    assert_eq!(nic.rx[0].irqs[0].action, "eth0-rx-0");
    assert_eq!(nic.other_irqs.len(), 2);
    assert_eq!(nic.hardware.coalesce.known().and_then(|coalesce| coalesce.rx_usecs), Some(3));
    let driver = nic.hardware.driver.known().expect("every driver has a name");
    assert!(!driver.firmware.is_empty());
}

/// Field case A, recorded under load: the finding, its CPU and the plan come from the file.
#[test]
fn the_recorded_hotspot_is_found() {
    let (model, rates) = recorded("virtio-8cpu-1queue");
    let report = doctor(&model, &rates, "rxlab");
    let hotspot = report.findings.iter().find(|finding| finding.id == "one-core-hotspot");
    assert_eq!(hotspot.and_then(|finding| finding.cpu), Some(CpuId(2)), "{:?}", report.findings);
    let plan = report.plans.iter().find(|proposal| proposal.plan.name == "rps").expect("a plan");
    assert!(!plan.plan.settings.is_empty());
}
