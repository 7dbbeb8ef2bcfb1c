//! Foreign values in place of ours, set again and then undone.

use std::time::Duration;

use super::{Reapplied, Reapply, preview_reapply};
use crate::apply::testbed::{RPS, begin, flaky, resume, setting};
use crate::apply::{Live, Undo, status};
use crate::journal::{History, Outcome, Part, Store};
use crate::knob::testbed::{model, with_rules};
use rxlab_sys::{Cause, Fault, Host, RecordedHost};

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
        let (state, store) = Store::scratch();
        Self { _state: state, store, host: host() }
    }

    fn set(&self, text: &str) -> String {
        let transaction = begin(&self.store, None);
        let id = transaction.id().to_owned();
        transaction.apply(&self.host, &model(), &[setting(text)], &false.into()).expect("set");
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
        only(resume(&self.store, id).reapply(&newer, host, &model()))
    }

    fn undo(&self, id: &str) -> Undo {
        resume(&self.store, id).undo(&self.host, &model())
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

/// If a value that reapply overwrote returns, it was set on purpose.
#[test]
fn a_strangers_value_that_comes_back_is_left_alone() {
    let bench = Bench::new();
    let id = bench.set("rps eth0/rx-0 = 4");
    bench.write(RPS, "40");
    bench.reapply(&id, &bench.host);
    bench.write(RPS, "40");
    assert_eq!(bench.live(&id), Live::Drifted { value: "6".into(), changed: Vec::new() });
    let undo = bench.undo(&id);
    assert_eq!(undo.outcomes[0].outcome, Outcome::Drift { live: "6".into(), fresh: false });
    assert_eq!(bench.read(RPS), "40");
}

/// A part of the wanted value, as left by an interrupted write, may also be a foreign value: then it is
/// treated as foreign.
#[test]
fn a_reapply_that_was_killed_before_its_write_leaves_the_strangers_value() {
    let bench = Bench::new();
    let id = bench.set("rps eth0/rx-0 = 4-5");
    bench.write(RPS, "20");
    let busy = flaky("rps_cpus", Fault::Refuse(Cause::Errno(16)), host().with(RPS, "20"));
    assert!(matches!(bench.reapply(&id, &busy), Reapply::Failed { why } if why.contains("try again")));
    assert_eq!(bench.undo(&id).outcomes[0].outcome, Outcome::Drift { live: "5".into(), fresh: false });
    assert_eq!(bench.read(RPS), "20");
}

/// Of two interrupts, one has our value and one a foreign value: undo loses neither.
#[test]
fn a_reapply_that_was_cut_short_is_put_back() {
    let mut bench = Bench::new();
    let id = bench.set("irq_affinity eth0/rx-1 = 4");
    IRQS.iter().for_each(|irq| bench.write(irq, "08"));
    let host = host().with(IRQS[0], "08").with(IRQS[1], "08");
    let refusing = flaky("26/smp_affinity", Fault::Refuse(Cause::Errno(28)), host);
    assert!(matches!(bench.reapply(&id, &refusing), Reapply::Failed { .. }));
    assert_eq!(refusing.read_text(IRQS[0]).as_deref(), Ok("10"));
    bench.host = self::host().with(IRQS[0], "10").with(IRQS[1], "08");
    assert!(bench.undo(&id).is_clean());
    assert_eq!(IRQS.map(|irq| bench.read(irq)), ["1", "2"]);
}

/// A foreign value that was overwritten and returns is left alone, of one interrupt as of all.
#[test]
fn a_strangers_interrupt_that_comes_back_is_left_alone() {
    let bench = Bench::new();
    let id = bench.set("irq_affinity eth0/rx-1 = 4");
    bench.write(IRQS[1], "20");
    assert_eq!(bench.reapply(&id, &bench.host), Reapply::Reapplied { was: "4;5".into() });
    bench.write(IRQS[1], "20");
    let part = |number: u32, value: &str| Part { part: format!("interrupt {number}"), value: value.into() };
    let (restored, left) = (vec![part(25, "0")], vec![part(26, "5")]);
    assert_eq!(
        bench.undo(&id).outcomes[0].outcome,
        Outcome::RestoredInPart { restored, left, inherited: Vec::new() }
    );
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
    let failed = only(resume(&bench.store, &id).reapply(&newer, &bench.host, &now));
    let why = "rps eth0/rx-0: CPU 5 is offline (online: 0-4,6)".to_owned();
    assert_eq!((failed, bench.read(RPS).as_str()), (Reapply::Failed { why }, "10"));
}

#[test]
fn what_waits_or_was_stopped_is_left_alone() {
    let bench = Bench::new();
    let mut transaction = begin(&bench.store, Some(Duration::from_secs(60)));
    transaction.set(&bench.host, &mut model(), &setting("rps eth0/rx-0 = 4")).expect("set");
    bench.write(RPS, "40");
    assert_eq!(transaction.reapply(&[], &bench.host, &model()), None, "unfinished");
    let id = transaction.id().to_owned();
    transaction.keep().expect("kept");
    let reapplied = resume(&bench.store, &id).reapply(&[], &bench.host, &model());
    assert_eq!(reapplied, None, "waits for its confirmation");
    assert_eq!(bench.read(RPS), "40");
}

/// A trial has flipped back and the user enabled it again. An existing flow rule, on a driver that keeps
/// rules even so, once blocked disabling it; a newer rule does block it.
#[test]
fn rules_from_before_do_not_keep_their_switch_on() {
    let mut bench = Bench::new();
    let mut transaction = begin(&bench.store, None);
    let id = transaction.id().to_owned();
    let setting = setting("ntuple eth0 = on");
    transaction.set(&with_rules(false, &[7]), &mut model(), &setting).expect("set");
    let on = with_rules(true, &[7]);
    transaction.set_back(&on, &mut model(), "ntuple", &setting.target).expect("set back");
    transaction.keep().expect("kept");
    bench.host = with_rules(true, &[7, 9]);
    assert!(
        matches!(bench.reapply(&id, &bench.host), Reapply::Failed { why } if why.ends_with("rule-9 = none`"))
    );
    bench.host = with_rules(true, &[7]);
    let (history, newer) = bench.open(&id);
    let due = only(preview_reapply(&history, &newer, &bench.host, &model()));
    assert_eq!(due, Reapply::Due { was: "on".into() });
    assert_eq!(bench.reapply(&id, &bench.host), Reapply::Reapplied { was: "on".into() });
    assert_eq!(bench.live(&id), Live::Kept);
}
