//! From sums to the summary: numbers joined to names, lengths to distributions.

use super::bursts::Bursts;
use super::summary::{CpuTrace, IrqTrace, ThreadTrace, Trace};
use super::tally::{CpuTally, IrqTally, Tally, ThreadTally};
use crate::probe::{Names, NapiPolls};
use crate::units::{CpuId, Fact, IrqId};

impl Tally {
    /// The summary of a timeline that ends at `ended`, without the fields that events do not show.
    pub fn finish(mut self, ended: u64, names: &Names) -> Trace {
        let cpus: Vec<CpuId> = self.cpus.keys().copied().collect();
        for cpu in cpus {
            let burst = self.cpus.get_mut(&cpu).and_then(|tally| tally.bursts.end());
            self.burst(cpu, burst);
        }
        let mut napis: Vec<NapiPolls> = self.napis.into_values().collect();
        for napi in &mut napis {
            napi.queues = names.queues(napi.napi).to_vec();
        }
        napis.sort_by_key(|napi| std::cmp::Reverse(napi.packets));
        let mut irqs: Vec<IrqTrace> = self.irqs.into_iter().map(|of| irq(of, names)).collect();
        irqs.sort_by_key(|irq| std::cmp::Reverse((irq.packets, irq.count)));
        Trace {
            schema: Trace::SCHEMA.to_owned(),
            seconds: ended.saturating_sub(self.began) as f64 / 1e9,
            events: 0,
            lost: self.lost,
            cut: self.cut,
            cpus: self.cpus.into_iter().map(cpu).collect(),
            burst_gap_ns: Bursts::GAP,
            bursts: self.bursts,
            longest: self.longest,
            irqs,
            napis,
            threads: self.threads.into_iter().map(thread).collect(),
            cost: Fact::NotAsked,
            notes: Vec::new(),
        }
    }
}

fn cpu((cpu, tally): (CpuId, CpuTally)) -> CpuTrace {
    CpuTrace {
        cpu,
        lost: tally.lost,
        runs: tally.runs.spread(),
        net_rx_ns: tally.net_rx_ns,
        interrupts_ns: tally.interrupts_ns,
        polls: tally.polls,
        packets: tally.packets,
        backlog: tally.backlog,
        full_polls: tally.full_polls,
        squeezed: Fact::NotAsked,
        bursts: tally.bursts.lengths(),
    }
}

fn irq(((number, cpu), tally): ((u32, CpuId), IrqTally), names: &Names) -> IrqTrace {
    IrqTrace {
        irq: IrqId(number),
        cpu,
        actions: names.actions(number).to_vec(),
        queue: names.queue_of_irq(number).map(str::to_owned),
        count: tally.count,
        ns: tally.ns,
        gaps: tally.gaps.spread(),
        runs: tally.runs,
        packets: tally.packets,
    }
}

fn thread((pid, tally): (u32, ThreadTally)) -> ThreadTrace {
    ThreadTrace {
        name: tally.name,
        pid,
        wakeups: tally.wakeups,
        delays: tally.delays.spread(),
        runs: tally.runs.spread(),
        ns: tally.ns,
    }
}
