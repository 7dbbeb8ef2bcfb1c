//! The driver of knobs that are one number or one switch among the values of ethtool. The knobs themselves are
//! in `coalesce`, `offload` and `ring`.

use super::error::Meanings;
use super::{Doc, Knob, KnobError, Result, value};
use crate::host::{Action, EthtoolGet, Host};
use crate::journal::{Armed, Displaced};
use crate::model::{Model, Nic};
use crate::parse::WireError;
use crate::parse::ethtool::{
    Adaptive, Coalesce, Count, Feature, Holdback, RingKind, coalesce, features, rings, rules, wanted,
};
use crate::plan::Target;
use crate::units::Fact;

/// Settings that drivers may discard when they re-create their queues or restart their device.
pub(super) const OF_QUEUES: &[&str] = &["irq_affinity", "xps_cpus", "xps_rxqs"];

/// Settings that disappear with the switch of flow rules.
pub(super) const RULE: &str = "ntuple_rule";

/// A knob that is a value of ethtool.
pub(super) struct EthtoolKnob {
    pub(super) doc: Doc,
    pub(super) value: Value,
    /// Error if the driver or the kernel does not report the value.
    pub(super) absent: &'static str,
    /// Error if it is reported but cannot be set.
    pub(super) fixed: &'static str,
    pub(super) meanings: Meanings,
    /// See [`Knob::disturbs`].
    pub(super) disturbs: &'static [&'static str],
    /// See [`Knob::replaces`].
    pub(super) replaces: &'static [&'static str],
}

/// The value among those of ethtool.
#[derive(Clone, Copy)]
pub(super) enum Value {
    /// A delay of interrupts, and the switch that lets the driver change it by itself.
    Delay(Holdback, Adaptive),
    Adaptive(Adaptive),
    Ring(RingKind),
    /// An offload, by its name in the kernel.
    Offload(&'static str),
    /// The offload that switches flow rules: they are removed with it.
    FlowRules(&'static str),
}

/// The value that a driver reports.
enum Shown {
    Number(u32),
    Limited(Count),
    Switch { on: bool, changeable: bool },
}

impl Shown {
    fn text(&self) -> String {
        match self {
            Shown::Number(now) | Shown::Limited(Count { now, .. }) => now.to_string(),
            Shown::Switch { on, .. } => value::on_off(*on),
        }
    }
}

fn feature<'a>(all: &'a [Feature], name: &str) -> Option<&'a Feature> {
    all.iter().find(|feature| feature.name == name)
}

/// True if a driver may have turned `want` into `got`: it counts in its own steps, of which the first is at
/// most `first`.
fn rounded(want: u32, got: u32, first: u32) -> bool {
    got >= want / 2 && got <= want.saturating_mul(2).max(first)
}

impl EthtoolKnob {
    fn get(&self) -> EthtoolGet {
        match self.value {
            Value::Delay(..) | Value::Adaptive(_) => EthtoolGet::Coalesce,
            Value::Ring(_) => EthtoolGet::Rings,
            Value::Offload(_) | Value::FlowRules(_) => EthtoolGet::Features,
        }
    }

    fn ask<T>(
        &self,
        host: &dyn Host,
        model: &Model,
        target: &Target,
        parse: fn(&[u8]) -> Result<T, WireError>,
    ) -> Result<T> {
        let nic = value::nic(self.doc.name, model, target)?;
        value::ethtool(self.doc.name, host, target, self.get(), &nic.name, parse)
    }

