//! Packets of `lo` among those of devices.

use std::collections::BTreeMap;

use super::origin::counts_again;
use super::{LOOPBACK_SHARE, MAX_PACKET_COST, TRAFFIC, arrival_cpus, queue_packets, receive_time};
use crate::model::{Model, Nic, NicKind, NicRates, Rates};
use rxlab_base::units::CpuId;

/// Part of a CPU's receive time, and of its packets, that a device must account for when `lo` is busy.
const OF_A_DEVICE: f64 = 0.5;

/// The share of packets that came in over `lo`, if the work of the CPU that receives most may be theirs: then
/// there is no verdict on steering.
pub fn loopback_share(model: &Model, rates: &Rates) -> Option<f64> {
    let share = share_of_lo(model, rates)?;
    let hottest = rates.hottest(receive_time).map(|(cpu, _)| cpu);
    hottest.is_none_or(|cpu| !brought_by_a_device(model, rates, cpu)).then_some(share)
}

/// True if a CPU's receive work may come from `lo`: most packets do, and no queue of a device accounts for
/// its time.
pub fn may_be_lo(model: &Model, rates: &Rates, cpu: CpuId) -> bool {
    share_of_lo(model, rates).is_some() && !brought_by_a_device(model, rates, cpu)
}

/// Packets per second received on interfaces other than `lo`, without those that count again what others received, as a
/// paravirtual device does with the packets of the virtual function below it.
pub fn received(model: &Model, rates: &Rates) -> f64 {
    let is_above = |nic: &Nic| nic.kind == NicKind::Device && !model.carriers(nic).is_empty();
    let counts = |nic: &Nic| nic.kind != NicKind::Loopback && !counts_again(model, nic) && !is_above(nic);
    let passes = |nic: &&NicRates| model.nic(&nic.name).is_some_and(counts);
    rates.nics.iter().filter(passes).map(|nic| nic.rx_packets).sum()
}

/// Part of the packets that CPUs receive from which the interfaces account for them: the counters are read one after another.
const ACCOUNTED: f64 = 0.9;

/// True if the devices here, what the stack takes from them again, and `lo` receive as many packets as the CPUs: none come from
/// another network namespace, whatever interrupts fire.
pub fn devices_account(model: &Model, rates: &Rates) -> bool {
    let counted: f64 = rates.cpus.iter().map(|cpu| cpu.packets).sum();
    let receives = |nic: &&Nic| match nic.kind {
        // A paravirtual device counts the packets of the virtual function below it.
        NicKind::Device => model.carriers(nic).is_empty(),
        // The kernel does not say on what a PPP session stands.
        NicKind::Virtual => counts_again(model, nic) || nic.stack.kind.as_deref() == Some("ppp"),
        NicKind::Loopback => false,
    };
    let received: f64 = model.nics.iter().filter(receives).map(|nic| rates.rx_packets(&nic.name)).sum();
    !rates.uncounted && counted > 0.0 && received + through_lo(model, rates) >= counted * ACCOUNTED
}

/// Packets per second received on `lo`.
pub fn through_lo(model: &Model, rates: &Rates) -> f64 {
    let loopback = model.nics.iter().filter(|nic| nic.kind == NicKind::Loopback);
    loopback.filter_map(|nic| rates.nic(&nic.name)).map(|nic| nic.rx_packets).sum()
}

fn share_of_lo(model: &Model, rates: &Rates) -> Option<f64> {
    let seen: f64 = rates.nics.iter().map(NicRates::to_cpus).sum();
    let lo = through_lo(model, rates);
    // The stack counts packets of every network namespace, the interfaces only those of one.
    let stack: f64 = rates.cpus.iter().map(|cpu| cpu.packets).sum();
    let share = lo / seen.max(stack);
    (lo >= TRAFFIC && share > LOOPBACK_SHARE).then_some(share)
}

/// True if the interrupts and RPS masks of devices bring a CPU packets that account for most of its receive
/// time. Work of `lo` happens wherever programs run: the mean receive time of CPUs without packets from a
/// device is taken as its part here too. The stack counts packets of `lo` where they are sent, so a device
/// must bring half of those counted.
fn brought_by_a_device(model: &Model, rates: &Rates, cpu: CpuId) -> bool {
    let brought = brought(model, rates);
    let Some(counted) = rates.cpu(cpu) else { return false };
    let (time, packets) = (receive_time(counted), brought.get(&cpu).copied().unwrap_or_default());
    let without: Vec<f64> =
        rates.cpus.iter().filter(|cpu| !brought.contains_key(&cpu.cpu)).map(receive_time).collect();
    let lo = without.iter().sum::<f64>() / without.len().max(1) as f64;
    let own = time - lo;
    let most = packets > 0.0 && packets >= counted.packets * OF_A_DEVICE;
    most && own >= time * OF_A_DEVICE && own <= packets * MAX_PACKET_COST
}

/// Packets/s that the busy queues of devices bring to each CPU that gets any, by interrupt or RPS mask.
pub fn brought(model: &Model, rates: &Rates) -> BTreeMap<CpuId, f64> {
    let mut brought = BTreeMap::new();
    let devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
    for (nic, queue) in devices.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue))) {
        let packets = queue_packets(nic, queue, rates);
        if packets < TRAFFIC {
            continue;
        }
        let lands = arrival_cpus(queue, model, rates);
        let handed = queue.rps_cpus.known().cloned().unwrap_or_default();
        for cpus in [lands, handed] {
            for cpu in cpus.iter() {
                *brought.entry(cpu).or_default() += packets / cpus.len() as f64;
            }
        }
    }
    brought
}
