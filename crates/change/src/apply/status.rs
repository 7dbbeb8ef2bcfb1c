//! Applied values, those that still hold, and those changed by others. Reads only.

use serde::{Deserialize, Serialize};

use super::backwards::{covering, resetting};
use super::drift::{Scene, Suspect, suspects};
use super::environment::environment;
use super::locate::{Place, has_queue, locate, object_id, object_now};
use super::search::Search;
use crate::journal::{BackCommand, History, Outcome, Part, Seen, Touched};
use crate::knob::{self, KnobError};
use rxlab_path::model::Model;
use rxlab_setting::Target;
use rxlab_sys::{Host, Namespace};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransactionStatus {
    pub id: String,
    /// Start time in RFC 3339.
    pub started: String,
    /// Purpose of the transaction and the command that made it.
    pub what: String,
    /// The network namespace, if not our own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netns: Option<Namespace>,
    pub state: State,
    /// Receive work before the transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
    /// Its values, in the order in which they were first set.
    pub values: Vec<ValueStatus>,
    /// Times that a value was set again after another program had changed it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reapplied: usize,
    /// A shell command ran, or was about to: the one that undo runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<BackCommand>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference.
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// State of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Everything was set and stays.
    Applied,
    /// Everything was set and is reverted in this many seconds.
    Unconfirmed {
        /// Negative: the deadline has passed and the guard has not undone it.
        seconds_left: f64,
        /// Its guard has ended, so nothing reverts it at the deadline. False also if that is not known.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unguarded: bool,
    },
    /// The applying process is running or was interrupted; or an undo could not restore
    /// everything.
    Unfinished,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ValueStatus {
    pub knob: String,
    /// Target, by its current name if the device still exists.
    pub target: Target,
    /// The value before the transaction.
    pub original: String,
    /// The last value asked for.
    pub wanted: String,
    #[serde(flatten)]
    pub live: Live,
    /// Possible causes, if it does not hold and the transaction is not unfinished; empty without
    /// evidence.
    pub suspects: Vec<Suspect>,
}

/// State of the current value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "live", rename_all = "snake_case")]
pub enum Live {
    /// The value asked for.
    Kept,
    /// A newer open transaction has set it since and decides its value.
    Covered {
        by: String,
    },
    /// The value from before the transaction.
    Original,
    /// Neither: changed by another program.
    Drifted {
        value: String,
        /// The parts that were changed, such as threads of a process, if the others hold. Empty: the whole value.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<Part>,
    },
    /// The device, its namespace, the process or the thread is gone.
    Gone,
    Unreadable {
        why: String,
    },
}

impl TransactionStatus {
    /// True if a value is not what the transaction set.
    pub fn drifted(&self) -> bool {
        self.values.iter().any(|value| !value.live.holds())
    }

    /// True if everything is set, in time and guarded until it is confirmed, and nothing drifted.
    pub fn is_fine(&self) -> bool {
        let in_time = match self.state {
            State::Applied => true,
            State::Unconfirmed { seconds_left, unguarded } => seconds_left >= 0.0 && !unguarded,
            State::Unfinished => false,
        };
        in_time && !self.drifted()
    }
}

/// Compares an open transaction with the machine; `None` if it never began. `newer` are the open
/// transactions that began after it, oldest first.
pub fn status(
    history: &History,
    newer: &[(String, History)],
    host: &dyn Host,
    model: &Model,
) -> Option<TransactionStatus> {
    let begin = history.begin()?;
    let touched = history.touched();
    let state = state(history, host.now_ns());
    let command = history.pending_command();
    let search = Search::default();
    let mut values = Vec::new();
    let mut drifted = Vec::new();
    for touched in touched.iter().filter(|t| !t.outcome.as_ref().is_some_and(Outcome::settles)) {
        let by = covering(touched, history, newer);
        let value = value(history, touched, by, (host, model), &search);
        if !value.live.holds() {
            drifted.push((values.len(), touched));
        }
        values.push(value);
    }
    // An unfinished apply may not have set everything yet.
    if state != State::Unfinished && !drifted.is_empty() {
        let now = environment(host, model, &touched);
        for (index, touched) in drifted {
            let Some(knob) = knob::find(&touched.knob) else { continue };
            let target = match locate(host, model, history, touched, &search) {
                Place::Here(target) | Place::There(_, _, target) => Some(target),
                Place::Gone | Place::Unknown(_) => None,
            };
            let later = resetting(touched, history, newer);
            let scene = Scene {
                host,
                model,
                id: &begin.id,
                began: history.began(),
                knob,
                touched,
                target: target.as_ref(),
                live: values[index].live.value(&touched.original),
                later: later.as_ref().map(|(id, write)| (*id, write)),
                then: history.environment(),
                now: &now,
            };
            let suspects = suspects(&scene);
            values[index].suspects = suspects;
        }
    }
    Some(TransactionStatus {
        id: begin.id.clone(),
        started: begin.started.clone(),
        what: begin.what.clone(),
        netns: begin.netns.clone(),
        state,
        seen: begin.seen,
        values,
        reapplied: history.reapplied(),
        command: command.map(|pending| pending.command),
    })
}

/// State of an open transaction at `now_ns` since boot.
pub fn state(history: &History, now_ns: u64) -> State {
    let seconds_left = |deadline: u64| (deadline as f64 - now_ns as f64) / 1e9;
    let undo_failed = history.pending_command().is_some_and(|command| command.failure.is_some());
    let undo_began = undo_failed || history.touched().iter().any(|t| t.outcome.is_some());
    match history.pending_deadline() {
        _ if !history.is_complete() || undo_began => State::Unfinished,
        Some(deadline) => State::Unconfirmed { seconds_left: seconds_left(deadline), unguarded: false },
        None => State::Applied,
    }
}

impl State {
    /// The same state of a transaction whose guard has ended.
    #[must_use]
    pub fn without_guard(self) -> Self {
        match self {
            State::Unconfirmed { seconds_left, .. } => State::Unconfirmed { seconds_left, unguarded: true },
            state => state,
        }
    }
}

impl Live {
    /// True if the value is as it should be.
    pub fn holds(&self) -> bool {
        matches!(self, Live::Kept | Live::Covered { .. })
    }

    /// The value in place of ours.
    fn value<'a>(&'a self, original: &'a str) -> Option<&'a str> {
        match self {
            Live::Original => Some(original),
            Live::Drifted { value, .. } => Some(value),
            Live::Kept | Live::Covered { .. } | Live::Gone | Live::Unreadable { .. } => None,
        }
    }
}

fn value(
    history: &History,
    touched: &Touched,
    covered_by: Option<&str>,
    (host, model): (&dyn Host, &Model),
    search: &Search,
) -> ValueStatus {
    let covered = covered_by.map(|id| Live::Covered { by: id.to_owned() });
    let (target, live) = match locate(host, model, history, touched, search) {
        Place::Here(target) => {
            let live = covered.unwrap_or_else(|| live(touched, host, model, &target));
            (target, live)
        }
        Place::There(host, model, target) => {
            let live = covered.unwrap_or_else(|| live(touched, &*host, &model, &target));
            (target, live)
        }
        Place::Gone => (touched.target.clone(), covered.unwrap_or(Live::Gone)),
        Place::Unknown(why) => (touched.target.clone(), covered.unwrap_or(Live::Unreadable { why })),
    };
    ValueStatus {
        knob: touched.knob.clone(),
        target,
        original: touched.original.clone(),
        wanted: touched.wanted.clone(),
        live,
        suspects: Vec::new(),
    }
}

fn live(touched: &Touched, host: &dyn Host, model: &Model, target: &Target) -> Live {
    let Some(knob) = knob::find(&touched.knob) else {
        return Live::Unreadable { why: format!("this version has no knob `{}`", touched.knob) };
    };
    let site = knob.site(host, model, target);
    let found = object_now(host, touched, target);
    let read = knob.read(site);
    // A missing queue of the model may exist by now.
    let has_queue = |error: &KnobError| match error {
        KnobError::UnknownQueue { .. } => has_queue(host, target).unwrap_or(true),
        _ => false,
    };
    let is_gone = read.as_ref().is_err_and(|error| !has_queue(error));
    if found.is_none_or(|found| found != object_id(host, target)) {
        return Live::Unreadable { why: "its name belongs to another object by now; try again".to_owned() };
    }
    match read {
        Ok(live) if knob.same(&touched.wanted, &live) => Live::Kept,
        Ok(live) if knob.same(&touched.original, &live) => Live::Original,
        Ok(value) => {
            let parts = knob.parts(site, &touched.wanted, &[], &value);
            let changed = parts.filter(|parts| !parts.back.is_empty()).map(|parts| parts.foreign);
            Live::Drifted { value, changed: changed.unwrap_or_default() }
        }
        Err(KnobError::UnknownQueue { .. } | KnobError::NotThere { .. }) if is_gone => Live::Gone,
        Err(error) => Live::Unreadable { why: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::{Live, State, TransactionStatus, status};
    use crate::apply::testbed::{RPS, begin, set, setting};
    use crate::apply::{Culprit, in_words};
    use crate::journal::Store;
    use crate::knob;
    use crate::knob::testbed::{self, model};
    use rxlab_base::parse::{NapiSetting, attribute, one_message};
    use rxlab_sys::{Host, RecordedHost};

    const IFINDEX: &str = "sys/class/net/eth0/ifindex";

    /// Status of `rps eth0/rx-0 = 4` after `meddle`.
    fn after(complete: bool, meddle: impl FnOnce(&RecordedHost)) -> TransactionStatus {
        let (_state, store) = Store::scratch();
        let host = RecordedHost::new().with(RPS, "3\n").with(IFINDEX, "4\n");
        let mut transaction = begin(&store, None);
        let setting = setting("rps eth0/rx-0 = 4");
        if complete {
            transaction.apply(&host, &model(), &[setting], &false.into()).expect("set");
        } else {
            transaction.set(&host, &mut model(), &setting).expect("set");
        }
        meddle(&host);
        let open = store.open_of("/", "boot-1").expect("listed");
        status(&open[0].1, &[], &host, &model()).expect("begun")
    }

    #[test]
    fn the_journal_remembers_what_to_compare_with() {
        let found = after(true, |host| {
            host.write(RPS, b"0\n").expect("written");
            host.write(IFINDEX, b"9\n").expect("written");
        });
        let value = &found.values[0];
        assert_eq!(value.live, Live::Drifted { value: "off".into(), changed: Vec::new() });
        assert_eq!(
            value.suspects.iter().map(|suspect| suspect.who).collect::<Vec<_>>(),
            [Culprit::NewQueues]
        );
        assert_eq!(value.suspects[0].evidence, ["ifindex of eth0 changed from 4 to 9: it was recreated"]);
        assert!(!found.is_fine());
    }

    #[test]
    fn no_suspects_where_nothing_is_wrong_or_nothing_is_settled() {
        let found = after(true, |host| host.write(IFINDEX, b"9\n").expect("written"));
        assert!(found.is_fine() && found.values[0].suspects.is_empty());
        let found = after(false, |host| host.write(RPS, b"0\n").expect("written"));
        assert_eq!(found.state, State::Unfinished);
        assert!(!found.is_fine() && found.values[0].suspects.is_empty());
    }

    /// The value of the whole interface replaces those of its queues: the cause was unknown.
    #[test]
    fn a_later_transaction_is_a_suspect() {
        let napi = |id: u32| {
            let ids = [attribute(1, 4u32.to_ne_bytes()), attribute(2, id.to_ne_bytes())].concat();
            one_message(&[ids, NapiSetting::DeferHardIrqs.attribute(0)].concat())
        };
        let host = RecordedHost::new()
            .with("netlink/netdev/napi-get", [8193, 8194].map(napi).concat())
            .with("sys/class/net/eth0/napi_defer_hard_irqs", "0\n");
        let (_state, store) = Store::scratch();
        set(&store, &host, &["queue_defer_hard_irqs eth0/rx-1 = 5"]);
        let later = set(&store, &host, &["napi_defer_hard_irqs eth0 = 3"]);
        let queue = knob::find("queue_defer_hard_irqs").expect("a knob");
        testbed::write(queue, &host, "eth0/rx-1", "3").expect("as the kernel does");
        let open = store.open_of("/", "boot-1").expect("listed");
        let words = |newer| {
            let found = status(&open[0].1, newer, &host, &model()).expect("begun");
            in_words(&found.values[0].suspects)
        };
        let cause = format!("probably a later transaction: {later} set napi_defer_hard_irqs eth0 = 3");
        assert_eq!((words(&open[1..]), words(&[])), (cause, "cause unknown".to_owned()));
    }
}
