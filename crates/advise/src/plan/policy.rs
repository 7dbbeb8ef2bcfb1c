//! Purposes of a plan, each a list of steps from topology to settings; those with rules of their own have a file.
//!
//! A policy uses the location of CPUs, memory and devices, and uses rates only to judge how busy a queue is.
//! Planning again on a machine set by the plan gives no settings.

mod isolate;
mod judge;
mod spread;

use std::fmt;
use std::str::FromStr;

use super::draft::Draft;
use super::expected::hottest;
use super::forecast::add_forecast;
use super::reason::Reason;
use super::step;
use crate::diagnose::{DeepIdle, deep_idle, diagnose, host_limit};
use rxlab_base::number::cpus_text;
use rxlab_base::units::{CpuMask, NicName};
use rxlab_path::evidence::carrier;
use rxlab_path::model::{Function, Model, Nic, NicKind, Rates};
use rxlab_setting::{Plan, PlannedSetting, apply_order};

/// Purpose of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Spread the receive work of one interface over several CPUs, with as few changes as possible.
    Spread,
    /// Keep every interrupt and its packets in the memory domain of the device.
    NumaLocal,
    /// Confine receive work to few CPUs, so that the others have none.
    Isolate,
    /// Deliver packets as early as possible, for more CPU time.
    Latency,
    /// Set only what is safe and needs no upkeep.
    Minimal,
    /// Set everything that may help, at any cost.
    Full,
}

/// Settings that are decided and tried together because they are of no use without one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    Channels,
    /// The device's table of them.
    Rss,
    /// Interrupt moderation: how long the device delays interrupts.
    Moderation,
    /// CPUs of interrupts, and that irqbalance leaves them there.
    Irq,
    /// Transmit queues by CPU.
    Xps,
    /// CPUs that packets are handed to.
    Rps,
    /// Flows that follow their readers.
    Rfs,
    Clocksource,
}

/// Options of a policy.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Interfaces to plan for; empty = the policy's own choice.
    pub nics: Vec<NicName>,
    /// Maximum number of CPUs that a queue hands packets to; unlimited if absent.
    pub cpus_per_queue: Option<usize>,
    /// CPUs that receive work is kept away from.
    pub isolated: CpuMask,
}

/// A plan by a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Policed {
    /// The plan; without settings if nothing has to change.
    pub plan: Plan,
    /// Variables that it has settings of.
    pub variables: Vec<Variable>,
    /// Reasons for what is left alone, one line each.
    pub reasons: Vec<String>,
}

