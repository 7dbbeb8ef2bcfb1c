//! Order of undo: the transaction that found, or reset, values of another one goes first.

use crate::journal::{Displaced, History, Outcome, Touched};
use crate::model::DeviceAddress;

/// The newest of `others` that touches a target of `history` or may have reset one. It has to be
/// undone first: the value it found, or sets again, is the one that `history` set.
pub fn covered_by<'a>(history: &History, others: &'a [(String, History)]) -> Option<&'a str> {
    let mine = history.touched();
    let covers = |other: &History| {
        other.touched().iter().any(|theirs| {
            let covered = |t: &Touched| is_same_place(t, history, theirs, other) || throws_away(theirs, t);
            mine.iter().any(|t| in_one_namespace(history, theirs, other) && covered(t))
        })
    };
    others.iter().rev().find(|(_, other)| covers(other)).map(|(id, _)| id.as_str())
}

/// The newest of `others` that set a target of `history` and has not reverted it yet.
pub(super) fn covering<'a>(
    mine: &Touched,
    history: &History,
    others: &'a [(String, History)],
) -> Option<&'a str> {
    let is_back = |theirs: &Touched| theirs.outcome.as_ref().is_some_and(Outcome::settles);
    let covers = |other: &History| {
        let theirs = other.touched();
        theirs.iter().any(|theirs| !is_back(theirs) && is_same_place(mine, history, theirs, other))
    };
    others.iter().rev().find(|(_, other)| covers(other)).map(|(id, _)| id.as_str())
}

/// True if the two share a target.
fn is_same_place(mine: &Touched, history: &History, theirs: &Touched, other: &History) -> bool {
    mine.is_same(theirs) && in_one_namespace(history, theirs, other)
}

/// Virtual interfaces of the same name in two namespaces differ. Their sysfs inodes distinguish them; only
/// journals of earlier versions lack those.
fn in_one_namespace(history: &History, theirs: &Touched, other: &History) -> bool {
    let netns = |history: &History| Some(history.begin()?.netns.as_ref()?.inode);
    let is_virtual = theirs.device.as_ref().is_some_and(DeviceAddress::is_virtual);
    !is_virtual || theirs.ids.is_some() || netns(other) == netns(history)
}

/// True if writing one target may have reset the other, and undo sets that again.
fn throws_away(writer: &Touched, value: &Touched) -> bool {
    let is_it = |displaced: &Displaced| {
        displaced.knob == value.knob && displaced.target.lasting() == value.target.lasting()
    };
    writer.is_on_same_device(value) && writer.displaced.iter().any(is_it)
}
