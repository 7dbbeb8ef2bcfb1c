//! What a plan is for: one policy a file, each a list of steps from topology to settings.
//!
//! A policy looks at where CPUs, memory and devices are, and only for the question how busy a queue is at the
//! rates. Planning again on a machine that is set by the plan gives no settings.

mod full;
mod isolate;
mod latency;
mod minimal;
mod numa_local;
mod spread;

use std::fmt;
use std::str::FromStr;

use super::draft::{Draft, NOTHING};
use super::{Plan, forecast, place};
use crate::model::{Function, Model, Rates};
use crate::units::{CpuMask, NicName};

/// What a plan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Receive work of one interface on several CPUs, with as little change as that takes.
    Spread,
    /// Every interrupt and its packets in the memory domain of the device.
    NumaLocal,
    /// Receive work on few CPUs, so that the others have none.
    Isolate,
    /// Packets as early as possible, for more CPU time.
    Latency,
    /// Only what is safe and needs no looking after.
    Minimal,
    /// All that may help, whatever it takes.
    Full,
}

/// What is decided at a time, and can be tried at a time: settings that are of no use without one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// How many queues.
    Channels,
    /// The device's table of them.
    Rss,
    /// How long interrupts are held back.
    Moderation,
    /// Where interrupts land, and that irqbalance leaves them there.
    Irq,
    /// Transmit queues by CPU.
    Xps,
    /// CPUs that packets are handed to.
    Rps,
    /// Flows that follow their readers.
    Rfs,
    /// The machine's clock.
    Clocksource,
}

/// What the caller of a policy may choose.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// For these interfaces; empty = the policy's own choice.
    pub nics: Vec<NicName>,
    /// How many CPUs a queue hands packets to at most; as many as there are without.
    pub cpus_per_queue: Option<usize>,
    /// CPUs that receive work is kept away from.
    pub keep_clean: CpuMask,
}

/// A plan by a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Policed {
    /// The plan; without settings where there is nothing to change.
    pub plan: Plan,
    /// The variables that it has settings of.
    pub variables: Vec<Variable>,
    /// Why something is left alone, one line each.
    pub reasons: Vec<String>,
}

impl Policy {
    /// Every policy, by the name that people give it.
    pub const ALL: [(&'static str, Policy); 6] = [
        ("spread", Policy::Spread),
        ("numa-local", Policy::NumaLocal),
        ("isolate", Policy::Isolate),
        ("latency", Policy::Latency),
        ("minimal", Policy::Minimal),
        ("full", Policy::Full),
    ];

    /// Plans all variables, or only some of them as if the others were decided.
    pub fn plan(self, model: &Model, rates: &Rates, options: &Options, only: Option<&[Variable]>) -> Policed {
        let mut draft = Draft::new(model, rates, options, only);
        match self {
            Policy::Spread => draft.name(&spread::nics(model, rates, options)),
            _ => draft.choose(&options.nics),
        }
        if draft.ground.usable.is_empty() {
            draft.nics.clear();
            draft.idle.clear();
            draft.leave("no CPU is left for receive work".to_owned());
        }
        if self != Policy::Isolate {
            let idle = std::mem::take(&mut draft.idle);
            draft
                .reasons
                .extend(idle.iter().map(|nic| format!("{nic} is idle and left alone; --nic names it")));
        }
        match self {
            Policy::Spread => spread::draft(&mut draft),
            Policy::NumaLocal => numa_local::draft(&mut draft),
            Policy::Isolate => isolate::draft(&mut draft, &options.keep_clean),
            Policy::Latency => latency::draft(&mut draft),
            Policy::Minimal => minimal::draft(&mut draft),
            Policy::Full => full::draft(&mut draft),
        }
        finish(self, draft, only)
    }
}

/// Puts a draft into the order of applying and gives it its name.
fn finish(policy: Policy, draft: Draft<'_>, only: Option<&[Variable]>) -> Policed {
    let Draft { model, mut settings, variables, reasons, mut notes, seen, .. } = draft;
    settings.sort_by_key(|planned| place(&planned.set.knob));
    let name = match only {
        None => policy.to_string(),
        Some(only) => {
            let names: Vec<String> = only.iter().map(ToString::to_string).collect();
            format!("{policy}.{}", names.join("+"))
        }
    };
    let idle = |reason: &&String| !reason.ends_with(NOTHING);
    notes.extend(reasons.iter().filter(idle).cloned());
    if variables.len() > 1 {
        let names: Vec<String> = variables.iter().map(|variable| format!("{policy}.{variable}")).collect();
        notes.push(format!(
            "{} variables; each is a plan of its own for a trial, in this order: {}",
            names.len(),
            names.join(", ")
        ));
    }
    let host = Some(model.identity.hostname);
    let mut plan = Plan { schema: Plan::SCHEMA.to_owned(), name, host, settings, notes, prediction: None };
    if policy == Policy::Spread {
        plan.set_prediction(forecast(seen.0, seen.1, &plan).ok());
    }
    Policed { plan, variables, reasons }
}

/// Says where a device of the host would do more than any setting.
fn advise_virtual_functions(draft: &mut Draft<'_>) {
    let paravirtual = draft.planned().filter(|nic| nic.hardware.function == Function::Paravirtual);
    let advice: Vec<String> = paravirtual
        .map(|nic| {
            format!(
                "{} is made up by the hypervisor ({}): a virtual function (SR-IOV), where the provider has one, comes \
                 before any setting",
                nic.name,
                nic.driver.as_deref().unwrap_or("driver unknown")
            )
        })
        .collect();
    draft.reasons.extend(advice);
}

impl Variable {
    /// Every variable, by the name that people give it.
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
        format!("`{text}` is none of {}", names.join(", "))
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
