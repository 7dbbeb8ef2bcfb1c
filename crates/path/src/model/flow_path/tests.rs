//! The way of flows through composed machines: no available machine has a device with all of this.

use super::{Certainty, FlowPath, Step};
use crate::model::{Cpu, DeviceAddress, Irq, Model, Nic, NicKind, RxQueue};
use rxlab_base::parse::ethtool::{Feature, FlowAction, FlowRule, FlowSpec, HashFields, Rss};
use rxlab_base::units::{CpuId, CpuMask, Fact, IrqId, Need};

use Certainty::{Assumed, Certain, Computed, NotKnown};

/// Published flows: with this key, 0x51ccc178 and 0xc626b0ea, and 0x323e8fc2 for the addresses of the first.
const FLOW: &str = "tcp 161.142.100.80:1766 66.9.149.187:2794";
const OTHER: &str = "tcp 65.69.140.83:4739 199.92.111.2:14230";
const UDP: &str = "udp 161.142.100.80:1766 66.9.149.187:2794";
const KEY: &str = "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa";

fn mask(list: &str) -> CpuMask {
    list.parse().expect("a list")
}

fn hashed(kind: &str, fields: &[&str]) -> HashFields {
    HashFields { kind: kind.into(), fields: fields.iter().map(|field| (*field).into()).collect() }
}

/// `eth0` with four queues; the interrupt of rx-N is 40 + N, on CPU N. Nothing steers packets but the table.
pub(in crate::model) fn machine() -> Model {
    let cpu = |id| Cpu { id: CpuId(id), online: true, ..Cpu::default() };
    let queue = |index: u32| RxQueue {
        index,
        rps_cpus: Fact::Known(CpuMask::new()),
        rps_flow_cnt: Fact::Known(0),
        irqs: vec![Irq {
            number: IrqId(40 + index),
            affinity: Fact::Known(mask("0-7")),
            effective: Fact::Known(mask(&index.to_string())),
            ..Irq::default()
        }],
        ..RxQueue::default()
    };
    let address = DeviceAddress("pci:0000:00:03.0".into());
    let mut nic = Nic::new("eth0".parse().expect("a name"), address, NicKind::Device);
    nic.driver = Some("ice".into());
    nic.rx = (0..4).map(queue).collect();
    nic.hardware.rss = Fact::Known(Rss {
        table: (0..128).map(|entry| entry % 4).collect(),
        key: Some(KEY.into()),
        function: Some("toeplitz".into()),
        ..Rss::default()
    });
    let ports = ["ip-src", "ip-dst", "l4-b-0-1", "l4-b-2-3"];
    nic.hardware.hash_fields = Fact::Known(vec![hashed("tcp4", &ports), hashed("udp4", &ports)]);
    let hashing = Feature { name: "rx-hashing".into(), on: true, changeable: true };
    nic.hardware.features = Fact::Known(vec![hashing]);
    let interrupts = Fact::Known(());
    Model { cpus: (0..8).map(cpu).collect(), nics: vec![nic], interrupts, ..Model::default() }
}

fn path(change: impl FnOnce(&mut Model), flow: &str) -> FlowPath {
    let mut model = machine();
    change(&mut model);
    FlowPath::new(&model, &model.nics[0], &flow.parse().expect("a flow"), false)
}

fn changed(change: impl FnOnce(&mut Nic), flow: &str) -> FlowPath {
    path(|model| change(&mut model.nics[0]), flow)
}

/// The RSS table of [`machine`].
pub(in crate::model) fn rss(nic: &mut Nic) -> &mut Rss {
    match &mut nic.hardware.rss {
        Fact::Known(rss) => rss,
        _ => panic!("the machine has a table"),
    }
}

fn with_rss(change: impl FnOnce(&mut Rss)) -> FlowPath {
    changed(|nic| change(rss(nic)), FLOW)
}

fn same<T: Copy + Ord + std::fmt::Debug>(step: &Step<T>, among: &[T], certainty: Certainty) {
    assert_eq!((step.among.as_slice(), step.certainty), (among, certainty), "{step:?}");
}

