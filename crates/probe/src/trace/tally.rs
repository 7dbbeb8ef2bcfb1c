//! Adds up a timeline, item by item: bursts, and lengths of time in little memory.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::item::{Item, Poll, Run, Slice, Work};
use super::summary::{Burst, CpuTrace, IrqTrace, LongRun, Spread, ThreadTrace, Trace};
use crate::NapiPolls;
use rxlab_base::parse::NET_RX;
use rxlab_base::units::CpuId;

/// Number of longest items to keep.
const LONGEST: usize = 8;

/// Sums of one CPU, and lengths.
#[derive(Debug, Default)]
pub(super) struct CpuTally {
    pub(super) sums: CpuTrace,
    pub(super) runs: Lengths,
    pub(super) bursts: Bursts,
}

/// Sums of one interrupt on one CPU, and the gaps between two.
#[derive(Debug, Default)]
pub(super) struct IrqTally {
    pub(super) sums: IrqTrace,
    pub(super) latest: Option<u64>,
    pub(super) gaps: Lengths,
}

/// Sums of one thread, and lengths.
#[derive(Debug, Default)]
pub(super) struct ThreadTally {
    pub(super) sums: ThreadTrace,
    pub(super) delays: Lengths,
    pub(super) runs: Lengths,
}

/// The sums so far.
#[derive(Debug, Default)]
pub struct Tally {
    pub(super) began: u64,
    /// What was lost and cut, and the longest runs and bursts.
    pub(super) sums: Trace,
    pub(super) cpus: BTreeMap<CpuId, CpuTally>,
    pub(super) irqs: BTreeMap<(u32, CpuId), IrqTally>,
    pub(super) napis: BTreeMap<(CpuId, u32, String), NapiPolls>,
    pub(super) threads: BTreeMap<u32, ThreadTally>,
}

impl Tally {
    /// For a timeline that begins at `began`.
    pub fn new(began: u64) -> Self {
        Self { began, ..Self::default() }
    }

    pub fn add(&mut self, item: &Item) {
        match item {
            Item::Began { cpu, at, work: Work::Irq(number) } => {
                let irq = self.irqs.entry((*number, *cpu)).or_default();
                irq.sums.count += 1;
                if let Some(before) = irq.latest.replace(*at) {
                    irq.gaps.add(at.saturating_sub(before));
                }
            }
            Item::Began { .. } | Item::Raised { .. } => {}
            Item::Ended(slice) => self.ended(slice),
            Item::Polled(poll) => self.polled(poll),
            Item::Woken { pid, name, .. } => self.thread(*pid, name).sums.wakeups += 1,
            Item::Waited { woken, at, pid, name, .. } => {
                self.thread(*pid, name).delays.add(at.saturating_sub(*woken));
            }
            Item::Stray { .. } => self.sums.cut += 1,
            Item::Lost { cpu, count, .. } => self.lost(*cpu, u64::from(*count)),
        }
    }

    fn thread(&mut self, pid: u32, name: &str) -> &mut ThreadTally {
        let thread = self.threads.entry(pid).or_default();
        if thread.sums.name != name {
            name.clone_into(&mut thread.sums.name);
        }
        thread
    }

    fn lost(&mut self, cpu: CpuId, count: u64) {
        self.sums.lost += count;
        let tally = self.cpus.entry(cpu).or_default();
        tally.sums.lost += count;
        // The time between the two is unknown.
        let burst = tally.bursts.end();
        for (_, irq) in self.irqs.iter_mut().filter(|((_, of), _)| *of == cpu) {
            irq.latest = None;
        }
        self.burst(cpu, burst);
    }

    fn ended(&mut self, slice: &Slice) {
        self.sums.cut += u64::from(!slice.whole);
        match (&slice.work, &slice.run) {
            (Work::Irq(number), _) if slice.whole => {
                let irq = &mut self.irqs.entry((*number, slice.cpu)).or_default().sums;
                // Times come from the ring unchecked: a sum of them must not panic.
                irq.ns = irq.ns.saturating_add(slice.length());
            }
            (Work::Thread { pid, name }, _) if slice.whole => {
                let length = slice.length();
                let thread = self.thread(*pid, name);
                thread.sums.ns = thread.sums.ns.saturating_add(length);
                thread.runs.add(length);
            }
            (Work::Softirq(NET_RX), Some(run)) => self.run(slice, run),
            _ => {}
        }
    }

    fn run(&mut self, slice: &Slice, run: &Run) {
        let cpu = self.cpus.entry(slice.cpu).or_default();
        cpu.sums.polls += u64::from(run.polls);
        cpu.sums.packets += run.packets;
        cpu.sums.backlog += run.backlog;
        if let Some(number) = run.cause.irq {
            let irq = &mut self.irqs.entry((number, slice.cpu)).or_default().sums;
            irq.runs += 1;
            irq.packets += run.packets;
        }
        if !slice.whole {
            return;
        }
        cpu.sums.net_rx_ns = cpu.sums.net_rx_ns.saturating_add(slice.length());
        cpu.sums.interrupts_ns = cpu.sums.interrupts_ns.saturating_add(run.interrupts_ns);
        cpu.runs.add(slice.length());
        let over = cpu.bursts.run(slice.began, slice.ended, run.packets + run.backlog);
        let at_ns = slice.began.saturating_sub(self.began);
        let long = LongRun { cpu: slice.cpu, at_ns, ns: slice.length(), run: run.clone() };
        keep(&mut self.sums.longest, long, |run| run.ns);
        self.burst(slice.cpu, over);
    }

