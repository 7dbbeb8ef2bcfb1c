//! CPUs by NUMA node and core, and receive queues with traffic by the CPU of their interrupt. No verdicts
//! here.

use std::collections::BTreeSet;

use super::figures::{Evidence, Subject};
use super::workload::{processing, programs};
use crate::family::PlanName;
use rxlab_base::number::cpus_text;
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::constraints::{has_more_queues, is_movable};
use rxlab_path::evidence::{
    FULL, MAX_PACKET_COST, ORIGIN, TRAFFIC, baseline, busy, headroom, irq_cpus, is_counted, may_be_lo,
    queue_packets, rarely_interrupts, receiving,
};
use rxlab_path::model::{CpuRates, Model, Nic, NicKind, NicRates, Rates, RxQueue};

/// A receive queue of a device that carries traffic, and where its interrupt lands. Queues where this is
/// unknown, or whose CPU may be busy with `lo`, are left out: rules about placement cannot judge them.
pub(crate) struct Loaded<'a> {
    pub(crate) nic: &'a Nic,
    pub(crate) queue: &'a RxQueue,
    /// Packets per second of the queue.
    pub(crate) packets: f64,
    /// The CPU of its interrupt; of several, the one with most receive time including hard interrupts.
    pub(super) cpu: CpuId,
    /// Time that CPU spends in interrupts and softirqs, as a fraction of wall time, as far as its packets can
    /// account for it, and without what CPUs without packets spend.
    pub(super) load: f64,
    /// All its time in interrupts and softirqs, as a fraction of wall time.
    time: f64,
}

impl Loaded<'_> {
    /// The queue's name, such as `eth0/rx-0`.
    pub(super) fn name(&self) -> String {
        format!("{}/rx-{}", self.nic.name, self.queue.index)
    }

    /// The queue's RPS mask, if it has one.
    pub(super) fn mask(&self) -> Option<&CpuMask> {
        self.queue.rps_cpus.known().filter(|mask| !mask.is_empty())
    }

    /// True if its packets are counted, and not inferred.
    pub(super) fn is_counted(&self, rates: &Rates) -> bool {
        is_counted(self.nic, self.queue, rates)
    }

    /// The queue as the subject of evidence.
    pub(super) fn subject(&self) -> Subject {
        Subject::rx(self.nic, self.queue.index)
    }

    /// Evidence: traffic, place and load.
    pub(super) fn evidence(&self, rates: &Rates) -> Evidence {
        Evidence::about(self.subject(), |seen| {
            let packets = if self.is_counted(rates) {
                format!("{} packets/s", seen.packets("packets", self.packets))
            } else {
                "packets not counted by queue".to_owned()
            };
            format!(
                "{}: {packets}, interrupt on CPU {}, {} of its time in interrupts and softirq ({})",
                self.name(),
                self.cpu,
                seen.percent("receiving", self.time),
                seen.tier(rates)
            )
        })
    }
}

/// The queues with traffic of one device.
pub(super) fn loaded_of<'a>(model: &Model, rates: &Rates, nic: &'a Nic) -> Vec<Loaded<'a>> {
    if nic.kind != NicKind::Device {
        return Vec::new();
    }
    let base = baseline(model, rates);
    let queue = |queue: &'a RxQueue| {
        let packets = queue_packets(nic, queue, rates);
        let (cpu, time) = busiest(rates, &irq_cpus(queue, model, rates))?;
        let load = receive_work(rates, base, cpu, packets);
        (packets >= TRAFFIC && !may_be_lo(model, rates, cpu)).then_some(Loaded {
            nic,
            queue,
            packets,
            cpu,
            load,
            time,
        })
    };
    nic.rx.iter().filter_map(queue).collect()
}

/// Of queues that land on a CPU, those that bring it a part of its `packets`: of many, maybe only all together. Those that interrupt
/// rarely and are not counted are left out.
pub(super) fn with_part<'a>(mut here: Vec<Loaded<'a>>, rates: &Rates, packets: f64) -> Vec<Loaded<'a>> {
    here.retain(|queue| !rarely_interrupts(queue.nic, queue.queue, rates));
    let together: f64 = here.iter().map(|queue| queue.packets).sum();
    let most = here.iter().map(|queue| queue.packets).fold(0.0, f64::max);
    if together < packets * ORIGIN {
        return Vec::new();
    }
    let part = packets.max(together) * ORIGIN;
    let least = if most < part { most * ORIGIN } else { part };
    here.retain(|queue| queue.packets >= least);
    here
}