fn cpus(list: &str) -> Vec<CpuId> {
    mask(list).iter().collect()
}

#[test]
fn a_published_flow_is_computed_from_hash_to_cpu() {
    for (flow, hash, entry, queue) in [(FLOW, 0x51cc_c178, 120, 0), (OTHER, 0xc626_b0ea, 106, 2)] {
        let path = changed(|_| (), flow);
        same(&path.hash, &[hash], Computed);
        same(path.entry.as_ref().expect("looked up"), &[entry], Computed);
        same(&path.queue, &[queue], Computed);
        same(&path.irq, &[IrqId(40 + queue)], Computed);
        same(&path.cpu, &[CpuId(queue)], Computed);
        same(&path.rps_cpu, &[CpuId(queue)], Computed);
        assert_eq!(path.rps_cpu.why, ["RPS is off: the same CPU"]);
    }
}

#[test]
fn fields_that_are_not_reported_are_assumed() {
    let unreported = |flow| changed(|nic| nic.hardware.hash_fields = Fact::Unsupported, flow);
    same(&unreported(FLOW).hash, &[0x51cc_c178], Assumed);
    let udp = unreported(UDP);
    same(&udp.hash, &[0x323e_8fc2], Assumed);
    same(&udp.queue, &[66 % 4], Assumed);
    assert_eq!(udp.hash.why, ["Toeplitz, key of 40 bytes, addresses", "these fields are assumed"]);
    same(&changed(|_| (), UDP).hash, &[0x51cc_c178], Computed);
}

/// The candidates are then all queues of the table.
fn not_known(path: &FlowPath, why: &str) {
    same(&path.hash, &[], NotKnown);
    assert!(path.hash.why[0].contains(why), "{why}: {:?}", path.hash.why);
    same(&path.queue, &[0, 1, 2, 3], NotKnown);
    same(&path.cpu, &cpus("0-3"), NotKnown);
    same(&path.rps_cpu, &cpus("0-3"), NotKnown);
}

#[test]
fn what_cannot_be_computed_is_said() {
    not_known(&with_rss(|rss| rss.key = None), "the driver does not report the key");
    not_known(&with_rss(|rss| rss.key = Some("00".repeat(40))), "a key of zeros");
    not_known(&with_rss(|rss| rss.key = Some("6d5a56da".into())), "a key of 4 bytes is too short");
    not_known(&with_rss(|rss| rss.function = Some("xor".into())), "hash function xor");
    not_known(&with_rss(|rss| rss.function = None), "the hash function is not reported");
    not_known(&with_rss(|rss| rss.transform = Some("symmetric-or-xor".into())), "transform symmetric-or-xor");
    not_known(&with_rss(|rss| rss.table.clear()), "reports no RSS table");
    not_known(&changed(|nic| nic.driver = Some("ena".into()), FLOW), "ena's hash is not the standard");
    not_known(&changed(|nic| nic.driver = Some("mlx5_core".into()), FLOW), "mlx5_core has a symmetric hash");
    not_known(&changed(|nic| nic.hardware.rss = Fact::Unsupported, FLOW), "the RSS table is not reported");
    let denied = Fact::Denied(Need::NetAdmin);
    not_known(&changed(|nic| nic.hardware.rss = denied, FLOW), "the RSS table needs CAP_NET_ADMIN");
    let fields = |fields: &'static [&str]| {
        changed(|nic| nic.hardware.hash_fields = Fact::Known(vec![hashed("tcp4", fields)]), FLOW)
    };
    not_known(&fields(&[]), "does not hash tcp4 packets");
    not_known(&fields(&["ip-src", "vlan"]), "a field that a flow does not have: vlan");

    let mut model = machine();
    rss(&mut model.nics[0]).key = None;
    let redacted = FlowPath::new(&model, &model.nics[0], &FLOW.parse().expect("a flow"), true);
    not_known(&redacted, "the key was removed from this snapshot");
}

