//! Counters of one moment: the rates of the truth times the seconds that have passed.

use std::collections::BTreeMap;
use std::fmt::Write;

use rxlab_base::parse::one_message;
use rxlab_base::units::CpuId;
use rxlab_sys::{Cause, EthtoolGet, Query, RecordedHost};

use super::super::losses::{self, Loss, Place};
use super::super::truth::{Counted, Damage, INTERRUPTS, Kernel, Nic, Truth, Work};
use super::irqs;
use super::netlink::message;

/// Length of a sample: CPU time is counted in ticks of 10 ms, and thresholds are not for rounding to decide.
const SECONDS: u64 = 100;
/// Runs of softirqs and packets that a CPU without traffic counts.
pub(super) const BEFORE: u64 = 1_000_000;

/// The machine after this number of samples.
pub(crate) fn at(host: RecordedHost, truth: &Truth, moment: u64) -> RecordedHost {
    let seconds = (moment * SECONDS) as f64;
    let work = truth.work();
    let host = host.at_ns((1000 + moment * SECONDS) * 1_000_000_000);
    let host =
        host.with("proc/stat", times(truth, &work, moment)).with("proc/softirqs", softirqs(&work, seconds));
    let host = host.with("proc/net/softnet_stat", softnet(truth, &work, seconds));
    super::losses::at(nics(interrupts(host, truth, seconds), truth, seconds), truth, seconds)
}

fn times(truth: &Truth, work: &BTreeMap<CpuId, Work>, moment: u64) -> String {
    let all = (moment * SECONDS * 100) as f64;
    let mut text = "cpu  1 2 3 4 5 6 7 8 0 0\n".to_owned();
    for cpu in truth.cpus.iter().filter(|cpu| cpu.online) {
        let receive = work[&cpu.id].time.min(1.0);
        let softirq = (all * receive).round();
        let user = ((all - softirq) * cpu.program).round();
        let idle = all - softirq - user;
        writeln!(text, "cpu{} {} 0 100 {} 0 0 {} 0 0 0", cpu.id, 100.0 + user, 9000.0 + idle, 50.0 + softirq)
            .expect("text");
    }
    text + "ctxt 1\n"
}

fn header(cpus: impl Iterator<Item = CpuId>) -> String {
    cpus.fold(" ".repeat(12), |text, cpu| text + &format!(" CPU{cpu}")) + "\n"
}

fn softirqs(work: &BTreeMap<CpuId, Work>, seconds: f64) -> String {
    let mut text = header(work.keys().copied());
    for name in ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"]
    {
        write!(text, "{name:>12}:").expect("text");
        for work in work.values() {
            let runs = if name == "NET_RX" { work.taken * INTERRUPTS * seconds } else { 0.0 };
            write!(text, " {}", BEFORE + runs.round() as u64).expect("text");
        }
        text.push('\n');
    }
    text
}

fn softnet(truth: &Truth, work: &BTreeMap<CpuId, Work>, seconds: f64) -> String {
    if truth.damage == Damage::SoftnetBroken {
        return "x\n".to_owned();
    }
    let columns = if truth.kernel >= Kernel::V6_8 { " 00000000 00000000" } else { "" };
    // What a mask divides into no whole numbers is not lost: all CPUs together count every packet.
    let mut rest = 0.0;
    let row = |(cpu, work): (&CpuId, &Work)| {
        let packets = work.packets * seconds + rest;
        rest = packets - packets.round();
        let processed = packets.round() as u64 as u32;
        let here = |loss: &&Loss| matches!(&loss.place, Place::Backlog { cpu: at, .. } if at == cpu);
        let dropped: f64 = truth.losses.iter().filter(here).map(|loss| loss.per_second).sum();
        let dropped = (dropped * seconds).round() as u64 as u32;
        format!("{processed:08x} {dropped:08x}{} {:08x}{columns}\n", " 00000000".repeat(10), cpu.0)
    };
    work.iter().map(row).collect()
}

fn interrupts(host: RecordedHost, truth: &Truth, seconds: f64) -> RecordedHost {
    const PATH: &str = "proc/interrupts";
    let online: Vec<CpuId> = truth.online().iter().collect();
    let mut rates: BTreeMap<u32, f64> = BTreeMap::new();
    for (nic, queue) in truth.nics.iter().flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue))) {
        if let Some(irq) = queue.irq {
            *rates.entry(nic.irqs[irq].number).or_default() += queue.interrupts;
        }
    }
    rates.extend(truth.foreign.iter().map(|foreign| (foreign.irq.number, foreign.packets * INTERRUPTS)));
    let mut text = header(online.iter().copied());
    for (at, irq) in irqs::all(truth).enumerate() {
        write!(text, "{:>4}:", irq.number).expect("text");
        for cpu in &online {
            // On other CPUs there are counts from before it was moved.
            let before = if cpu.0.is_multiple_of(7) { 90_000 } else { 0 };
            let fired =
                if *cpu == irq.lands { rates.get(&irq.number).copied().unwrap_or_default() } else { 0.0 };
            write!(text, " {}", before + (fired * seconds).round() as u64).expect("text");
        }
        let chip = match truth.kernel {
            Kernel::V5_15 | Kernel::V6_1 => format!("PCI-MSI {}-edge", 524_288 + at),
            Kernel::V6_8 | Kernel::V6_18 => match irqs::function(truth, irq) {
                Some(function) => format!("PCI-MSIX-{function} {at}-edge"),
                None => format!("GICv3 {at} Level"),
            },
        };
        writeln!(text, "  {chip}      {}", irq.action).expect("text");
    }
    writeln!(text, " LOC:{}   Local timer interrupts", " 77".repeat(online.len())).expect("text");
    match truth.damage {
        Damage::InterruptsMasked => host.with(PATH, ""),
        Damage::InterruptsDenied => host.with_failure(PATH, Cause::Denied),
        Damage::InterruptsCut => host.with(PATH, text[..text.len() / 2].trim_end()),
        _ => host.with(PATH, text),
    }
}

