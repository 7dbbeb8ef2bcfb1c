//! Softirq time not spent on received packets, and the CPUs where that is certain. No verdicts here.

use std::borrow::Cow;

use super::workload::{Landing, landings};
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::evidence::{MAX_PACKET_COST, TRAFFIC, in_softirq, queue_packets, receive_time};
use rxlab_path::model::{CpuRates, Model, Nic, Rates, RxQueue};

/// Packets/s, and NET_RX runs/s, below which they take hardly any of a full CPU's time: at most 5 %, at 100
/// us each.
pub(super) const FEW: f64 = TRAFFIC / 2.0;

/// The softirqs of disks. Drivers use tasklets too, but so do network drivers.
const OF_DISKS: [&str; 2] = ["BLOCK", "IRQ_POLL"];

/// The softirqs of timers and of memory to free after RCU.
const OF_TIMERS: [&str; 3] = ["TIMER", "HRTIMER", "RCU"];

/// Runs/s of one of [`OF_TIMERS`] that the tick alone can cause: `CONFIG_HZ` is at most 1000.
const TICKS: f64 = 1_000.0;

/// Runs of timers or RCU for each packet from which the packets count at [`USUAL`] instead of [`MAX_PACKET_COST`].
const STORM: f64 = 3.0;

/// Upper bound on the cost of one packet on machines that are not emulated, in seconds.
const USUAL: f64 = MAX_PACKET_COST / 10.0;

/// Factor by which a packet may cost more than on the other CPUs during a storm.
const DEARER: f64 = 2.0;

/// Softirq time from which its purpose matters.
const MUCH: f64 = 0.25;

/// The vector of timers or RCU that runs most often on a CPU, and its runs/s, if the tick cannot be the cause.
pub(super) fn storm(cpu: &CpuRates) -> Option<(&'static str, f64)> {
    let rates = OF_TIMERS.iter().filter_map(|name| Some((*name, *cpu.other_softirqs.get(*name)?)));
    rates.filter(|(_, rate)| *rate > TICKS).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// True if a CPU's softirq time is not for received packets: hardly any are processed or brought there, or
/// softirqs of disks, or a storm of those of timers or RCU, run more often than NET_RX and the packets do not
/// account for half of the time. False if packets are not counted.
pub(super) fn is_elsewhere(model: &Model, rates: &Rates, cpu: &CpuRates) -> bool {
    let counted = |value: fn(&CpuRates) -> f64| rates.cpus.iter().any(|cpu| value(cpu) > 0.0);
    if !counted(|cpu| cpu.packets) || !counted(|cpu| cpu.net_rx) {
        return false;
    }
    // Before GRO merges any packets, and not divided among the CPUs of a mask.
    let brought: f64 =
        bringing(model, rates, cpu.cpu).map(|(nic, queue)| queue_packets(nic, queue, rates)).sum();
    let disks: f64 = OF_DISKS.iter().filter_map(|name| cpu.other_softirqs.get(*name)).sum();
    let hardly_any = cpu.packets.max(cpu.net_rx) < FEW && brought < TRAFFIC;
    let packets = cpu.packets.max(brought);
    let storm = storm(cpu).map_or(0.0, |(_, runs)| runs);
    let most = if storm >= STORM * packets { USUAL } else { MAX_PACKET_COST };
    let cost = match cost_elsewhere(rates, cpu).filter(|_| storm > 0.0) {
        Some(cost) => most.min(cost * DEARER),
        None => most,
    };
    hardly_any || (disks.max(storm) > cpu.net_rx && packets * cost < receive_time(cpu) / 2.0)
}

/// Seconds that a packet costs on the other CPUs without a storm, if these receive as many packets as this one.
fn cost_elsewhere(rates: &Rates, cpu: &CpuRates) -> Option<f64> {
    let others = rates.cpus.iter().filter(|other| other.cpu != cpu.cpu && storm(other).is_none());
    let receive = others.filter(|other| other.packets >= FEW);
    let (packets, time) =
        receive.fold((0.0, 0.0), |(packets, time), cpu| (packets + cpu.packets, time + receive_time(cpu)));
    (packets >= cpu.packets && time > 0.0).then(|| time / packets)
}

/// The rates without the time of CPUs that spend much of it in other softirqs: the rest is, or may be,
/// receive work.
pub(super) fn without<'a>(model: &Model, rates: &'a Rates) -> Cow<'a, Rates> {
    let much = rates.cpus.iter().filter(|cpu| in_softirq(cpu) >= MUCH);
    let elsewhere: CpuMask = much.filter(|cpu| is_elsewhere(model, rates, cpu)).map(|cpu| cpu.cpu).collect();
    if elsewhere.is_empty() {
        return Cow::Borrowed(rates);
    }
    let mut rates = rates.clone();
    for cpu in rates.cpus.iter_mut().filter(|cpu| elsewhere.contains(cpu.cpu)) {
        (cpu.irq, cpu.softirq, cpu.ksoftirqd) = (0.0, 0.0, 0.0);
    }
    Cow::Owned(rates)
}

