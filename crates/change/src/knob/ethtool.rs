//! The driver of knobs that are one number or one switch among the values of ethtool. The knobs themselves are
//! in `coalesce`, `offload` and `ring`.

use super::error::Meanings;
use super::ntuple_rule::{self, Before};
use super::{Knob, Result, Site, value};
use crate::journal::{Armed, Displaced};
use rxlab_base::parse::ethtool::{
    Adaptive, CoalesceParameter, Count, Feature, QueueDelay, RingKind, coalesce, features, queue_coalesce,
    requested, rings, wanted,
};
use rxlab_path::model::Model;
use rxlab_setting::Target;
use rxlab_sys::{Action, EthtoolChange, EthtoolGet};

/// A knob that is a value of ethtool.
pub(super) struct EthtoolKnob {
    pub(super) name: &'static str,
    pub(super) value: Value,
    /// Error if the driver or the kernel does not report the value.
    pub(super) absent: &'static str,
    /// Error if it is reported but cannot be set.
    pub(super) fixed: &'static str,
    pub(super) meanings: Meanings,
}

/// The value among those of ethtool.
#[derive(Clone, Copy)]
pub(super) enum Value {
    /// A delay of interrupts, and the switch that lets the driver change it by itself.
    Delay(CoalesceParameter, Adaptive),
    Adaptive(Adaptive),
    /// A value of the moderation of a single receive queue.
    QueueDelay(QueueDelay),
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
            Value::QueueDelay(_) => EthtoolGet::QueueCoalesce,
            Value::Ring(_) => EthtoolGet::Rings,
            Value::Offload(_) | Value::FlowRules(_) => EthtoolGet::Features,
        }
    }

    fn shown(&self, site: Site<'_>) -> Result<Shown> {
        let get = self.get();
        let shown = match self.value {
            Value::Delay(which, _) => {
                site.ethtool(get, site.nic()?, coalesce)?.holdback(which).map(Shown::Number)
            }
            Value::Adaptive(which) => {
                let on = site.ethtool(get, site.nic()?, coalesce)?.adaptive(which);
                on.map(|on| Shown::Switch { on, changeable: true })
            }
            Value::QueueDelay(which) => {
                let (nic, queue) = site.rx_queue()?;
                let all =
                    site.ethtool(get, nic, queue_coalesce).map_err(|error| error.or_lacks(self.absent))?;
                all.iter().find(|found| found.queue == queue.index).map(|found| match which {
                    QueueDelay::AdaptiveRx => Shown::Switch { on: found.value(which) != 0, changeable: true },
                    _ => Shown::Number(found.value(which)),
                })
            }
            Value::Ring(kind) => site.ethtool(get, site.nic()?, rings)?.count(kind).map(Shown::Limited),
            Value::Offload(name) | Value::FlowRules(name) => {
                let all = site.ethtool(get, site.nic()?, features)?;
                feature(&all, name).map(|found| Shown::Switch { on: found.on, changeable: found.changeable })
            }
        };
        shown.ok_or_else(|| site.lacks(self.absent))
    }

    /// Refuses to go on if flow rules would be lost.
    fn keep_rules(&self, site: Site<'_>, value: &str, kept: &[Displaced], before: Before) -> Result {
        match self.value {
            Value::FlowRules(_) if !site.switch(value)? => ntuple_rule::keep_all(site, kept, before),
            Value::Ring(_) => ntuple_rule::keep_all_of_driver(site, |deletes| deletes.rings, before),
            Value::Offload("rx-gro-hw") => {
                ntuple_rule::keep_all_of_driver(site, |deletes| deletes.gro_hw, before)
            }
            _ => Ok(()),
        }
    }

    /// Switches an offload. The kernel keeps a request that it cannot fulfil, and does once it can: then what was requested before
    /// is requested again.
    fn switch(&self, site: Site<'_>, name: &str, value: &str) -> Result {
        let on = site.switch(value)?;
        let nic = site.nic()?;
        let before = site.ethtool(self.get(), nic, requested)?.iter().any(|requested| requested == name);
        let request = |on: bool| {
            let attributes = wanted(name, on);
            let action = Action::Ethtool { get: self.get(), nic: nic.name.clone(), attributes };
            site.act(value, &action, self.meanings).map_err(|error| error.or_lacks(self.fixed))
        };
        request(on)?;
        let is_fulfilled =
            site.ethtool(self.get(), nic, features)?.iter().any(|now| now.name == name && now.on == on);
        if is_fulfilled || before == on { Ok(()) } else { request(before) }
    }
}

