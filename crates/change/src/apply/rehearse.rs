//! A rehearsed change: the same executor on an in-memory machine and journal.

use std::sync::atomic::AtomicBool;

use serde::Serialize;

use super::check::{has, is_made_anew};
use super::{ApplyError, BeginInfo, Transaction};
use crate::journal::{Memory, Store};
use crate::knob::{self, Knob, KnobError};
use rxlab_path::model::Model;
use rxlab_setting::Setting;
use rxlab_sys::{Host, OverlayHost};

/// Current and future value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The setting, with its value in the knob's canonical form.
    pub setting: Setting,
    /// Current value; `None` for a queue or thread that an earlier setting will create, and for a value that
    /// names such a queue.
    pub before: Option<String>,
    /// The value has to be written.
    pub needed: bool,
}

/// Applies checked settings to an in-memory copy of `host`. Writes nothing to `host` or
/// to disk. Values for future queues cannot be tried; the rest is, in the same order.
pub fn rehearse(host: &dyn Host, model: &Model, settings: &[Setting]) -> Result<Vec<Change>, ApplyError> {
    let (mut there, mut to_come) = (Vec::new(), Vec::new());
    // The machine as foreseen at the setting's turn, if it differs.
    let mut foreseen: Option<Model> = None;
    for setting in settings {
        let is_to_come = !has(model, &setting.target)
            || is_awaited(host, model, setting, settings)
            || foreseen.as_ref().is_some_and(|foreseen| needs(host, model, foreseen, setting));
        if is_to_come { &mut to_come } else { &mut there }.push(setting.clone());
        if let Some(knob) = knob::find(&setting.knob).filter(|knob| !knob.discards().is_empty()) {
            let foreseen = foreseen.get_or_insert_with(|| model.clone());
            knob.foresee(foreseen, &setting.target, &setting.value);
        }
    }
    let info = BeginInfo { what: "a rehearsal".to_owned(), ..BeginInfo::new(&model.identity) };
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
    changes.sort_by_key(|change| {
        let same = |s: &&Setting| s.knob == change.setting.knob && s.target == change.setting.target;
        settings.iter().position(|setting| same(&setting))
    });
    Ok(changes)
}

/// True if the setting's thread does not exist yet and another setting may create it.
fn is_awaited(host: &dyn Host, model: &Model, setting: &Setting, settings: &[Setting]) -> bool {
    let missing = |knob: &dyn Knob| {
        let read = knob.read(knob.site(host, model, &setting.target));
        matches!(read, Err(KnobError::NotThere { .. }))
    };
    is_made_anew(settings, &setting.knob, &setting.target) && knob::find(&setting.knob).is_some_and(missing)
}

/// True if only the future machine can have the value: it refers to a queue that does not exist yet.
fn needs(host: &dyn Host, model: &Model, foreseen: &Model, setting: &Setting) -> bool {
    let Setting { knob, target, value } = setting;
    let takes = |knob: &dyn Knob, model| knob.check(knob.site(host, model, target), value).is_ok();
    knob::find(knob).is_some_and(|knob| !takes(knob, model) && takes(knob, foreseen))
}
