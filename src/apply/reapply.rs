//! Sets again what somebody else has changed: only values of open transactions, each as a further
//! intent of the transaction that set it, so that undo still goes back to the value before all of it.

use serde::Serialize;

use super::check::knob_of;
use super::drift::Suspect;
use super::{ApplyError, Live, State, Transaction, ValueStatus, status};
use crate::host::Host;
use crate::journal::History;
use crate::model::Model;
use crate::plan::Target;

/// What became of one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reapplied {
    /// Which knob.
    pub knob: String,
    /// On what, by the names of now where the device is still there.
    pub target: Target,
    /// The value that it should have.
    pub wanted: String,
    /// What was found and done.
    #[serde(flatten)]
    pub outcome: Reapply,
    /// Who may have changed it.
    pub suspects: Vec<Suspect>,
}

/// What was found and done about one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Reapply {
    /// It has the value; nothing was written.
    Holds,
    /// A newer transaction has set it since; it was left to that one.
    Covered {
        /// Which one.
        by: String,
    },
    /// It was somebody else's and is ours again.
    Reapplied {
        /// What it was.
        was: String,
    },
    /// It would be written; this was a dry run.
    Due {
        /// What it is.
        was: String,
    },
    /// The device, queue or namespace is no more.
    Gone,
    /// It could be neither read nor set.
    Failed {
        /// Why, in one line.
        why: String,
    },
}

/// What [`Transaction::reapply`] would do, without doing it; `None` for a transaction that is not
/// applied as a whole. Writes nothing.
pub fn preview_reapply(
    history: &History,
    newer: &[(String, History)],
    host: &dyn Host,
    model: &Model,
) -> Option<Vec<Reapplied>> {
    let values = applied(history, newer, host, model)?;
    let due = |value: &ValueStatus, was: String| {
        canonical(value, host, model).map_or_else(failed, |_| Reapply::Due { was })
    };
    Some(values.into_iter().map(|value| one(value, due)).collect())
}

impl Transaction {
    /// Sets each value again that somebody else has changed; one that cannot be set is reported, and
    /// the others are set all the same. `None` for a transaction that is not applied as a whole: one that
    /// waits for its confirmation, or is unfinished. `newer` are the open transactions that began after
    /// it, `model` must be fresh.
    pub fn reapply(
        &mut self,
        newer: &[(String, History)],
        host: &dyn Host,
        model: &Model,
    ) -> Option<Vec<Reapplied>> {
        let values = applied(self.journal().history(), newer, host, model)?;
        let mut fresh = model.clone();
        let mut set = |value: &ValueStatus, was: String| match self.set_again(value, host, &mut fresh) {
            Ok(()) => Reapply::Reapplied { was },
            Err(error) => failed(error),
        };
        let all: Vec<Reapplied> = values.into_iter().map(|value| one(value, &mut set)).collect();
        let any = |is: fn(&Reapply) -> bool| all.iter().any(|reapplied| is(&reapplied.outcome));
        // What failed is compared with the same moment as before.
        if any(|outcome| matches!(outcome, Reapply::Reapplied { .. }))
            && !any(|outcome| matches!(outcome, Reapply::Failed { .. }))
        {
            // The values hold all the same. Later looks then compare with the moment before.
            let _ = self.note(host, &fresh);
        }
        Some(all)
    }

    fn set_again(
        &mut self,
        value: &ValueStatus,
        host: &dyn Host,
        model: &mut Model,
    ) -> Result<(), ApplyError> {
        let wanted = canonical(value, host, model)?;
        self.write(host, model, knob_of(&value.knob)?, &value.target, wanted, true).map(|_| ())
    }
}

/// The values of a transaction that is applied as a whole and stays.
fn applied(
    history: &History,
    newer: &[(String, History)],
    host: &dyn Host,
    model: &Model,
) -> Option<Vec<ValueStatus>> {
    let status = status(history, newer, host, model)?;
    (status.state == State::Applied).then_some(status.values)
}

/// The wanted value, checked against the machine of now: a CPU of it may be offline. Values from before
/// the transaction are the kernel's own and may have a form that nobody would ask for.
fn canonical(value: &ValueStatus, host: &dyn Host, model: &Model) -> Result<String, ApplyError> {
    let knob = knob_of(&value.knob)?;
    if value.wanted == value.original {
        knob.spares(host, model, &value.target, &value.wanted, &[])?;
        return Ok(value.wanted.clone());
    }
    Ok(knob.check(host, model, &value.target, &value.wanted)?)
}

fn failed(error: ApplyError) -> Reapply {
    Reapply::Failed { why: error.to_string() }
}

