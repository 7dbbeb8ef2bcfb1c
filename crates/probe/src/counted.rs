//! The tier without eBPF: the kernel's own counters.

use std::collections::BTreeMap;

use super::Class;
use super::interference::{CpuInterference, Interference, Tier};
use super::processes::Processes;
use rxlab_base::parse::{CpuTimes, NET_RX, SoftnetRow, TICK_NS};
use rxlab_base::units::{CpuId, Fact};
use rxlab_path::sample::{Counters, CpuCounters, Inventory, Scope, is_napi_thread};
use rxlab_sys::Host;

#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// Counters of CPUs and interfaces.
    pub counters: Counters,
    /// CPU time of the visible processes.
    pub processes: Processes,
}

impl Moment {
    /// Inventory of the counters, for [`Moment::take`].
    pub fn inventory(host: &dyn Host) -> Inventory {
        Inventory::take(host, Scope::Counters)
    }

    pub fn take(host: &dyn Host, inventory: &Inventory) -> Self {
        Self { counters: Counters::take(host, inventory), processes: Processes::take(host) }
    }
}

/// The cost as far as counters show it: softirq time of each CPU, the receiving threads, and no victims.
pub fn coarse(
    inventory: &Inventory,
    before: &Moment,
    after: &Moment,
    missing: Option<String>,
) -> Interference {
    let seconds = after.counters.taken_ns.saturating_sub(before.counters.taken_ns) as f64 / 1e9;
    let mut notes = vec![
        "NET_RX here is the time of all softirqs: /proc/stat does not separate them. Victims are not \
         known without eBPF"
            .to_owned(),
    ];
    let exact = inventory.settings.exact_softirq_time.clone();
    if exact != Fact::Known(true) {
        notes.push(
            "this kernel probably samples softirq time by timer ticks: a run between two ticks is not \
             counted, and one that a tick hits counts as a whole tick"
                .to_owned(),
        );
    }
    let threads = after.processes.threads(&before.processes);
    if threads.iter().any(|thread| is_napi_thread(&thread.name) && thread.ns > 0) {
        notes.push(
            "NAPI threads are not softirqs: their time is additional, on the CPUs they ran on".to_owned(),
        );
    }
    Interference {
        schema: Interference::SCHEMA.to_owned(),
        tier: Tier::Procfs,
        missing,
        exact_softirq_time: exact,
        seconds,
        cpus: cpus(before, after),
        victims: Fact::Unsupported,
        irqs: Fact::Unsupported,
        napis: Fact::Unsupported,
        threads,
        inference: Vec::new(),
        cost: Fact::NotAsked,
        notes,
    }
}

/// CPUs online at both moments.
fn cpus(before: &Moment, after: &Moment) -> Vec<CpuInterference> {
    let one = |cpu: CpuId| {
        let mut by_class: BTreeMap<Class, Fact<u64>> =
            Class::OF_RUNS.into_iter().map(|class| (class, Fact::Unsupported)).collect();
        let thread = |moment: &Moment| moment.counters.ksoftirqd_ns.get(&cpu).copied();
        if let (Some(now), Some(then)) = (thread(after), thread(before)) {
            by_class.insert(Class::Ksoftirqd, Fact::Known(now.saturating_sub(then)));
        }
        by_class.extend([Class::ThreadedNapi, Class::BusyPoll].map(|class| (class, Fact::Unsupported)));
        CpuInterference {
            cpu,
            net_rx_ns: ticks(cpu, before, after, |times| times.softirq),
            runs: counted(cpu, &before.counters, &after.counters, |now, then| {
                now.runs(NET_RX).saturating_sub(then.runs(NET_RX))
            }),
            hard_irq_ns: ticks(cpu, before, after, |times| times.irq),
            by_class,
            histogram: Fact::Unsupported,
            busy_polled: Fact::Unsupported,
            packets: packets(cpu, before, after),
            hypervisor_ns: ticks(cpu, before, after, |times| times.steal),
        }
    };
    let online = after.counters.times.known().into_iter().flatten().map(|(cpu, _)| *cpu);
    let both = |cpu: &CpuId| before.counters.times.known().is_some_and(|times| times.contains_key(cpu));
    online.filter(both).map(one).collect()
}

