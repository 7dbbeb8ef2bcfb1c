//! What receive work costs on this host, in nanoseconds: measured where eBPF can be had, else not known, and then
//! predictions rest on fixed fractions.
//!
//! The model of a packet that RPS hands over. The CPU that receives it now keeps what is neither protocol work nor
//! the waking of a reader elsewhere, and pays a tenth of the protocol work for hashing and queueing (an assumption) and
//! its part of the inter-processor interrupts. The target pays the protocol work, as measured on `lo`, and its part of
//! taking those interrupts and of waking readers. One is sent when the target's backlog was empty: seldom when the
//! target is busy, once for all packets of a poll, and once for all that come while the one before is on its way.

use serde::{Deserialize, Serialize};

use super::moves::{Cost, Move};
use crate::model::{NicKind, Rates};
use crate::probe::{Ipi, Reading, Tier};
use crate::units::CpuId;

/// Part of the protocol work that hashing and queueing cost the CPU that hands over: an assumption.
const ENQUEUE: f64 = 0.1;
/// Time from one packet to the next of a sender on the same CPU, in terms of the time to receive one: 2.2 on a veth
/// flat out.
const SENDING: f64 = 2.0;
/// Some of what a packet costs stays where its interrupt lands: taking it off the queue.
const LEAST_KEPT: f64 = 0.1;

/// The costs, and how they were found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Costs {
    /// What measured them; with [`Tier::Procfs`] there are none, and fixed fractions take their place.
    pub tier: Tier,
    /// Why not with eBPF, or what could not be measured with it.
    pub missing: Vec<String>,
    /// Length of the look in seconds.
    pub seconds: f64,
    /// Receive work of each CPU that had some.
    pub cpus: Vec<CpuCost>,
    /// NET_RX nanoseconds of a small UDP packet over `lo`: the protocol work that RPS moves.
    pub protocol_ns: Option<f64>,
    /// Nanoseconds that an inter-processor interrupt takes on the CPU that it hits.
    pub ipi_ns: Option<f64>,
    /// Nanoseconds from sending one until it is handled.
    pub ipi_send_ns: Option<f64>,
}

/// Receive work of a CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuCost {
    /// Which.
    pub cpu: CpuId,
    /// Part of its time in NET_RX, handlers of interrupts and those that hand packets over.
    pub receive: f64,
    /// Packets a second that its polls took, off queues and off its backlog.
    pub packets: f64,
    /// Packets for each poll.
    pub a_poll: f64,
    /// Interrupts a second.
    pub interrupts: f64,
    /// Nanoseconds in a handler.
    pub interrupt_ns: f64,
}

impl Costs {
    /// None were measured.
    pub fn unknown(why: String) -> Self {
        Self {
            tier: Tier::Procfs,
            missing: vec![why],
            seconds: 0.0,
            cpus: Vec::new(),
            protocol_ns: None,
            ipi_ns: None,
            ipi_send_ns: None,
        }
    }

    /// From what the programs counted in so many seconds, the cost of protocol work and that of an interrupt.
    pub fn measured(
        between: &Reading,
        seconds: f64,
        protocol_ns: Option<f64>,
        ipi: Result<Ipi, String>,
    ) -> Self {
        let mut missing = Vec::new();
        if protocol_ns.is_none() {
            missing.push("the protocol work could not be measured over lo".to_owned());
        }
        let ipi = ipi.map_err(|why| missing.push(format!("inter-processor interrupts: {why}"))).ok();
        let cpu = |(cpu, record): (&CpuId, &crate::probe::CpuRecord)| {
            let napis = between.napis.iter().filter(|((on, _), _)| on == cpu).map(|(_, napi)| napi);
            let (polls, work) = napis.fold((0, 0), |sum, napi| (sum.0 + napi.polls, sum.1 + napi.work));
            let ratio = |a: u64, b: u64| if b == 0 { 0.0 } else { a as f64 / b as f64 };
            CpuCost {
                cpu: *cpu,
                receive: (record.net_rx_ns() + record.irq_ns + record.ipi_ns) as f64 / 1e9 / seconds,
                packets: work as f64 / seconds,
                a_poll: ratio(work, polls),
                interrupts: record.irqs as f64 / seconds,
                interrupt_ns: ratio(record.irq_ns, record.irqs),
            }
        };
        Self {
            tier: Tier::Ebpf,
            missing,
            seconds,
            cpus: between.cpus.iter().map(cpu).filter(|cpu| cpu.receive > 0.0).collect(),
            protocol_ns,
            ipi_ns: ipi.map(|ipi| ipi.take_ns),
            ipi_send_ns: ipi.map(|ipi| ipi.send_ns),
        }
    }

