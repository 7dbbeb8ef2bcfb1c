//! The small machine that the knobs' own tests use.

use super::{Knob, Result};
use crate::journal::{Armed, Begin, GroupId, Intent, Store};
use rxlab_base::parse::ethtool::{Channels, Count, FlowAction, FlowRule, FlowSpec, Rss, flow_bytes};
use rxlab_base::parse::{attribute, one_message};
use rxlab_base::units::{CpuId, CpuMask, IrqId};
use rxlab_path::model::{
    DeviceAddress, Fact, Irq, Irqbalance, Listener, Model, Napi, NapiSettings, Process, Settings, Transport,
    TxQueue,
};
use rxlab_path::sketch::Sketch;
use rxlab_setting::Target;
use rxlab_sys::{Cause, EthtoolGet, Failpoint, Fault, FlakyHost, Host, Query, RecordedHost, Rule};

/// Eight CPUs, 3 isolated and 7 offline; `eth0` with two queues (interrupts 24, and 25 with 26; 27 belongs to
/// none), an RSS context and a flow rule, and `veth0` with one queue; process 812 listens.
pub fn model() -> Model {
    let irq = |n| Irq {
        number: IrqId(n),
        action: format!("virtio0-input.{n}"),
        affinity: Fact::Known("0".parse().expect("a list")),
        effective: Fact::Unsupported,
        ..Irq::default()
    };
    let (mut model, _) = Sketch::new(8)
        .isolate("3")
        .offline("7")
        .device("eth0", &[0, 0])
        .xps("eth0", &["", ""])
        .veth("veth0")
        .clock("tsc", &["hpet"])
        .set(|settings| *settings = kernel_settings(8, settings.clone()))
        .build();
    model.identity.hostname = "testbed".to_owned();
    model.identity.boot_id = "boot-1".to_owned();
    model.listeners = Fact::Known(vec![listener()]);
    for nic in &mut model.nics {
        nic.napi = NapiSettings {
            threaded: Fact::Known(false),
            defer_hard_irqs: Fact::Known(0),
            gro_flush_timeout_ns: Fact::Known(0),
        };
    }
    let [eth0, veth0] = &mut model.nics[..] else { unreachable!("two interfaces") };
    veth0.tx = vec![TxQueue { index: 0, xps_cpus: Fact::Unsupported, xps_by_rxq: Fact::Unsupported }];
    eth0.address = DeviceAddress("pci:0000:00:03.0".to_owned());
    eth0.driver = None;
    eth0.other_irqs = vec![irq(27)];
    for (queue, irqs) in eth0.rx.iter_mut().zip([vec![irq(24)], vec![irq(25), irq(26)]]) {
        queue.irqs = irqs;
        queue.napi = Some(Napi { id: 8193 + queue.index, irq: None, thread: Some(500 + queue.index) });
    }
    eth0.hardware.rss_contexts = Fact::Known(vec![Rss { context: 1, ..Rss::default() }]);
    let spec = FlowSpec { kind: "udp4".to_owned(), fields: vec!["dst-port 53".to_owned()] };
    eth0.hardware.rules = Fact::Known(vec![FlowRule { location: 7, spec, action: FlowAction::Queue(1) }]);
    model
}

/// `rest` with the values that a kernel begins with on a machine of `cpus` CPUs.
pub fn kernel_settings(cpus: u32, rest: Settings) -> Settings {
    Settings {
        netdev_budget: Fact::Known(300),
        netdev_budget_usecs: Fact::Known(8000),
        netdev_max_backlog: Fact::Known(1000),
        dev_weight: Fact::Known(64),
        gro_normal_batch: Fact::Known(8),
        skb_defer_max: Fact::Known(64),
        flow_limit_cpus: Fact::Known(CpuMask::new()),
        rps_default_mask: Fact::Known(CpuMask::new()),
        default_smp_affinity: Fact::Known((0..cpus).map(CpuId).collect()),
        busy_poll: Fact::Known(0),
        busy_read: Fact::Known(0),
        rmem_default: Fact::Known(212_992),
        rmem_max: Fact::Known(212_992),
        somaxconn: Fact::Known(4096),
        tcp_max_syn_backlog: Fact::Known(1024),
        nf_conntrack_max: Fact::Known(262_144),
        ..rest
    }
}

/// The same with irqbalance as process 70.
pub fn balanced() -> Model {
    let irqbalance = Irqbalance { pid: 70, ..Irqbalance::default() };
    Model { irqbalance: Fact::Known(Some(irqbalance)), ..model() }
}

fn listener() -> Listener {
    let owner = Process {
        pid: 812,
        command: "web".to_owned(),
        cgroup: Some("/system.slice/web.service".to_owned()),
        unit: Some("web.service".to_owned()),
        container: None,
        allowed: Fact::Unsupported,
        ran_on: Fact::Unsupported,
    };
    Listener {
        transport: Transport::Tcp,
        address: std::net::Ipv4Addr::UNSPECIFIED.into(),
        port: 80,
        sockets: 1,
        owners: Fact::Known(vec![owner]),
    }
}

