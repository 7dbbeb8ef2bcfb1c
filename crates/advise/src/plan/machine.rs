//! What the CPUs of a machine do now: where packets arrive, what they cost, and what else fills a CPU.

use std::collections::BTreeMap;
use std::slice;

use super::step::rfs::is_on;
use super::topology::CpuTopology;
use crate::diagnose::EVEN_QUEUES;
use rxlab_base::units::{CpuId, CpuMask, Fact};
use rxlab_path::constraints::is_stuck;
use rxlab_path::evidence::{
    FULL, MAX_PACKET_COST, TRAFFIC, arrivals, foreign_nic, irq_cpus, queue_packets, rarely_interrupts,
    receive_time,
};
use rxlab_path::model::{CpuRates, Irq, Model, Nic, NicKind, Rates, RxQueue};
use rxlab_setting::simulation::all_irqs;

/// Packets per second on one queue from which the hyper-threads of the interrupt's CPU are left out too: at
/// 10 to 20 us between packets a core is interrupted all the time.
pub(super) const HIGH_RATE: f64 = 50_000.0;

/// Receive time of the interrupt's CPU that counts as a high rate, independent of the cost of a packet.
pub(super) const HIGH_LOAD: f64 = 0.5;

/// Receive time of a CPU, by the packets of its interrupts, from which it has no room for packets of others.
pub(super) const TAKEN: f64 = 0.25;

/// Receive time that a sample does not tell apart: at 250 ticks a second, a CPU that receives for 85 % of a second is counted
/// with a standard error of 2.3 %. An uncertain surplus of so little is no reason against a plan, but a finding that comes with so
/// little more is, and a plan does not end so close to one.
pub(super) const INDISTINCT: f64 = 0.02;

/// Smallest part of a CPU's time that counts as left.
const SOME: f64 = 0.001;

/// A machine, and what its CPUs do.
#[derive(Clone, Copy)]
pub(super) struct Machine<'a> {
    pub(super) model: &'a Model,
    pub(super) rates: &'a Rates,
    pub(super) topology: &'a CpuTopology,
}

