//! Counters that never step back, from those of the kernel, many of which are 32 bits wide and wrap within minutes.

use std::collections::BTreeMap;

use super::topology::Nic;
use crate::sample::{Counters, CpuCounters, RxQueue};
use rxlab_base::parse::{Interrupts, NET_RX, TICKS_PER_SECOND};
use rxlab_base::units::{CpuId, Fact, IrqId};

/// Totals of successive samples of one boot. They begin with the kernel's own counts and go on where those wrap.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    cpus: BTreeMap<CpuId, CpuTotals>,
    irqs: BTreeMap<IrqId, u64>,
    latest: Option<Counters>,
}

/// Totals of one CPU. A value is `None` if its source could never be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTotals {
    /// NET_RX softirq runs on this CPU.
    pub net_rx_runs: u64,
    /// Packets that went up the stack.
    pub packets: Option<u64>,
    /// Packets dropped because the backlog was full.
    pub dropped: Option<u64>,
    /// NET_RX runs that stopped at their budget or time limit with work left.
    pub time_squeeze: Option<u64>,
}

impl Totals {
    /// Adds a sample, which must be of the same boot. One that was taken before the latest is ignored.
    pub fn advance(&mut self, counters: Counters) {
        let before = self.latest.as_ref();
        if before.is_some_and(|before| before.taken_ns >= counters.taken_ns) {
            return;
        }
        let has_softnet = counters.softnet.known().is_some();
        let earlier = before.and_then(|before| before.cpus.known());
        for (cpu, now) in counters.cpus.known().into_iter().flatten() {
            let before = earlier.and_then(|cpus| cpus.get(cpu)).copied().unwrap_or_default();
            self.cpus.entry(*cpu).or_default().add(&before, now, has_softnet);
        }
        let earlier = before.and_then(|before| before.interrupts.known());
        for (irq, line) in counters.interrupts.known().into_iter().flat_map(|all| &all.irqs) {
            let old = earlier.and_then(|all| all.irqs.get(irq)).filter(|old| old.text == line.text);
            let count = |counts: Option<&BTreeMap<CpuId, u64>>, cpu: &CpuId| {
                // Unsigned int in the kernel.
                counts.and_then(|counts| counts.get(cpu)).map_or(0, |count| *count as u32)
            };
            let old = old.map(|old| &old.counts);
            let grown: u64 = line.counts.iter().map(|(cpu, now)| growth(count(old, cpu), *now as u32)).sum();
            *self.irqs.entry(*irq).or_default() += grown;
        }
        self.latest = Some(keep_known(counters, self.latest.take()));
    }

    /// Every CPU that was ever counted, by number.
    pub fn cpus(&self) -> &BTreeMap<CpuId, CpuTotals> {
        &self.cpus
    }

    /// Softirq time of each online CPU in seconds, as the kernel accounts it.
    pub fn softirq_seconds(&self) -> impl Iterator<Item = (CpuId, f64)> {
        let times = self.latest.as_ref().and_then(|latest| latest.times.known());
        times.into_iter().flatten().map(|(cpu, times)| (*cpu, times.softirq as f64 / TICKS_PER_SECOND))
    }

    /// Packets of a queue: counted, or as those of the only queue. `None` if nothing counts them.
    pub fn queue_packets(&self, nic: &Nic, queue: &RxQueue) -> Option<u64> {
        let counters = self.latest.as_ref()?.nics.get(&nic.name)?;
        let counted = counters.rx_queues.get(&queue.index).map(|queue| queue.packets);
        counted.or_else(|| (nic.rx.len() == 1).then_some(counters.rx_packets))
    }

    /// Packets of a queue that device or driver dropped. `None` if nothing counts them.
    pub fn queue_drops(&self, nic: &Nic, queue: &RxQueue) -> Option<u64> {
        self.latest.as_ref()?.nics.get(&nic.name)?.rx_queues.get(&queue.index)?.drops
    }

    /// Interrupts of a queue. `None` for a queue without interrupts, and if they cannot be read.
    pub fn queue_interrupts(&self, queue: &RxQueue) -> Option<u64> {
        let counts = queue.irqs.iter().filter_map(|irq| self.irqs.get(&irq.number));
        counts.copied().fold(None, |sum, count| Some(sum.unwrap_or(0) + count))
    }