    pub(super) fn burst(&mut self, cpu: CpuId, burst: Option<Burst>) {
        if let Some(burst) = burst {
            let at_ns = burst.at_ns.saturating_sub(self.began);
            keep(&mut self.sums.bursts, Burst { cpu, at_ns, ..burst }, |burst| burst.ns);
        }
    }

    fn polled(&mut self, poll: &Poll) {
        self.cpus.entry(poll.cpu).or_default().sums.full_polls += u64::from(poll.is_full());
        let key = (poll.cpu, poll.napi, poll.device.clone());
        let napi = self.napis.entry(key).or_insert_with(|| NapiPolls {
            cpu: poll.cpu,
            napi: poll.napi,
            device: poll.device.clone(),
            ..NapiPolls::default()
        });
        napi.polls += 1;
        napi.packets += u64::from(poll.work);
        napi.full += u64::from(poll.is_full());
    }
}

/// Inserts one among the longest, if it is one of them; the longest comes first.
fn keep<T>(longest: &mut Vec<T>, one: T, length: impl Fn(&T) -> u64) {
    let place = longest.partition_point(|other| length(other) >= length(&one));
    if place < LONGEST {
        longest.truncate(LONGEST - 1);
        longest.insert(place, one);
    }
}

/// Bursts of one CPU: runs of NET_RX that follow each other closely. The burst under way, and the lengths of those before.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    open: Option<Burst>,
    lengths: Lengths,
}

impl Bursts {
    /// Longer than the pause that interrupt moderation makes between two runs of one stream of packets (some
    /// tens of microseconds), shorter than the pauses between the answers of a client.
    pub(super) const GAP: u64 = 100_000;

    /// Adds a run of NET_RX. Returns the burst that was over before, without its `cpu` and with the time of
    /// the runs.
    pub(super) fn run(&mut self, began: u64, ended: u64, packets: u64) -> Option<Burst> {
        if let Some(open) = &mut self.open
            && began.saturating_sub(open.at_ns.saturating_add(open.ns)) < Self::GAP
        {
            open.ns = ended.saturating_sub(open.at_ns);
            open.runs += 1;
            open.packets += packets;
            return None;
        }
        let over = self.end();
        let ns = ended.saturating_sub(began);
        self.open = Some(Burst { cpu: CpuId(0), at_ns: began, ns, runs: 1, packets });
        over
    }

    /// Ends the burst under way.
    pub(super) fn end(&mut self) -> Option<Burst> {
        let over = self.open.take()?;
        self.lengths.add(over.ns);
        Some(over)
    }

    /// Lengths of all bursts that are over.
    pub(super) fn lengths(&self) -> Spread {
        self.lengths.spread()
    }
}

/// Lengths, kept as a count of each.
#[derive(Debug)]
pub(super) struct Lengths {
    histogram: Histogram<u64>,
    longest: u64,
}

impl Default for Lengths {
    fn default() -> Self {
        // Grows with the values.
        let histogram = Histogram::new(2).expect("2 digits are among those that it can keep");
        Self { histogram, longest: 0 }
    }
}

impl Lengths {
    /// Takes one, in nanoseconds.
    pub(super) fn add(&mut self, ns: u64) {
        self.longest = self.longest.max(ns);
        // Clamped: anything longer than a year counts as a year.
        self.histogram.record(ns.min(1 << 55)).expect("the histogram grows");
    }

    /// Count, quantiles and maximum so far.
    pub(super) fn spread(&self) -> Spread {
        let at = |quantile| self.histogram.value_at_quantile(quantile).min(self.longest);
        Spread { count: self.histogram.len(), p50_ns: at(0.5), p99_ns: at(0.99), max_ns: self.longest }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bursts, Lengths, Spread};

    #[test]
    fn a_burst_ends_where_the_gap_is_as_long_as_the_bound() {
        let mut bursts = Bursts::default();
        assert_eq!(bursts.run(1_000, 3_000, 5), None);
        assert_eq!(bursts.run(3_000 + Bursts::GAP - 1, 110_000, 2), None);
        let over = bursts.run(110_000 + Bursts::GAP, 300_000, 1).expect("the gap was long enough");
        assert_eq!((over.at_ns, over.ns, over.runs, over.packets), (1_000, 109_000, 2, 7));
        assert_eq!(bursts.end().expect("one was under way").runs, 1);
        assert_eq!((bursts.end(), bursts.lengths().count), (None, 2));
    }

    #[test]
    fn a_hundred_lengths() {
        let mut lengths = Lengths::default();
        (1..=100).for_each(|length| lengths.add(length * 1_000));
        let spread = lengths.spread();
        assert_eq!((spread.count, spread.max_ns), (100, 100_000));
        assert!((49_500..=50_500).contains(&spread.p50_ns), "{spread:?}");
        assert!((98_000..=100_000).contains(&spread.p99_ns), "{spread:?}");
    }

    #[test]
    fn none_and_the_longest_there_is() {
        assert_eq!(Lengths::default().spread(), Spread::default());
        let mut lengths = Lengths::default();
        lengths.add(u64::MAX);
        assert_eq!(lengths.spread().max_ns, u64::MAX);
    }
}
