//! Tunables: how to find, read, check, write and compare each of them. One tunable per file, or one family of
//! tunables that differ only in a name and a path.
//!
//! A knob knows how; `plan` decides what, and only `apply` writes. A new knob is one file here, one `mod`
//! line and one entry in [`KNOBS`].

mod affinity;
mod channels;
mod clocksource;
mod coalesce;
mod error;
mod ethtool;
mod file;
mod gro_size;
mod irq_affinity;
mod irqbalance;
mod napi;
mod napi_affinity;
mod napi_threads;
mod ntuple_rule;
mod offload;
mod priority;
mod queue_napi;
mod registry;
mod rfs;
mod ring;
mod rps;
mod rss;
mod rss_context;
mod rss_hash;
mod site;
mod socket;
mod sysctl;
#[cfg(any(test, feature = "testing"))]
pub mod testbed;
mod value;
mod xps;

pub(crate) use affinity::{
    ALL, directory as group_directory, directory_and_path as group_directory_and_path, has_napi_thread,
    is_in_group,
};
pub use error::{KnobError, Result};
pub(crate) use napi_threads::check_threads;
pub(crate) use priority::napi_thread;
pub use registry::{KNOBS, find};
pub use site::Site;

use crate::journal::{Armed, Displaced, Part};
use rxlab_base::units::CpuMask;
use rxlab_path::model::Model;
use rxlab_setting::{Target, discarded_by, tunable};
use rxlab_sys::Host;

/// A value by its parts, such as the threads of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// The value that restores `ours` and leaves the others.
    pub value: String,
    /// Parts with a value of ours, each with its original value.
    pub ours: Vec<Part>,
    /// Parts that have their original value.
    pub back: Vec<Part>,
    /// Parts that another program has changed, each with its current value.
    pub foreign: Vec<Part>,
}

/// One tunable.
///
/// Values are text in the knob's canonical form, the one that [`Knob::read`] and [`Knob::check`] return.
/// Targets are resolved through the model of their [`Site`] at each call: nothing is remembered.
pub trait Knob: Sync {
    /// One word that no other knob has: the first word of a setting, and the heading of its section in docs/knobs.md.
    fn name(&self) -> &'static str;

    /// The site of `target` on a machine.
    fn site<'a>(&self, host: &'a dyn Host, model: &'a Model, target: &'a Target) -> Site<'a> {
        Site { knob: self.name(), host, model, target }
    }

    /// Everything on this machine that the knob can act on, and whatever it may be able to act on while that is unknown:
    /// reading such a target says why.
    fn targets(&self, model: &Model) -> Vec<Target>;

    /// Checks a value against the machine and returns its canonical form. Must refuse values that the kernel
    /// would silently change, and must not write.
    fn check(&self, site: Site<'_>, value: &str) -> Result<String>;

    /// Returns the current value in canonical form.
    fn read(&self, site: Site<'_>) -> Result<String>;

    /// Writes a canonical value. `armed` must come from the intent that covers this write; the caller must
    /// read back what the kernel made of the value. Only [`crate::apply`] may call this.
    fn write(&self, site: Site<'_>, value: &str, armed: &Armed) -> Result;

    /// Names of the knobs whose values on the same interface a write may discard, such as the affinities of
    /// interrupts that the driver re-creates: a fact of its row. The applier saves them and sets them again, in this order.
    fn discards(&self) -> Vec<&'static str> {
        discarded_by(self.name())
    }

    /// Names of the knobs whose values on the same interface a write replaces on purpose: a fact of its row.
    fn replaces(&self) -> &'static [&'static str] {
        tunable(self.name()).map_or(&[], |row| row.replaces)
    }

    /// Refuses an original `value`, which was not checked, where restoring it would discard later changes.
    /// `kept` is set again afterwards.
    fn check_restore(&self, _site: Site<'_>, _value: &str, _kept: &[Displaced]) -> Result {
        Ok(())
    }

    /// Returns `value`, read with a different number of queues, as it is written with the current number.
    fn for_current_queues(&self, _site: Site<'_>, value: &str) -> String {
        value.to_owned()
    }

    /// If `value` is the driver's own choice for the current queues, which it makes again when their number
    /// changes: the value that asks for that choice.
    fn driver_default(&self, _site: Site<'_>, _value: &str) -> Option<&'static str> {
        None
    }

    /// Updates `model` to its state after `value` is set, as far as other knobs' targets depend on it.
    fn foresee(&self, _model: &mut Model, _target: &Target, _value: &str) {}

    /// True if the target comes and goes while the machine runs and takes its value along: processes and
    /// threads. A missing one is then no cause for concern.
    fn is_fleeting(&self) -> bool {
        false
    }

    /// True if the kernel shows `got` after `want` was written.
    fn same(&self, want: &str, got: &str) -> bool {
        want == got
    }

    /// Describes how `got` differs from `want`.
    fn difference(&self, want: &str, got: &str) -> String {
        format!("asked for {want}, the kernel kept {got}")
    }

    /// True if `live` results from the values `ours`, the original first, or from `unsettled` ones, whose write may have been cut
    /// short and was not read back.
    fn left_by(&self, ours: &[String], unsettled: &[String], live: &str) -> bool {
        ours.iter().chain(unsettled).any(|value| self.same(value, live))
    }

    /// Judges the parts of `live` separately: several programs may each have set some of them. `ours` are the values
    /// that rxlab found or set. `None` if the value has no parts, or if they are not those of `original`.
    fn parts(&self, _site: Site<'_>, _original: &str, _ours: &[String], _live: &str) -> Option<Parts> {
        None
    }

    /// What the target has started since `since_ns` (nanoseconds since boot), and has one of the values `ours` from it that
    /// are not its `original`: no undo of the target changes that.
    fn inherited(
        &self,
        _site: Site<'_>,
        _original: &str,
        _ours: &[String],
        _since_ns: u64,
    ) -> Result<Vec<Part>> {
        Ok(Vec::new())
    }

    /// The CPUs that a value names; `None` if values are not lists of CPUs.
    fn cpus(&self, _value: &str) -> Option<CpuMask> {
        None
    }

    /// True if a canonical value is the one that the kernel or the driver gives to a newly created queue or
    /// interrupt.
    fn is_fresh(&self, _host: &dyn Host, _value: &str) -> bool {
        false
    }

    /// When the object was made that ends with its value and gives the next one the default, in nanoseconds since boot: the end
    /// of the tick in which a thread began. `None` for other objects, and if it is not known.
    fn began_ns(&self, _site: Site<'_>) -> Option<u64> {
        None
    }

    /// A remark after `value` was written and read back, such as an interrupt that has not moved yet.
    fn remark(&self, _site: Site<'_>, _value: &str) -> Option<String> {
        None
    }
}