/// The receive queues of devices that bring a CPU packets, or may: their interrupt lands there or at an
/// unknown place, or RPS hands their packets to it.
pub(super) fn bringing<'a>(
    model: &'a Model,
    rates: &Rates,
    cpu: CpuId,
) -> impl Iterator<Item = (&'a Nic, &'a RxQueue)> {
    let bring = move |Landing { queue, cpus, .. }: &Landing<'_>| {
        let handed = queue.rps_cpus.known().is_some_and(|mask| mask.contains(cpu));
        handed || cpus.contains(cpu) || cpus.is_empty() && queue.channel_cpu.is_none_or(|of| of == cpu)
    };
    landings(model, rates).into_iter().filter(bring).map(|landing| (landing.nic, landing.queue))
}

#[cfg(test)]
mod tests {
    use super::{is_elsewhere, without};
    use rxlab_base::units::CpuId;
    use rxlab_path::model::{CpuRates, Model, Rates};
    use rxlab_path::sketch::Sketch;

    fn is_found(host: &(Model, Rates)) -> bool {
        is_elsewhere(&host.0, &host.1, &host.1.cpus[5])
    }

    /// CPU 5 is full of softirqs, and eth0's interrupt on CPU 2.
    fn host() -> Sketch {
        let host = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e5);
        host.receives(2, 0.85, 4e5).receives(5, 0.93, 40.0).softirqs(5, "BLOCK", 3e3)
    }

    #[test]
    fn hardly_a_packet() {
        assert!(is_found(&host().build()));
        assert!(!is_found(&host().softirqs(5, "BLOCK", 0.0).receives(5, 0.93, 600.0).build()), "some arrive");
        assert!(!is_found(&host().softirqs(5, "BLOCK", 0.0).net_rx(5, 600.0).build()), "or NET_RX runs");
    }

    #[test]
    fn more_disks_than_packets() {
        let both =
            |packets: f64, runs: f64| is_found(&host().receives(5, 0.93, packets).net_rx(5, runs).build());
        assert!(both(4e3, 2e3));
        assert!(!both(5e3, 2e3), "at the maximum cost they take half of it");
        assert!(!both(4e3, 4e3), "fewer disk softirqs");
        let tasklets = host().softirqs(5, "BLOCK", 0.0).softirqs(5, "TASKLET", 3e3).softirqs(5, "HI", 3e3);
        assert!(!is_found(&tasklets.receives(5, 0.93, 2e3).build()), "those of network drivers, it may be");
    }

    #[test]
    fn storms_of_timers_and_rcu() {
        let storm = |vector: &str, runs: f64, packets: f64| {
            // No other CPU shows what a packet costs.
            let host = host().softirqs(5, "BLOCK", 0.0).receives(5, 0.93, packets).receives(2, 0.85, 0.0);
            is_found(&host.softirqs(5, vector, runs).build())
        };
        for vector in ["TIMER", "HRTIMER", "RCU"] {
            assert!(storm(vector, 2e4, 3e3), "{vector}");
        }
        assert!(storm("RCU", 9e4, 2e4), "three for each packet: at 10 us each they take a fifth");
        assert!(!storm("RCU", 4e4, 2e4), "two for each packet");
        assert!(!storm("RCU", 2e5, 6e4), "they may take half of it");
        assert!(!storm("TIMER", 900.0, 600.0), "the tick");
        assert!(!storm("SCHED", 2e4, 3e3), "wake-ups by packets balance load, too");
    }

    /// 60,000 runs of timers on one of eight CPUs that take 30,000 packets/s each: it was a hotspot.
    #[test]
    fn a_storm_with_ordinary_traffic() {
        let host = |time: f64| {
            let host = host().softirqs(5, "BLOCK", 0.0).receives(5, 0.93, 3e4).softirqs(5, "TIMER", 6e4);
            [0, 1, 2, 3, 4, 6, 7].into_iter().fold(host, |host, cpu| host.receives(cpu, time, 3e4)).build()
        };
        assert!(is_found(&host(0.06)), "2 us a packet on the others");
        assert!(!is_found(&host(0.3)), "10 us a packet on the others");
    }

    /// An RPS target of a kernel whose softnet rows name no CPU: 300 packets a run.
    #[test]
    fn never_where_packets_are_not_counted() {
        let without = |clear: fn(&mut CpuRates)| {
            let mut host = host().build();
            host.1.cpus.iter_mut().for_each(clear);
            is_found(&host)
        };
        assert!(without(|_| ()));
        assert!(!without(|cpu| cpu.packets = 0.0) && !without(|cpu| cpu.net_rx = 0.0));
    }

    #[test]
    fn never_where_a_queue_may_bring_them() {
        assert!(!is_found(&host().rps("eth0", "4-7").build()), "handed on");
        let (mut model, rates) = host().build();
        model.nics[0].rx[0].irqs.clear();
        assert!(!is_found(&(model.clone(), rates.clone())), "a USB device: whoever takes its interrupt");
        model.nics[0].rx[0].channel_cpu = Some(CpuId(2));
        assert!(is_found(&(model.clone(), rates.clone())), "a channel of VMBus goes to another CPU");
        model.nics[0].rx[0].channel_cpu = Some(CpuId(5));
        assert!(!is_found(&(model, rates)), "or to this one");
    }

    #[test]
    fn what_is_left_is_receive_work() {
        let (model, rates) = host().build();
        let left = without(&model, &rates);
        assert_eq!((left.cpus[5].softirq, left.cpus[2].softirq), (0.0, 0.85));
        assert_eq!(left.cpus[0], rates.cpus[0], "small amounts are kept");
    }
}
