//! Everything that can be known to be wrong before the first write.

use serde::Serialize;

use super::ApplyError;
use crate::host::Host;
use crate::knob::{self, KNOBS, Knob};
use crate::model::{DeviceAddress, Model};
use crate::plan::{Plan, Setting, Target};

/// A value as it is and as it is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What to set, with the value in the knob's canonical form.
    pub setting: Setting,
    /// The value now.
    pub before: String,
    /// Whether the value has to be written at all.
    pub needed: bool,
}

/// The knob of a setting.
pub(super) fn knob_of(name: &str) -> Result<&'static dyn Knob, ApplyError> {
    knob::find(name).ok_or_else(|| ApplyError::UnknownKnob { name: name.to_owned() })
}

/// The lasting address of a target's device; `None` for the whole machine, and for an interface
/// that is not there.
pub(super) fn device_of(model: &Model, target: &Target) -> Option<DeviceAddress> {
    model.nic(target.nic()?).map(|nic| nic.address.clone())
}

/// Checks a whole plan against the machine: the host, the devices, every target, every value.
/// Gives the settings in the order of applying, values in canonical form.
pub fn check(host: &dyn Host, model: &Model, plan: &Plan) -> Result<Vec<Setting>, ApplyError> {
    if let Some(host) = plan.host.as_ref().filter(|host| **host != model.identity.hostname) {
        let here = model.identity.hostname.clone();
        return Err(ApplyError::OtherHost { plan: host.clone(), here });
    }
    let mut settings: Vec<Setting> = Vec::new();
    for planned in &plan.settings {
        let Setting { knob: name, target, value } = &planned.set;
        let knob = knob_of(name)?;
        if let Some(expected) = &planned.device {
            let here = device_of(model, target);
            if here.as_ref() != Some(expected) {
                return Err(ApplyError::OtherDevice {
                    target: target.clone(),
                    plan: expected.clone(),
                    here: here.map_or_else(|| "missing".to_owned(), |address| address.to_string()),
                });
            }
        }
        if settings.iter().any(|s| s.knob == *name && s.target == *target) {
            return Err(ApplyError::Twice { knob: name.clone(), target: target.clone() });
        }
        let value = knob.check(host, model, target, value)?;
        settings.push(Setting { knob: name.clone(), target: target.clone(), value });
    }
    // The registry is in the order of applying; the sort is stable.
    settings.sort_by_key(|setting| KNOBS.iter().position(|knob| knob.name() == setting.knob));
    Ok(settings)
}

/// Reads every value that checked settings are about to change. Writes nothing.
pub fn preview(host: &dyn Host, model: &Model, settings: &[Setting]) -> Result<Vec<Change>, ApplyError> {
    let change = |setting: &Setting| {
        let knob = knob_of(&setting.knob)?;
        let before = knob.read(host, model, &setting.target)?;
        let needed = !knob.same(&setting.value, &before);
        Ok(Change { setting: setting.clone(), before, needed })
    };
    settings.iter().map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::{ApplyError, check};
    use crate::host::RecordedHost;
    use crate::knob::testbed::model;
    use crate::model::DeviceAddress;
    use crate::plan::{Plan, PlannedSetting};

    fn plan(settings: &[&str]) -> Plan {
        let planned = |text: &&str| PlannedSetting {
            set: text.parse().expect("a setting"),
            why: String::new(),
            device: None,
        };
        Plan {
            schema: Plan::SCHEMA.into(),
            name: "test".into(),
            host: None,
            settings: settings.iter().map(planned).collect(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn settings_come_in_the_order_of_applying() {
        let plan = plan(&[
            "rfs eth0/rx-0 = 2048",
            "rps eth0/rx-1 = 1",
            "rfs_entries host = 4096",
            "rps eth0/rx-0 = 2,1",
            "irq_affinity eth0/rx-0 = 0",
        ]);
        let settings: Vec<String> = check(&RecordedHost::new(), &model(), &plan)
            .expect("sound")
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            settings,
            [
                "irq_affinity eth0/rx-0 = 0",
                "rps eth0/rx-1 = 1",
                "rps eth0/rx-0 = 1-2",
                "rfs_entries host = 4096",
                "rfs eth0/rx-0 = 2048"
            ]
        );
    }

    #[test]
    fn a_plan_for_another_machine_is_refused() {
        let mut other = plan(&["rps eth0/rx-0 = 1"]);
        other.host = Some("web1".into());
        assert!(matches!(check(&RecordedHost::new(), &model(), &other), Err(ApplyError::OtherHost { .. })));
        other.host = Some("testbed".into());
        other.settings[0].device = Some(DeviceAddress("pci:0000:00:09.0".into()));
        let error = check(&RecordedHost::new(), &model(), &other).expect_err("another device");
        assert_eq!(error.kind(), crate::error::Kind::Changed);
        assert!(error.to_string().contains("here it is pci:0000:00:03.0"), "{error}");
        other.settings[0].device = Some(DeviceAddress("pci:0000:00:03.0".into()));
        assert!(check(&RecordedHost::new(), &model(), &other).is_ok());
    }

    #[test]
    fn one_value_for_each_target_and_known_knobs_only() {
        let twice = plan(&["rps eth0/rx-0 = 1", "rps eth0/rx-0 = 2"]);
        assert_eq!(
            check(&RecordedHost::new(), &model(), &twice).expect_err("twice").to_string(),
            "rps eth0/rx-0 is set twice"
        );
        let unknown =
            check(&RecordedHost::new(), &model(), &plan(&["rpx eth0/rx-0 = 1"])).expect_err("unknown");
        let names: Vec<&str> = crate::knob::KNOBS.iter().map(|knob| knob.name()).collect();
        assert_eq!(unknown.to_string(), format!("there is no knob `rpx` (there are: {})", names.join(", ")));
    }
}
