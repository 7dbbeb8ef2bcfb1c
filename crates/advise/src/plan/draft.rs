//! A plan while it passes through the steps of a policy.

use std::collections::BTreeSet;

use super::expected::Work;
use super::machine::Machine;
use super::policy::{Options, Variable};
use super::reason::Reason;
use super::spread::{below, stands_on};
use super::topology::CpuTopology;
use rxlab_base::units::{CpuId, CpuMask, NicName};
use rxlab_path::constraints::{Binds, Constraints, slow};
use rxlab_path::evidence::TRAFFIC;
use rxlab_path::model::{Model, Nic, NicKind, Rates, RxQueue};
use rxlab_setting::{PlannedSetting, Setting, Target, forbids, sent_elsewhere, simulation};

/// Decisions of a policy so far. Each step sees the machine as the previous steps will leave it, so that a
/// machine set by the plan leaves every step with nothing to do.
pub(super) struct Draft<'a> {
    /// The machine as it will be. CPUs that must not be used count as isolated in it.
    pub(super) model: Model,
    /// The rates as they will be: work has moved with the interrupts.
    pub(super) rates: Rates,
    pub(super) topology: CpuTopology,
    /// The work of the machine that was read.
    work: Work<'a>,
    /// Devices that were not named and are idle while others have traffic.
    pub(super) idle: Vec<NicName>,
    /// Interfaces that are planned for.
    pub(super) nics: Vec<NicName>,
    /// Maximum number of CPUs that a queue hands packets to.
    pub(super) width: usize,
    /// CPUs that receive work should leave.
    pub(super) isolated: CpuMask,
    /// What no setting may violate.
    constraints: Constraints,
    only: Option<&'a [Variable]>,
    left_out: &'a [Variable],
    /// The variable that is being decided.
    deciding: Option<Variable>,
    pub(super) settings: Vec<PlannedSetting>,
    /// Variables of the settings, in their order.
    pub(super) variables: Vec<Variable>,
    /// Reasons for what is left alone.
    pub(super) reasons: Vec<Reason>,
    /// True if the step under way has left something alone.
    has_left: bool,
    /// Limits of the plan.
    pub(super) notes: Vec<String>,
}

impl<'a> Draft<'a> {
    /// Returns a draft without settings, of all variables or only some, but none of `left_out`.
    pub(super) fn new(
        model: &'a Model,
        rates: &'a Rates,
        options: &Options,
        only: Option<&'a [Variable]>,
        left_out: &'a [Variable],
    ) -> Self {
        let topology = CpuTopology::new(model);
        let mut draft = Self {
            model: model.clone(),
            rates: rates.clone(),
            work: Work::new(model, rates, &topology),
            topology,
            idle: Vec::new(),
            nics: Vec::new(),
            width: options.cpus_per_queue.unwrap_or(usize::MAX),
            isolated: options.isolated.clone(),
            constraints: Constraints::measured(model, rates),
            only,
            left_out,
            deciding: None,
            settings: Vec::new(),
            variables: Vec::new(),
            reasons: Vec::new(),
            has_left: false,
            notes: Vec::new(),
        };
        draft.use_only(&model.usable().difference(&options.isolated));
        draft
    }

    /// Excludes all other CPUs from the plan.
    pub(super) fn use_only(&mut self, cpus: &CpuMask) {
        for cpu in &mut self.model.cpus {
            cpu.isolated = !cpus.contains(cpu.id);
        }
        self.topology = CpuTopology::new(&self.model);
    }

    /// Plans for the interfaces with these names, of whatever kind; for their lower devices where those
    /// decide, without those that are idle while others have traffic (backups, standbys).
    pub(super) fn name(&mut self, named: &[NicName]) {
        let busy = |nic: &&&Nic| self.rates.rx_packets(&nic.name) >= TRAFFIC;
        for name in named {
            let found = self.model.nic(name).and_then(|nic| Some((nic, below(&self.model, nic)?)));
            let (names, note) = match found {
                Some((nic, devices)) => {
                    let some_busy = devices.iter().any(|device| busy(&device));
                    let planned = devices.iter().filter(|device| !some_busy || busy(device));
                    let names = planned.map(|device| device.name.clone()).collect();
                    (names, Some(stands_on(nic, &devices)))
                }
                None => (vec![name.clone()], None),
            };
            self.reasons.extend(note.map(Reason::Other));
            self.nics.extend(names);
        }
        let mut seen = BTreeSet::new();
        self.nics.retain(|name| seen.insert(name.clone()));
    }

    /// Plans for the devices with these names; without names, for every device that is up, except idle ones
    /// when others are busy, which would take CPUs for nothing.
    pub(super) fn choose(&mut self, named: &[NicName]) {
        self.name(named);
        for name in std::mem::take(&mut self.nics) {
            match self.model.nic(&name).map(|nic| nic.kind) {
                Some(NicKind::Device) => self.nics.push(name),
                Some(_) => self.leave(format!(
                    "{name} has no interrupts of its own: use the policy spread, which plans masks for it"
                )),
                None => self.leave(format!("no interface {name}")),
            }
        }
        if !named.is_empty() {
            return;
        }
        let devices = || {
            let nics = self.model.nics.iter();
            nics.filter(|nic| nic.kind == NicKind::Device && nic.up && !nic.rx.is_empty())
                // Its counters include the packets of the device below it.
                .filter(|nic| self.model.carriers(nic).is_empty())
        };
        let busy = |nic: &Nic| self.rates.rx_packets(&nic.name) >= TRAFFIC;
        let some_busy = devices().any(busy);
        let (chosen, idle): (Vec<&Nic>, Vec<&Nic>) = devices().partition(|nic| busy(nic) || !some_busy);
        let names = |nics: Vec<&Nic>| nics.into_iter().map(|nic| nic.name.clone()).collect();
        (self.nics, self.idle) = (names(chosen), names(idle));
        if self.nics.is_empty() {
            self.leave("no device with receive queues is up".to_owned());
        }
    }