#[test]
fn a_symmetric_hash_is_that_of_the_way_back() {
    let symmetric = |nic: &mut Nic| rss(nic).transform = Some("symmetric-xor".into());
    let [there, back] =
        [FLOW, "tcp 66.9.149.187:2794 161.142.100.80:1766"].map(|flow| changed(symmetric, flow).hash);
    assert_eq!((&there.among, there.certainty), (&back.among, Computed));
    assert_ne!(there.only(), Some(0x51cc_c178));
    // Both halves of the input are the same: addresses combined, twice, then the ports.
    let [source, destination] = [[66, 9, 149, 187], [161, 142, 100, 80]];
    let address: Vec<u8> = (0..4).map(|at| source[at] ^ destination[at]).collect();
    let port = (2794u16 ^ 1766).to_be_bytes().to_vec();
    let input = [address.clone(), address, port.clone(), port].concat();
    let key: Vec<u8> =
        (0..40).map(|at| u8::from_str_radix(&KEY[2 * at..2 * at + 2], 16).expect("hex")).collect();
    assert_eq!(there.only(), super::super::toeplitz::toeplitz(&key, &input));
}

#[test]
fn a_device_may_move_a_flow_to_another_queue() {
    let ixgbe = |flow| changed(|nic| nic.driver = Some("ixgbe".into()), flow).queue;
    same(&ixgbe(FLOW), &[0], Assumed);
    same(&ixgbe(UDP), &[0], Computed);
    same(&changed(|nic| nic.driver = Some("virtio_net".into()), FLOW).queue, &[0], Assumed);
    let accelerated = path(
        |model| {
            model.rps_sock_flow_entries = Fact::Known(32768);
            model.nics[0].rx.iter_mut().for_each(|rx| rx.rps_flow_cnt = Fact::Known(4096));
            let ntuple = Feature { name: "rx-ntuple-filter".into(), on: true, changeable: true };
            let Fact::Known(features) = &mut model.nics[0].hardware.features else { panic!("known") };
            features.push(ntuple);
        },
        FLOW,
    );
    same(&accelerated.queue, &[0], Assumed);
    same(&accelerated.rps_cpu, &[], NotKnown);
    assert!(accelerated.rps_cpu.why[0].starts_with("RFS is on"), "{:?}", accelerated.rps_cpu.why);
    let odd = with_rss(|rss| rss.table.truncate(100));
    same(odd.entry.as_ref().expect("looked up"), &[0x51cc_c178 % 100], Assumed);
}

fn rule(location: u32, fields: &[&str], action: FlowAction) -> FlowRule {
    let fields = fields.iter().map(|field| (*field).to_owned()).collect();
    FlowRule { location, spec: FlowSpec { kind: "tcp4".into(), fields }, action }
}

fn with_rules(rules: &[FlowRule]) -> FlowPath {
    let context = Rss { context: 5, table: vec![1; 128], ..Rss::default() };
    let set = |nic: &mut Nic| {
        nic.hardware.rules = Fact::Known(rules.to_vec());
        nic.hardware.rss_contexts = Fact::Known(vec![context]);
    };
    changed(set, FLOW)
}

#[test]
fn a_rule_that_matches_decides() {
    let matching = |action| with_rules(&[rule(7, &["dst-port 1766"], action)]);
    let queue = matching(FlowAction::Queue(3));
    same(&queue.queue, &[3], Certain);
    assert_eq!(queue.queue.why, ["flow rule 7 sends the packets there"]);
    assert_eq!(queue.entry, None);
    same(&queue.cpu, &[CpuId(3)], Certain);
    same(&queue.hash, &[0x51cc_c178], Computed);

    let dropped = matching(FlowAction::Drop);
    same(&dropped.queue, &[], Certain);
    same(&dropped.rps_cpu, &[], Certain);
    assert_eq!(dropped.queue.why, ["flow rule 7 drops the packets"]);
    same(&matching(FlowAction::VirtualFunction { vf: 1, queue: 2 }).queue, &[], Certain);

    // The context has no key of its own.
    let context = matching(FlowAction::Context { context: 5, queue: 2 });
    same(&context.queue, &[3], Computed);
    let missing = matching(FlowAction::Context { context: 6, queue: 0 });
    same(&missing.queue, &[0, 1, 2, 3], NotKnown);
    assert_eq!(missing.queue.why, ["RSS context 6 is not listed"]);

    same(&matching(FlowAction::WakeOnLan).queue, &[0], Computed);
    let other = with_rules(&[rule(7, &["dst-port 80"], FlowAction::Queue(3))]);
    same(&other.queue, &[0], Computed);
}

