//! A change gone through without being made: the same executor, on a machine and a journal in memory.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde::Serialize;

use super::check::has;
use super::{ApplyError, BeginInfo, Transaction};
use crate::host::{Host, OverlayHost};
use crate::journal::{Memory, Store};
use crate::knob::{self, Knob, KnobError};
use crate::model::Model;
use crate::plan::Setting;

/// A value as it is and as it is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What to set, with the value in the knob's canonical form.
    pub setting: Setting,
    /// The value now; `None` for a queue or a thread that an earlier setting will make.
    pub before: Option<String>,
    /// Whether the value has to be written at all.
    pub needed: bool,
}

/// Applies checked settings to a copy in memory of what `host` shows. Writes nothing to `host` and
/// nothing to a disk. Values for queues to come cannot be tried; the rest is, in the same order.
pub fn rehearse(host: &dyn Host, model: &Model, settings: &[Setting]) -> Result<Vec<Change>, ApplyError> {
    let (there, to_come): (Vec<Setting>, Vec<Setting>) = settings
        .iter()
        .cloned()
        .partition(|setting| has(model, &setting.target) && !is_awaited(host, model, setting, settings));
    let info = BeginInfo {
        identity: &model.identity,
        root: Path::new("/"),
        netns: None,
        what: "a rehearsal".to_owned(),
        confirm: None,
    };
    let transaction = Transaction::begin(&Store::new(Memory::default()), info)?;
    let stage = OverlayHost::new(host);
    let kept = transaction.apply(&stage, model, &there, &AtomicBool::new(false));
    let kept = kept.map_err(|failure| failure.error)?;
    let tried = kept.into_iter().map(|kept| Change {
        setting: kept.setting,
        needed: kept.changed,
        before: Some(kept.before),
    });
    let to_come = to_come.into_iter().map(|setting| Change { setting, before: None, needed: true });
    let mut changes: Vec<Change> = tried.chain(to_come).collect();
    let place = |change: &Change| {
        let same = |s: &&Setting| s.knob == change.setting.knob && s.target == change.setting.target;
        settings.iter().position(|setting| same(&setting))
    };
    changes.sort_by_key(place);
    Ok(changes)
}

/// Whether the thread that a setting acts on is not there yet, and another setting may make it.
fn is_awaited(host: &dyn Host, model: &Model, setting: &Setting, settings: &[Setting]) -> bool {
    let makes = |other: &Setting| {
        other.target.nic() == setting.target.nic()
            && knob::find(&other.knob).is_some_and(|knob| knob.disturbs().contains(&setting.knob.as_str()))
    };
    let missing =
        |knob: &dyn Knob| matches!(knob.read(host, model, &setting.target), Err(KnobError::NotThere { .. }));
    settings.iter().any(makes) && knob::find(&setting.knob).is_some_and(missing)
}