    /// Interfaces that are planned for, as they will be.
    pub(super) fn planned(&self) -> impl Iterator<Item = &Nic> {
        self.nics.iter().filter_map(|name| self.model.nic(name))
    }

    /// True if the variable is requested, and not left out.
    pub(super) fn wants(&self, variable: Variable) -> bool {
        self.only.is_none_or(|only| only.contains(&variable)) && !self.left_out.contains(&variable)
    }

    /// Does some work as if only these interfaces were planned for.
    pub(super) fn for_nics(&mut self, nics: Vec<NicName>, work: impl FnOnce(&mut Self)) {
        let all = std::mem::replace(&mut self.nics, nics);
        work(self);
        self.nics = all;
    }

    /// Decides one variable, if it is requested.
    pub(super) fn step(&mut self, variable: Variable, work: impl FnOnce(&mut Self)) {
        if !self.wants(variable) || self.nics.is_empty() {
            return;
        }
        let settings = self.settings.len();
        self.has_left = false;
        self.deciding = Some(variable);
        work(self);
        if self.settings.len() > settings {
            if !self.variables.contains(&variable) {
                self.variables.push(variable);
            }
            if matches!(variable, Variable::Channels | Variable::Irq) {
                self.expect();
            }
        } else if !self.has_left {
            self.reasons.push(Reason::Unchanged(variable));
        }
    }

    /// Updates the rates to those that are expected with the settings so far.
    pub(super) fn expect(&mut self) {
        self.rates = self.work.rates(&self.model, &self.topology);
    }

    /// Records why something is left alone, once.
    pub(super) fn leave(&mut self, why: impl Into<Reason>) {
        self.has_left = true;
        let reason = why.into();
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    /// Adds settings and applies them to the draft's machine, but none that a constraint forbids.
    pub(super) fn take(&mut self, settings: Vec<PlannedSetting>) {
        for planned in settings {
            if let Some(why) = self.decided(&planned.set) {
                self.leave(Variable::Irq.because(why));
                continue;
            }
            if let Some(why) = forbids(&self.constraints, &self.model, &planned.set, Binds::Plans) {
                let why = why.to_string();
                self.leave(match self.deciding {
                    Some(variable) => Reason::Of(variable, why),
                    None => Reason::Other(why),
                });
                continue;
            }
            simulation::simulate(&mut self.model, &planned.set);
            self.settings.push(planned);
        }
    }

    /// The setting that has decided the CPU of an interrupt of this one.
    fn decided(&self, set: &Setting) -> Option<String> {
        let settings = self.settings.iter().map(|planned| &planned.set);
        let (one, irq) = sent_elsewhere(&self.model, settings, set)?;
        let target = &set.target;
        Some(format!(
            "interrupt {irq} of {target} is also that of {}, which is sent to CPU {}",
            one.target, one.value
        ))
    }

    /// CPUs that should get no interrupt while others are left: they lack time, or are slow.
    pub(super) fn full(&self) -> CpuMask {
        self.machine().full().union(&slow(&self.model))
    }

    /// Reason why no interrupt is sent anywhere: one that was stays where it is. Moving others would hide it from the next
    /// plan, and the CPUs that have vectors left are not known.
    pub(super) fn no_vectors(&self) -> Option<String> {
        self.constraints.without_vectors().map(|why| why.to_string())
    }

    /// Adds one setting and applies it to the draft's machine.
    pub(super) fn set(
        &mut self,
        knob: &str,
        target: Target,
        value: impl Into<String>,
        why: impl Into<String>,
    ) {
        let nic = target.nic().and_then(|name| self.model.nic(name));
        let (device, driver) =
            (nic.map(|nic| nic.address.clone()), nic.and_then(|nic| nic.driver.as_deref()));
        let planned = PlannedSetting::new(Setting::new(knob, target, value), why, device).with_driver(driver);
        self.take(vec![planned]);
    }

    /// The machine as it will be, for sharing out its CPUs.
    pub(super) fn machine(&self) -> Machine<'_> {
        Machine { model: &self.model, rates: &self.rates, topology: &self.topology }
    }

    /// The CPU that takes the packets of a queue first; `None` if unknown.
    pub(super) fn home(&self, queue: &RxQueue) -> Option<CpuId> {
        self.machine().home(queue)
    }

    /// True if the queue is there already: no setting of the plan adds it.
    pub(super) fn is_sampled(&self, nic: &Nic, queue: &RxQueue) -> bool {
        self.work.has(nic, queue)
    }

    /// True if the variable was requested by name.
    pub(super) fn is_asked(&self, variable: Variable) -> bool {
        self.only.is_some_and(|only| only.contains(&variable))
    }
}
