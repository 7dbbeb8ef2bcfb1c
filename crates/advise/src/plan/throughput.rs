//! Packets/s that a virtual interface receives with an RPS mask, by the costs of this host.
//!
//! Its packets are received where they are sent, so the CPU that receives also sends, and both grow together. Per packet
//!
//! - the CPU that sends does what it does now besides receiving, hashes and queues the packet, and interrupts the target
//!   unless that is still busy with earlier ones: with many targets at low load, nearly always;
//! - a target takes the packet up the stack, and the interrupt if there is one. A reader is no longer woken from the CPU
//!   that sends;
//! - a CPU that does both has less time for sending.
//!
//! A sender does not wait for a full target: what that cannot take is lost, and does not count. So the packets of
//! all targets add up, each at most what it can take. Flows are spread by a hash, unevenly.

use super::candidates::seen;
use super::cost::{ENQUEUE, waking};
use super::topology::CpuTopology;
use crate::diagnose::processing;
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::evidence::{TRAFFIC, busy, receiving};
use rxlab_path::model::{HandOver, Model, Nic, NicKind, Rates};

/// What was fitted to the recorded tables (docs/prediction.md).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fitted {
    /// Cost of a CPU's other work once receive work no longer takes its caches, as a part of today's.
    other: f64,
    /// The hash spreads packets as unevenly as it does so many equal flows.
    flows: f64,
}

const FITTED: Fitted = Fitted { other: 0.86, flows: 32.0 };

/// Factor by which the model may be wrong, either way: no mask of the tables was further off.
const ERROR: f64 = 1.25;

/// Busy part of a CPU's time from which the traffic is what it can do; below, the traffic is what is asked for.
const SATURATED: f64 = 0.97;

/// Growth of traffic that is asked for, while there is time for more.
const ASKED: [f64; 2] = [0.95, 1.2];

/// Work of a target in receiving and reading, as a part of its time, from which nothing is predicted if the senders wait for
/// answers. A reader that gets less time reads more packets at once.
const CROWDED: f64 = 1.5;

/// Difference of rates that does not matter: the smaller mask is then the better one.
pub(super) const EQUAL: f64 = 0.02;

/// Largest mask that is considered: with more targets, each is interrupted for nearly every packet.
const LARGEST: usize = 64;

/// Rounds until interrupts, which depend on the rate, and the rate agree.
const ROUNDS: usize = 40;

/// Packets/s of an interface under a mask.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Throughput {
    /// Multiple of today's traffic that fits.
    pub(super) fits: f64,
    /// Lowest and highest such multiple.
    pub(super) fits_range: [f64; 2],
    /// Lowest and highest rate to expect: the same if CPU time limits the traffic, else today's.
    pub(super) rate: [f64; 2],
}

/// A CPU that sends packets to the interface, and so receives them.
struct Sender {
    cpu: CpuId,
    packets: f64,
    /// Part of its time that is used.
    busy: f64,
    /// Seconds of each packet for everything but receiving.
    other: f64,
}

/// The traffic of an interface without a mask.
pub(super) struct Traffic<'a> {
    rates: &'a Rates,
    senders: Vec<Sender>,
    packets: f64,
    /// Seconds of a target for each packet, without interrupts.
    taking: f64,
    /// True if what was received is answered.
    pub(super) is_answered: bool,
    costs: HandOver,
}

impl<'a> Traffic<'a> {
    /// `None` if anything is not known: a device, a mask in use, costs that were not measured, senders that are not seen.
    pub(super) fn new(model: &Model, rates: &'a Rates, nic: &Nic) -> Option<Self> {
        let is_off = nic.rx.iter().all(|queue| queue.rps_cpus.known().is_some_and(CpuMask::is_empty));
        let packets = rates.rx_packets(&nic.name);
        if nic.kind != NicKind::Virtual || !is_off || packets < TRAFFIC {
            return None;
        }
        let measured = rates.costs.as_ref()?;
        let costs = measured.hand_over?;
        let topology = CpuTopology::new(model);
        let readers = seen::readers(model, rates, nic);
        let cpus = seen::receiving(model, rates, &topology, nic, &readers);
        let counted: f64 = cpus.iter().filter_map(|cpu| Some(rates.cpu(*cpu)?.packets)).sum();
        let mut taking = 0.0;
        let mut senders = Vec::new();
        for cpu in cpus {
            let of_cpu = rates.cpu(cpu)?;
            let own = packets * of_cpu.packets / counted;
            let time = receiving(of_cpu);
            let woken = waking(measured.cpus.get(&cpu)?, time, own / 1e9, &costs);
            taking += (time - woken) / packets;
            senders.push(Sender {
                cpu,
                packets: own,
                busy: busy(of_cpu),
                other: (busy(of_cpu) - time).max(0.0) / own,
            });
        }
        let is_answered = rates.nic(&nic.name)?.tx_packets >= seen::ANSWERS * packets;
        let is_known = !senders.is_empty() && taking > 0.0;
        is_known.then_some(Self { rates, senders, packets, taking, is_answered, costs })
    }