#[test]
fn rules_that_may_match_leave_a_doubt() {
    let maybe = rule(7, &["dst-port 1766", "tos 8"], FlowAction::Queue(3));
    let doubt = with_rules(std::slice::from_ref(&maybe));
    same(&doubt.queue, &[0], Assumed);
    assert_eq!(doubt.queue.why, ["assumed that flow rule 7 does not match: rules come before RSS"]);

    let sure = |location, queue| rule(location, &["dst-port 1766"], FlowAction::Queue(queue));
    let two = with_rules(&[sure(1, 1), sure(2, 2)]);
    same(&two.queue, &[0, 1, 2, 3], NotKnown);
    assert_eq!(two.queue.why, ["flow rule 1 or 2 may match: their order is the device's"]);
    same(&with_rules(&[sure(1, 1), sure(2, 1)]).queue, &[1], Certain);
    same(&with_rules(&[sure(1, 1), maybe]).queue, &[0, 1, 2, 3], NotKnown);

    // Addresses in a redacted snapshot are stand-ins.
    let mut model = machine();
    let elsewhere = rule(4, &["src-ip 198.18.0.1"], FlowAction::Drop);
    model.nics[0].hardware.rules = Fact::Known(vec![elsewhere]);
    let flow = FLOW.parse().expect("a flow");
    same(&FlowPath::new(&model, &model.nics[0], &flow, false).queue, &[0], Computed);
    same(&FlowPath::new(&model, &model.nics[0], &flow, true).queue, &[0], Assumed);

    let unread = changed(|nic| nic.hardware.rules = Fact::Denied(Need::NetAdmin), FLOW);
    same(&unread.queue, &[0], Assumed);
    assert_eq!(unread.queue.why, ["the list of flow rules needs CAP_NET_ADMIN"]);
}

#[test]
fn the_only_queue_needs_no_hash() {
    let one = changed(
        |nic| {
            nic.rx.truncate(1);
            nic.hardware.rss = Fact::Unsupported;
        },
        FLOW,
    );
    same(&one.hash, &[], NotKnown);
    same(&one.queue, &[0], Certain);
    same(&one.rps_cpu, &[CpuId(0)], Certain);
}

#[test]
fn interrupts_have_a_cpu_or_a_reason() {
    let irq = |change: fn(&mut Irq)| changed(|nic| change(&mut nic.rx[0].irqs[0]), FLOW).cpu;
    same(&irq(|irq| irq.effective = Fact::Unsupported), &cpus("0-7"), NotKnown);
    let denied = irq(|irq| {
        irq.effective = Fact::Known(CpuMask::new());
        irq.affinity = Fact::Denied(Need::Root);
    });
    same(&denied, &[], NotKnown);
    assert_eq!(denied.why, ["the affinity of IRQ 40 needs root"]);

    let pending = irq(|irq| irq.affinity = Fact::Known(mask("6")));
    same(&pending, &[CpuId(6)], Computed);
    assert_eq!(pending.why, ["IRQ 40 moves there when it next fires"]);

    let without = changed(|nic| nic.rx[0].irqs.clear(), FLOW);
    assert_eq!(without.cpu.why, ["no interrupt of rx-0 is known"]);
    let channel = changed(
        |nic| {
            nic.rx[0].irqs.clear();
            nic.rx[0].channel_cpu = Some(CpuId(6));
        },
        FLOW,
    );
    same(&channel.irq, &[], Computed);
    same(&channel.cpu, &[CpuId(6)], Computed);
    let threaded = changed(|nic| nic.napi.threaded = Fact::Known(true), FLOW);
    same(&threaded.irq, &[IrqId(40)], Computed);
    same(&threaded.cpu, &[], NotKnown);
    let hidden = path(|model| model.interrupts = Fact::Broken("empty".into()), FLOW);
    assert_eq!(hidden.cpu.why, ["the list of interrupts is unknown: empty"]);

    // Whatever the queue, its interrupt is there.
    let together = changed(
        |nic| {
            nic.hardware.rss = Fact::Unsupported;
            nic.rx.iter_mut().for_each(|rx| rx.irqs[0].effective = Fact::Known(mask("5")));
        },
        FLOW,
    );
    same(&together.queue, &[0, 1, 2, 3], NotKnown);
    same(&together.cpu, &[CpuId(5)], Certain);
}

