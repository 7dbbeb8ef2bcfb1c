//! Whether receive work is enough of a CPU's time for a setting to matter, and which settings are worth a trial.
//!
//! A bound, not a forecast: when receive work takes the part f of a CPU, giving all of that to the application
//! makes it 1 / (1 - f) times as fast, a gain of f / (1 - f) at the most. It holds for work in a time; latency has
//! no such bound. Values are for `plan` to choose.

mod knobs;
#[cfg(test)]
mod published;

use serde::{Deserialize, Serialize};

use super::evidence::{TRAFFIC, busy, headroom, irq_cpus, loopback_share, queue_packets, receive_time, tier};
use super::figures::{percent, times};
use crate::model::{CpuRates, Model, NicKind, Rates};
use crate::units::CpuId;

/// Ceiling of the gain below which no setting is worth a trial. A trial finds 3 %, and of the receive work of a CPU
/// about half stays there whatever is set (field case A: 98 to 48.5 %).
const CEILING: f64 = 0.06;

/// How busy the busiest CPU must be for CPU time to be what the load waits for: the mark below which a trial says
/// `server idle` (docs/statistics.md).
const BUSY: f64 = 0.70;

/// Part of all receive work from which one CPU of several is told apart as a hotspot.
const MOST: f64 = 0.5;

/// What there is to gain, and by what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Regime {
    /// The answer in one sentence.
    pub summary: String,
    /// How receive time was measured: `exact`, `tick-sampled`, `accuracy unknown`.
    pub tier: String,
    /// The CPUs that receive, those with most receive time first.
    pub cpus: Vec<CpuRegime>,
    /// The families of settings: what is worth a trial first, in the order to try it.
    pub knobs: Vec<Worth>,
}

/// A CPU that receives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuRegime {
    /// Which.
    pub cpu: CpuId,
    /// Whether interrupts of a receive queue land there.
    pub takes_interrupts: bool,
    /// Packets a second of the queues whose interrupt lands there, else those that go up the stack there.
    pub packets: f64,
    /// Interrupts a second of these queues; `None` where nothing counts them.
    pub interrupts: Option<f64>,
    /// Receive time for each of the packets, nanoseconds; `None` below one packet a second.
    pub ns_per_packet: Option<f64>,
    /// Part of its time that goes to receive work and interrupts, 0 to 1.
    pub receive: f64,
    /// Part of its time in which it was not idle.
    pub busy: f64,
    /// Most that its other work can gain when all receive work leaves (0.03 = 3 %); cut at 1000.
    pub ceiling: f64,
}

/// A family of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// A virtual function of the NIC in place of a device that the hypervisor makes up.
    VirtualFunction,
    /// Interrupt moderation.
    Moderation,
    /// More receive queues.
    Queues,
    /// Which CPU takes which interrupt.
    IrqPlacement,
    /// Receive packet steering.
    Rps,
    /// Receive flow steering.
    Rfs,
}

impl Family {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Family::VirtualFunction => "VF",
            Family::Moderation => "moderation",
            Family::Queues => "more queues",
            Family::IrqPlacement => "IRQ pinning",
            Family::Rps => "RPS",
            Family::Rfs => "RFS",
        }
    }
}

/// Whether a family of settings is worth a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Worth {
    /// Which.
    pub knob: Family,
    /// Whether it is.
    pub trial: bool,
    /// The number or the fact that says so.
    pub why: String,
}

/// What there is to gain; `None` without traffic, and where `lo` has most of it.
pub fn regime(model: &Model, rates: &Rates) -> Option<Regime> {
    let passes =
        |nic: &&crate::model::NicRates| model.nic(&nic.name).is_some_and(|nic| nic.kind != NicKind::Loopback);
    let traffic: f64 = rates.nics.iter().filter(passes).map(|nic| nic.rx_packets).sum();
    if traffic < TRAFFIC || loopback_share(model, rates).is_some() {
        return None;
    }
    let cpus = cpus(model, rates);
    let hot = cpus.first()?;
    let (knobs, summary) = match too_little(rates, hot) {
        Some(why) => {
            let summary = format!("IRQ pinning cannot matter here, nor any other steering: {why}");
            (knobs::none(&why), summary)
        }
        None => {
            let knobs = knobs::judged(model, rates, hot);
            let summary = to_try(rates, hot, &knobs);
            (knobs, summary)
        }
    };
    Some(Regime { summary, tier: tier(rates).to_owned(), cpus, knobs })
}

/// f / (1 - f), cut at 1000: JSON has no infinity.
fn ceiling(part: f64) -> f64 {
    (part / (1.0 - part).max(1e-9)).clamp(0.0, 1000.0)
}

/// CPUs that take interrupts of queues with packets, and those that receive much without.
fn cpus(model: &Model, rates: &Rates) -> Vec<CpuRegime> {
    let mut cpus: Vec<CpuRegime> = rates.cpus.iter().filter_map(|cpu| of_cpu(model, rates, cpu)).collect();
    cpus.sort_by(|a, b| b.receive.total_cmp(&a.receive));
    cpus
}

