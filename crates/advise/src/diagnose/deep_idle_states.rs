//! Packets find their CPU in an idle state that takes a long time to leave.

use super::figures::{Evidence, Subject, Unit};
use super::workload::{ROOM, interrupts};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, cpus_text, percent};
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::evidence::{TRAFFIC, nic_irq_cpus};
use rxlab_path::model::{CpuRates, DEEP_US, IdleState, Model, Nic, Rates};

/// Part of a CPU's receive runs that wake it from a deep state.
const WOKEN: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    id: "deep-idle-states",
    asks: "Do packets find their CPU in an idle state that takes long to leave?",
    fires: || {
        format!(
            "a device with {} packets/s has an interrupt for at least every second packet, a CPU of its interrupts \
             is idle for {} of the time, and enters enabled idle states with an exit latency of {DEEP_US} us or more \
             for at least {} of its NET_RX runs; where entries are not counted, it is idle between two runs for as \
             long as leaving such a state takes",
            count(TRAFFIC),
            percent(ROOM),
            percent(WOKEN)
        )
    },
    silent: "such states are disabled, a program forbids them (/dev/cpu_dma_latency) and entries are counted, the CPU \
             is busy, or several packets come with each interrupt",
    evidence: "packets/s and interrupts/s, the CPUs, their idle time, the entries/s into the state or the idle time \
               between two NET_RX runs, the exit latency",
    cause: "The kernel puts an idle CPU into the deepest state that it expects to pay off. An interrupt is handled \
            after the CPU has left it.",
    remedy: "If latency matters, disable deep states (cpupower idle-set -D), or hold /dev/cpu_dma_latency open. Both \
             use more power.",
    source: "Documentation/admin-guide/pm/cpuidle.rst (Representation of Idle States, Power Management Quality of \
             Service)",
    check: Check::Device(finding),
};

/// CPUs that packets wake from deep idle states.
pub(crate) struct DeepIdle<'a> {
    pub(crate) cpus: CpuMask,
    /// The deepest of the states.
    pub(crate) state: &'a IdleState,
    /// Entries/s of these CPUs into deep states; `None` if that is inferred from idle time and NET_RX runs.
    pub(crate) entries: Option<f64>,
}

impl DeepIdle<'_> {
    /// The command that forbids such states.
    pub(crate) fn command() -> String {
        format!("cpupower idle-set -D {DEEP_US}")
    }
}

/// Those of these CPUs that packets wake from deep idle states, if any.
pub(crate) fn deep_idle<'a>(cpus: &CpuMask, model: &'a Model, rates: &Rates) -> Option<DeepIdle<'a>> {
    let deep: Vec<&IdleState> =
        model.settings.idle_states.known()?.iter().filter(|state| state.is_deep()).collect();
    let woken = |cpu: CpuId| {
        let rates = rates.cpu(cpu).filter(|rates| rates.net_rx >= 1.0 && rates.idle >= ROOM)?;
        let (state, entries) = woken_from(&deep, rates)?;
        Some((cpu, state, entries))
    };
    let woken: Vec<(CpuId, &IdleState, Option<f64>)> = cpus.iter().filter_map(woken).collect();
    Some(DeepIdle {
        cpus: woken.iter().map(|(cpu, _, _)| *cpu).collect(),
        state: woken.iter().map(|(_, state, _)| *state).max_by_key(|state| state.exit_us)?,
        entries: woken.iter().map(|(_, _, entries)| *entries).sum(),
    })
}

/// The state that packets mostly wake a CPU from, and entries/s into all deep ones if counted.
fn woken_from<'a>(deep: &[&'a IdleState], rates: &CpuRates) -> Option<(&'a IdleState, Option<f64>)> {
    let deep = deep.iter().copied();
    if rates.deep_idle.is_empty() {
        // No CPU enters a state for less time than leaving it takes.
        let has_time = |state: &&IdleState| between_runs(rates) >= f64::from(state.exit_us);
        return Some((deep.filter(has_time).max_by_key(|state| state.exit_us)?, None));
    }
    let entries = |state: &IdleState| rates.deep_idle.get(&state.name).copied().unwrap_or_default();
    let all: f64 = deep.clone().map(entries).sum();
    let most = deep.max_by(|a, b| entries(a).total_cmp(&entries(b)))?;
    (all >= rates.net_rx * WOKEN).then_some((most, Some(all)))
}

/// Microseconds that a CPU is idle between two NET_RX runs, on average.
fn between_runs(rates: &CpuRates) -> f64 {
    rates.idle * 1e6 / rates.net_rx
}

