//! One value for one tunable, and plans made of them, in their text forms.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::tunable::{Risk, Upkeep, risk_and_upkeep};
use super::{Prediction, Target};
use rxlab_base::serde_as_text;
use rxlab_base::units::CpuMask;
use rxlab_path::model::DeviceAddress;

/// One value for one tunable; written `rps eth0/rx-0 = 2-7`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct Setting {
    /// Name of the knob, such as `rps`. The registry decides if it exists.
    pub knob: String,
    /// The target.
    pub target: Target,
    /// The value in the knob's own text form; the knob checks it.
    pub value: String,
}

impl Setting {
    /// A value for a knob of a target. None of them is checked here: the knob must check them against a machine.
    pub fn new(knob: &str, target: Target, value: impl Into<String>) -> Self {
        Self { knob: knob.to_owned(), target, value: value.into() }
    }
}

/// A setting and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedSetting {
    /// The setting.
    pub set: Setting,
    /// The reason for this value, in one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Effect of setting it on traffic; `None` if the knob is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// Effort to keep it right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upkeep: Option<Upkeep>,
    /// The device meant, if the plan was made for a known one: a plan for another host is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceAddress>,
}

impl PlannedSetting {
    /// Adjusts the risk to the driver of its interface, which may make it greater or smaller.
    #[must_use]
    pub fn with_driver(mut self, driver: Option<&str>) -> Self {
        if let Some((risk, upkeep)) = risk_and_upkeep(&self.set.knob, driver) {
            (self.risk, self.upkeep) = (Some(risk), Some(upkeep));
        }
        self
    }

    /// A setting with its reason and its device; risk and upkeep are those of its knob.
    pub fn new(set: Setting, why: impl Into<String>, device: Option<DeviceAddress>) -> Self {
        let (risk, upkeep) = risk_and_upkeep(&set.knob, None).unzip();
        Self { set, why: why.into(), risk, upkeep, device }
    }
}

/// Settings that belong together, in the order of applying.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// `rxlab.plan/1`.
    pub schema: String,
    /// A one-word name, such as `rps`.
    pub name: String,
    /// Host name of the machine it was made for; checked before applying when given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Network namespace of its interfaces, in the form of `--netns`, if it is not that of the machine: interfaces of one
    /// name may exist in both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// Settings of the plan.
    pub settings: Vec<PlannedSetting>,
    /// Limits of the plan, such as "adds no capacity".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Predicted effect on the receive time of CPUs; `None` if the model cannot predict it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
}

impl Plan {
    pub const SCHEMA: &'static str = "rxlab.plan/1";

    /// A hand-written plan of `settings`: without reasons, for any machine.
    pub fn new(name: &str, settings: &[Setting]) -> Self {
        Self {
            schema: Self::SCHEMA.to_owned(),
            name: name.to_owned(),
            host: None,
            netns: None,
            settings: settings.iter().map(|set| PlannedSetting::new(set.clone(), "", None)).collect(),
            notes: Vec::new(),
            prediction: None,
        }
    }

    /// The prediction in words, for a reader of the plan; empty without one.
    pub fn predicted(&self) -> Vec<String> {
        let prediction = self.prediction.iter();
        prediction.flat_map(|prediction| [prediction.to_string(), prediction.room(&self.name)]).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingError {
    #[error("`{0}` is not a setting (expected KNOB TARGET = VALUE, such as rps eth0/rx-0 = 2-7)")]
    Form(String),
    #[error("`{0}` is not a target (expected host, NIC, NIC/QUEUE, cpu:N, pid:N, cgroup:PATH or unit:NAME)")]
    Target(String),
}

/// A value that is a set of CPUs or queues: a list, or `off` for the empty one. `None` if it is neither.
pub fn set_of(value: &str) -> Option<CpuMask> {
    if value == "off" { Some(CpuMask::new()) } else { value.parse().ok() }
}

/// A set as [`set_of`] reads it.
pub fn set_text(set: &CpuMask) -> String {
    if set.is_empty() { "off".to_owned() } else { set.to_string() }
}

impl FromStr for Setting {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        let bad = || SettingError::Form(text.to_owned());
        let (left, value) = text.split_once('=').ok_or_else(bad)?;
        let words: Vec<&str> = left.split_whitespace().collect();
        let [knob, target] = words[..] else { return Err(bad()) };
        if value.trim().is_empty() {
            return Err(bad());
        }
        Ok(Self { knob: knob.to_owned(), target: target.parse()?, value: value.trim().to_owned() })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} = {}", self.knob, self.target, self.value)
    }
}

serde_as_text!(Setting);

#[cfg(test)]
mod tests {
    use super::{Setting, SettingError};
    use crate::Target;
    use rxlab_base::units::QueueId;

    #[test]
    fn a_setting_reads_as_it_is_written() {
        let setting: Setting = "rps eth0/rx-0 = 2-7".parse().expect("a setting");
        assert_eq!(setting.knob, "rps");
        assert_eq!(
            setting.target,
            Target::Queue { nic: "eth0".parse().expect("a name"), queue: QueueId::rx(0) }
        );
        assert_eq!(setting.to_string(), "rps eth0/rx-0 = 2-7");
        assert_eq!("rfs_entries host=32768".parse::<Setting>().expect("a setting").value, "32768");
    }

    #[test]
    fn bad_settings_say_what_to_write() {
        assert_eq!("rps eth0/rx-0".parse::<Setting>(), Err(SettingError::Form("rps eth0/rx-0".into())));
        assert_eq!("rps = 3".parse::<Setting>(), Err(SettingError::Form("rps = 3".into())));
        assert_eq!("rps a/rx-0 = ".parse::<Setting>(), Err(SettingError::Form("rps a/rx-0 = ".into())));
        assert_eq!("rps eth0/x = 3".parse::<Setting>(), Err(SettingError::Target("eth0/x".into())));
    }
}