fn of_cpu(model: &Model, rates: &Rates, cpu: &CpuRates) -> Option<CpuRegime> {
    let queues = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
    let queues = queues.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
    let mut landing = Vec::new();
    for (nic, queue) in queues {
        let cpus = irq_cpus(queue, model, rates);
        if cpus.contains(cpu.cpu) {
            landing.push((queue, queue_packets(nic, queue, rates) / cpus.len() as f64));
        }
    }
    let taken: f64 = landing.iter().map(|(_, packets)| packets).sum();
    let takes_interrupts = taken >= 1.0;
    if !takes_interrupts && cpu.packets < TRAFFIC {
        return None;
    }
    let counted = landing.iter().flat_map(|(queue, _)| &queue.irqs).filter_map(|irq| {
        let rates = rates.irqs.iter().find(|rates| rates.irq == irq.number)?;
        Some(rates.per_cpu.get(&cpu.cpu).copied().unwrap_or_default())
    });
    let packets = if takes_interrupts { taken } else { cpu.packets };
    let receive = (receive_time(cpu) + cpu.irq).min(1.0);
    Some(CpuRegime {
        cpu: cpu.cpu,
        takes_interrupts,
        packets,
        interrupts: counted.reduce(|sum, one| sum + one),
        ns_per_packet: (packets >= 1.0).then(|| receive * 1e9 / packets),
        receive,
        busy: busy(cpu),
        ceiling: ceiling(receive),
    })
}

/// Why nothing about the receive path can matter.
fn too_little(rates: &Rates, hot: &CpuRegime) -> Option<String> {
    let busiest = rates.cpus.iter().map(busy).fold(0.0, f64::max);
    if hot.ceiling < CEILING {
        return Some(format!(
            "receive work takes {:.1} % of CPU {} and less of the others, so no CPU can gain more than {:.1} % by \
             losing all of it",
            hot.receive * 100.0,
            hot.cpu,
            hot.ceiling * 100.0
        ));
    }
    (busiest < BUSY).then(|| {
        format!("no CPU is busier than {}, so CPU time is not what the load waits for", percent(busiest))
    })
}

fn to_try(rates: &Rates, hot: &CpuRegime, knobs: &[Worth]) -> String {
    let all: f64 = rates.cpus.iter().map(receive_time).sum();
    let share = rates.cpu(hot.cpu).map_or(0.0, receive_time) / all.max(1e-9);
    let what = if share >= MOST && rates.cpus.len() > 1 { "one-core hotspot" } else { "receive work" };
    let hot = format!("{what} on CPU {} ({} of its time)", hot.cpu, percent(hot.receive));
    let worth: Vec<&Worth> = knobs.iter().filter(|knob| knob.trial).collect();
    if worth.is_empty() {
        return format!("{hot}: no setting that is left moves it");
    }
    let spreads = |knob: &&Worth| matches!(knob.knob, Family::Rps | Family::Rfs | Family::Queues);
    let names: Vec<String> = worth.iter().map(|worth| knobs::called(worth)).collect();
    let machine = times(headroom(rates).machine);
    if worth.iter().all(spreads) {
        return format!(
            "{hot}: {} will spread it, the capacity stays ({machine} of today's traffic for the machine)",
            names.join(" or ")
        );
    }
    format!("{hot}: {}, in this order", names.join(", then "))
}

#[cfg(test)]
mod tests {
    use super::{Family, regime};
    use crate::diagnose::sketch::Sketch;

    #[test]
    fn no_traffic_and_loopback_have_no_regime() {
        let (model, rates) = Sketch::new(8).device("eth0", &[2]).build();
        assert_eq!(regime(&model, &rates), None);
        let (model, rates) = Sketch::new(2).loopback().veth("v").traffic("lo", 3e5).traffic("v", 2e3).build();
        assert_eq!(regime(&model, &rates), None);
    }

    #[test]
    fn figures_of_an_interrupt_s_cpu() {
        let (model, mut rates) = Sketch::new(4).device("eth0", &[1]).traffic("eth0", 5e4).build();
        rates.cpus[1].softirq = 0.4;
        rates.cpus[1].irq = 0.1;
        let regime = regime(&model, &rates).expect("there is traffic");
        let [cpu] = regime.cpus.as_slice() else { panic!("{regime:?}") };
        assert_eq!((cpu.cpu.0, cpu.takes_interrupts, cpu.interrupts), (1, true, Some(50.0)));
        assert!(
            (cpu.ns_per_packet.expect("packets") - 10_000.0).abs() < 1.0 && cpu.ceiling == 1.0,
            "{cpu:?}"
        );
    }

    #[test]
    fn a_veth_has_no_interrupt_to_pin() {
        let (model, rates) =
            Sketch::new(2).veth("veth0").traffic("veth0", 5e5).works(0, 0.5).receives(0, 0.45, 5e5).build();
        let regime = regime(&model, &rates).expect("there is traffic");
        assert!(!regime.cpus[0].takes_interrupts);
        let worth: Vec<Family> =
            regime.knobs.iter().filter(|knob| knob.trial).map(|knob| knob.knob).collect();
        assert_eq!(worth, [Family::Rps, Family::Rfs]);
        assert!(
            regime
                .knobs
                .iter()
                .any(|knob| knob.knob == Family::IrqPlacement && knob.why.contains("no interrupt"))
        );
    }
}