impl Machine<'_> {
    /// The CPU that takes the packets of a queue first; `None` if unknown.
    pub(super) fn home(&self, queue: &RxQueue) -> Option<CpuId> {
        let one = |mask: &CpuMask| {
            mask.first().filter(|cpu| mask.len() == 1 && self.topology.online.contains(*cpu))
        };
        let irq = queue.irqs.first();
        // An interrupt that is moving counts where it was sent.
        let is_moving = |irq: &&Irq| irq.is_pending() && !is_stuck(irq, self.rates);
        let sent = irq.filter(is_moving).and_then(|irq| irq.affinity.known()).and_then(one);
        // With Hyper-V, the CPU of a signal is not that of an interrupt.
        sent.or_else(|| irq.and_then(|irq| irq.effective.known()).and_then(one))
            .or_else(|| irq_cpus(queue, self.model, self.rates).first())
            .or(queue.channel_cpu)
    }

    /// The CPUs where the packets that a queue's mask hands on arrive, as far as known.
    pub(super) fn homes(&self, nic: &Nic, queue: &RxQueue) -> CpuMask {
        masked(nic, queue).iter().filter_map(|queue| self.home(queue)).collect()
    }

    /// True if the queues of `nic` bring packets to every usable CPU, about equally: handing them on is then
    /// redundant. The number of queues alone is not enough: their interrupts may all land on one CPU.
    pub(super) fn is_covered_by(&self, nic: &Nic) -> bool {
        if nic.rx.len() < self.topology.usable.len() {
            return false;
        }
        let homes: CpuMask = nic.rx.iter().filter_map(|queue| self.home(queue)).collect();
        if let Fact::Known(rss) = &nic.hardware.rss
            && !rss.table.is_empty()
        {
            let reached = rss.weights();
            if nic.rx.iter().any(|queue| !reached.contains_key(&queue.index)) {
                return false;
            }
        }
        // Equal parts would be a guess, and cover everything.
        if nic.rx.iter().any(|queue| rarely_interrupts(nic, queue, self.rates)) {
            return false;
        }
        let packets = nic.rx.iter().map(|queue| queue_packets(nic, queue, self.rates));
        let (most, all) = packets.fold((0.0, 0.0), |(most, all), packets| (packets.max(most), all + packets));
        self.topology.usable.difference(&homes).is_empty() && most * nic.rx.len() as f64 <= all * EVEN_QUEUES
    }

    /// All devices, but not those that count the packets of one below: a paravirtual device above a virtual function.
    pub(super) fn devices(&self) -> impl Iterator<Item = &Nic> {
        let devices = self.model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
        devices.filter(|nic| self.model.carriers(nic).is_empty())
    }

    /// Packets/s of all devices.
    pub(super) fn all_packets(&self) -> f64 {
        self.devices().map(|nic| self.rates.rx_packets(&nic.name)).sum()
    }

    /// Receive time of a CPU.
    pub(super) fn load(&self, cpu: CpuId) -> f64 {
        self.rates.cpu(cpu).map_or(0.0, receive_time)
    }

    /// Receive time that the packets of a device cause, if each packet costs the same. Unlike the time of the CPUs where its
    /// interrupts land, a plan does not change it.
    pub(super) fn time_of(&self, nic: &Nic) -> f64 {
        self.rates.rx_packets(&nic.name) * self.packet_cost()
    }

    /// Receive time for each packet/s of the devices.
    fn packet_cost(&self) -> f64 {
        // The time of CPUs where interrupts of other network namespaces land is not that of the packets counted here.
        let foreign: CpuMask = self.foreign().map(|(cpu, _)| cpu).collect();
        let own = self.rates.cpus.iter().filter(|cpu| !foreign.contains(cpu.cpu));
        let mixed = self.devices().flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
        let mixed = mixed.filter(|(_, queue)| self.home(queue).is_some_and(|home| foreign.contains(home)));
        let mixed: f64 = mixed.map(|(nic, queue)| queue_packets(nic, queue, self.rates)).sum();
        let time: f64 = own.map(receive_work).sum();
        time / (self.all_packets() - mixed).max(1.0)
    }

    /// CPUs that something other than receiving fills. A program that takes what is left has less while the CPU
    /// receives, so its part of the rest decides: a plan does not change that.
    pub(super) fn full(&self) -> CpuMask {
        let is_full = |cpu: &&CpuRates| {
            let receive = receive_work(cpu);
            1.0 - cpu.idle - receive >= FULL * (1.0 - receive).max(SOME)
        };
        self.rates.cpus.iter().filter(is_full).map(|cpu| cpu.cpu).collect()
    }

    /// Receive time that the packets of these devices cause on the CPUs of their interrupts, if each packet costs the
    /// same and none is handed on. Unlike the time of these CPUs, masks do not change it.
    pub(super) fn brought(&self, counts: impl Fn(&Nic, &RxQueue) -> bool) -> BTreeMap<CpuId, f64> {
        let each = self.packet_cost().min(MAX_PACKET_COST);
        let mut times: BTreeMap<CpuId, f64> = BTreeMap::new();
        for nic in self.devices() {
            for queue in nic.rx.iter().filter(|queue| counts(nic, queue)) {
                if let Some(home) = self.home(queue) {
                    *times.entry(home).or_default() += queue_packets(nic, queue, self.rates) * each;
                }
            }
        }
        times
    }

    /// CPUs that interrupts of interfaces other than these keep busy, those of other network namespaces included, and CPUs that
    /// are busy with packets of unknown ones.
    pub(super) fn taken(&self, nics: &[&Nic]) -> CpuMask {
        let times = self.brought(|nic, queue| is_of_others(nic, queue, nics));
        let others = times.into_iter().filter(|(_, time)| *time >= TAKEN).map(|(cpu, _)| cpu);
        others.chain(self.foreign().map(|(cpu, _)| cpu)).collect::<CpuMask>().union(&self.unaccounted(nics))
    }

    /// CPUs that receive much although no interrupt of these interfaces is known to land there, and no mask or reader brings
    /// packets there.
    fn unaccounted(&self, nics: &[&Nic]) -> CpuMask {
        if self.devices().any(|nic| is_on(self.model, nic)) {
            return CpuMask::new();
        }
        let queues = nics.iter().flat_map(|nic| &nic.rx);
        let lands = queues
            .flat_map(|queue| arrivals(queue, self.model, self.rates).into_keys().chain(self.home(queue)));
        let accounted = lands.collect::<CpuMask>().union(&self.masked());
        let much = self.rates.cpus.iter().filter(|cpu| receive_work(cpu) >= HIGH_LOAD);
        much.map(|cpu| cpu.cpu).filter(|cpu| !accounted.contains(*cpu)).collect()
    }

    /// CPUs of masks. Where these bring packets, the shares of others are unknown.
    fn masked(&self) -> CpuMask {
        let masks = self.devices().flat_map(|nic| &nic.rx).filter_map(|queue| queue.rps_cpus.known());
        masks.fold(CpuMask::new(), |all, mask| all.union(mask))
    }

    /// CPUs that interrupts of other network namespaces keep busy, and their receive time.
    pub(super) fn foreign(&self) -> impl Iterator<Item = (CpuId, f64)> {
        let masked = self.masked();
        let times = self.rates.cpus.iter().map(|cpu| (cpu.cpu, receive_work(cpu)));
        times.filter(move |(cpu, time)| {
            *time >= TAKEN && !masked.contains(*cpu) && foreign_nic(self.model, self.rates, *cpu).is_some()
        })
    }

    /// CPUs that take interrupts of busy interfaces that get no part here.
    pub(super) fn others(&self, nics: &[&Nic]) -> CpuMask {
        let busy = self.devices().filter(|nic| self.rates.rx_packets(&nic.name) >= TRAFFIC);
        let queues = busy.flat_map(|nic| nic.rx.iter().filter(|queue| is_of_others(nic, queue, nics)));
        queues.filter_map(|queue| self.home(queue)).collect()
    }
}

