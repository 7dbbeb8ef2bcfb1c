//! Tunables: how to find, read, check, write and compare each of them. One tunable a file, or one family
//! of tunables that differ in a name and a path.
//!
//! A knob knows how; `plan` decides what, and only `apply` writes. A new knob is one file here, one
//! `mod` line and one entry in [`KNOBS`].

mod affinity;
mod channels;
mod clocksource;
mod coalesce;
mod error;
mod irq_affinity;
mod irqbalance;
mod napi;
mod ntuple_rule;
mod number;
mod offload;
mod priority;
mod reference;
mod registry;
mod rfs;
mod rfs_entries;
mod ring;
mod rps;
mod rss;
mod rss_context;
mod sysctl;
#[cfg(test)]
pub(crate) mod testbed;
mod threaded;
mod value;
mod xps;

pub use crate::plan::Risk;
pub use error::KnobError;
pub use reference::reference;
pub use registry::{KNOBS, find};

use crate::host::Host;
use crate::journal::{Armed, Beside};
use crate::model::Model;
use crate::plan::Target;
use crate::units::CpuMask;

/// What people need to know about a knob; `docs/knobs.md` is made of these.
#[derive(Debug, Clone, Copy)]
pub struct Doc {
    /// What it does, in a few sentences.
    pub summary: &'static str,
    /// What a target is: `NIC/rx-N` or `host`.
    pub target: &'static str,
    /// What a value is.
    pub values: &'static str,
    /// A setting as people write it.
    pub example: &'static str,
    /// Where the kernel has it.
    pub path: &'static str,
    /// The kernel's own documentation.
    pub source: &'static str,
    /// First kernel that has it.
    pub since: &'static str,
    /// What a write can do to traffic.
    pub risk: Risk,
    /// What throws the value away, short of a reboot: a link that goes down and up, another number of
    /// queues.
    pub lost: &'static str,
    /// What the kernel does with a value that one would not expect.
    pub beware: &'static str,
}

/// One tunable.
///
/// Values are text in the knob's canonical form, the one that [`Knob::read`] and [`Knob::check`]
/// give. Targets are re-resolved through the model at each call: nothing is remembered.
pub trait Knob: Sync {
    /// One word, unique.
    fn name(&self) -> &'static str;

    /// What people need to know.
    fn doc(&self) -> &'static Doc;

    /// Everything on this machine that it can act on.
    fn targets(&self, model: &Model) -> Vec<Target>;

    /// Checks a value against the machine and gives its canonical form. Refuses what the kernel
    /// would silently turn into something else.
    fn check(
        &self,
        host: &dyn Host,
        model: &Model,
        target: &Target,
        value: &str,
    ) -> Result<String, KnobError>;

    /// The files behind a target, relative to the root; at least one.
    fn locate(&self, model: &Model, target: &Target) -> Result<Vec<String>, KnobError>;

    /// The value now.
    fn read(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<String, KnobError>;

    /// Writes a canonical value. What the kernel made of it is for [`Knob::read`] to say.
    fn write(
        &self,
        host: &dyn Host,
        model: &Model,
        target: &Target,
        value: &str,
        armed: &Armed,
    ) -> Result<(), KnobError>;

    /// Names of the knobs whose values on the same interface a write may throw away, such as the affinities
    /// of interrupts that the driver sets up anew. The applier keeps and replays them.
    fn disturbs(&self) -> &'static [&'static str] {
        &[]
    }

    /// Refuses `value`, which was there before and so is not checked, where it would throw away what came
    /// since. Of that, `kept` is set again after it.
    fn spares(
        &self,
        _host: &dyn Host,
        _model: &Model,
        _target: &Target,
        _value: &str,
        _kept: &[Beside],
    ) -> Result<(), KnobError> {
        Ok(())
    }

    /// What `value`, which was read with other queues, is called with those of now.
    fn restated(&self, _host: &dyn Host, _model: &Model, _target: &Target, value: &str) -> String {
        value.to_owned()
    }

    /// Where `value` is what a driver chooses by itself for the queues of now, and so chooses anew when there
    /// are others: the value that asks for that.
    fn driver_s_choice(
        &self,
        _host: &dyn Host,
        _model: &Model,
        _target: &Target,
        _value: &str,
    ) -> Option<&'static str> {
        None
    }

    /// Makes `model` look as it will once `value` is set, as far as other knobs' targets depend on it.
    fn foresee(&self, _model: &mut Model, _target: &Target, _value: &str) {}

    /// Whether what it acts on comes and goes while the machine stays as it is, and takes its value along:
    /// processes and threads. That one is gone is then no reason to worry.
    fn is_fleeting(&self) -> bool {
        false
    }

    /// Whether `got` is what the kernel shows after `want` was written.
    fn same(&self, want: &str, got: &str) -> bool {
        want == got
    }

    /// How `got` differs from `want`, for people.
    fn difference(&self, want: &str, got: &str) -> String {
        format!("asked for {want}, the kernel kept {got}")
    }

    /// Whether `live` is the doing of the values `ours`, or of `unsettled` ones: those whose write
    /// may have been cut short and was not read back.
    fn left_by(&self, ours: &[String], unsettled: &[String], live: &str) -> bool {
        ours.iter().chain(unsettled).any(|value| self.same(value, live))
    }

    /// The CPUs that a value names; `None` where values are no lists of CPUs.
    fn cpus(&self, _value: &str) -> Option<CpuMask> {
        None
    }

    /// Whether a canonical value is the one that the kernel or the driver gives when it makes the queue
    /// or the interrupt anew.
    fn is_fresh(&self, _host: &dyn Host, _value: &str) -> bool {
        false
    }

    /// What is worth knowing after `value` was written and read back, such as an interrupt that has
    /// not moved yet.
    fn remark(&self, _host: &dyn Host, _model: &Model, _target: &Target, _value: &str) -> Option<String> {
        None
    }
}