    /// True if the interface received packets since it was created.
    pub fn has_received(&self, nic: &Nic) -> bool {
        let counters = self.latest.as_ref().and_then(|latest| latest.nics.get(&nic.name));
        counters.is_some_and(|counters| counters.rx_packets > 0)
    }
}

impl CpuTotals {
    fn add(&mut self, before: &CpuCounters, now: &CpuCounters, has_softnet: bool) {
        // The kernel's counts are 32 bits wide; so is this one, which the parser holds in 64.
        self.net_rx_runs += growth(before.runs(NET_RX) as u32, now.runs(NET_RX) as u32);
        if has_softnet {
            for (total, before, now) in [
                (&mut self.packets, before.softnet.processed, now.softnet.processed),
                (&mut self.dropped, before.softnet.dropped, now.softnet.dropped),
                (&mut self.time_squeeze, before.softnet.time_squeeze, now.softnet.time_squeeze),
            ] {
                *total.get_or_insert(0) += growth(before, now);
            }
        }
    }
}

/// Growth of a counter of 32 bits. A step of more than half its range is no growth: it started again from 0.
fn growth(before: u32, now: u32) -> u64 {
    let grown = now.wrapping_sub(before);
    u64::from(if grown <= u32::MAX / 2 || before == 0 { grown } else { now })
}

/// `now`, with counts of `before` where they could not be read: a single failure would count everything again.
fn keep_known(now: Counters, before: Option<Counters>) -> Counters {
    let Some(before) = before else { return now };
    let has_softnet = now.softnet.known().is_some();
    Counters {
        cpus: match (&now.cpus, before.cpus) {
            (Fact::Known(cpus), Fact::Known(mut all)) => {
                for (cpu, counters) in cpus {
                    let kept = all.entry(*cpu).or_default();
                    let softnet = if has_softnet { counters.softnet } else { kept.softnet };
                    *kept = CpuCounters { softirqs: counters.softirqs, softnet };
                }
                Fact::Known(all)
            }
            (Fact::Known(_), _) => now.cpus,
            (_, before) => before,
        },
        interrupts: match (now.interrupts, before.interrupts) {
            (Fact::Known(now), Fact::Known(before)) => Fact::Known(with_offline(now, &before)),
            (Fact::Known(now), _) => Fact::Known(now),
            (_, before) => before,
        },
        ..now
    }
}

/// `now`, with the counts of CPUs that went offline: they go on there.
fn with_offline(mut now: Interrupts, before: &Interrupts) -> Interrupts {
    for (irq, line) in &mut now.irqs {
        let Some(old) = before.irqs.get(irq).filter(|old| old.text == line.text) else { continue };
        for (cpu, count) in old.counts.iter().filter(|(cpu, _)| !now.cpus.contains(**cpu)) {
            line.counts.insert(*cpu, *count);
        }
    }
    now
}

#[cfg(test)]
mod tests {

    use super::{CpuTotals, Totals};
    use crate::model::Model;
    use crate::sample::{Counters, CpuCounters, Inventory, NicCounters, Scope};
    use rxlab_base::parse::{CpuTimes, QueueCounters, SoftnetRow, interrupts};
    use rxlab_base::units::{CpuId, Fact};
    use rxlab_sys::RecordedHost;

    fn counters(taken_ns: u64, processed: u32, irqs: &str) -> Counters {
        let softnet = SoftnetRow { processed, ..SoftnetRow::default() };
        let cpu = CpuCounters { softnet, ..CpuCounters::default() };
        Counters {
            times: Fact::Known([(CpuId(0), CpuTimes { softirq: 250, ..CpuTimes::default() })].into()),
            cpus: Fact::Known([(CpuId(0), cpu)].into()),
            softnet: Fact::Known(()),
            interrupts: Fact::Known(interrupts(irqs).expect("valid")),
            ..Counters::unread(taken_ns)
        }
    }

    fn one(count: u64) -> String {
        format!("CPU0\n 5: {count} chip 1-edge eth0\n")
    }

    fn packets(totals: &Totals) -> Option<u64> {
        totals.cpus()[&CpuId(0)].packets
    }