/// The queues whose packets the mask of a queue applies to.
pub(super) fn masked<'n>(nic: &'n Nic, queue: &'n RxQueue) -> &'n [RxQueue] {
    if nic.is_steered_by_first() { &nic.rx } else { slice::from_ref(queue) }
}

/// True for a queue whose interface and interrupt are none of these interfaces'.
fn is_of_others(nic: &Nic, queue: &RxQueue, nics: &[&Nic]) -> bool {
    let is_own = |irq: &Irq| nics.iter().any(|own| all_irqs(own).contains(&irq.number));
    nics.iter().all(|own| own.name != nic.name) && !queue.irqs.iter().any(is_own)
}

/// True if a queue is busy: it has a high rate, or the interrupts of its CPU bring much receive time. The measured time
/// of the CPU would change with the masks, and the next plan with it.
pub(super) fn is_busy(brought: Option<f64>, packets: f64) -> bool {
    packets >= HIGH_RATE || brought.is_some_and(|time| time >= HIGH_LOAD)
}

/// Rates with so many times the receive time.
pub(super) fn grown(rates: &Rates, factor: f64) -> Rates {
    let mut grown = rates.clone();
    for cpu in &mut grown.cpus {
        for time in [&mut cpu.softirq, &mut cpu.ksoftirqd, &mut cpu.napi] {
            *time *= factor;
        }
    }
    grown
}

/// Receive time of a CPU. Above 1 in predicted rates that give it more work than it has time.
pub(super) fn receive_work(cpu: &CpuRates) -> f64 {
    cpu.softirq.max(cpu.ksoftirqd) + cpu.napi
}
