//! Bounds on the gain: does receive work take enough CPU time for a setting to matter, and which settings are
//! worth a trial?
//!
//! A bound, not a forecast: if receive work takes the part f of a CPU, giving all of that to the application
//! makes it 1 / (1 - f) times as fast, a gain of at most f / (1 - f). It holds for throughput; latency has no
//! such bound. `plan` chooses the values.

mod knobs;
#[cfg(test)]
mod published;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::hash_imbalance::is_alone;
use super::places::receive_work;
use super::single_thread_limit::{self, Limit};
use super::workload::{Landing, landings};
use super::{Finding, costly_packets, elsewhere, limited_by_the_host, one_core_hotspot};
use crate::decision::Decisions;
use crate::family::{Family, PlanName};
use rxlab_base::number::{count, cpus_text, percent, precise_percent};
use rxlab_base::units::{CpuId, CpuMask, IrqId};
use rxlab_path::evidence::{
    LOST, TRAFFIC, arrivals, baseline, busy, by_threads, carrier, is_counted, is_redirected, loopback_share,
    lost, queue_packets, received, receiving, tier, usual,
};
use rxlab_path::model::{CpuRates, Model, Nic, Rates, RxQueue};

/// Ceiling of the gain below which no setting is worth a trial. A trial detects 3 %, and about half of the
/// receive work of a CPU stays there whatever is set (field case A: 98 to 48.5 %).
const CEILING: f64 = 0.06;

/// Busy fraction of the busiest CPU from which CPU time may limit the load: the threshold below which a trial
/// reports `server idle` (docs/statistics.md).
const MAY_LIMIT: f64 = 0.70;

/// The possible gain, and the settings that may bring it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Regime {
    /// The answer in one sentence.
    pub summary: String,
    /// How receive time was measured: `exact`, `tick-sampled`, `accuracy unknown`.
    pub tier: String,
    /// The CPUs that receive, most receive time first.
    pub cpus: Vec<CpuRegime>,
    /// The families of settings: those worth a trial first, in the order to try them; of these, those that no plan
    /// sets last.
    pub knobs: Vec<FamilyGain>,
}

impl Regime {
    /// True if a family of settings is worth a trial.
    pub fn has_trial(&self) -> bool {
        self.knobs.iter().any(|worth| worth.trial)
    }
}

/// A CPU that receives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuRegime {
    /// Its number.
    pub cpu: CpuId,
    /// True if interrupts of a receive queue land there.
    pub takes_interrupts: bool,
    /// Packets/s of the queues whose interrupt lands there; those that go up the stack there if these are far more.
    pub packets: f64,
    /// Interrupts/s of these queues; `None` if they are not counted.
    pub interrupts: Option<f64>,
    /// Receive time per packet, nanoseconds; `None` below one packet/s, if its packets are not counted, and if CPUs without
    /// packets spend about as much time.
    pub ns_per_packet: Option<f64>,
    /// Part of its time spent on receive work and interrupts, 0 to 1.
    pub receive: f64,
    /// Part of its time in which it was not idle.
    pub busy: f64,
    /// Upper bound on the gain of its other work if all receive work leaves (0.03 = 3 %); capped at 1000.
    pub ceiling: f64,
}

/// The CPUs that receive about as long as the first, which receives longest.
pub fn hottest(cpus: &[CpuRegime]) -> CpuMask {
    let most = cpus.first().map_or(0.0, |first| first.receive);
    cpus.iter().filter(|cpu| cpu.receive >= ALIKE * most).map(|cpu| cpu.cpu).collect()
}

/// Part of another CPU's receive time from which two CPUs count as equal.
const ALIKE: f64 = 0.95;

/// Verdict on a family of settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FamilyGain {
    /// The family.
    pub knob: Family,
    /// True if it is worth a trial.
    pub trial: bool,
    /// True if it is worth a trial, but no plan of rxlab sets it.
    #[serde(default)]
    pub by_hand: bool,
    /// The plan that sets it, if it is worth a trial and not set by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanName>,
    /// RPS: the CPUs that it would hand packets to, none if it should be off; `None` if the senders determine them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuMask>,
    /// The figure or fact behind the verdict.
    pub why: String,
}