impl Knob for EthtoolKnob {
    fn name(&self) -> &'static str {
        self.name
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        match self.value {
            Value::Delay(which, _) => value::nic_targets(model, |nic| {
                value::may_have(&nic.hardware.coalesce, |shown| shown.holdback(which).is_some())
            }),
            Value::Adaptive(which) => value::nic_targets(model, |nic| {
                value::may_have(&nic.hardware.coalesce, |shown| shown.adaptive(which).is_some())
            }),
            Value::QueueDelay(_) => value::rx_targets(model, |queue| !queue.irqs.is_empty()),
            Value::Ring(kind) => value::nic_targets(model, |nic| {
                value::may_have(&nic.hardware.rings, |shown| shown.count(kind).is_some())
            }),
            Value::Offload(name) | Value::FlowRules(name) => value::nic_targets(model, |nic| {
                let is_changeable =
                    |all: &Vec<Feature>| feature(all, name).is_some_and(|found| found.changeable);
                value::may_have(&nic.hardware.features, is_changeable)
            }),
        }
    }

    fn check(&self, site: Site<'_>, value: &str) -> Result<String> {
        match self.shown(site)? {
            Shown::Number(_) => site.number(value, "a whole number").map(|number| number.to_string()),
            Shown::Limited(Count { now, max }) => {
                let size = site.number(value, "a number of packets, such as 1024")?;
                if !(1..=max).contains(&size) {
                    return Err(site.bad(value, format!("must be from 1 to {max} for {}", site.target)));
                }
                if size != now {
                    self.keep_rules(site, value, &[], Before::Change)?;
                }
                Ok(size.to_string())
            }
            Shown::Switch { on: now, changeable } => {
                let on = site.switch(value)?;
                if on != now && !changeable {
                    return Err(site.lacks(self.fixed));
                }
                if on != now {
                    self.keep_rules(site, value, &[], Before::Change)?;
                }
                Ok(value::on_off(on))
            }
        }
    }

    fn read(&self, site: Site<'_>) -> Result<String> {
        Ok(self.shown(site)?.text())
    }

    fn write(&self, site: Site<'_>, value: &str, _armed: &Armed) -> Result {
        let number = || site.number(value, "a whole number");
        let request =
            |attributes| Ok(Action::Ethtool { get: self.get(), nic: site.nic()?.name.clone(), attributes });
        let action = match self.value {
            Value::Delay(which, _) => request(which.attribute(number()?)),
            Value::Adaptive(which) => request(which.attribute(site.switch(value)?)),
            Value::QueueDelay(which) => {
                let (nic, queue) = site.rx_queue()?;
                let value = match which {
                    QueueDelay::AdaptiveRx => site.switch(value)?.into(),
                    _ => number()?,
                };
                let change = EthtoolChange::QueueDelay { queue: queue.index, which, value };
                Ok(Action::EthtoolIoctl { nic: nic.name.clone(), change })
            }
            Value::Ring(kind) => request(kind.attribute(number()?)),
            Value::Offload(name) | Value::FlowRules(name) => return self.switch(site, name, value),
        };
        site.act(value, &action?, self.meanings).map_err(|error| error.or_lacks(self.fixed))
    }

    fn check_restore(&self, site: Site<'_>, value: &str, kept: &[Displaced]) -> Result {
        self.keep_rules(site, value, kept, Before::Undo)
    }

    fn difference(&self, want: &str, got: &str) -> String {
        match self.value {
            Value::Delay(..) | Value::Adaptive(_) | Value::QueueDelay(_) => {
                format!("asked for {want}, the kernel kept {got}")
            }
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
            || unsettled.iter().any(|want| match (self.value, want.parse(), live.parse()) {
                (Value::QueueDelay(_), ..) => want == live,
                (_, Ok(want), Ok(got)) => rounded(want, got, first),
                _ => want == live,
            })
    }

    fn remark(&self, site: Site<'_>, _value: &str) -> Option<String> {
        let Value::Delay(_, adaptive) = self.value else { return None };
        let shown = site.ethtool(self.get(), site.nic().ok()?, coalesce).ok()?;
        let switch = match adaptive {
            Adaptive::Rx => "adaptive_rx",
            Adaptive::Tx => "adaptive_tx",
        };
        let is_on = shown.adaptive(adaptive) == Some(true);
        is_on.then(|| format!("{switch} {} is on: the driver changes this number by itself", site.target))
    }
}
