//! The last seen values of a trial's targets. A current value that differs was set from outside (by an
//! administrator, another program or the kernel) and is found before the next flip overwrites it.

use std::fmt;

use rxlab_change::apply::{Kept, object_id};
use rxlab_change::knob::{self, Knob};
use rxlab_path::model::Model;
use rxlab_setting::{Setting, Target};
use rxlab_sys::Host;

/// A value that was set from outside during the trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Foreign {
    pub knob: String,
    pub target: Target,
    /// The value last seen.
    pub expected: String,
    /// The value found in its place.
    pub found: String,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { knob, target, expected, found } = self;
        write!(f, "{knob} {target} (expected {expected}, found {found})")
    }
}

/// The targets of both arms.
pub(super) struct Watched {
    values: Vec<Value>,
}

struct Value {
    knob: &'static dyn Knob,
    target: Target,
    /// Inode of the target's interface or control group, since names can change owners.
    object: Option<u64>,
    /// `None` if there is nothing to compare with: the queue comes with an arm, or the value cannot be read.
    seen: Option<String>,
}

impl Value {
    fn read(&self, host: &dyn Host, model: &Model) -> Option<String> {
        // The next flip reports why a value cannot be read.
        let live = self.knob.read(self.knob.site(host, model, &self.target)).ok()?;
        (!self.is_renamed(host)).then_some(live)
    }

    /// True if its name now belongs to another object, or to none.
    fn is_renamed(&self, host: &dyn Host) -> bool {
        self.object.is_some() && object_id(host, &self.target) != self.object
    }

    fn is_of(&self, setting: &Setting) -> bool {
        self.knob.name() == setting.knob && self.target == setting.target
    }

    fn foreign(&self, expected: String, found: String) -> Foreign {
        Foreign { knob: self.knob.name().to_owned(), target: self.target.clone(), expected, found }
    }
}

impl Watched {
    /// The targets of `settings`, each once, with their current values.
    pub(super) fn new<'a>(
        host: &dyn Host,
        model: &Model,
        settings: impl Iterator<Item = &'a Setting>,
    ) -> Self {
        let mut values: Vec<Value> = Vec::new();
        for setting in settings {
            let Some(knob) = knob::find(&setting.knob) else { continue };
            if !values.iter().any(|value| value.is_of(setting)) {
                let target = setting.target.clone();
                let mut value = Value { knob, object: object_id(host, &target), target, seen: None };
                value.seen = value.read(host, model);
                values.push(value);
            }
        }
        Self { values }
    }

    /// The values that differ from those last seen and from `wanted`, the settings of the current arm.
    pub(super) fn foreign(&self, host: &dyn Host, model: &Model, wanted: &[Setting]) -> Vec<Foreign> {
        let compare = |value: &Value| {
            let (seen, live) = (value.seen.as_ref()?, value.read(host, model)?);
            let is_wanted =
                |setting: &Setting| value.is_of(setting) && value.knob.same(&setting.value, &live);
            let expected = value.knob.same(seen, &live) || wanted.iter().any(is_wanted);
            (!expected).then(|| value.foreign(seen.clone(), live))
        };
        self.values.iter().filter_map(compare).collect()
    }

    /// The targets whose interface has lost its name, and the processes that have ended.
    pub(super) fn renamed(&self, host: &dyn Host) -> Vec<&Target> {
        self.values.iter().filter(|value| value.is_renamed(host)).map(|value| &value.target).collect()
    }

    /// Records the values after a flip, and returns those that the flip does not explain. `written` are its
    /// writes in order.
    ///
    /// A write explains its own target, and every later change on its interface: drivers replace queues, and
    /// one offload or delay can change another. A write to a target without an interface explains every
    /// later change.
    pub(super) fn flipped(&mut self, host: &dyn Host, model: &Model, written: &[Kept]) -> Vec<Foreign> {
        let mut foreign = Vec::new();
        for value in &mut self.values {
            let own = written.iter().rposition(|kept| value.is_of(&kept.setting));
            let later = &written[own.map_or(0, |at| at + 1)..];
            let explains = |kept: &Kept| {
                let nic = kept.setting.target.nic();
                kept.changed && (nic.is_none() || nic == value.target.nic())
            };
            let live = value.read(host, model);
            let expected = own.map(|at| written[at].kept.clone()).or_else(|| value.seen.clone());
            match (expected, live) {
                (Some(expected), Some(live))
                    if !value.knob.same(&expected, &live) && !later.iter().any(explains) =>
                {
                    foreign.push(value.foreign(expected, live));
                }
                (_, live) => value.seen = live,
            }
        }
        foreign
    }
}

