//! Values that the write of another one throws away: kept before it, set again after it.
//!
//! A driver that is told to have other queues makes all of them anew, and forgets what was set for them.

use super::ApplyError;
use super::check::knob_of;
use crate::host::Host;
use crate::journal::{Armed, Beside};
use crate::knob::{Knob, KnobError};
use crate::model::{DeviceAddress, Model};
use crate::plan::{Setting, Target};
use crate::sample::{Inventory, Scope};

/// The values that a write of `knob` to `target` may throw away, as they are. What cannot be read is
/// not there to be thrown away.
pub(super) fn beside(host: &dyn Host, model: &Model, knob: &dyn Knob, target: &Target) -> Vec<Beside> {
    let mut values = Vec::new();
    for name in knob.disturbs() {
        // A name without a knob fails the registry's test.
        let Ok(knob) = knob_of(name) else { continue };
        for target in knob.targets(model).into_iter().filter(|other| other.nic() == target.nic()) {
            if let Ok(value) = knob.read(host, model, &target) {
                values.push(Beside { knob: (*name).to_owned(), target, value });
            }
        }
    }
    values
}

/// Those of `values` that are still there, as they are now.
pub(super) fn now(host: &dyn Host, model: &Model, device: &DeviceAddress, values: &[Beside]) -> Vec<Beside> {
    let read = |value: &Beside| {
        let target = present(model, device, &value.target)?;
        let live = knob_of(&value.knob).ok()?.read(host, model, &target).ok()?;
        Some(Beside { value: live, ..value.clone() })
    };
    values.iter().filter_map(read).collect()
}

/// `values`, with those of `others` in the place of the same ones.
pub(super) fn overlaid(values: &[Beside], others: &[Beside]) -> Vec<Beside> {
    let other = |value: &Beside| {
        others.iter().find(|o| o.knob == value.knob && o.target.lasting() == value.target.lasting())
    };
    values.iter().map(|value| other(value).unwrap_or(value).clone()).collect()
}

/// Sets every one of `values` again that is not so any more and gives those. A queue that has gone took its
/// values with it. `armed` is that of the write that threw them away: its journal entry has them.
pub(super) fn replay(
    host: &dyn Host,
    model: &Model,
    device: &DeviceAddress,
    values: &[Beside],
    armed: &Armed,
) -> Result<Vec<Setting>, ApplyError> {
    let mut replayed = Vec::new();
    for Beside { knob, target, value } in values {
        let Some(target) = present(model, device, target) else { continue };
        let knob = knob_of(knob)?;
        let setting = Setting { knob: knob.name().to_owned(), target, value: value.clone() };
        let lost =
            |error| ApplyError::NotReplayed { setting: Box::new(setting.clone()), error: Box::new(error) };
        match knob.read(host, model, &setting.target) {
            Ok(live) if knob.same(value, &live) => continue,
            Ok(_) => {}
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(lost(error)),
        }
        let written = knob.write(host, model, &setting.target, value, armed);
        let kept = written.and_then(|()| knob.read(host, model, &setting.target)).map_err(lost)?;
        if !knob.same(value, &kept) {
            let why = knob.difference(value, &kept);
            return Err(ApplyError::NotKept { setting: Box::new(setting), why });
        }
        replayed.push(setting);
    }
    Ok(replayed)
}

/// Whether a value cannot be had because what it belonged to is no more.
pub(super) fn is_gone(error: &KnobError) -> bool {
    matches!(
        error,
        KnobError::UnknownQueue { .. }
            | KnobError::UnknownNic { .. }
            | KnobError::NoIrq { .. }
            | KnobError::NotThere { .. }
            | KnobError::Unsupported { .. }
    )
}

fn present(model: &Model, device: &DeviceAddress, target: &Target) -> Option<Target> {
    let nic = model.nics.iter().find(|nic| nic.address == *device)?;
    Some(target.of_nic(&nic.name))
}

/// The machine as it is now, of the interfaces that `before` has: what else there may be in the namespace
/// looked at does not belong to the change.
pub(super) fn rediscover(host: &dyn Host, before: &Model) -> Model {
    let mut model = Model::new(&Inventory::take(host, Scope::Path));
    model.nics.retain(|nic| before.nics.iter().any(|known| known.address == nic.address));
    model
}
