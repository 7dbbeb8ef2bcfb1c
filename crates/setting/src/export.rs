//! A plan in the formats of other programs, one format per file. Text from values: nothing here reads a
//! machine; the model provides its names and paths.
//!
//! [`expression`] makes of a setting what it is to the kernel, by the row of its knob; the formats pick what
//! they support. Unsupported settings are listed in the output and returned to the caller.

mod ansible;
mod expression;
mod irqbalance;
mod link;
mod sh;
#[cfg(test)]
mod sketch;
mod sysctl;
mod tuned;

use std::fmt;
use std::str::FromStr;

use super::{Plan, Setting, apply_order};
use expression::Expression;
use rxlab_base::grammar::terminal::shown;
use rxlab_path::model::{Model, Nic};

/// Format of an exported plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A POSIX shell script that sets the values and reads them back.
    Sh,
    /// A file for /etc/sysctl.d.
    Sysctl,
    /// Files for /etc/systemd/network by which udev sets up links, one for each interface.
    SystemdLink,
    /// A profile directory of TuneD.
    Tuned,
    /// A playbook of builtin modules.
    Ansible,
    /// A policy script of irqbalance that keeps it away from the interrupts of the plan.
    IrqbalancePolicy,
}

impl Format {
    /// Every format, by its name.
    pub const ALL: [(&'static str, Format); 6] = [
        ("sh", Format::Sh),
        ("sysctl", Format::Sysctl),
        ("systemd-link", Format::SystemdLink),
        ("tuned", Format::Tuned),
        ("ansible", Format::Ansible),
        ("irqbalance-policy", Format::IrqbalancePolicy),
    ];

    /// True if the output is always a directory of several files.
    pub fn is_directory(self) -> bool {
        self == Format::Tuned
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Format::ALL.iter().find(|(_, format)| format == self).map(|(name, _)| *name);
        f.write_str(name.expect("ALL has every form"))
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Format::ALL.iter().find(|(name, _)| *name == text).map(|(_, format)| *format);
        found.ok_or_else(|| format!("expected one of {}", Format::ALL.map(|(name, _)| name).join(", ")))
    }
}

/// One file of an exported plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportFile {
    /// Its name, without a directory.
    pub name: String,
    pub text: String,
    /// True if it is to be executed.
    pub executable: bool,
}

/// A setting that a format does not support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The setting that the format cannot express.
    pub setting: Setting,
    /// The reason, in a few words.
    pub why: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", shown(&self.setting.to_string()), shown(&self.why))
    }
}

/// A plan in another format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// The files; none if the format supports nothing of the plan.
    pub files: Vec<ExportFile>,
    /// Settings left out, in the order of applying.
    pub left_out: Vec<LeftOut>,
}

/// Writes `plan` for `format`, in the order of applying. Interrupts and devices are looked up in `model`.
pub fn export(format: Format, plan: &Plan, model: &Model) -> Export {
    let mut settings: Vec<&Setting> = plan.settings.iter().map(|planned| &planned.set).collect();
    settings.sort_by_key(|setting| apply_order(&setting.knob));
    let mut draft = Draft { name: shown(&plan.name).into_owned(), said: Vec::new(), left_out: Vec::new() };
    for setting in settings {
        match expression::express(setting, model) {
            Ok(expression) => draft.said.push(Said { setting, expression }),
            Err(why) => draft.leave(setting, why),
        }
    }
    let files = match format {
        Format::Sh => sh::files(&mut draft),
        Format::Sysctl => sysctl::files(&mut draft),
        Format::SystemdLink => link::files(&mut draft, model),
        Format::Tuned => tuned::files(&mut draft, model),
        Format::Ansible => ansible::files(&mut draft),
        Format::IrqbalancePolicy => irqbalance::files(&mut draft),
    };
    draft.left_out.sort_by_key(|left| apply_order(&left.setting.knob));
    Export { files, left_out: draft.left_out }
}

/// A setting and its kernel form.
struct Said<'a> {
    setting: &'a Setting,
    expression: Expression,
}

/// A plan during export.
struct Draft<'a> {
    /// Name of the plan, in one line.
    name: String,
    /// Settings that can be expressed, in the order of applying.
    said: Vec<Said<'a>>,
    left_out: Vec<LeftOut>,
}

impl<'a> Draft<'a> {
    fn leave(&mut self, setting: &Setting, why: impl Into<String>) {
        self.left_out.push(LeftOut { setting: setting.clone(), why: why.into() });
    }

    /// Keeps the settings that `pick` supports and leaves out the rest with the reason.
    fn pick<T>(&mut self, pick: impl Fn(&Said<'a>) -> Result<T, String>) -> Vec<(Said<'a>, T)> {
        let mut picked = Vec::new();
        for said in std::mem::take(&mut self.said) {
            match pick(&said) {
                Ok(words) => picked.push((said, words)),
                Err(why) => self.leave(said.setting, why),
            }
        }
        picked
    }

    /// The comment at the top of a file: its purpose, then the settings left out.
    fn head(&self, what: &str) -> String {
        let mut head = format!("# {}: {what}\n# Made by rxlab from a plan.\n", self.name);
        if !self.left_out.is_empty() {
            head += "#\n# Left out:\n";
            self.left_out.iter().for_each(|left| head += &format!("#   {left}\n"));
        }
        head
    }
}

/// The interface of a setting, as the model has it.
fn nic_of<'m>(setting: &Setting, model: &'m Model) -> Option<&'m Nic> {
    model.nic(setting.target.nic()?)
}