fn with_rps(list: &str, change: impl FnOnce(&mut Model), flow: &str) -> Step<CpuId> {
    let set = |model: &mut Model| {
        model.nics[0].rx.iter_mut().for_each(|rx| rx.rps_cpus = Fact::Known(mask(list)));
        change(model);
    };
    path(set, flow).rps_cpu
}

#[test]
fn rps_scales_the_device_s_hash_to_its_mask() {
    // 0x51ccc178 and 0xc626b0ea are 0.32 and 0.77 of 2^32.
    same(&with_rps("4-7", |_| (), FLOW), &[CpuId(5)], Assumed);
    same(&with_rps("4-7", |_| (), OTHER), &[CpuId(7)], Assumed);
    same(&with_rps("3,5,7", |_| (), OTHER), &[CpuId(7)], Assumed);
    let offline = |model: &mut Model| model.cpus[7].online = false;
    let stays = with_rps("4-7", offline, OTHER);
    same(&stays, &[CpuId(2)], Computed);
    assert_eq!(stays.why, ["CPU 7 of the RPS mask is offline: the same CPU"]);
    // The hash does not matter.
    let unhashed = |model: &mut Model| model.nics[0].hardware.rss = Fact::Unsupported;
    same(&with_rps("6", unhashed, FLOW), &[CpuId(6)], Certain);
}

#[test]
fn rps_by_the_kernel_s_hash_is_a_set() {
    let set = |change: fn(&mut Model), why: &str| {
        let step = with_rps("4-7", change, FLOW);
        same(&step, &cpus("4-7"), NotKnown);
        assert!(step.why[0].contains(why), "{why}: {:?}", step.why);
    };
    set(|model| model.nics[0].hardware.features = Fact::Known(vec![]), "rx-hashing is not on");
    set(|model| model.nics[0].driver = Some("igb".into()), "igb reports no hash of ports");
    let addresses = |model: &mut Model| {
        model.nics[0].hardware.hash_fields = Fact::Known(vec![hashed("tcp4", &["ip-src", "ip-dst"])]);
    };
    set(addresses, "ice reports no hash of ports");
    set(|model| model.nics[0].hardware.rss = Fact::Unsupported, "the device's hash is unknown");
    set(|model| model.nics[0].kind = NicKind::Virtual, "that of the sending socket");
    let steered = |model: &mut Model| {
        model.nics[0].hardware.rules = Fact::Known(vec![rule(1, &["dst-port 1766"], FlowAction::Queue(1))]);
    };
    set(steered, "no hash for packets that a flow rule steers");
}

#[test]
fn queues_with_different_masks_are_all_possible() {
    let unhashed = |model: &mut Model, masks: [&str; 4]| {
        model.nics[0].hardware.rss = Fact::Unsupported;
        for (rx, list) in model.nics[0].rx.iter_mut().zip(masks) {
            rx.rps_cpus = Fact::Known(mask(list));
        }
    };
    same(&path(|model| unhashed(model, ["4", "5", "6", "6-7"]), FLOW).rps_cpu, &cpus("4-7"), NotKnown);
    // Packets of a queue without RPS stay on its CPU.
    same(&path(|model| unhashed(model, ["4", "4", "4", ""]), FLOW).rps_cpu, &cpus("3-4"), NotKnown);
    let broken = changed(|nic| nic.rx[0].rps_cpus = Fact::Broken("`zz`".into()), FLOW).rps_cpu;
    same(&broken, &[], NotKnown);
    assert_eq!(broken.why, ["the RPS mask of rx-0 is unknown: `zz`"]);
}
