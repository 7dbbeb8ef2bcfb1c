//! Plan files: TOML, one `[[setting]]` table for each setting; their basis follows below.
//!
//! ```toml
//! name = "rps"
//! host = "web1"
//!
//! [[setting]]
//! set = "rps eth0/rx-0 = 2-7"
//! why = "one queue for eight CPUs"
//! ```

mod columns;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Plan, PlannedSetting, Prediction, Risk, Setting, Upkeep};
use rxlab_base::parse;
use rxlab_path::model::DeviceAddress;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {message}")]
pub struct PlanFileError {
    /// Line number in the file, counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// The error, in one line.
    pub message: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "schema")]
    schema: String,
    #[serde(default = "name")]
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    netns: Option<String>,
    /// Location in files of earlier versions.
    #[serde(default, skip_serializing)]
    notes: Vec<String>,
    setting: Vec<Entry>,
    #[serde(default, skip_serializing_if = "About::is_empty")]
    about: About,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prediction: Option<Prediction>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    /// For readers; the data are in `prediction`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    predicted: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl About {
    fn is_empty(&self) -> bool {
        self.predicted.is_empty() && self.notes.is_empty()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    set: Setting,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    risk: Option<Risk>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    upkeep: Option<Upkeep>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<DeviceAddress>,
}

fn schema() -> String {
    Plan::SCHEMA.to_owned()
}

fn name() -> String {
    "plan".to_owned()
}

impl Plan {
    pub fn from_toml(text: &str) -> Result<Self, PlanFileError> {
        let file: File = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            at(text, start, error.message())
        })?;
        if file.schema != Plan::SCHEMA {
            let message = format!("schema is `{}`, this version reads `{}`", file.schema, Plan::SCHEMA);
            return Err(at(text, text.find("schema").unwrap_or(0), &message));
        }
        if file.setting.is_empty() {
            return Err(at(text, 0, "the plan has no [[setting]]"));
        }
        let planned = |entry: Entry| {
            let known = PlannedSetting::new(entry.set, entry.why, entry.device);
            let (risk, upkeep) = (entry.risk.or(known.risk), entry.upkeep.or(known.upkeep));
            PlannedSetting { risk, upkeep, ..known }
        };
        Ok(Plan {
            schema: file.schema,
            name: file.name,
            host: file.host,
            netns: file.netns,
            settings: file.setting.into_iter().map(planned).collect(),
            notes: [file.notes, file.about.notes].concat(),
            prediction: file.prediction,
        })
    }

    /// Writes a plan file, readable by [`Plan::from_toml`].
    pub fn to_toml(&self) -> String {
        let entry = |planned: &PlannedSetting| Entry {
            set: planned.set.clone(),
            why: planned.why.clone(),
            risk: planned.risk,
            upkeep: planned.upkeep,
            device: planned.device.clone(),
        };
        let file = File {
            schema: self.schema.clone(),
            name: self.name.clone(),
            host: self.host.clone(),
            netns: self.netns.clone(),
            notes: Vec::new(),
            setting: self.settings.iter().map(entry).collect(),
            about: About { predicted: self.predicted(), notes: self.notes.clone() },
            prediction: self.prediction.clone(),
        };
        columns::fit(&toml::to_string_pretty(&file).expect("a plan is text, lists and tables only"))
    }
}

/// An error at byte `offset` of `text`. A message of several lines is joined into one.
fn at(text: &str, offset: usize, message: &str) -> PlanFileError {
    let (line, column) = parse::position(text, offset);
    PlanFileError { line, column, message: message.lines().map(str::trim).collect::<Vec<_>>().join(", ") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::Plan;

    const PLAN: &str = r#"
name = "spread"
host = "web1"

[[setting]]
set = "rps eth0/rx-0 = 2-7"
why = "one queue"
device = "pci:0000:00:03.0"

[[setting]]
set = "rfs_entries host = 32768"
"#;

    #[test]
    fn a_plan_reads_as_it_is_written() {
        let plan = Plan::from_toml(PLAN).expect("a plan");
        assert_eq!((plan.name.as_str(), plan.host.as_deref()), ("spread", Some("web1")));
        assert_eq!(plan.settings[0].set.to_string(), "rps eth0/rx-0 = 2-7");
        assert_eq!(plan.settings[0].device.as_ref().expect("given").0, "pci:0000:00:03.0");
        assert_eq!(plan.settings[1].why, "");
        assert_eq!(Plan::from_toml(&plan.to_toml()), Ok(plan));
    }

    #[test]
    fn notes_of_earlier_versions_are_read() {
        let old = format!("notes = [\"adds no capacity\"]\n{PLAN}");
        assert_eq!(Plan::from_toml(&old).expect("a plan").notes, ["adds no capacity"]);
    }

    #[test]
    fn errors_name_the_line_and_the_column() {
        let says = |text: &str| Plan::from_toml(text).expect_err(text).to_string();
        let bad = says("name = \"x\"\n[[setting]]\nset = \"rps eth0/x = 2\"\n");
        assert!(bad.starts_with("line 3, column 7: `eth0/x` is not a target"), "{bad}");
        let bad = says("name = \"x\"\n[[setting]]\nset = \"rps eth0/rx-0 = 2\"\nwhen = 1\n");
        assert!(bad.starts_with("line 4, column 1: unknown field `when`"), "{bad}");
        let bad = says("name = \n");
        assert!(bad.starts_with("line 1, column "), "{bad}");
        let bad = says("setting = []\n");
        assert_eq!(bad, "line 1, column 1: the plan has no [[setting]]");
        let bad = says("name = \"a\"\nschema = \"rxlab.plan/9\"\n[[setting]]\nset = \"rps a/rx-0 = 1\"\n");
        assert_eq!(bad, "line 2, column 1: schema is `rxlab.plan/9`, this version reads `rxlab.plan/1`");
        assert!(!says("a\nb").contains('\n'));
    }

    proptest! {
        #[test]
        fn any_text_is_a_plan_or_one_line(text in "(?s).{0,80}") {
            if let Err(error) = Plan::from_toml(&text) {
                proptest::prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}