#[cfg(test)]
mod tests {
    use super::Watched;
    use rxlab_change::apply::Kept;
    use rxlab_change::knob::testbed::model;
    use rxlab_setting::Setting;
    use rxlab_sys::{Host, RecordedHost};

    const RPS: &str = "sys/class/net/eth0/queues/rx-0/rps_cpus";
    const VETH: &str = "sys/class/net/veth0/queues/rx-0/rps_cpus";

    fn host() -> RecordedHost {
        RecordedHost::new().with(RPS, "00\n").with(VETH, "00\n")
    }

    fn setting(text: &str) -> Setting {
        text.parse().expect("a setting")
    }

    fn watched(host: &dyn Host) -> Watched {
        let settings = ["rps eth0/rx-0 = 2-3", "rps veth0/rx-0 = 1", "rps eth0/rx-0 = 4"].map(setting);
        Watched::new(host, &model(), settings.iter())
    }

    fn written(text: &str, changed: bool) -> Kept {
        let setting = setting(text);
        let kept = setting.value.clone();
        Kept { setting, before: String::new(), kept, changed, replayed: Vec::new(), remark: None }
    }

    fn foreign(watched: &Watched, host: &dyn Host, wanted: &[&str]) -> Vec<String> {
        let wanted: Vec<Setting> = wanted.iter().map(|text| setting(text)).collect();
        watched.foreign(host, &model(), &wanted).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_value_is_compared_and_not_its_text() {
        let host = host();
        let watched = watched(&host);
        assert_eq!(foreign(&watched, &host, &[]), [""; 0]);
        host.write(RPS, b"00000000,00000000").expect("written");
        assert_eq!(foreign(&watched, &host, &[]), [""; 0]);
        host.write(RPS, b"c").expect("written");
        assert_eq!(foreign(&watched, &host, &[]), ["rps eth0/rx-0 (expected off, found 2-3)"]);
        assert_eq!(foreign(&watched, &host, &["rps eth0/rx-0 = 2-3"]), [""; 0], "as the arm wants it");
        assert_eq!(foreign(&watched, &host, &["rps veth0/rx-0 = 2-3"]).len(), 1);
    }

    #[test]
    fn what_a_flip_left_is_what_is_expected_next() {
        let host = host();
        let mut watched = watched(&host);
        host.write(RPS, b"c").expect("written");
        assert_eq!(watched.flipped(&host, &model(), &[written("rps eth0/rx-0 = 2-3", true)]), []);
        assert_eq!(foreign(&watched, &host, &[]), [""; 0]);
        host.write(RPS, b"0").expect("written");
        assert_eq!(foreign(&watched, &host, &[]), ["rps eth0/rx-0 (expected 2-3, found off)"]);
    }

    #[test]
    fn a_write_explains_what_changed_on_its_own_interface() {
        let flipped = |writes: &[Kept]| {
            let host = host();
            let mut watched = watched(&host);
            host.write(RPS, b"c").expect("written");
            watched.flipped(&host, &model(), writes).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let found = ["rps eth0/rx-0 (expected off, found 2-3)"];
        assert_eq!(flipped(&[]), found);
        assert_eq!(flipped(&[written("rps veth0/rx-0 = off", true)]), found);
        assert_eq!(flipped(&[written("channels eth0 = 1", false)]), found, "nothing was written");
        assert_eq!(flipped(&[written("channels eth0 = 1", true)]), [""; 0]);
        assert_eq!(flipped(&[written("netdev_budget host = 600", true)]), [""; 0]);
        // Its own write determines the expected value, and an earlier one explains nothing after it.
        let own = written("rps eth0/rx-0 = 4", true);
        let instead = ["rps eth0/rx-0 (expected 4, found 2-3)"];
        assert_eq!(flipped(&[written("channels eth0 = 1", true), own.clone()]), instead);
        assert_eq!(flipped(&[own, written("channels eth0 = 1", true)]), [""; 0]);
    }

    #[test]
    fn a_queue_that_comes_or_goes_is_not_a_foreign_value() {
        let host = RecordedHost::new().with(VETH, "00\n");
        let mut watched = watched(&host);
        let with = host.with(RPS, "0c\n");
        assert_eq!(foreign(&watched, &with, &[]), [""; 0]);
        assert_eq!(watched.flipped(&with, &model(), &[]), []);
        assert_eq!(foreign(&watched, &RecordedHost::new(), &[]), [""; 0]);
    }
}