/// Number of interrupts of these queues.
pub(super) fn irqs_of(queues: &[Loaded<'_>]) -> usize {
    queues.iter().filter_map(|one| Some(one.queue.irqs.first()?.number)).collect::<BTreeSet<_>>().len()
}

/// True if these queues have several interrupts, and one of them can be moved.
pub(super) fn can_part(queues: &[Loaded<'_>]) -> bool {
    let can_move = |one: &Loaded<'_>| one.queue.irqs.first().is_some_and(|irq| is_movable(one.nic, irq));
    irqs_of(queues) > 1 && queues.iter().any(can_move)
}

/// The queues with traffic of all devices.
pub(super) fn loaded<'a>(model: &'a Model, rates: &Rates) -> Vec<Loaded<'a>> {
    model.nics.iter().flat_map(|nic| loaded_of(model, rates, nic)).collect()
}

/// CPUs that Hyper-V signals for queues with traffic: no [`Loaded`] has them, as these have no interrupts that could be placed.
pub(super) fn signalled(model: &Model, rates: &Rates) -> impl Iterator<Item = CpuId> {
    let queues = model.nics.iter().flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
    let signalled = queues.filter_map(|(nic, queue)| Some((nic, queue, queue.channel_cpu?)));
    let busy = signalled.filter(move |(nic, queue, _)| queue_packets(nic, queue, rates) >= TRAFFIC);
    busy.map(|(_, _, cpu)| cpu)
}

/// Receive time, including hard interrupts, of a CPU that handles a queue of `packets` per second, as far as
/// packets can account for it, and without what CPUs without packets spend (`base`, the [`baseline`]).
pub(super) fn receive_work(rates: &Rates, base: f64, cpu: CpuId, packets: f64) -> f64 {
    let Some(cpu) = rates.cpu(cpu) else { return 0.0 };
    // With RPS a CPU counts the packets handed to it, not those it takes off a queue.
    let at_most = (packets + cpu.packets) * MAX_PACKET_COST;
    (receiving(cpu) - base).clamp(0.0, at_most)
}

/// True if RPS hands the queue's packets to CPUs other than the interrupt's.
pub(super) fn handed_over(model: &Model, rates: &Rates, queue: &RxQueue) -> bool {
    let mask = queue.rps_cpus.known().cloned().unwrap_or_default();
    !mask.is_empty() && mask.intersection(&irq_cpus(queue, model, rates)).is_empty()
}

/// The queue whose CPU has most receive time; the first if equal.
pub(super) fn most_loaded<'a, 'b>(queues: &'b [Loaded<'a>]) -> Option<&'b Loaded<'a>> {
    queues.iter().rev().max_by(|a, b| a.load.total_cmp(&b.load))
}

