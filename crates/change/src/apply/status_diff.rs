//! Differences between two samples of what is applied: for `rxlab status --watch`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::drift::Suspect;
use super::{Live, State, TransactionStatus, ValueStatus};
use rxlab_setting::Target;

/// One difference from the last sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum News {
    /// A transaction is new, or its state changed.
    Transaction { id: String, state: State },
    /// A transaction is no longer among the open ones: undone, reverted by its guard, given up, or unreadable.
    Closed { id: String },
    /// A value no longer holds, differs from before, or holds again.
    Value {
        id: String,
        knob: String,
        target: Target,
        /// The value asked for.
        wanted: String,
        #[serde(flatten)]
        live: Live,
        suspects: Vec<Suspect>,
    },
}

/// Remembers the last sample.
#[derive(Debug, Default)]
pub struct StatusDiff {
    last: Option<BTreeMap<String, Seen>>,
}

/// A transaction as last seen.
#[derive(Debug)]
struct Seen {
    standing: State,
    values: BTreeMap<(String, String), Live>,
}

impl StatusDiff {
    /// Differences. The first sample reports everything that is wrong.
    pub fn update(&mut self, all: &[TransactionStatus]) -> Vec<News> {
        let mut news = Vec::new();
        let mut seen = BTreeMap::new();
        for transaction in all {
            let before = self.last.as_ref().and_then(|last| last.get(&transaction.id));
            let now = standing(transaction.state);
            let expected = match before {
                Some(before) => Some(before.standing),
                None => self.last.is_none().then_some(State::Applied),
            };
            if expected != Some(now) {
                news.push(News::Transaction { id: transaction.id.clone(), state: transaction.state });
            }
            let mut values = BTreeMap::new();
            for value in &transaction.values {
                let key = (value.knob.clone(), value.target.to_string());
                let expected = before.and_then(|before| before.values.get(&key));
                if *expected.unwrap_or(&Live::Kept) != value.live {
                    news.push(of_value(&transaction.id, value));
                }
                values.insert(key, value.live.clone());
            }
            seen.insert(transaction.id.clone(), Seen { standing: now, values });
        }
        let last = self.last.replace(seen).unwrap_or_default();
        let closed = last.into_keys().filter(|id| all.iter().all(|transaction| transaction.id != *id));
        news.extend(closed.map(|id| News::Closed { id }));
        news
    }
}

/// A state with only the sign of the seconds that are left.
fn standing(state: State) -> State {
    match state {
        State::Unconfirmed { seconds_left, unguarded } => {
            State::Unconfirmed { seconds_left: seconds_left.signum(), unguarded }
        }
        other => other,
    }
}

fn of_value(id: &str, value: &ValueStatus) -> News {
    News::Value {
        id: id.to_owned(),
        knob: value.knob.clone(),
        target: value.target.clone(),
        wanted: value.wanted.clone(),
        live: value.live.clone(),
        suspects: value.suspects.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{News, StatusDiff};
    use crate::apply::{Live, State, TransactionStatus, ValueStatus};

    fn transaction(id: &str, state: State, live: Live) -> TransactionStatus {
        let value = ValueStatus {
            knob: "rps".into(),
            target: "eth0/rx-0".parse().expect("a target"),
            original: "off".into(),
            wanted: "2".into(),
            live,
            suspects: Vec::new(),
        };
        TransactionStatus {
            id: id.into(),
            started: String::new(),
            what: String::new(),
            netns: None,
            seen: None,
            state,
            values: vec![value],
            reapplied: 0,
            command: None,
        }
    }

    fn lives(news: &[News]) -> Vec<&Live> {
        news.iter()
            .filter_map(|news| match news {
                News::Value { live, .. } => Some(live),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn what_stays_is_not_news() {
        let mut diff = StatusDiff::default();
        let drifted = || Live::Drifted { value: "4".into(), changed: Vec::new() };
        assert_eq!(diff.update(&[transaction("1", State::Applied, Live::Kept)]), []);
        assert_eq!(diff.update(&[transaction("1", State::Applied, Live::Kept)]), []);
        let news = diff.update(&[transaction("1", State::Applied, drifted())]);
        assert_eq!((lives(&news), news.len()), (vec![&drifted()], 1));
        assert_eq!(diff.update(&[transaction("1", State::Applied, drifted())]), []);
        let news = diff.update(&[transaction("1", State::Applied, Live::Kept)]);
        assert_eq!((lives(&news), news.len()), (vec![&Live::Kept], 1), "it holds again");
    }

    #[test]
    fn the_first_sample_reports_what_is_wrong() {
        let news = StatusDiff::default().update(&[
            transaction("1", State::Applied, Live::Original),
            transaction("2", State::Unfinished, Live::Kept),
        ]);
        assert_eq!(lives(&news), [&Live::Original]);
        assert!(matches!(&news[1], News::Transaction { id, .. } if id == "2"));
    }

    #[test]
    fn transactions_come_stand_elsewhere_and_go() {
        let mut diff = StatusDiff::default();
        let waiting = |seconds_left| {
            transaction("1", State::Unconfirmed { seconds_left, unguarded: false }, Live::Kept)
        };
        let ids = |news: Vec<News>| {
            news.iter()
                .map(|news| match news {
                    News::Transaction { id, state } => format!("{id} {state:?}"),
                    News::Closed { id } => format!("{id} closed"),
                    News::Value { .. } => "value".to_owned(),
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(diff.update(&[])), [""; 0]);
        assert_eq!(
            ids(diff.update(&[waiting(9.0)])),
            ["1 Unconfirmed { seconds_left: 9.0, unguarded: false }"]
        );
        assert_eq!(ids(diff.update(&[waiting(7.0)])), [""; 0], "passing time is not news");
        assert_eq!(ids(diff.update(&[waiting(-1.0)])).len(), 1);
        assert_eq!(ids(diff.update(&[])), ["1 closed"]);
        assert_eq!(ids(diff.update(&[])), [""; 0]);
    }
}