/// The possible gain, in addition to the findings; `None` without traffic, if `lo` has most of it, or if
/// unseen threads poll an interface with traffic. Families without a plan are not worth a trial, except a virtual
/// function and moderation, which may help most.
pub(crate) fn regime(
    model: &Model,
    rates: &Rates,
    findings: &[Finding],
    decisions: &mut Decisions<'_>,
) -> Option<Regime> {
    let unseen = rates.unseen.iter().filter_map(|name| rates.nic(name)).any(|nic| nic.rx_packets >= TRAFFIC);
    if received(model, rates) < TRAFFIC || loopback_share(model, rates).is_some() || unseen {
        return None;
    }
    let receive = elsewhere::without(model, rates);
    let rates = receive.as_ref();
    let cpus = cpus(model, rates, findings);
    let hot = cpus.first()?;
    let limit = single_thread_limit::limit(model, rates).filter(Limit::is_seen);
    // A machine whose one thread moves from CPU to CPU looks idle by its CPUs.
    let thread = limit.as_ref().filter(|limit| limit.ceiling() < CEILING).map(Limit::reason);
    let advised = findings.iter().any(|finding| !finding.plans.is_empty());
    let mut judged = || {
        let knobs = knobs::judged(model, rates, findings, (hot, limit.is_some()), decisions);
        let mut summary = to_try(model, rates, &cpus, &knobs);
        if let Some((_, _, cost)) =
            costly_packets::costliest(model, rates).filter(|(cpu, ..)| cpu.cpu == hot.cpu)
        {
            summary +=
                &format!("; each packet costs {} us there, which steering only moves", count(cost * 1e6));
        }
        (knobs, summary)
    };
    let full = link(model, rates, hot).or(thread);
    let has_time = full.is_none();
    let losing = Some(lost(rates)).filter(|lost| *lost >= LOST);
    let losing = losing.map(|lost| format!("{} packets/s are lost", count(lost)));
    let (knobs, summary) = match (full.or_else(|| too_little(rates, hot)), losing) {
        (None, _) => judged(),
        // A rule that advises steering has its reasons: growing traffic, bursts, or a CPU without time.
        (Some(why), losing) if advised => {
            let (knobs, summary) = judged();
            let today = match losing {
                Some(losing) if has_time => format!("{losing}, in bursts: {why}"),
                Some(losing) => format!("{losing}; no throughput gain at the current load: {why}"),
                None => format!("no throughput gain at the current load: {why}"),
            };
            (knobs, format!("{summary}; {today}"))
        }
        (Some(why), Some(losing)) => {
            let why = if has_time {
                format!("{losing} although the CPUs have time: bursts overflow a ring or a backlog")
            } else {
                format!("{losing}; steering cannot raise throughput at the current load: {why}")
            };
            (knobs::none(&why), why)
        }
        (Some(why), None) => (knobs::none(&why), cannot_matter(&why)),
    };
    Some(Regime { summary, tier: tier(rates).to_owned(), cpus, knobs })
}

fn cannot_matter(why: &str) -> String {
    format!(
        "IRQ pinning cannot matter here, and other steering cannot raise throughput at the current load: \
         {why}. Latency is a separate question"
    )
}

/// The reason, if the interface that the hot CPU serves carries all that its link or the host lets it.
fn link(model: &Model, rates: &Rates, hot: &CpuRegime) -> Option<String> {
    let (nic, _) = carrier(model, rates, hot.cpu)?;
    limited_by_the_host::bound(rates, nic)
}

/// f / (1 - f), capped at 1000: JSON has no infinity.
fn ceiling(part: f64) -> f64 {
    (part / (1.0 - part).max(1e-9)).clamp(0.0, 1000.0)
}

/// CPUs that take interrupts of queues with packets, and CPUs that receive much without them.
fn cpus(model: &Model, rates: &Rates, findings: &[Finding]) -> Vec<CpuRegime> {
    let is_hot = |cpu: &CpuRates| {
        findings.iter().any(|finding| finding.id == one_core_hotspot::RULE.id && finding.cpu == Some(cpu.cpu))
    };
    let landing = landing(model, rates);
    let (base, usual) = (baseline(model, rates), usual(model, rates));
    let of_cpu = |cpu: &CpuRates| {
        let parts = landing.get(&cpu.cpu).map_or(&[][..], Vec::as_slice);
        // A hotspot's time is for packets, whatever they cost; on other CPUs softirq and interrupt time may be
        // for disks.
        let taken = parts.iter().map(|part| part.packets).sum();
        let is_hot = is_hot(cpu);
        let receive = if is_hot { receiving(cpu) } else { receive_work(rates, base, cpu.cpu, taken) };
        let mut of_cpu = of_cpu(rates, cpu, receive, parts)?;
        // What CPUs without packets spend as well is no price of packets.
        let is_of_packets =
            is_hot || usual.is_none_or(|usual| receiving(cpu) - usual >= receive * OWN && receive > 0.0);
        of_cpu.ns_per_packet = of_cpu.ns_per_packet.filter(|_| is_of_packets);
        Some(of_cpu)
    };
    let mut cpus: Vec<CpuRegime> = rates.cpus.iter().filter_map(of_cpu).collect();
    cpus.sort_by(|a, b| b.receive.total_cmp(&a.receive));
    cpus
}

