//! End state of an archived transaction, derived from its file alone.

use serde::Serialize;

use crate::journal::{History, Outcome};

/// End state of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The transaction changed nothing.
    Empty,
    /// Every value was restored or went with its device.
    PutBack,
    /// It had a deadline and was not confirmed; every value was restored.
    NotConfirmed,
    /// Every value had been changed by another program, and was left alone.
    LeftAlone,
    /// A value changed by another program was left alone, or processes that a process has started still have it.
    PutBackInPart,
    /// `rxlab undo --forget` left its values as they were.
    GivenUp,
    /// The machine was rebooted, which reset its values.
    Rebooted,
}

/// End state of an archived transaction; `boot_id` is the current boot of the machine.
pub fn ending(history: &History, boot_id: &str) -> Ending {
    let touched = history.touched();
    let is_drift =
        |outcome: &Outcome| matches!(outcome, Outcome::Drift { .. } | Outcome::RestoredInPart { .. });
    let is_left = |outcome: &Outcome| matches!(outcome, Outcome::Drift { .. });
    let outcomes = || touched.iter().filter_map(|touched| touched.outcome.as_ref());
    match history.begin() {
        Some(begin) if !history.is_closed() && begin.is_of_other_boot(boot_id) => Ending::Rebooted,
        None => Ending::Empty,
        Some(_) if !history.is_closed() => Ending::GivenUp,
        Some(_) if touched.is_empty() && !history.ran_command() => Ending::Empty,
        Some(_) if !history.ran_command() && outcomes().next().is_some() && outcomes().all(is_left) => {
            Ending::LeftAlone
        }
        Some(_) if outcomes().any(is_drift) => Ending::PutBackInPart,
        Some(begin) if begin.deadline.is_some() && history.is_complete() && !history.is_confirmed() => {
            Ending::NotConfirmed
        }
        Some(_) => Ending::PutBack,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Ending, ending};
    use crate::apply::testbed::{RPS, begin, resume, setting};
    use crate::journal::Store;
    use crate::knob::testbed::model;
    use rxlab_sys::{Host, RecordedHost};

    /// End state of a transaction that sets `settings` and is undone after `meddle`.
    fn ended(settings: &[&str], confirm: Option<Duration>, meddle: impl FnOnce(&RecordedHost)) -> Ending {
        let (_state, store) = Store::scratch();
        let host = RecordedHost::new().with(RPS, "3\n");
        let transaction = begin(&store, confirm);
        let id = transaction.id().to_owned();
        let settings: Vec<_> = settings.iter().map(|text| setting(text)).collect();
        transaction.apply(&host, &model(), &settings, &false.into()).expect("set");
        meddle(&host);
        if !settings.is_empty() {
            resume(&store, &id).undo(&host, &model());
        }
        let [entry] = &store.all().expect("listed")[..] else { panic!("one transaction") };
        assert!(!entry.is_open);
        ending(entry.history.as_ref().expect("readable"), &model().identity.boot_id)
    }

    #[test]
    fn a_closed_transaction_says_how_it_went() {
        let set = ["rps eth0/rx-0 = 4"];
        assert_eq!(ended(&set, None, |_| ()), Ending::PutBack);
        assert_eq!(ended(&set, Some(Duration::from_secs(9)), |_| ()), Ending::NotConfirmed);
        let drift = |host: &RecordedHost| host.write(RPS, b"20\n").expect("written");
        assert_eq!(ended(&set, None, drift), Ending::LeftAlone);
        assert_eq!(ended(&[], None, |_| ()), Ending::Empty);
    }

    #[test]
    fn an_open_one_in_the_archive_was_given_up_or_ended_with_its_boot() {
        let (_state, store) = Store::scratch();
        let id = begin(&store, None).id().to_owned();
        store.forget(&store.lock(Duration::ZERO).expect("free"), &id).expect("archived");
        let history = store.all().expect("listed").remove(0).history.expect("readable");
        assert_eq!(ending(&history, &model().identity.boot_id), Ending::GivenUp);
        assert_eq!(ending(&history, "another boot"), Ending::Rebooted);
    }
}