fn nics(mut host: RecordedHost, truth: &Truth, seconds: f64) -> RecordedHost {
    let mut by_kernel = Vec::new();
    for nic in &truth.nics {
        host = statistics(host, truth, &nic.name, seconds);
        let counts: Vec<u64> =
            nic.rx.iter().map(|queue| BEFORE + (queue.packets * seconds).round() as u64).collect();
        match nic.counted {
            Counted::Nowhere | Counted::ByDriver => {}
            Counted::ByKernel => by_kernel.extend(queue_counts(nic, &counts)),
        }
        let counts = if nic.counted == Counted::ByDriver { counts } else { Vec::new() };
        let others = losses::statistics(truth, nic);
        if !counts.is_empty() || !others.is_empty() {
            let others = others.into_iter().map(|(_, rate)| BEFORE + (rate * seconds).round() as u64);
            let all: Vec<u64> = counts.into_iter().chain(others).collect();
            let path = Query::Ethtool(EthtoolGet::Stats, nic.name.parse().expect("a name")).path();
            host = match truth.damage {
                Damage::EthtoolDenied => host.with_failure(&path, Cause::Denied),
                _ => host.with(&path, statistic_values(&all)),
            };
        }
    }
    let uppers = truth.uppers.iter().map(|upper| upper.name.as_str());
    let others = uppers.chain(truth.veths.iter().map(|(name, _)| name.as_str())).chain(["lo"]);
    host = others.fold(host, |host, name| statistics(host, truth, name, seconds));
    if by_kernel.is_empty() { host } else { host.with(&Query::QueueStats.path(), by_kernel) }
}

/// Packets/s that an interface counts as received: those of a virtual function also count for the paravirtual interface on
/// top of it, and those of devices for what is above them.
pub(crate) fn received(truth: &Truth, name: &str) -> f64 {
    if let Some(upper) = truth.uppers.iter().find(|upper| upper.name == name) {
        return upper.lower.iter().map(|lower| received(truth, lower)).sum();
    }
    let Some(nic) = truth.nic(name) else { return 3.0 };
    let below = truth.nics.iter().filter(|other| other.master.as_ref() == Some(&nic.name));
    nic.packets() + below.map(Nic::packets).sum::<f64>()
}

/// What a file below the `statistics` of an interface counts of losses, per second. A bond adds what its members count
/// (bond_get_stats).
fn lost(truth: &Truth, name: &str, file: &str) -> f64 {
    let own: f64 = truth.losses.iter().map(|loss| loss.in_file(name, file)).sum();
    let bond = truth.uppers.iter().find(|upper| upper.name == name && upper.kind == "bond");
    let members = bond.into_iter().flat_map(|bond| &bond.lower);
    own + members.map(|member| lost(truth, member, file)).sum::<f64>()
}

fn statistics(mut host: RecordedHost, truth: &Truth, name: &str, seconds: f64) -> RecordedHost {
    let received = BEFORE + (received(truth, name) * seconds).round() as u64;
    for (file, count) in [
        ("rx_packets", received),
        ("rx_bytes", received * 200),
        ("tx_packets", BEFORE),
        ("tx_bytes", BEFORE * 200),
    ] {
        host = host.with(&format!("sys/class/net/{name}/statistics/{file}"), format!("{count}\n"));
    }
    for file in
        ["rx_dropped", "rx_errors", "rx_missed_errors", "rx_fifo_errors", "rx_over_errors", "tx_dropped"]
    {
        let count = (lost(truth, name, file) * seconds).round() as u64;
        host = host.with(&format!("sys/class/net/{name}/statistics/{file}"), format!("{count}\n"));
    }
    host
}

/// netdev `qstats-get`: interface, type, queue, packets.
fn queue_counts(nic: &Nic, counts: &[u64]) -> Vec<u8> {
    let one = |(index, count): (u32, &u64)| {
        let [ifindex, kind, index] = [nic.ifindex, 0, index].map(u32::to_ne_bytes);
        message(&[(1, &ifindex), (2, &kind), (3, &index), (8, &count.to_ne_bytes())])
    };
    (0..).zip(counts).flat_map(one).collect()
}

/// struct ethtool_stats: the command, how many, then the values.
fn statistic_values(counts: &[u64]) -> Vec<u8> {
    let count = u32::try_from(1 + counts.len()).expect("few");
    let head: Vec<u8> = [0x1d, count].iter().flat_map(|number: &u32| number.to_ne_bytes()).collect();
    let values: Vec<u8> = [7].iter().chain(counts).flat_map(|value: &u64| value.to_ne_bytes()).collect();
    one_message(&[head, values].concat())
}