/// `due` decides about a value that drifted, given what it is now.
fn one(value: ValueStatus, mut due: impl FnMut(&ValueStatus, String) -> Reapply) -> Reapplied {
    let outcome = match &value.live {
        Live::Kept => Reapply::Holds,
        Live::Covered { by } => Reapply::Covered { by: by.clone() },
        Live::Original => due(&value, value.original.clone()),
        Live::Drifted { value: was } => due(&value, was.clone()),
        Live::Gone => Reapply::Gone,
        Live::Unreadable { why } => Reapply::Failed { why: why.clone() },
    };
    let ValueStatus { knob, target, wanted, suspects, .. } = value;
    Reapplied { knob, target, wanted, outcome, suspects }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::{Reapplied, Reapply, preview_reapply};
    use crate::apply::{BeginInfo, Live, Transaction, Undo, status};
    use crate::host::{Cause, FlakyHost, Fuse, Host, Mishap, RecordedHost, Rule};
    use crate::journal::{Disk, History, Outcome, Store};
    use crate::knob::testbed::model;

    const RPS: &str = "sys/class/net/eth0/queues/rx-0/rps_cpus";
    /// The two interrupts of rx-1.
    const IRQS: [&str; 2] = ["proc/irq/25/smp_affinity", "proc/irq/26/smp_affinity"];

    fn host() -> RecordedHost {
        RecordedHost::new().with(RPS, "3\n").with(IRQS[0], "01\n").with(IRQS[1], "02\n")
    }

    struct Bench {
        _state: tempfile::TempDir,
        store: Store,
        host: RecordedHost,
    }

    impl Bench {
        fn new() -> Self {
            let state = tempfile::tempdir().expect("a temporary directory");
            let store = Store::new(Disk::new(state.path()));
            Self { _state: state, store, host: host() }
        }

        fn begin(&self, confirm: Option<Duration>) -> Transaction {
            let identity = model().identity;
            let root = Path::new("/");
            let info = BeginInfo { identity: &identity, root, netns: None, what: String::new(), confirm };
            Transaction::begin(&self.store, info).expect("begun")
        }

        fn set(&self, setting: &str) -> String {
            let transaction = self.begin(None);
            let id = transaction.id().to_owned();
            let settings = [setting.parse().expect("a setting")];
            transaction.apply(&self.host, &model(), &settings, &false.into()).expect("set");
            id
        }

        /// The transaction and those after it.
        fn open(&self, id: &str) -> (History, Vec<(String, History)>) {
            let open = self.store.open_of("/", "boot-1").expect("listed");
            let at = open.iter().position(|(open, _)| open == id).expect("open");
            (open[at].1.clone(), open[at + 1..].to_vec())
        }

        fn live(&self, id: &str) -> Live {
            let (history, newer) = self.open(id);
            status(&history, &newer, &self.host, &model()).expect("begun").values[0].live.clone()
        }

        fn reapply(&self, id: &str, host: &dyn Host) -> Reapply {
            let (_, newer) = self.open(id);
            let mut transaction = Transaction::resume(&self.store, id, Duration::ZERO).expect("resumed");
            only(transaction.reapply(&newer, host, &model()))
        }

        fn undo(&self, id: &str) -> Undo {
            let transaction = Transaction::resume(&self.store, id, Duration::ZERO).expect("resumed");
            transaction.undo(&self.host, &model())
        }

        fn write(&self, path: &str, value: &str) {
            self.host.write(path, value.as_bytes()).expect("written");
        }

        fn read(&self, path: &str) -> String {
            self.host.read_text(path).expect("readable")
        }
    }

    fn only(all: Option<Vec<Reapplied>>) -> Reapply {
        let mut all = all.expect("applied as a whole");
        assert_eq!(all.len(), 1);
        all.remove(0).outcome
    }

    #[test]
    fn undo_goes_back_to_the_value_before_all_of_it() {
        let bench = Bench::new();
        let id = bench.set("rps eth0/rx-0 = 4");
        assert_eq!(bench.reapply(&id, &bench.host), Reapply::Holds);
        bench.write(RPS, "40");
        let (history, newer) = bench.open(&id);
        let due = only(preview_reapply(&history, &newer, &bench.host, &model()));
        assert_eq!(due, Reapply::Due { was: "6".into() });
        assert_eq!((bench.read(RPS).as_str(), bench.open(&id).0), ("40", history), "nothing was done");
        assert_eq!(bench.reapply(&id, &bench.host), Reapply::Reapplied { was: "6".into() });
        assert_eq!((bench.read(RPS).as_str(), bench.live(&id)), ("10", Live::Kept));
        let undo = bench.undo(&id);
        assert!(undo.is_clean() && undo.closed);
        assert_eq!(bench.read(RPS), "3");
    }

    /// The value that a reapply wrote over comes back: whoever set it means it.
    #[test]
    fn a_strangers_value_that_comes_back_is_left_alone() {
        let bench = Bench::new();
        let id = bench.set("rps eth0/rx-0 = 4");
        bench.write(RPS, "40");
        bench.reapply(&id, &bench.host);
        bench.write(RPS, "40");
        assert_eq!(bench.live(&id), Live::Drifted { value: "6".into() });
        let undo = bench.undo(&id);
        assert_eq!(undo.outcomes[0].outcome, Outcome::Drift { live: "6".into() });
        assert_eq!(bench.read(RPS), "40");
    }

    /// A part of what was asked for, as a write that is cut short leaves it, may be a stranger's value
    /// as well: then it is the stranger's.
    #[test]
    fn a_reapply_that_was_killed_before_its_write_leaves_the_strangers_value() {
        let bench = Bench::new();
        let id = bench.set("rps eth0/rx-0 = 4-5");
        bench.write(RPS, "20");
        let ignore = Rule { suffix: "rps_cpus".into(), mishap: Mishap::Refuse(Cause::Errno(16)) };
        let busy = FlakyHost::new(host().with(RPS, "20"), vec![ignore], Fuse::new(None, || ()));
        assert!(matches!(bench.reapply(&id, &busy), Reapply::Failed { why } if why.contains("try again")));
        assert_eq!(bench.undo(&id).outcomes[0].outcome, Outcome::Drift { live: "5".into() });
        assert_eq!(bench.read(RPS), "20");
    }

    /// Of two interrupts one has ours and one the stranger's: neither is lost to undo.
    #[test]
    fn a_reapply_that_was_cut_short_is_put_back() {
        let mut bench = Bench::new();
        let id = bench.set("irq_affinity eth0/rx-1 = 4");
        IRQS.iter().for_each(|irq| bench.write(irq, "08"));
        let refuse = Rule { suffix: "26/smp_affinity".into(), mishap: Mishap::Refuse(Cause::Errno(28)) };
        let host = host().with(IRQS[0], "08").with(IRQS[1], "08");
        let refusing = FlakyHost::new(host, vec![refuse], Fuse::new(None, || ()));
        assert!(matches!(bench.reapply(&id, &refusing), Reapply::Failed { .. }));
        assert_eq!(refusing.read_text(IRQS[0]).as_deref(), Ok("10"));
        bench.host = self::host().with(IRQS[0], "10").with(IRQS[1], "08");
        assert!(bench.undo(&id).is_clean());
        assert_eq!(IRQS.map(|irq| bench.read(irq)), ["1", "2"]);
    }

    /// A stranger's mixture of our own values is known to be the stranger's once it was written over.
    #[test]
    fn a_strangers_mixture_of_our_values_is_not_ours() {
        let bench = Bench::new();
        let id = bench.set("irq_affinity eth0/rx-1 = 4");
        let mix = |bench: &Bench| bench.write(IRQS[1], "02");
        mix(&bench);
        assert_eq!(bench.reapply(&id, &bench.host), Reapply::Reapplied { was: "4;1".into() });
        mix(&bench);
        assert_eq!(bench.undo(&id).outcomes[0].outcome, Outcome::Drift { live: "4;1".into() });
    }

    #[test]
    fn the_original_value_in_the_place_of_ours_stays_the_original() {
        let bench = Bench::new();
        let id = bench.set("rps eth0/rx-0 = 4");
        bench.write(RPS, "3");
        assert_eq!(bench.live(&id), Live::Original);
        assert_eq!(bench.reapply(&id, &bench.host), Reapply::Reapplied { was: "0-1".into() });
        bench.write(RPS, "3");
        assert_eq!(bench.undo(&id).outcomes[0].outcome, Outcome::Unchanged);
    }

    #[test]
    fn a_newer_transaction_has_the_say_until_it_is_undone() {
        let bench = Bench::new();
        let older = bench.set("rps eth0/rx-0 = 4");
        let newer = bench.set("rps eth0/rx-0 = 5");
        bench.write(RPS, "40");
        assert_eq!(bench.live(&older), Live::Covered { by: newer.clone() });
        assert_eq!(bench.reapply(&older, &bench.host), Reapply::Covered { by: newer.clone() });
        assert_eq!(bench.reapply(&newer, &bench.host), Reapply::Reapplied { was: "6".into() });
        assert!(bench.undo(&newer).closed);
        assert_eq!((bench.live(&older), bench.read(RPS).as_str()), (Live::Kept, "10"));
    }

    #[test]
    fn a_cpu_that_went_offline_is_named() {
        let bench = Bench::new();
        let id = bench.set("rps eth0/rx-0 = 4-5");
        bench.write(RPS, "10");
        let mut now = model();
        now.cpus[5].online = false;
        let (_, newer) = bench.open(&id);
        let mut transaction = Transaction::resume(&bench.store, &id, Duration::ZERO).expect("resumed");
        let failed = only(transaction.reapply(&newer, &bench.host, &now));
        let why = "rps eth0/rx-0: CPU 5 is offline (online: 0-4,6)".to_owned();
        assert_eq!((failed, bench.read(RPS).as_str()), (Reapply::Failed { why }, "10"));
    }

    #[test]
    fn what_waits_or_was_stopped_is_left_alone() {
        let bench = Bench::new();
        let mut transaction = bench.begin(Some(Duration::from_secs(60)));
        let setting = "rps eth0/rx-0 = 4".parse().expect("a setting");
        transaction.set(&bench.host, &mut model(), &setting).expect("set");
        bench.write(RPS, "40");
        assert_eq!(transaction.reapply(&[], &bench.host, &model()), None, "unfinished");
        let id = transaction.id().to_owned();
        transaction.keep().expect("kept");
        let mut waiting = Transaction::resume(&bench.store, &id, Duration::ZERO).expect("resumed");
        assert_eq!(waiting.reapply(&[], &bench.host, &model()), None, "waits for its confirmation");
        assert_eq!(bench.read(RPS), "40");
    }
}