    /// With a mask; `None` if it is empty, or has CPUs whose readers would have too little time.
    pub(super) fn with(&self, mask: &CpuMask) -> Option<Throughput> {
        self.with_fit(mask, FITTED)
    }

    fn with_fit(&self, mask: &CpuMask, fitted: Fitted) -> Option<Throughput> {
        let most = self.most(mask, fitted)?;
        let fits = most / self.packets;
        let is_full = self.senders.iter().all(|sender| sender.busy >= SATURATED);
        let range = [fits / ERROR, fits * ERROR];
        let rate = if is_full { range } else { [ASKED[0].min(range[0]), ASKED[1].min(range[1].max(1.0))] };
        Some(Throughput { fits, fits_range: range, rate: rate.map(|times| times * self.packets) })
    }

    /// The most packets/s.
    fn most(&self, mask: &CpuMask, fitted: Fitted) -> Option<f64> {
        let weights = weights(mask.len(), fitted.flows);
        let even = 1.0 / weights.len() as f64;
        let costs = self.costs;
        let [enqueue, send, take] =
            [ENQUEUE * costs.packet_ns, costs.send_ns, costs.take_ns].map(|nanoseconds| nanoseconds / 1e9);
        let is_full = self.senders.iter().all(|sender| sender.busy >= SATURATED);
        let (mut offered, mut taking) = (self.packets, self.taking);
        for _ in 0..ROUNDS {
            let idle: f64 =
                weights.iter().map(|part| part * (1.0 - (part * offered * taking).min(1.0))).sum();
            taking = self.taking + take * idle;
            let of = |sender: &Sender| {
                let takes = if mask.contains(sender.cpu) { (even * offered * taking).min(1.0) } else { 0.0 };
                (1.0 - takes) / (fitted.other * sender.other + enqueue + send * idle)
            };
            // Full senders each do what they can; otherwise all grow alike until one is full.
            let next = if is_full {
                self.senders.iter().map(of).sum()
            } else {
                let grows = self.senders.iter().map(|sender| of(sender) / sender.packets);
                grows.fold(f64::INFINITY, f64::min) * self.packets
            };
            offered = f64::midpoint(offered, next);
        }
        let most: f64 = weights.iter().map(|part| (part * offered).min(1.0 / taking)).sum();
        let is_crowded = |cpu: CpuId| {
            let reads = self.rates.cpu(cpu).map_or(0.0, processing) * most / self.packets;
            let sends = self.senders.iter().any(|sender| sender.cpu == cpu);
            !sends && reads + even * most * taking > CROWDED
        };
        let is_short = self.is_answered && mask.iter().any(is_crowded);
        (!weights.is_empty() && !is_short).then_some(most)
    }

    /// The size of a mask, of the first CPUs in an order, with which most packets fit; `None` if that is not known of any.
    pub(super) fn best_size(&self, order: &[CpuId]) -> Option<usize> {
        let rate = |size: usize| Some((size, self.with(&order[..size].iter().copied().collect())?.fits));
        let rates: Vec<(usize, f64)> = (1..=order.len().min(LARGEST)).filter_map(rate).collect();
        let most = rates.iter().map(|(_, fits)| *fits).fold(0.0, f64::max);
        rates.iter().find(|(_, fits)| *fits >= most * (1.0 - EQUAL)).map(|(size, _)| *size)
    }
}

/// Parts of the packets that `count` targets get from so many equal flows, in the mean of many hashes.
fn weights(count: usize, flows: f64) -> Vec<f64> {
    if count == 0 {
        return Vec::new();
    }
    let spread = ((count - 1) as f64 / flows).sqrt();
    let part = |at: usize| (1.0 + spread * quantile((at as f64 + 0.5) / count as f64)).max(0.0);
    let parts: Vec<f64> = (0..count).map(part).collect();
    let all: f64 = parts.iter().sum();
    parts.into_iter().map(|part| part / all).collect()
}

/// Quantile of the normal distribution, by Tukey's lambda (error below 0.02 between 0.01 and 0.99).
fn quantile(part: f64) -> f64 {
    4.91 * (part.powf(0.14) - (1.0 - part).powf(0.14))
}

#[cfg(test)]
mod tests;