/// Packets that went up the stack of a CPU.
pub(super) fn packets(cpu: CpuId, before: &Moment, after: &Moment) -> Fact<u64> {
    softnet(cpu, &before.counters, &after.counters, |row| row.processed)
}

/// NET_RX runs that stopped at their time limit or budget with work left.
pub(super) fn squeezed(cpu: CpuId, before: &Counters, after: &Counters) -> Fact<u64> {
    softnet(cpu, before, after, |row| row.time_squeeze)
}

/// The growth of a counter of softnet_stat, which is 32 bits wide in the kernel.
fn softnet(cpu: CpuId, before: &Counters, after: &Counters, of: fn(&SoftnetRow) -> u32) -> Fact<u64> {
    let grown =
        counted(cpu, before, after, |now, then| of(&now.softnet).wrapping_sub(of(&then.softnet)).into());
    after.softnet.clone().and_then(|()| grown)
}

/// Time that the hypervisor gave to other guests.
pub(super) fn hypervisor_ns(cpu: CpuId, before: &Moment, after: &Moment) -> Fact<u64> {
    ticks(cpu, before, after, |times| times.steal)
}

fn ticks(cpu: CpuId, before: &Moment, after: &Moment, of: fn(&CpuTimes) -> u64) -> Fact<u64> {
    let value = |moment: &Moment| {
        moment
            .counters
            .times
            .clone()
            .and_then(|times| times.get(&cpu).map_or(Fact::Unsupported, |t| Fact::Known(of(t))))
    };
    value(after).and_then(|now| value(before).map(|then| now.saturating_sub(then).saturating_mul(TICK_NS)))
}

fn counted(
    cpu: CpuId,
    before: &Counters,
    after: &Counters,
    less: impl Fn(&CpuCounters, &CpuCounters) -> u64,
) -> Fact<u64> {
    let value = |counters: &Counters| {
        counters.cpus.clone().and_then(|cpus| cpus.get(&cpu).copied().map_or(Fact::Unsupported, Fact::Known))
    };
    value(after).and_then(|now| value(before).map(|then| less(&now, &then)))
}

#[cfg(test)]
mod tests {
    use super::{Moment, coarse};
    use crate::{Class, Tier};
    use rxlab_base::units::Fact;
    use rxlab_sys::RecordedHost;

    fn host(softirq: u32, steal: u32, ran: u64) -> RecordedHost {
        RecordedHost::new()
            .with("proc/stat", format!("cpu0 1 0 0 100 0 2 {softirq} {steal} 0 0\n"))
            .with("proc/softirqs", "CPU0\nNET_TX: 0\nNET_RX: 40\n")
            .with("proc/net/softnet_stat", "00000044 0 0 0 0 0 0 0 0 0 0 0 00000000\n")
            .with("proc/12/comm", "ksoftirqd/0\n")
            .with("proc/12/schedstat", format!("{ran} 0 1\n"))
    }

    fn moment(host: &RecordedHost) -> Moment {
        Moment::take(host, &Moment::inventory(host))
    }

    #[test]
    fn ticks_are_time_and_what_is_not_known_stays_so() {
        let (first, last) = (host(5, 1, 1_000), host(25, 3, 900_000));
        let sample =
            coarse(&Moment::inventory(&last), &moment(&first), &moment(&last), Some("no root".into()));
        let [cpu] = sample.cpus.as_slice() else { panic!("{sample:?}") };
        assert_eq!(
            (&cpu.net_rx_ns, &cpu.hypervisor_ns),
            (&Fact::Known(200_000_000), &Fact::Known(20_000_000))
        );
        assert_eq!(cpu.by_class[&Class::Ksoftirqd], Fact::Known(899_000));
        assert_eq!((cpu.lost_ns(), &cpu.by_class[&Class::RpsIpi]), (None, &Fact::Unsupported));
        assert_eq!((sample.tier, sample.victims), (Tier::Procfs, Fact::Unsupported));
        assert_eq!(sample.notes.len(), 2, "the accounting of this kernel is unknown");
    }
}