impl Policy {
    /// Every policy, by its name.
    pub const ALL: [(&'static str, Policy); 6] = [
        ("spread", Policy::Spread),
        ("numa-local", Policy::NumaLocal),
        ("isolate", Policy::Isolate),
        ("latency", Policy::Latency),
        ("minimal", Policy::Minimal),
        ("full", Policy::Full),
    ];

    /// Plans all variables, or only some of them as if the others were decided.
    ///
    /// The plan is simulated first: what would keep a CPU busier than any is now, or make `diagnose` object, is left
    /// out, and what planning again would set belongs to it.
    pub fn plan(self, model: &Model, rates: &Rates, options: &Options, only: Option<&[Variable]>) -> Policed {
        if matches!(self, Policy::Spread | Policy::Full)
            && only.is_none()
            && let Some(why) = pointless(model, rates, options)
        {
            let none = Drafted { reasons: vec![Reason::Other(why)], ..Drafted::default() };
            return finish(self, (model, rates), none, only);
        }
        let (own, of_own) = concerned(model, rates, &options.nics);
        let of = |nics: Vec<NicName>| {
            let options = Options { nics, ..options.clone() };
            finish(self, (model, rates), judge::settled(self, (&own, &of_own), &options, only), only)
        };
        if self != Policy::Spread || !options.nics.is_empty() {
            return of(options.nics.clone());
        }
        // CPUs that it leaves hot are for the next plan.
        let mut plans = spread::nics(model, rates).into_iter().map(|nic| of(vec![nic]));
        let first = plans.next().unwrap_or_else(|| of(Vec::new()));
        let is_some = |policed: &Policed| !policed.plan.settings.is_empty();
        if is_some(&first) { first } else { plans.find(is_some).unwrap_or(first) }
    }

    /// The settings of all steps but some.
    fn draft(
        self,
        (model, rates): (&Model, &Rates),
        options: &Options,
        only: Option<&[Variable]>,
        left_out: &[Variable],
    ) -> Drafted {
        let mut draft = Draft::new(model, rates, options, only, left_out);
        match self {
            Policy::Spread => draft.name(&options.nics),
            _ => draft.choose(&options.nics),
        }
        if draft.topology.usable.is_empty() {
            draft.nics.clear();
            draft.idle.clear();
            draft.leave(match &model.unknown_cpus {
                Some(why) => format!("the CPUs are unknown: {why}"),
                None => "no CPU is left for receive work".to_owned(),
            });
        }
        if self != Policy::Isolate {
            let idle = std::mem::take(&mut draft.idle);
            for nic in idle {
                draft.leave(format!("{nic} is idle and left alone; use --nic to include it"));
            }
        }
        match self {
            Policy::Spread => spread::draft(&mut draft),
            Policy::NumaLocal => numa_local(&mut draft),
            Policy::Isolate => isolate::draft(&mut draft, &options.isolated),
            Policy::Latency => latency(&mut draft),
            Policy::Minimal => minimal(&mut draft),
            Policy::Full => full(&mut draft),
        }
        let Draft { settings, variables, reasons, notes, topology, .. } = draft;
        Drafted { usable: topology.usable, settings, variables, reasons, notes }
    }
}

/// Reason not to give the queues of an interface these masks, by the same simulation as for the policy `spread`.
pub(super) fn objection_to_masks(
    model: &Model,
    rates: &Rates,
    nic: &NicName,
    masks: &[PlannedSetting],
) -> Option<String> {
    let (own, of_own) = concerned(model, rates, std::slice::from_ref(nic));
    judge::objection_to_masks((&own, &of_own), masks)
}

/// The limit of the host or the link that bounds the traffic of the interface that the busiest CPU serves: then the doctor tries
/// nothing, unless a finding asks for a plan.
fn pointless(model: &Model, rates: &Rates, options: &Options) -> Option<String> {
    let (hot, _) = hottest(rates).filter(|_| options.isolated.is_empty())?;
    let (nic, _) = carrier(model, rates, hot)?;
    let limit = host_limit(rates, nic)?;
    let is_planned = options.nics.is_empty() || options.nics.contains(&nic.name);
    let is_asked = || diagnose(model, rates).iter().any(|finding| !finding.plans.is_empty());
    (is_planned && !is_asked()).then(|| format!("{limit}: no setting of this machine lifts that"))
}

/// What plans depend on: a container host has thousands of virtual interfaces that are not named and have neither packets
/// nor masks, and every simulation copies the machine.
fn concerned(model: &Model, rates: &Rates, named: &[NicName]) -> (Model, Rates) {
    let is_concerned = |nic: &Nic| {
        nic.kind == NicKind::Device
            || named.contains(&nic.name)
            || step::rfs::is_handed_on(nic)
            || rates.rx_packets(&nic.name) > 0.0
    };
    let (mut own, mut of_own) = (model.clone(), rates.clone());
    own.nics.retain(is_concerned);
    of_own.nics.retain(|rates| own.nic(&rates.name).is_some());
    (own, of_own)
}

/// The outcome of the steps.
#[derive(Clone, Default)]
struct Drafted {
    /// The CPUs that may get receive work.
    usable: CpuMask,
    settings: Vec<PlannedSetting>,
    variables: Vec<Variable>,
    reasons: Vec<Reason>,
    notes: Vec<String>,
}

/// Every interrupt, and the CPUs that its packets are handed to, in one memory domain.
///
/// Published: field case C, where the masks stayed in the node of the interrupt and without its CPU.
fn numa_local(draft: &mut Draft<'_>) {
    draft.step(Variable::Irq, step::irqs::near);
    draft.step(Variable::Xps, step::xps::near);
    draft.step(Variable::Rps, step::rps::near);
    draft.step(Variable::Rfs, step::rfs::complete);
}

/// Packets as early as possible: no interrupt is delayed, and packets stay on the CPU that took them, both while that
/// has time. It costs an interrupt for nearly every packet.
fn latency(draft: &mut Draft<'_>) {
    draft.step(Variable::Irq, step::irqs::near);
    draft.step(Variable::Moderation, step::moderation::none);
    draft.step(Variable::Xps, step::xps::near);
    draft.step(Variable::Rps, step::rps::where_needed);
    draft.step(Variable::Clocksource, step::clocksource::fast);
    if !draft.nics.is_empty() {
        draft
            .notes
            .push("more interrupts take more CPU time: use it for services that wait for packets".to_owned());
        note_idle_states(draft);
    }
}

/// Names the idle state that the CPUs of interrupts may have to leave for each packet. It is not set: that takes power
/// from every CPU.
fn note_idle_states(draft: &mut Draft<'_>) {
    let homes = draft.planned().flat_map(|nic| &nic.rx).filter_map(|queue| draft.home(queue)).collect();
    let Some(DeepIdle { cpus, state, .. }) = deep_idle(&homes, &draft.model, &draft.rates) else { return };
    let note = format!(
        "a packet that finds {} idle may wait {} us until it leaves {}, unless a program holds \
         /dev/cpu_dma_latency open: `{}` disables such states, for more power",
        cpus_text(&cpus),
        state.exit_us,
        state.name,
        DeepIdle::command()
    );
    draft.notes.push(note);
}

/// Only what is safe to set and needs no upkeep.
///
/// Published: field case C closes with two such steps for production, SR-IOV and interrupt moderation. The
/// first is not a setting: a note says where it would help.
fn minimal(draft: &mut Draft<'_>) {
    draft.step(Variable::Moderation, step::moderation::safe);
    // A mask needs upkeep; removing one does not.
    draft.step(Variable::Rps, step::rps::redundant);
    advise_virtual_functions(draft);
}

/// Everything that may help. Published: field case C's advice for the record. Some of it stops traffic for a
/// moment, and some needs upkeep: each setting says so.
fn full(draft: &mut Draft<'_>) {
    draft.step(Variable::Channels, step::channels::more);
    draft.step(Variable::Rss, step::rss::even);
    draft.step(Variable::Moderation, step::moderation::adaptive);
    draft.step(Variable::Irq, step::irqs::near);
    draft.step(Variable::Xps, step::xps::near);
    draft.step(Variable::Rps, step::rps::near);
    draft.step(Variable::Rfs, step::rfs::complete);
    draft.step(Variable::Clocksource, step::clocksource::fast);
    advise_virtual_functions(draft);
}

/// Puts a draft into the order of applying and names it.
fn finish(
    policy: Policy,
    (model, rates): (&Model, &Rates),
    drafted: Drafted,
    only: Option<&[Variable]>,
) -> Policed {
    let Drafted { mut settings, variables, reasons, mut notes, .. } = drafted;
    settings.sort_by_key(|planned| apply_order(&planned.set.knob));
    let name = match only {
        None => policy.to_string(),
        Some(only) => {
            let names: Vec<String> = only.iter().map(ToString::to_string).collect();
            format!("{policy}.{}", names.join("+"))
        }
    };
    notes.extend(reasons.iter().filter_map(|reason| match reason {
        Reason::Unchanged(_) => None,
        reason => Some(reason.to_string()),
    }));
    if variables.len() > 1 {
        let names: Vec<String> = variables.iter().map(|variable| format!("{policy}.{variable}")).collect();
        notes.push(format!(
            "{} variables; try each as a separate plan, in this order: {}",
            names.len(),
            names.join(", ")
        ));
    }
    let host = Some(model.identity.hostname.clone());
    let mut plan =
        Plan { schema: Plan::SCHEMA.to_owned(), name, host, netns: None, settings, notes, prediction: None };
    if policy == Policy::Spread {
        add_forecast(model, rates, &mut plan);
    }
    Policed { plan, variables, reasons: reasons.iter().map(ToString::to_string).collect() }
}

/// Recommends a host device where it would do more than any setting.
fn advise_virtual_functions(draft: &mut Draft<'_>) {
    let paravirtual = draft.planned().filter(|nic| nic.hardware.function == Function::Paravirtual);
    let paravirtual = paravirtual.filter(|nic| draft.model.carriers(nic).is_empty());
    let advice: Vec<String> = paravirtual
        .map(|nic| {
            format!(
                "{} is paravirtual ({}): if the provider offers a virtual function (SR-IOV), use it before \
                 changing any setting",
                nic.name,
                nic.driver.as_deref().unwrap_or("unknown driver")
            )
        })
        .collect();
    advice.into_iter().for_each(|advice| draft.leave(advice));
}

impl Variable {
    /// The reason to leave it alone.
    pub(super) fn because(self, why: String) -> Reason {
        Reason::Of(self, why)
    }

    /// Every variable, by its name.
    pub const ALL: [(&'static str, Variable); 8] = [
        ("channels", Variable::Channels),
        ("rss", Variable::Rss),
        ("moderation", Variable::Moderation),
        ("irq", Variable::Irq),
        ("xps", Variable::Xps),
        ("rps", Variable::Rps),
        ("rfs", Variable::Rfs),
        ("clocksource", Variable::Clocksource),
    ];
}

/// The name of `value` in a list of all.
fn name<T: PartialEq>(all: &[(&'static str, T)], value: &T) -> &'static str {
    let found = all.iter().find(|(_, known)| known == value).map(|(name, _)| *name);
    found.expect("ALL has every one")
}

fn named<T: Copy>(all: &[(&'static str, T)], text: &str) -> Result<T, String> {
    let found = all.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        format!("`{text}` is not one of {}", names.join(", "))
    })
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(name(&Policy::ALL, self))
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(name(&Variable::ALL, self))
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(&Policy::ALL, text)
    }
}

impl FromStr for Variable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(&Variable::ALL, text)
    }
}

#[cfg(test)]
mod tests;