/// Part of a CPU's receive time that CPUs without packets must not have as well, for it to say what packets cost.
const OWN: f64 = 0.5;

/// A CPU's part of the packets of a queue.
struct Part<'a> {
    queue: &'a RxQueue,
    packets: f64,
    /// False if neither the queue's packets nor those of the CPU are counted: an equal part was taken for granted.
    is_counted: bool,
}

/// Queues of devices by the CPUs that handle their interrupts.
fn landing<'a>(model: &'a Model, rates: &Rates) -> BTreeMap<CpuId, Vec<Part<'a>>> {
    let landings = landings(model, rates);
    let mut landing = BTreeMap::<CpuId, Vec<Part<'a>>>::new();
    for Landing { nic, queue, cpus } in &landings {
        let packets = queue_packets(nic, queue, rates);
        let is_counted = is_counted(nic, queue, rates);
        let by_stack = (!is_counted).then(|| by_stack(rates, nic, &landings)).flatten();
        // The queues that share a CPU have equal parts of its packets.
        let of_stack = |shares: &BTreeMap<CpuId, f64>, cpu: CpuId| {
            let here = landings.iter().filter(|other| other.nic.name == nic.name && other.cpus.contains(cpu));
            shares.get(&cpu).copied().unwrap_or_default() / here.count().max(1) as f64
        };
        let parts: BTreeMap<CpuId, f64> = match &by_stack {
            Some(shares) => cpus.iter().map(|cpu| (cpu, of_stack(shares, cpu))).collect(),
            None => {
                arrivals(queue, model, rates).into_iter().map(|(cpu, part)| (cpu, packets * part)).collect()
            }
        };
        for (cpu, packets) in parts {
            let is_counted = is_counted || by_stack.is_some();
            landing.entry(cpu).or_default().push(Part { queue, packets, is_counted });
        }
    }
    landing
}