/// The same for queues that a rule has caught, with the rule's details.
pub(super) fn worst<'a, 'b, T>(caught: &'b [(&'b Loaded<'a>, T)]) -> Option<&'b (&'b Loaded<'a>, T)> {
    caught.iter().rev().max_by(|a, b| a.0.load.total_cmp(&b.0.load))
}

/// Evidence for the other affected queues.
pub(super) fn same_on(caught: usize, nic: &Nic) -> Option<Evidence> {
    (caught > 1).then(|| {
        Evidence::about(Subject::nic(nic), |seen| {
            let (same, all) = (seen.count("same", caught), seen.count("queues", nic.rx.len()));
            format!("the same on {same} of {all} queues")
        })
    })
}

/// The CPU with most receive time (including hard interrupts) and that time; the first if equal.
pub(super) fn busiest(rates: &Rates, cpus: &CpuMask) -> Option<(CpuId, f64)> {
    let times = cpus.iter().filter_map(|cpu| Some((cpu, receiving(rates.cpu(cpu)?))));
    times.fold(None, |most: Option<(CpuId, f64)>, next| match most {
        Some(most) if most.1 >= next.1 => Some(most),
        _ => Some(next),
    })
}

/// Part of the time that a CPU spends in processes from which they count as running there.
const RUNS: f64 = 0.25;

/// Part of the time in processes below which user time is that of kernel threads: none, but for ticks.
const OF_KERNEL: f64 = 0.1;

/// CPUs that run processes much of the time: where sockets are probably read. Without those where kernel threads run: these have
/// no user time, and are no visible program, except for vhost threads, which read no socket.
pub(super) fn readers(rates: &Rates) -> CpuMask {
    let may_read = |cpu: &CpuRates| {
        let mut here = programs(rates).iter().filter(|program| {
            program.ran_on.known().is_none_or(|ran| ran.contains(cpu.cpu))
                && !program.command.starts_with("vhost-")
        });
        cpu.user >= processing(cpu) * OF_KERNEL
            || rates.processes.known().is_none()
            || here.any(|program| program.cpu >= RUNS)
    };
    let runs = rates.cpus.iter().filter(|cpu| processing(cpu) >= RUNS && may_read(cpu));
    runs.map(|cpu| cpu.cpu).collect()
}

/// The CPUs that RFS would move the work of a hot CPU to, if none of them has time for it.
fn full_readers(rates: &Rates, hot: CpuId) -> Option<CpuMask> {
    let mut full = readers(rates);
    full.remove(hot);
    (!full.is_empty() && !full.iter().any(|cpu| rates.cpu(cpu).is_none_or(|cpu| busy(cpu) < FULL)))
        .then_some(full)
}

/// Packets/s sent for each packet/s received from which a machine forwards, or answers every packet.
const FORWARDED: f64 = 0.5;

/// Why no reader is there for RFS to follow: no CPU runs programs much, and the machine forwards what it receives or kernel threads
/// take it.
pub(crate) fn without_reader(rates: &Rates) -> Option<&'static str> {
    let total = |value: fn(&NicRates) -> f64| rates.nics.iter().map(value).sum::<f64>();
    let received = total(NicRates::to_cpus);
    let forwards = received >= TRAFFIC && total(|nic| nic.tx_packets) >= received * FORWARDED;
    let by_kernel = || rates.cpus.iter().any(|cpu| processing(cpu) >= RUNS);
    match readers(rates).is_empty() {
        true if forwards => Some(
            "at least half as many packets are sent as received, and no CPU runs a program that may read them",
        ),
        true if by_kernel() => {
            Some("CPUs run kernel threads, and none runs a program that may read the packets")
        }
        _ => None,
    }
}

/// Why RFS does not help a hot CPU: no reader is there for it to follow, or none has time.
pub(crate) fn against_rfs(rates: &Rates, hot: CpuId) -> Option<String> {
    let full = |full: CpuMask| format!("no time left on {}, where programs run", cpus_text(&full));
    without_reader(rates).map(str::to_owned).or_else(|| full_readers(rates, hot).map(full))
}

/// The plans that spread the work of a hot CPU.
pub(super) fn spreading(rates: &Rates, hot: CpuId) -> Vec<PlanName> {
    let is_of_use = against_rfs(rates, hot).is_none();
    if is_of_use { vec![PlanName::Rps, PlanName::Rfs] } else { vec![PlanName::Rps] }
}

/// The node of a CPU, if the kernel shows it.
pub(super) fn node(model: &Model, cpu: CpuId) -> Option<u32> {
    model.cpu(cpu)?.node
}

pub(super) fn of_node(model: &Model, node: u32) -> CpuMask {
    model.cpus.iter().filter(|cpu| cpu.node == Some(node)).map(|cpu| cpu.id).collect()
}

/// True if a device may get more receive queues, and has fewer than there are cores for them.
pub(super) fn may_use_more_queues(model: &Model, nic: &Nic) -> bool {
    has_more_queues(nic) && nic.rx.len() < cores(model, &model.usable())
}