    #[test]
    fn totals_begin_with_the_kernel_s_counts_and_survive_a_wrap() {
        let mut totals = Totals::default();
        totals.advance(counters(1, u32::MAX - 9, &one(u64::from(u32::MAX))));
        assert_eq!(packets(&totals), Some(u64::from(u32::MAX - 9)), "above half of the range from the start");
        totals.advance(counters(2, 20, &one(4)));
        assert_eq!(packets(&totals), Some(u64::from(u32::MAX) + 21));
        assert_eq!(totals.irqs.values().collect::<Vec<_>>(), [&(u64::from(u32::MAX) + 5)]);
        assert_eq!(totals.softirq_seconds().collect::<Vec<_>>(), [(CpuId(0), 2.5)]);
    }

    #[test]
    fn a_counter_that_began_again_only_grows() {
        let mut totals = Totals::default();
        totals.advance(counters(1, 5_000, &one(700)));
        totals.advance(counters(2, 40, &one(3)));
        assert_eq!(packets(&totals), Some(5_040));
        assert_eq!(totals.irqs.values().collect::<Vec<_>>(), [&703]);
        let other = "CPU0\n 5: 9 chip 1-edge eth1\n";
        totals.advance(counters(3, 40, other));
        assert_eq!(totals.irqs.values().collect::<Vec<_>>(), [&712], "the interrupt of another device");
    }

    #[test]
    fn samples_out_of_order_and_failures_count_nothing_twice() {
        let mut totals = Totals::default();
        totals.advance(counters(2, 100, &one(10)));
        totals.advance(counters(1, 90, &one(9)));
        let mut failed = counters(3, 0, &one(11));
        failed.softnet = Fact::Broken("cut off".into());
        totals.advance(failed);
        let mut failed = counters(4, 0, &one(12));
        (failed.cpus, failed.interrupts) = (Fact::Unsupported, Fact::Unsupported);
        totals.advance(failed);
        totals.advance(counters(5, 130, &one(15)));
        assert_eq!(packets(&totals), Some(130));
        assert_eq!(totals.irqs.values().collect::<Vec<_>>(), [&15]);
    }

    /// /proc/interrupts has columns for online CPUs only.
    #[test]
    fn a_cpu_that_comes_back_goes_on() {
        let mut totals = Totals::default();
        totals.advance(counters(1, 1, "CPU0 CPU1\n 5: 10 50 chip 1-edge eth0\n"));
        totals.advance(counters(2, 1, &one(10)));
        totals.advance(counters(3, 1, "CPU0 CPU1\n 5: 10 57 chip 1-edge eth0\n"));
        assert_eq!(totals.irqs.values().collect::<Vec<_>>(), [&67]);
    }

    #[test]
    fn without_a_source_there_is_no_value() {
        let mut totals = Totals::default();
        let mut sample = counters(1, 0, &one(1));
        sample.softnet = Fact::Unsupported;
        totals.advance(sample);
        assert_eq!(totals.cpus()[&CpuId(0)], CpuTotals::default());
    }

    #[test]
    fn queues_have_what_is_counted() {
        let host =
            [("eth0", 2), ("eth1", 1)].into_iter().fold(RecordedHost::new(), |host, (name, queues)| {
                let queue = |n| format!("sys/class/net/{name}/queues/rx-{n}/rps_cpus");
                (0..queues).fold(host, |host, n| host.with(&queue(n), "0\n"))
            });
        let model = Model::new(&Inventory::take(&host, Scope::Path));
        let (two, single) = (&model.nics[0], &model.nics[1]);
        let mut sample = counters(1, 0, &one(1));
        let queue = QueueCounters { packets: 7, drops: Some(2), ..QueueCounters::default() };
        let counted = NicCounters { rx_packets: 9, rx_queues: [(1, queue)].into(), ..NicCounters::default() };
        sample.nics.insert(two.name.clone(), counted);
        sample.nics.insert(single.name.clone(), NicCounters { rx_packets: 5, ..NicCounters::default() });
        let mut totals = Totals::default();
        totals.advance(sample);
        let packets: Vec<_> = two.rx.iter().map(|queue| totals.queue_packets(two, queue)).collect();
        assert_eq!(packets, [None, Some(7)], "a part of the interface's packets is no count");
        assert_eq!(totals.queue_packets(single, &single.rx[0]), Some(5));
        assert_eq!(totals.queue_drops(two, &two.rx[1]), Some(2));
        assert_eq!(totals.queue_drops(single, &single.rx[0]), None);
        assert_eq!(totals.queue_interrupts(&single.rx[0]), None);
    }
}