/// The packets/s of an interface that counts none by queue, by the CPU that passes them to the stack: in proportion to what the
/// stack counts there. `None` if it is not all that arrives: an interrupt is unknown, or RPS or RFS moves packets to other CPUs.
fn by_stack(rates: &Rates, nic: &Nic, landings: &[Landing<'_>]) -> Option<BTreeMap<CpuId, f64>> {
    let rates_of_nic = rates
        .nic(&nic.name)
        .filter(|nic| nic.queues.is_empty() && !nic.counts_forwarded && !rates.uncounted)?;
    let is_off = |queue: &RxQueue| {
        queue.rps_cpus.known().is_some_and(CpuMask::is_empty)
            && queue.rps_flow_cnt.known().is_none_or(|flows| *flows == 0)
    };
    let own = || landings.iter().filter(|landing| landing.nic.name == nic.name);
    let cpus = own().fold(CpuMask::new(), |all, landing| all.union(&landing.cpus));
    let counted = |cpu: CpuId| rates.cpu(cpu).map_or(0.0, |cpu| cpu.packets);
    let all: f64 = cpus.iter().map(counted).sum();
    let share = |cpu: CpuId| (cpu, rates_of_nic.rx_packets * counted(cpu) / all);
    let is_all = own().all(|landing| !landing.cpus.is_empty() && is_off(landing.queue));
    (all > 0.0 && is_all).then(|| cpus.iter().map(share).collect())
}

/// Part of the packets that the stack counts on a CPU from which the queues whose interrupts land there have brought them. The stack
/// counts a packet again in each VLAN and bridge.
const MOSTLY_OWN: f64 = 0.25;

/// `receive`: part of its time for packets; `landing`: the queues whose interrupts the CPU handles.
fn of_cpu(rates: &Rates, cpu: &CpuRates, receive: f64, landing: &[Part<'_>]) -> Option<CpuRegime> {
    let taken: f64 = landing.iter().map(|part| part.packets).sum();
    let takes_interrupts = taken >= 1.0;
    if !takes_interrupts && cpu.packets < TRAFFIC {
        return None;
    }
    // Queues may share one.
    let irqs: BTreeSet<IrqId> =
        landing.iter().flat_map(|part| &part.queue.irqs).map(|irq| irq.number).collect();
    let counted = irqs.iter().map(|irq| {
        let rates = rates.irqs.iter().find(|rates| rates.irq == *irq)?;
        Some(rates.per_cpu.get(&cpu.cpu).copied().unwrap_or_default())
    });
    // If the counts of one restarted, the sum is unknown.
    let counted: Vec<f64> = counted.collect::<Option<_>>().unwrap_or_default();
    // Most of what the stack counts here may come by an interrupt that is not known to be a queue's.
    // What threads poll goes to the stack where they run.
    let is_off = |part: &Part<'_>| part.queue.rps_cpus.known().is_some_and(CpuMask::is_empty);
    let threads_receive = cpu.packets < taken * MOSTLY_OWN
        && rates.cpus.iter().any(by_threads)
        && landing.iter().all(is_off)
        && !rates.uncounted;
    // What is redirected here arrived elsewhere.
    let are_own =
        takes_interrupts && taken >= cpu.packets * MOSTLY_OWN && !threads_receive && !is_redirected(cpu);
    let packets = if are_own { taken } else { cpu.packets };
    let is_counted = !threads_receive && (!are_own || landing.iter().all(|part| part.is_counted));
    Some(CpuRegime {
        cpu: cpu.cpu,
        takes_interrupts,
        packets,
        interrupts: counted.into_iter().reduce(|sum, one| sum + one),
        ns_per_packet: (packets >= 1.0 && is_counted).then(|| receive * 1e9 / packets),
        receive,
        busy: busy(cpu),
        ceiling: ceiling(receive),
    })
}

/// The reason, if nothing about the receive path can matter.
fn too_little(rates: &Rates, hot: &CpuRegime) -> Option<String> {
    let busiest = rates.cpus.iter().map(busy).fold(0.0, f64::max);
    if hot.ceiling < CEILING {
        return Some(format!(
            "receive work takes {} of CPU {} and less of the others: without any of it, at most {} more would \
             fit",
            precise_percent(hot.receive),
            hot.cpu,
            precise_percent(hot.ceiling)
        ));
    }
    (busiest < MAY_LIMIT)
        .then(|| format!("no CPU is busier than {}, so CPU time does not limit the load", percent(busiest)))
}

fn to_try(model: &Model, rates: &Rates, cpus: &[CpuRegime], knobs: &[FamilyGain]) -> String {
    let Some(hot) = cpus.first() else { return String::new() };
    let all: f64 = rates.cpus.iter().map(receiving).sum();
    let share = hot.receive / all.max(1e-9);
    let what = if share >= one_core_hotspot::MAJORITY && rates.cpus.len() > 1 {
        "one-core hotspot"
    } else {
        "receive work"
    };
    let alike = hottest(cpus);
    let its = if alike.len() == 1 { "its" } else { "their" };
    let hot_one = format!("{what} on {} ({} of {its} time)", cpus_text(&alike), percent(hot.receive));
    let worth: Vec<&FamilyGain> = knobs.iter().filter(|knob| knob.trial).collect();
    if worth.is_empty() {
        return format!("{hot_one}: no remaining setting moves it");
    }
    let names: Vec<String> = worth.iter().map(|worth| knobs::called(worth)).collect();
    if !worth.iter().all(|knob| matches!(knob.knob, Family::Rps | Family::Rfs | Family::Queues | Family::Rss))
    {
        let order = if names.len() > 1 { ", in this order" } else { "" };
        return format!("{hot_one}: {}{order}", names.join(", then "));
    }
    let carrier = carrier(model, rates, hot.cpu);
    if carrier.is_some_and(|(nic, queue)| is_alone(rates, nic, queue)) {
        let names = names.join(" or ");
        return format!("{hot_one}: {names} spreads it if it is many flows; one flow stays on one CPU");
    }
    // The effect on capacity is left to the prediction of a plan.
    format!("{hot_one}: {} can spread it", names.join(" or "))
}