/// The number of cores of these CPUs; a CPU with unknown siblings counts as one.
pub(super) fn cores(model: &Model, cpus: &CpuMask) -> usize {
    cpus.iter()
        .filter(|cpu| {
            let siblings = model.cpu(*cpu).map(|cpu| cpu.siblings.intersection(cpus)).unwrap_or_default();
            siblings.first().is_none_or(|first| first == *cpu)
        })
        .count()
}

/// Interference time from which it is reported: it counts as busy time.
const TAKEN: f64 = 0.05;

/// Evidence if the hypervisor takes time from these CPUs.
pub(super) fn steal(rates: &Rates, cpus: &CpuMask) -> Option<Evidence> {
    let taken = mean(rates, cpus, |cpu| cpu.steal);
    (taken >= TAKEN).then(|| {
        Evidence::about(Subject::Cpus(cpus.clone()), |seen| {
            let taken = seen.percent("steal", taken);
            format!(
                "the hypervisor takes {taken} of the time of {} (steal, counted as busy)",
                cpus_text(cpus)
            )
        })
    })
}

/// Evidence: how much more fits.
pub(super) fn fits(model: &Model, rates: &Rates) -> Evidence {
    let room = headroom(model, rates);
    Evidence::about(Subject::Machine, |seen| {
        format!(
            "headroom: {} for receive work of the hottest CPU, {} for the machine",
            seen.times("headroom_hottest", room.hottest),
            seen.times("headroom_machine", room.machine)
        )
    })
}