/// Reads the value of a target.
pub fn read(knob: &dyn Knob, host: &dyn Host, at: &str) -> Result<String> {
    knob.read(knob.site(host, &balanced(), &target(at)))
}

pub fn check(knob: &dyn Knob, host: &dyn Host, at: &str, value: &str) -> Result<String> {
    knob.check(knob.site(host, &balanced(), &target(at)), value)
}

/// The reason why a value is refused.
pub fn refusal(knob: &dyn Knob, host: &dyn Host, at: &str, value: &str) -> String {
    check(knob, host, at, value).expect_err(value).to_string()
}

/// Writes a canonical value, as the applier would.
pub fn write(knob: &dyn Knob, host: &dyn Host, at: &str, value: &str) -> Result {
    knob.write(knob.site(host, &balanced(), &target(at)), value, &armed())
}

pub fn target(text: &str) -> Target {
    text.parse().expect("a target")
}

/// Path of an answer of ethtool for `eth0`.
pub fn path(get: EthtoolGet) -> String {
    Query::Ethtool(get, "eth0".parse().expect("a name")).path()
}

/// An answer of one message with these attributes.
pub fn answer(attributes: &[(u16, &[u8])]) -> Vec<u8> {
    one_message(&attributes.iter().flat_map(|(kind, bytes)| attribute(*kind, bytes)).collect::<Vec<u8>>())
}

/// A host that refuses what ends in `suffix`.
pub fn refusing(host: RecordedHost, suffix: &str, cause: Cause) -> FlakyHost<RecordedHost> {
    let rule = Rule { suffix: suffix.into(), fault: Fault::Refuse(cause) };
    FlakyHost::new(host, vec![rule], Failpoint::new(None, || ()))
}

/// Values as [`Knob::left_by`] takes them.
pub fn list(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

/// The answer of ethtool for these channels.
pub fn channels_answer(channels: &Channels) -> Vec<u8> {
    let kinds = [(2, 6, channels.rx), (3, 7, channels.tx), (4, 8, channels.other), (5, 9, channels.combined)];
    let attributes = kinds.into_iter().filter_map(|(max, now, count)| {
        let Count { now: count, max: most } = count?;
        Some([attribute(max, most.to_ne_bytes()), attribute(now, count.to_ne_bytes())].concat())
    });
    one_message(&attributes.flatten().collect::<Vec<u8>>())
}

/// The answer of ethtool for these offloads: all known ones, those that are requested and on, and the fixed ones.
pub fn features_answer(known: &[&str], on: &[&str], fixed: &[&str]) -> Vec<u8> {
    let bit = |name: &&str| attribute(1, [attribute(2, format!("{name}\0")), attribute(3, [])].concat());
    let bits = |names: &[&str]| attribute(3, names.iter().flat_map(bit).collect::<Vec<u8>>());
    let lists = [(2, known), (3, on), (4, on), (5, fixed)];
    one_message(&lists.map(|(kind, names)| attribute(kind, bits(names))).concat())
}

/// A machine with `rx-ntuple-filter` on or off, and flow rules in these slots.
pub fn with_rules(on: bool, places: &[u32]) -> RecordedHost {
    let rule = |place: &u32| flow_bytes(*place, "udp4 dst-port 53 action 1").expect("a rule");
    let rules: Vec<u8> = places.iter().flat_map(|place| one_message(&rule(place))).collect();
    let feature = ["rx-ntuple-filter"];
    let features = features_answer(&feature, if on { &feature } else { &[] }, &[]);
    let host = RecordedHost::new().with("sys/class/net/eth0/operstate", "up\n");
    host.with(&path(EthtoolGet::Features), features).with(&path(EthtoolGet::Rules), rules)
}

/// A machine on which a thread with these CPUs polls the first queue of eth0, and began in this clock tick.
pub fn with_thread(host: RecordedHost, tick: u64, cpus: &str) -> RecordedHost {
    let ids = [attribute(1, 4u32.to_ne_bytes()), attribute(2, 8193u32.to_ne_bytes())];
    let napi = one_message(&[&ids.concat()[..], &attribute(4, 500u32.to_ne_bytes())].concat());
    let zeros = |count| " 0".repeat(count);
    host.with("netlink/netdev/napi-get", napi)
        .with("proc/500/comm", "napi/eth0-8193\n")
        .with("proc/500/stat", format!("500 (napi/eth0-8193) S 2{} {tick}{}\n", zeros(17), zeros(30)))
        .with("proc/500/task/500/status", format!("Name:\tnapi\nCpus_allowed_list:\t{cpus}\n"))
}

/// The proof that a write may happen, from a throwaway journal.
pub fn armed() -> Armed {
    armed_for(None)
}

/// The same for a control group.
pub fn armed_for(group: Option<GroupId>) -> Armed {
    let (_state, store) = Store::scratch();
    let lock = store.lock(std::time::Duration::ZERO).expect("the lock is free");
    let mut journal = store.begin(lock, Begin::sample()).expect("begun");
    journal.arm(Intent { group, ..Intent::sample("test", "host", "", "") }).expect("armed")
}
