//! What is applied now, what is still so, and what somebody else has changed. Reads only.

use serde::Serialize;

use super::undo::present_target;
use crate::host::Host;
use crate::journal::{History, Namespace, Touched};
use crate::knob::{self, KnobError};
use crate::model::Model;
use crate::plan::Target;

/// One open transaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransactionStatus {
    /// Its id.
    pub id: String,
    /// Start, RFC 3339.
    pub started: String,
    /// Who began it and for what.
    pub what: String,
    /// The network namespace, when it was not our own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netns: Option<Namespace>,
    /// Where it stands.
    pub state: State,
    /// Its values, in the order in which they were first set.
    pub values: Vec<ValueStatus>,
}

/// Where a transaction stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Everything asked for was set, and stays.
    Applied,
    /// Everything asked for was set, and goes back in so many seconds.
    Unconfirmed {
        /// Negative: the deadline has passed and the guard has not undone it.
        seconds_left: f64,
    },
    /// The process that applies is at it or was stopped in the middle; or an undo could not put
    /// everything back.
    Unfinished,
}

/// One value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ValueStatus {
    /// Which knob.
    pub knob: String,
    /// On what, by the names of now where the device is still there.
    pub target: Target,
    /// The value before the transaction.
    pub original: String,
    /// The last value asked for.
    pub wanted: String,
    /// What is there now.
    #[serde(flatten)]
    pub live: Live,
}

/// What is there now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "live", rename_all = "snake_case")]
pub enum Live {
    /// The value asked for.
    Kept,
    /// The value from before the transaction.
    Original,
    /// Neither: somebody else changed it.
    Drifted {
        /// The value.
        value: String,
    },
    /// The device or its namespace is no more.
    Gone,
    /// It cannot be read.
    Unreadable {
        /// Why.
        why: String,
    },
}

impl TransactionStatus {
    /// Whether a value is not what the transaction set.
    pub fn drifted(&self) -> bool {
        self.values.iter().any(|value| value.live != Live::Kept)
    }
}

/// Compares an open transaction with the machine; `None` when it never began.
pub fn status(history: &History, host: &dyn Host, model: &Model) -> Option<TransactionStatus> {
    let begin = history.begin()?;
    let seconds_left = |deadline: u64| (deadline as f64 - host.now_ns() as f64) / 1e9;
    let touched = history.touched();
    let state = match history.pending_deadline() {
        _ if !history.is_complete() || touched.iter().any(|t| t.outcome.is_some()) => State::Unfinished,
        Some(deadline) => State::Unconfirmed { seconds_left: seconds_left(deadline) },
        None => State::Applied,
    };
    let open = |t: &&Touched| !t.outcome.as_ref().is_some_and(crate::journal::Outcome::settles);
    Some(TransactionStatus {
        id: begin.id.clone(),
        started: begin.started.clone(),
        what: begin.what.clone(),
        netns: begin.netns.clone(),
        state,
        values: touched.iter().filter(open).map(|t| value(t, host, model)).collect(),
    })
}

fn value(touched: &Touched, host: &dyn Host, model: &Model) -> ValueStatus {
    let target = present_target(model, touched);
    let live = match (&target, knob::find(&touched.knob)) {
        (None, _) => Live::Gone,
        (_, None) => Live::Unreadable { why: format!("this version has no knob `{}`", touched.knob) },
        (Some(target), Some(knob)) => match knob.read(host, model, target) {
            Ok(live) if knob.same(&touched.wanted, &live) => Live::Kept,
            Ok(live) if knob.same(&touched.original, &live) => Live::Original,
            Ok(value) => Live::Drifted { value },
            Err(KnobError::UnknownQueue { .. } | KnobError::UnknownNic { .. }) => Live::Gone,
            Err(error) => Live::Unreadable { why: error.to_string() },
        },
    };
    ValueStatus {
        knob: touched.knob.clone(),
        target: target.unwrap_or_else(|| touched.target.clone()),
        original: touched.original.clone(),
        wanted: touched.wanted.clone(),
        live,
    }
}