    fn shown(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<Shown> {
        let shown = match self.value {
            Value::Delay(which, _) => {
                self.ask(host, model, target, coalesce)?.holdback(which).map(Shown::Number)
            }
            Value::Adaptive(which) => {
                let on = self.ask(host, model, target, coalesce)?.adaptive(which);
                on.map(|on| Shown::Switch { on, changeable: true })
            }
            Value::Ring(kind) => self.ask(host, model, target, rings)?.count(kind).map(Shown::Limited),
            Value::Offload(name) | Value::FlowRules(name) => {
                let all = self.ask(host, model, target, features)?;
                feature(&all, name).map(|found| Shown::Switch { on: found.on, changeable: found.changeable })
            }
        };
        shown.ok_or_else(|| self.lacks(target, self.absent))
    }

    fn lacks(&self, target: &Target, why: &'static str) -> KnobError {
        KnobError::lacks(self.doc.name, target, why)
    }

    fn bad(&self, value: &str, why: String) -> KnobError {
        KnobError::bad(self.doc.name, value, why)
    }

    /// True if the interface may have the value, as far as is known.
    fn is_listed(&self, nic: &Nic) -> bool {
        fn may<T: PartialEq>(fact: &Fact<T>, has: impl FnOnce(&T) -> bool) -> bool {
            match fact {
                Fact::Known(known) => has(known),
                other => *other != Fact::Unsupported,
            }
        }
        let hardware = &nic.hardware;
        match self.value {
            Value::Delay(which, _) => may(&hardware.coalesce, |shown| shown.holdback(which).is_some()),
            Value::Adaptive(which) => may(&hardware.coalesce, |shown| shown.adaptive(which).is_some()),
            Value::Ring(kind) => may(&hardware.rings, |shown| shown.count(kind).is_some()),
            Value::Offload(name) | Value::FlowRules(name) => {
                may(&hardware.features, |all| feature(all, name).is_some_and(|found| found.changeable))
            }
        }
    }

    /// Refuses to remove flow rules that no setting names and that are not `kept`.
    fn keeps_rules(&self, host: &dyn Host, model: &Model, target: &Target, kept: &[Displaced]) -> Result {
        let nic = value::nic(self.doc.name, model, target)?;
        let mut lost = match value::ethtool(self.doc.name, host, target, EthtoolGet::Rules, &nic.name, rules)
        {
            Ok(rules) => rules,
            // Some drivers have the switch only for accelerated RFS.
            Err(KnobError::Unsupported { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let is_at = |displaced: &Displaced, slot: u32| {
            displaced.knob == RULE
                && matches!(displaced.target, Target::Rule { location, .. } if location == slot)
        };
        lost.retain(|rule| kept.iter().all(|displaced| !is_at(displaced, rule.location)));
        let (Some(first), number) = (lost.first(), lost.len()) else { return Ok(()) };
        let rules = if number == 1 { "a flow rule".to_owned() } else { format!("{number} flow rules") };
        let why = format!(
            "{target} has {rules} that would be removed; remove first: ntuple_rule {target}/rule-{} = none",
            first.location
        );
        Err(self.bad("off", why))
    }
}

impl Knob for EthtoolKnob {
    fn doc(&self) -> &Doc {
        &self.doc
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        value::nic_targets(model, |nic| self.is_listed(nic))
    }

    fn check(&self, host: &dyn Host, model: &Model, target: &Target, value: &str) -> Result<String> {
        match self.shown(host, model, target)? {
            Shown::Number(_) => {
                value::number32(self.doc.name, value, "a whole number").map(|number| number.to_string())
            }
            Shown::Limited(Count { max, .. }) => {
                match value::number32(self.doc.name, value, "a number of packets, such as 1024")? {
                    size if (1..=max).contains(&size) => Ok(size.to_string()),
                    _ => Err(self.bad(value, format!("must be from 1 to {max} for {target}"))),
                }
            }
            Shown::Switch { on: now, changeable } => {
                let on = value::switch(self.doc.name, value)?;
                if on != now && !changeable {
                    return Err(self.lacks(target, self.fixed));
                }
                if now {
                    self.check_restore(host, model, target, value, &[])?;
                }
                Ok(value::on_off(on))
            }
        }
    }

    fn locate(&self, model: &Model, target: &Target) -> Result<Vec<String>> {
        value::ethtool_path(self.doc.name, model, target, self.get())
    }

    fn read(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<String> {
        Ok(self.shown(host, model, target)?.text())
    }

    fn write(&self, host: &dyn Host, model: &Model, target: &Target, value: &str, _armed: &Armed) -> Result {
        let nic = value::nic(self.doc.name, model, target)?;
        let number = || value::number32(self.doc.name, value, "a whole number");
        let switch = || value::switch(self.doc.name, value);
        let attributes = match self.value {
            Value::Delay(which, _) => which.attribute(number()?),
            Value::Adaptive(which) => which.attribute(switch()?),
            Value::Ring(kind) => kind.attribute(number()?),
            Value::Offload(name) | Value::FlowRules(name) => wanted(name, switch()?),
        };
        let action = Action::Ethtool { get: self.get(), nic: nic.name.clone(), attributes };
        value::act_or(self.doc.name, host, target, value, &action, self.meanings, self.fixed)
    }

    fn disturbs(&self) -> &'static [&'static str] {
        self.disturbs
    }

    fn replaces(&self) -> &'static [&'static str] {
        self.replaces
    }

    fn check_restore(
        &self,
        host: &dyn Host,
        model: &Model,
        target: &Target,
        value: &str,
        kept: &[Displaced],
    ) -> Result {
        match self.value {
            Value::FlowRules(_) if !value::switch(self.doc.name, value)? => {
                self.keeps_rules(host, model, target, kept)
            }
            _ => Ok(()),
        }
    }

    fn difference(&self, want: &str, got: &str) -> String {
        match self.value {
            Value::Delay(..) | Value::Adaptive(_) => format!("asked for {want}, the kernel kept {got}"),
            Value::Ring(_) => {
                format!("asked for {want}, the driver rounded it to {got}; ask for a number that it keeps")
            }
            Value::Offload(_) | Value::FlowRules(_) => format!(
                "asked for {want}, it stays {got}: another offload, or a device on top of the interface, \
                 requires it"
            ),
        }
    }

    // A write that was not read back may have been rounded, up to the driver's minimum.
    fn left_by(&self, ours: &[String], unsettled: &[String], live: &str) -> bool {
        let first = if matches!(self.value, Value::Ring(_)) { 512 } else { 16 };
        ours.iter().any(|value| value == live)
            || unsettled.iter().any(|want| match (want.parse(), live.parse()) {
                (Ok(want), Ok(got)) => rounded(want, got, first),
                _ => want == live,
            })
    }

    fn remark(&self, host: &dyn Host, model: &Model, target: &Target, _value: &str) -> Option<String> {
        let Value::Delay(_, adaptive) = self.value else { return None };
        let shown: Coalesce = self.ask(host, model, target, coalesce).ok()?;
        let switch = match adaptive {
            Adaptive::Rx => "adaptive_rx",
            Adaptive::Tx => "adaptive_tx",
        };
        let is_on = shown.adaptive(adaptive) == Some(true);
        is_on.then(|| format!("{switch} {target} is on: the driver changes this number by itself"))
    }
}