/// The mean over these CPUs; 0 if the rates have none of them.
pub(super) fn mean(
    rates: &Rates,
    cpus: &CpuMask,
    value: impl Fn(&rxlab_path::model::CpuRates) -> f64,
) -> f64 {
    let values: Vec<f64> = cpus.iter().filter_map(|cpu| rates.cpu(cpu)).map(value).collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::{busiest, cores, full_readers, loaded, spreading};
    use crate::diagnose::sketch::Diagnosed;
    use crate::family::{Family, PlanName};
    use rxlab_base::units::{CpuId, Fact};
    use rxlab_path::sketch::{Sketch, cpus};

    #[test]
    fn cores_and_usable_cpus() {
        let (mut model, rates) = Sketch::new(8).smt().receives(3, 0.2, 9.0).receives(5, 0.2, 9.0).build();
        assert_eq!(cores(&model, &cpus("0-7")), 4);
        assert_eq!(cores(&model, &cpus("0-4")), 4, "CPU 4 is the other thread of CPU 0");
        model.cpus[1].siblings = cpus("");
        assert_eq!(cores(&model, &cpus("1")), 1, "not known");
        assert_eq!(busiest(&rates, &cpus("2-7")), Some((CpuId(3), 0.2)));
        assert_eq!(busiest(&rates, &cpus("")), None);
        model.cpus[7].online = false;
        model.cpus[6].isolated = true;
        model.settings.cpuset_isolated = Fact::Known(cpus("2"));
        assert_eq!(model.scheduled(), cpus("0-1,3-5"));
    }

    /// RFS to a CPU that a program fills only moves the shortage.
    #[test]
    fn full_readers_get_no_rfs() {
        let plans = |user| {
            let (_, rates) = Sketch::new(4).receives(0, 0.9, 4e4).works(3, user).build();
            spreading(&rates, CpuId(0))
        };
        assert_eq!(
            [plans(0.99), plans(0.5), plans(0.0)].map(|plans| plans.contains(&PlanName::Rfs)),
            [false, true, true]
        );
        let (_, rates) = Sketch::new(4).receives(0, 0.9, 4e4).works(3, 0.99).works(2, 0.4).build();
        assert_eq!(full_readers(&rates, CpuId(0)), None, "another reader has time");
        let (_, rates) = Sketch::new(4).receives(0, 0.9, 4e4).polls(3, 0.98).build();
        assert_eq!(full_readers(&rates, CpuId(0)), None, "a thread that polls reads no socket");
    }

    /// RFS was advised for threads that encrypt and for vhost, none of which reads a socket.
    #[test]
    fn kernel_threads_read_no_socket() {
        let host = || {
            let host = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 9e4).receives(0, 0.95, 9e4);
            host.measured(|rates| rates.cpus[3].system = 0.6)
        };
        let plans = |host: Sketch| spreading(&host.build().1, CpuId(0));
        assert_eq!(plans(host()), [PlanName::Rps]);
        assert_eq!(plans(host().program("vhost-1500", 0.6, "3")), [PlanName::Rps]);
        let both = [PlanName::Rps, PlanName::Rfs];
        assert_eq!(plans(host().program("iperf3", 0.6, "3")), both);
        assert_eq!(plans(host().measured(|rates| rates.processes = Fact::Unsupported)), both, "unknown");
    }

    /// A router: RFS was advised, although no program reads what it forwards.
    #[test]
    fn what_is_forwarded_has_no_reader() {
        let host = |sent: f64, user| {
            let host = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 9e4).receives(0, 0.95, 9e4);
            host.nic_rates("eth0", |nic| nic.tx_packets = sent).works(3, user)
        };
        let plans = |sent, user| spreading(&host(sent, user).build().1, CpuId(0));
        assert_eq!(plans(8e4, 0.02), [PlanName::Rps]);
        assert_eq!(plans(2e4, 0.02), [PlanName::Rps, PlanName::Rfs]);
        assert_eq!(plans(8e4, 0.5), [PlanName::Rps, PlanName::Rfs], "a program may be the reader");
        let regime = |sent| host(sent, 0.02).regime();
        let rfs = regime(8e4).knobs.into_iter().find(|worth| worth.knob == Family::Rfs).expect("judged");
        assert!(!rfs.trial && rfs.why.starts_with("at least half as many packets are sent"), "{rfs:?}");
        assert!(!regime(8e4).summary.contains("RFS") && regime(2e4).summary.contains("RFS"));
    }

    #[test]
    fn what_packets_cannot_cost_is_not_receive_work() {
        let host =
            |packets| Sketch::new(4).device("eth0", &[1]).traffic("eth0", packets).receives(1, 0.8, packets);
        let load = |packets| {
            let (model, rates) = host(packets).build();
            loaded(&model, &rates)[0].load
        };
        assert_eq!(load(9e4), 0.8);
        assert!((load(1e3) - 0.2).abs() < 1e-9, "the rest is for a disk");
    }

    /// A load of 30 % was once shown next to "6 % in softirq".
    #[test]
    fn the_busiest_is_the_one_with_the_load_that_is_shown() {
        let host = Sketch::new(4).device("eth0", &[1]).traffic("eth0", 5e4);
        let (model, mut rates) = host.receives(1, 0.06, 5e4).receives(2, 0.1, 1e3).build();
        rates.cpus[1].irq = 0.24;
        assert_eq!(busiest(&rates, &cpus("0-3")).map(|(cpu, _)| cpu), Some(CpuId(1)));
        let line = loaded(&model, &rates)[0].evidence(&rates).text;
        assert!(
            line.ends_with(
                "interrupt on CPU 1, 30 % of its time in interrupts and softirq (rough: timer ticks)"
            ),
            "{line}"
        );
    }

    #[test]
    fn what_the_hypervisor_takes_is_told_where_it_matters() {
        let (_, mut rates) = Sketch::new(2).build();
        rates.cpus[1].steal = 0.3;
        let found = super::steal(&rates, &cpus("1")).expect("30 %");
        assert_eq!(found.text, "the hypervisor takes 30 % of the time of CPU 1 (steal, counted as busy)");
        rates.cpus[1].steal = 0.04;
        assert_eq!(super::steal(&rates, &cpus("1")), None);
    }

    #[test]
    fn only_queues_with_traffic_and_a_known_place() {
        let host = || Sketch::new(4).device("eth0", &[1, 2]).veth("veth0").traffic("veth0", 9e4);
        let (mut model, rates) = host().queue_traffic("eth0", &[5e3, 10.0]).build();
        let names = |model: &_| loaded(model, &rates).iter().map(super::Loaded::name).collect::<Vec<_>>();
        assert_eq!(names(&model), ["eth0/rx-0"]);
        model.nics[0].rx[0].irqs.clear();
        assert_eq!(names(&model), [""; 0]);
    }
}