    /// The rates with receive time as it was measured; as they are where nothing was.
    pub(super) fn exact(&self, rates: &Rates) -> Rates {
        let mut rates = rates.clone();
        if self.tier == Tier::Ebpf {
            for cpu in &mut rates.cpus {
                let measured = self.cpu(cpu.cpu).map_or(0.0, |cost| cost.receive);
                // What ran in threads and in handlers is in the measure already.
                cpu.system = (cpu.system - cpu.napi).max(0.0);
                (cpu.softirq, cpu.ksoftirqd, cpu.napi, cpu.irq) = (measured.min(1.0), 0.0, 0.0, 0.0);
            }
            (rates.exact_softirq_time, rates.softirq_timed) = (Some(true), None);
        }
        rates
    }

    fn cpu(&self, cpu: CpuId) -> Option<&CpuCost> {
        self.cpus.iter().find(|cost| cost.cpu == cpu)
    }

    /// The cost of a move as fractions of what is there now, which is `part` of the CPU's receive time; `None` where
    /// something is not known.
    pub(super) fn of_move(&self, step: &Move, part: f64, rates: &Rates) -> Option<Cost> {
        let kind = step.kind;
        let here = self.cpu(step.from).filter(|cpu| cpu.packets >= 1.0)?;
        let now = here.receive * 1e9 / here.packets;
        let ipi = self.ipi_ns?;
        // Who hands packets over does not wait until the interrupt is handled.
        let send = (self.ipi_send_ns? - ipi).max(0.0);
        // A device's packet is taken off its queue first, and that stays.
        let most = if kind == NicKind::Device { now * (1.0 - LEAST_KEPT) } else { now };
        let protocol = self.protocol_ns?.min(most);
        // What a packet costs beside that is waking its reader, on an interface without interrupts. The first packet
        // of a poll finds the reader asleep, and each poll of a backlog begins with an interrupt.
        let waking = if kind == NicKind::Device { 0.0 } else { (now - protocol).max(0.0) };
        let ipis = self.ipis_a_packet(here, step, part, rates, protocol, send);
        let stays =
            if kind == NicKind::Device { now - protocol } else { 0.0 } + ENQUEUE * protocol + ipis * send;
        let goes = protocol + ipis * (ipi + waking);
        let kept = (stays / now).clamp(0.0, 0.99);
        Some(Cost { kept, dearer: (goes / now) / (1.0 - kept) - 1.0 })
    }

    /// How many inter-processor interrupts a packet makes.
    fn ipis_a_packet(
        &self,
        here: &CpuCost,
        step: &Move,
        part: f64,
        rates: &Rates,
        protocol: f64,
        send: f64,
    ) -> f64 {
        let kind = step.kind;
        let busy = rates.cpu(step.from).map_or(1.0, |cpu| (1.0 - cpu.idle).clamp(0.05, 1.0));
        // Packets come in bursts: as fast as they do while the CPU is not idle. Where the senders run on the same CPU
        // as other programs that is faster: sending takes about as long as receiving does.
        let own_pace = if kind == NicKind::Device { 0.0 } else { here.packets / (here.receive * SENDING) };
        let burst = (here.packets * part / busy).max(own_pace);
        let weight = step.to.iter().map(|(_, part)| *part).fold(0.0, f64::max);
        let idle_target = (1.0 - (burst * weight * protocol / 1e9).min(1.0)).max(0.02);
        if kind == NicKind::Device {
            // Those that one poll brought share one for each CPU they go to.
            let k = here.a_poll.max(1.0);
            let distinct: f64 = step.to.iter().map(|(_, part)| 1.0 - (1.0 - part).powf(k)).sum();
            return distinct / k * idle_target;
        }
        idle_target / (1.0 + burst * weight * send / 1e9)
    }