fn finding(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let packets = rates.rx_packets(&nic.name);
    let rings: f64 = nic.rx.iter().map(|queue| interrupts(queue, rates)).sum();
    if packets < TRAFFIC || rings < packets / 2.0 {
        return None;
    }
    let DeepIdle { cpus, state, entries } = deep_idle(&nic_irq_cpus(nic, model, rates), model, rates)?;
    let (name, exit) = (&nic.name, state.exit_us);
    let of_cpus: Vec<&CpuRates> = cpus.iter().filter_map(|cpu| rates.cpu(cpu)).collect();
    let mean = |value: fn(&CpuRates) -> f64| {
        of_cpus.iter().map(|cpu| value(cpu)).sum::<f64>() / of_cpus.len().max(1) as f64
    };
    let where_idle = Evidence::about(Subject::Cpus(cpus.clone()), |seen| {
        let idle = seen.percent("idle", mean(|cpu| cpu.idle));
        let states =
            format!("{} (exit {} us)", state.name, seen.figure("exit", exit.into(), Unit::Microseconds));
        match entries {
            Some(entries) => {
                let entries = seen.rate("deep_idle_entries", entries);
                format!(
                    "{}: {idle} idle, deep idle states up to {states} entered {entries} times/s",
                    cpus_text(&cpus)
                )
            }
            None => format!(
                "{}: {idle} idle, {:.0} us between two NET_RX runs, enough for {states}; inferred, because entries are not \
                 counted",
                cpus_text(&cpus),
                seen.figure("idle_between_runs", mean(between_runs), Unit::Microseconds)
            ),
        }
    });
    Some(Finding {
        severity: Severity::Note,
        title: format!("packets of {name} may wait {exit} us for an idle CPU to wake"),
        evidence: vec![
            Evidence::about(Subject::nic(nic), |seen| {
                format!(
                    "{name}: {} packets/s with {} interrupts/s",
                    seen.packets("rx_packets", packets),
                    seen.rate("interrupts", rings)
                )
            }),
            where_idle,
        ],
        why: "packets arrive one by one, and the CPU goes into a deep idle state in between".to_owned(),
        remedy: format!(
            "if latency matters: {}, or a program that holds /dev/cpu_dma_latency open; both use more power",
            DeepIdle::command()
        ),
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};

    /// 2,000 packets/s on CPU 1 and states down to C6.
    fn host(exit_us: u32) -> Sketch {
        let sketch = Sketch::new(4).device("eth0", &[1]).traffic("eth0", 2e3).interrupts("eth0", 1.8e3);
        sketch.receives(1, 0.02, 2e3).idle_states(&[("C1", 2), ("C6", exit_us)])
    }

    #[test]
    fn inferred_from_idle_time() {
        let found = host(133).finding(&RULE);
        assert_eq!(found.title, "packets of eth0 may wait 133 us for an idle CPU to wake");
        assert_eq!(
            found.seen(),
            [
                "eth0: 2,000 packets/s with 1,800 interrupts/s",
                "CPU 1: 96 % idle, 482 us between two NET_RX runs, enough for C6 (exit 133 us); inferred, because entries \
                 are not counted"
            ]
        );
        assert!(!found.needs_attention(), "a note");
    }

    /// Counts outweigh the inference in both directions.
    #[test]
    fn counted() {
        let found = host(133).enters(1, "C6", 1.9e3).finding(&RULE);
        let seen = "CPU 1: 96 % idle, deep idle states up to C6 (exit 133 us) entered 1,900 times/s";
        assert_eq!(found.seen()[1], seen);
        host(133).enters(1, "C6", 30.0).silent(&RULE, "a program forbids them");
        let short = host(900).enters(1, "C6", 1.9e3).titles(&RULE);
        assert_eq!(short, ["packets of eth0 may wait 900 us for an idle CPU to wake"]);
    }

    #[test]
    fn near_misses() {
        host(19).silent(&RULE, "no request notices");
        host(900).silent(&RULE, "no time to enter it");
        host(133).interrupts("eth0", 900.0).silent(&RULE, "several packets with each interrupt");
        host(133).traffic("eth0", 900.0).silent(&RULE, "no traffic");
        host(133).works(1, 0.6).silent(&RULE, "the CPU is busy");
        host(133).idle_states(&[("C1", 2)]).silent(&RULE, "no such state");
        let disabled = |state: &mut rxlab_path::model::IdleState| state.disabled = true;
        let off = host(133).set(|settings| {
            settings.idle_states = settings.idle_states.clone().map(|mut states| {
                states.iter_mut().for_each(disabled);
                states
            });
        });
        off.silent(&RULE, "disabled");
    }
}