    /// What the figures rest on, in one line.
    pub fn basis(&self) -> String {
        let known = |ns: Option<f64>| ns.map_or("not known".to_owned(), |ns| format!("{:.1} us", ns / 1e3));
        match self.tier {
            Tier::Procfs => {
                format!("not calibrated ({}): {}", self.missing.join("; "), super::prediction::FIXED)
            }
            Tier::Ebpf => format!(
                "measured by eBPF for {:.1} s: protocol work {} a packet; an inter-processor interrupt {} to send, {} \
                 to take",
                self.seconds,
                known(self.protocol_ns),
                known(self.ipi_send_ns),
                known(self.ipi_ns)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Costs;
    use crate::diagnose::sketch::Sketch;
    use crate::model::NicKind;
    use crate::plan::moves::{Move, Steering};
    use crate::probe::{CpuRecord, Ipi, NapiRecord, Reading, Tier};
    use crate::units::CpuId;

    /// One second: CPU 0 took 100,000 packets in polls of `a_poll` and half of the second.
    fn reading(a_poll: u64) -> Reading {
        let cpu = CpuRecord {
            ns: [480_000_000, 0, 0, 0, 0, 0, 0, 0, 0],
            irq_ns: 20_000_000,
            irqs: 10_000,
            ..CpuRecord::default()
        };
        let napi = NapiRecord { polls: 100_000 / a_poll, work: 100_000, ..NapiRecord::default() };
        Reading {
            cpus: [(CpuId(0), cpu)].into(),
            napis: [((CpuId(0), 9), napi)].into(),
            ..Reading::default()
        }
    }

    fn costs(a_poll: u64) -> Costs {
        let ipi = Ipi { take_ns: 1_000.0, send_ns: 4_000.0 };
        Costs::measured(&reading(a_poll), 1.0, Some(2_000.0), Ok(ipi))
    }

    fn step(kind: NicKind, targets: &[u32]) -> Move {
        let even = |cpu: &u32| (CpuId(*cpu), 1.0 / targets.len() as f64);
        let (now, to) = (Steering::default(), targets.iter().map(even).collect());
        Move { kind, packets: 1e5, from: CpuId(0), then: CpuId(0), now, to, cost: None }
    }

    #[test]
    fn costs_of_a_cpu() {
        let costs = costs(10);
        let cpu = &costs.cpus[0];
        assert_eq!((cpu.packets, cpu.a_poll, cpu.interrupts, cpu.interrupt_ns), (1e5, 10.0, 1e4, 2_000.0));
        assert!((cpu.receive - 0.5).abs() < 1e-9, "{cpu:?}");
        let (_, mut rates) = Sketch::new(4).ksoftirqd(0, 0.9).build();
        rates.cpus[0].irq = 0.2;
        let exact = costs.exact(&rates);
        assert_eq!(
            (exact.cpus[0].softirq, exact.cpus[0].ksoftirqd, exact.cpus[0].irq, exact.exact_softirq_time),
            (0.5, 0.0, 0.0, Some(true))
        );
        assert_eq!(Costs::unknown(String::new()).exact(&rates), rates);
    }

    /// 5 us a packet, of which 2 are protocol work: 3 stay, and 0.2 for queueing. One interrupt for all ten packets
    /// of a poll to one CPU, where that is idle.
    #[test]
    fn a_device_keeps_taking_packets_off_its_queue() {
        let (_, rates) = Sketch::new(4).works(0, 1.0).build();
        let cost = costs(10).of_move(&step(NicKind::Device, &[1]), 1.0, &rates).expect("all is known");
        let ipis = 0.1 * (1.0 - 1e5 * 2e-6);
        let kept = (3_200.0 + ipis * 3_000.0) / 5_000.0;
        assert!((cost.kept - kept).abs() < 0.01, "{cost:?} {kept}");
        // What the target gets: protocol work and its part of the interrupts.
        let target = (1.0 - cost.kept) * (1.0 + cost.dearer) * 5_000.0;
        assert!((target - (2_000.0 + ipis * 1_000.0)).abs() < 20.0, "{target}");
    }

    #[test]
    fn more_packets_a_poll_make_fewer_interrupts_and_more_cpus_more() {
        let (_, rates) = Sketch::new(8).works(0, 1.0).build();
        let kept = |a_poll, targets: &[u32]| {
            costs(a_poll).of_move(&step(NicKind::Device, targets), 1.0, &rates).expect("known").kept
        };
        assert!(kept(64, &[1]) < kept(4, &[1]));
        assert!(kept(16, &[1]) < kept(16, &[1, 2, 3, 4, 5]));
    }

    /// RFS sends packets to where processes run: those that hardly run count hardly, however many they are.
    #[test]
    fn cpus_that_get_few_packets_make_few_interrupts() {
        let (_, rates) = Sketch::new(64).works(0, 1.0).build();
        let kept = |to: Steering| {
            let step = Move { to, ..step(NicKind::Device, &[1]) };
            costs(16).of_move(&step, 1.0, &rates).expect("known").kept
        };
        let seldom = (2..64).map(|cpu| (CpuId(cpu), 1e-4));
        let one = kept(Steering::from([(CpuId(1), 1.0)]));
        let mostly_one = kept([(CpuId(1), 1.0 - 62e-4)].into_iter().chain(seldom).collect());
        assert!((mostly_one - one).abs() < 0.02, "{one} {mostly_one}");
    }

    /// The practice range on a virtual machine, flat out: 3.6 us a packet. With RPS the one CPU went from 14.8 to 13.2
    /// %, as the interrupts cost it what the protocol work had, and the other from 0 to 9.3 % (docs/prediction.md).
    #[test]
    fn interrupts_of_a_virtual_machine_eat_what_was_moved() {
        let ran = CpuRecord { ns: [147_500_000, 0, 0, 0, 0, 0, 0, 0, 0], ..CpuRecord::default() };
        let napi = NapiRecord { polls: 41_000, work: 41_000, ..NapiRecord::default() };
        let reading = Reading {
            cpus: [(CpuId(0), ran)].into(),
            napis: [((CpuId(0), 0), napi)].into(),
            ..Reading::default()
        };
        let ipi = Ipi { take_ns: 2_900.0, send_ns: 17_300.0 };
        let costs = Costs::measured(&reading, 1.0, Some(1_700.0), Ok(ipi));
        let (_, rates) = Sketch::new(2).veth("veth0").works(0, 1.0).build();
        let cost = costs.of_move(&step(NicKind::Virtual, &[1]), 1.0, &rates).expect("all is known");
        let (kept, gone) = (0.1475 * cost.kept, 0.1475 * (1.0 - cost.kept) * (1.0 + cost.dearer));
        assert!((kept - 0.132).abs() < 0.02, "{kept}");
        assert!((gone - 0.093).abs() < 0.03, "{gone}");
    }

    #[test]
    fn what_is_not_known_makes_no_cost() {
        let (_, rates) = Sketch::new(4).build();
        let none = Costs::measured(&reading(1), 1.0, None, Ok(Ipi { take_ns: 1.0, send_ns: 1.0 }));
        assert_eq!(none.of_move(&step(NicKind::Virtual, &[1]), 1.0, &rates), None);
        assert_eq!(none.missing.len(), 1);
        let no_second =
            Costs::measured(&reading(1), 1.0, Some(1.0), Err("there is no second CPU".to_owned()));
        assert_eq!(no_second.of_move(&step(NicKind::Virtual, &[1]), 1.0, &rates), None);
        let unknown = Costs::unknown("no root".to_owned());
        assert!(
            unknown.basis().starts_with("not calibrated (no root): fixed fractions"),
            "{}",
            unknown.basis()
        );
        assert_eq!(unknown.tier, Tier::Procfs);
    }
}
