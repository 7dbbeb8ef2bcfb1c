//! The way back: every target of a transaction to the value it had before the first change.
//!
//! Idempotent: what was put back once is not touched again, and a process killed in the middle is
//! followed by the next one from the journal alone.

use std::borrow::Cow;

use serde::Serialize;

use super::beside;
use super::check::device_of;
use crate::host::Host;
use crate::journal::{Beside, Journal, JournalError, Outcome, Touched};
use crate::knob::{self, Knob, KnobError};
use crate::model::{DeviceAddress, Model, NicKind};
use crate::plan::Target;

/// What was found and done about one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UndoOutcome {
    /// Which knob.
    pub knob: String,
    /// On what, by the names of now where the device is still there.
    pub target: Target,
    /// The value to go back to.
    pub original: String,
    /// The last value that the transaction had asked for.
    pub wanted: String,
    /// What was found and done.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Whether the user should look: the value is not the original one and was not expected to go.
    pub trouble: bool,
}

/// The result of undoing one transaction.
#[derive(Debug)]
pub struct Undo {
    /// Which transaction.
    pub id: String,
    /// Each target that was not settled before, in the order of undoing.
    pub outcomes: Vec<UndoOutcome>,
    /// Whether nothing is left to undo.
    pub closed: bool,
    /// The journal could not be written. The outcomes hold all the same; undoing again will find
    /// nothing to do.
    pub journal_error: Option<JournalError>,
}

impl Undo {
    /// Whether every value is the original one, or went with its device.
    pub fn is_clean(&self) -> bool {
        self.journal_error.is_none() && self.outcomes.iter().all(|outcome| !outcome.trouble)
    }
}

/// The part of a model that holds when a transaction's network namespace is no more: the machine
/// and its hardware, which falls back to the initial namespace. A virtual interface of the same
/// name here is another one.
pub fn without_namespace(mut model: Model) -> Model {
    model.nics.retain(|nic| nic.kind == NicKind::Device);
    model
}

pub(super) fn run(mut journal: Journal, host: &dyn Host, model: &Model) -> Undo {
    let mut outcomes = Vec::new();
    let mut journal_error = None;
    let mut settled = true;
    // Queues come and go with the values that are put back.
    let mut model = Cow::Borrowed(model);
    for touched in journal.history().touched().into_iter().rev() {
        if touched.outcome.as_ref().is_some_and(Outcome::settles) {
            continue;
        }
        let target = present_target(host, &model, &touched);
        let outcome = match &target {
            Some(target) => put_back(&mut journal, host, &mut model, &touched, target),
            None => Outcome::Gone,
        };
        settled &= outcome.settles();
        if let Err(error) = journal.undone(touched.seq, &outcome) {
            journal_error.get_or_insert(error);
        }
        let trouble = match &outcome {
            Outcome::Unchanged | Outcome::Restored => false,
            // A virtual device takes its values with it when it goes, and so do processes and threads; hardware
            // should not go.
            Outcome::Gone => {
                let fleeting = knob::find(&touched.knob).is_some_and(|knob| knob.is_fleeting());
                !fleeting && !touched.device.as_ref().is_some_and(DeviceAddress::is_virtual)
            }
            Outcome::Altered { .. } | Outcome::Drift { .. } | Outcome::Failed { .. } => true,
        };
        outcomes.push(UndoOutcome {
            knob: touched.knob,
            target: target.unwrap_or(touched.target),
            original: touched.original,
            wanted: touched.wanted,
            outcome,
            trouble,
        });
    }
    let mut closed = false;
    if settled && journal_error.is_none() {
        match journal.close() {
            Ok(()) => closed = true,
            Err(error) => journal_error = Some(error),
        }
    }
    Undo { id: journal.id().to_owned(), outcomes, closed, journal_error }
}

/// The target by the names of now: the device is found by its lasting address. Another process with the same number
/// is not the target.
pub(super) fn present_target(host: &dyn Host, model: &Model, touched: &Touched) -> Option<Target> {
    match (touched.target.nic(), &touched.device) {
        (None, device) => {
            let is_same = device.is_none() || device_of(host, model, &touched.target) == *device;
            is_same.then(|| touched.target.clone())
        }
        (Some(_), Some(device)) => {
            let nic = model.nics.iter().find(|nic| nic.address == *device)?;
            Some(touched.target.of_nic(&nic.name))
        }
        (Some(_), None) => None,
    }
}

/// Whether `live` is our doing.
///
/// A value of somebody else that a reapply wrote over is not, should it come back: whoever set it once
/// more means it, as whoever sets any other value does. What such a write left half done is: of several
/// interrupts, some may have theirs still and some have ours.
fn is_ours(knob: &dyn Knob, touched: &Touched, live: &str) -> bool {
    let Touched { ours, foreign, unsettled, .. } = touched;
    let is_one_of = |values: &[String]| values.iter().any(|value| knob.same(value, live));
    if is_one_of(ours) {
        return true;
    }
    if is_one_of(foreign) {
        return false;
    }
    let found = if unsettled.is_empty() { ours.clone() } else { [&ours[..], foreign].concat() };
    knob.left_by(&found, unsettled, live)
}

fn put_back(
    journal: &mut Journal,
    host: &dyn Host,
    model: &mut Cow<'_, Model>,
    touched: &Touched,
    target: &Target,
) -> Outcome {
    let failed = |why: String| Outcome::Failed { why };
    let Some(knob) = knob::find(&touched.knob) else {
        return failed(format!("this version has no knob `{}`", touched.knob));
    };
    let live = match knob.read(host, model, target) {
        Ok(live) => live,
        // The queue went away, and the kernel frees what belonged to it; or the process or thread has ended.
        Err(KnobError::UnknownQueue { .. } | KnobError::UnknownNic { .. } | KnobError::NotThere { .. }) => {
            return Outcome::Gone;
        }
        Err(error) => return failed(error.to_string()),
    };
    let is_original = knob.same(&touched.original, &live);
    if is_original && is_whole(knob, touched) {
        return Outcome::Unchanged;
    }
    if !is_original && !is_ours(knob, touched, &live) {
        return Outcome::Drift { live };
    }
    let Some(armed) = journal.arm_restore(touched.seq) else {
        return failed("its intent is not in the journal".to_owned());
    };
    let beside = beside_values(journal, host, model, touched, is_original);
    if !is_original {
        let written = knob
            .write(host, model, target, &touched.original, &armed)
            .and_then(|()| knob.read(host, model, target));
        match written {
            Ok(kept) if knob.same(&touched.original, &kept) => {}
            Ok(kept) => return Outcome::Altered { kept },
            Err(error) => return failed(error.to_string()),
        }
    }
    let (Some(device), false) = (&touched.device, beside.is_empty()) else { return Outcome::Restored };
    *model = Cow::Owned(beside::rediscover(host, model));
    match beside::replay(host, model, device, &beside, &armed) {
        Ok(replayed) if is_original && replayed.is_empty() => Outcome::Unchanged,
        Ok(_) => Outcome::Restored,
        Err(error) => failed(error.to_string()),
    }
}

/// Whether a target that has its original value is all that undo wants: nothing beside it was thrown away that
/// was not set again.
///
/// So it is when our last write made it so, whole, as a trial does that flips back: that write has set again what
/// it threw away, and what differs since is somebody else's. After a write that was cut short, and after an undo
/// that noted what it found, it is not. Nor is it when the last write made something else of it: then another
/// program has brought the original back, or an undo that could note nothing, and either had new queues made.
fn is_whole(knob: &dyn Knob, touched: &Touched) -> bool {
    let by_us = knob.same(&touched.original, &touched.wanted);
    touched.beside.is_empty() || (touched.unsettled.is_empty() && touched.held.is_none() && by_us)
}

/// What has to be set again once the original value is back: what there was before our writes, or what somebody
/// else has made of it since. In the order of how much is known:
///
/// - What the last undo found and noted before its write counts: whatever is there now, its write left.
/// - Of a write of ours that was cut short, what is there now is what the driver happened to leave, and what was
///   before it counts.
/// - While the value is ours, what is there now is what others want, and is noted before it is thrown away.
/// - Where the original is back and nobody noted anything, what a new queue has was thrown away, and anything else
///   may be somebody's choice and stays.
fn beside_values(
    journal: &mut Journal,
    host: &dyn Host,
    model: &Model,
    touched: &Touched,
    is_original: bool,
) -> Vec<Beside> {
    if let Some(held) = &touched.held {
        return beside::overlaid(&touched.beside, held);
    }
    let (Some(device), true) = (&touched.device, touched.unsettled.is_empty()) else {
        return touched.beside.clone();
    };
    if is_original {
        return beside::made_anew(host, model, device, &touched.beside);
    }
    let held = beside::now(host, model, device, &touched.beside);
    // Its room was set aside with the intent. Where no room can be set aside, a full disk must not keep the
    // machine from being restored all the same.
    let _ = journal.holding(touched.seq, &held);
    beside::overlaid(&touched.beside, &held)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{ApplyError, BeginInfo, Transaction};
    use super::{Outcome, Undo};
    use crate::apply::covered_by;
    use crate::host::{Cause, FlakyHost, Fuse, Host, Mishap, RecordedHost, Rule};
    use crate::journal::{Disk, Store};
    use crate::knob::testbed::model;
    use crate::model::Model;
    use crate::units::IrqId;

    const RPS: &str = "sys/class/net/eth0/queues/rx-0/rps_cpus";
    const IRQ: &str = "proc/irq/24/smp_affinity";

    fn host() -> RecordedHost {
        RecordedHost::new().with(RPS, "3\n").with(IRQ, "01\n")
    }

    fn flaky(suffix: &str, mishap: Mishap, inner: RecordedHost) -> FlakyHost<RecordedHost> {
        FlakyHost::new(inner, vec![Rule { suffix: suffix.into(), mishap }], Fuse::new(None, || ()))
    }

    struct Bench {
        state: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Self {
            Self { state: tempfile::tempdir().expect("a temporary directory") }
        }

        fn store(&self) -> Store {
            Store::new(Disk::new(self.state.path()))
        }

        fn begin(&self) -> Transaction {
            let identity = model().identity;
            let root = Path::new("/");
            let info =
                BeginInfo { identity: &identity, root, netns: None, what: String::new(), confirm: None };
            Transaction::begin(&self.store(), info).expect("begun")
        }

        fn set(&self, host: &dyn Host, settings: &[&str]) -> String {
            let mut transaction = self.begin();
            for setting in settings {
                transaction.set(host, &mut model(), &setting.parse().expect("a setting")).expect("set");
            }
            let id = transaction.id().to_owned();
            transaction.keep().expect("kept");
            id
        }

        fn undo(&self, id: &str, host: &dyn Host, model: &Model) -> Undo {
            let resumed = Transaction::resume(&self.store(), id, std::time::Duration::ZERO).expect("resumed");
            resumed.undo(host, model)
        }
    }

    fn outcomes(undo: &Undo) -> Vec<Outcome> {
        undo.outcomes.iter().map(|outcome| outcome.outcome.clone()).collect()
    }

    /// Between apply and undo the interface got another name and its interrupt another number.
    #[test]
    fn the_device_is_found_by_its_lasting_address() {
        let bench = Bench::new();
        let id = bench.set(&host(), &["rps eth0/rx-0 = 4", "irq_affinity eth0/rx-0 = 5"]);
        let mut now = model();
        now.nics[0].name = "lan0".parse().expect("a name");
        now.nics[0].rx[0].irqs[0].number = IrqId(77);
        let rps = "sys/class/net/lan0/queues/rx-0/rps_cpus";
        let host =
            RecordedHost::new().with(rps, "10\n").with("proc/irq/77/smp_affinity", "20\n").with(IRQ, "ff");
        let undo = bench.undo(&id, &host, &now);
        assert!(undo.is_clean() && undo.closed, "{undo:?}");
        assert_eq!(host.read_text(rps).as_deref(), Ok("3"));
        assert_eq!(host.read_text("proc/irq/77/smp_affinity").as_deref(), Ok("1"));
        assert_eq!(host.read_text(IRQ).as_deref(), Ok("ff"), "another device has this number now");
        assert_eq!(undo.outcomes[1].target.to_string(), "lan0/rx-0");
    }

    #[test]
    fn hardware_that_is_gone_is_reported_and_a_virtual_interface_is_not() {
        let bench = Bench::new();
        let veth = "sys/class/net/veth0/queues/rx-0/rps_cpus";
        let host = host().with(veth, "0\n");
        let id = bench.set(&host, &["rps eth0/rx-0 = 4", "rps veth0/rx-0 = 4"]);
        let mut now = model();
        now.nics.clear();
        let undo = bench.undo(&id, &host, &now);
        assert_eq!(outcomes(&undo), [Outcome::Gone, Outcome::Gone]);
        assert_eq!(undo.outcomes.iter().map(|o| o.trouble).collect::<Vec<_>>(), [false, true]);
        assert!(undo.closed && !undo.is_clean());
    }

    /// CPU 1 was online at the time of the apply and is not at the time of the undo.
    #[test]
    fn a_value_that_the_kernel_alters_stays_open_and_is_tried_again() {
        let bench = Bench::new();
        let host = host();
        let id = bench.set(&host, &["rps eth0/rx-0 = 4"]);
        let host = flaky("rps_cpus", Mishap::Keep(b"1".to_vec()), host);
        let undo = bench.undo(&id, &host, &model());
        assert_eq!(outcomes(&undo), [Outcome::Altered { kept: "0".into() }]);
        assert!(!undo.closed);
        // Neither the original nor anything that was asked for, and still known as ours.
        let host = RecordedHost::new().with(RPS, "1\n");
        let undo = bench.undo(&id, &host, &model());
        assert_eq!((outcomes(&undo), undo.closed), (vec![Outcome::Restored], true));
    }

    #[test]
    fn what_is_settled_is_not_touched_again() {
        let bench = Bench::new();
        let host = host();
        let id = bench.set(&host, &["rps eth0/rx-0 = 4", "irq_affinity eth0/rx-0 = 5"]);
        let host = flaky("smp_affinity", Mishap::Refuse(Cause::Errno(16)), host);
        let undo = bench.undo(&id, &host, &model());
        assert!(
            matches!(&outcomes(&undo)[..], [Outcome::Failed { why }, Outcome::Restored] if why.contains("try again"))
        );
        // Somebody sets the very value that the transaction had set; it is theirs.
        let host = RecordedHost::new().with(RPS, "10\n").with(IRQ, "20\n");
        let undo = bench.undo(&id, &host, &model());
        assert_eq!((outcomes(&undo), undo.closed), (vec![Outcome::Restored], true));
        assert_eq!(host.read_text(RPS).as_deref(), Ok("10\n"));
    }

    #[test]
    fn dropped_cpus_are_an_error_that_names_them() {
        let bench = Bench::new();
        let host = flaky("rps_cpus", Mishap::Keep(b"10".to_vec()), host());
        let mut transaction = bench.begin();
        let error = transaction.set(&host, &mut model(), &"rps eth0/rx-0 = 4-5".parse().expect("a setting"));
        let error = error.expect_err("CPU 5 is dropped");
        assert!(matches!(error, ApplyError::NotKept { .. }));
        assert_eq!(
            error.to_string(),
            "rps eth0/rx-0 = 4-5: asked for 4-5, the kernel kept 4: it dropped CPU 5 (offline or isolated)"
        );
    }

    #[test]
    fn a_newer_transaction_on_the_same_target_covers_an_older_one() {
        let bench = Bench::new();
        let host = host();
        bench.set(&host, &["rps eth0/rx-0 = 4"]);
        let irq = bench.set(&host, &["irq_affinity eth0/rx-0 = 5"]);
        let rps = bench.set(&host, &["rps eth0/rx-0 = 5"]);
        let open = bench.store().open_of("/", "boot-1").expect("listed");
        assert_eq!(covered_by(&open[0].1, &open[1..]), Some(rps.as_str()));
        assert_eq!(covered_by(&open[1].1, &open[2..]), None, "{irq}");
    }

    /// Every container has an `eth0`: undoing in one once had to wait for undoing in the other.
    #[test]
    fn virtual_interfaces_of_two_namespaces_do_not_cover_each_other() {
        let bench = Bench::new();
        let host = host().with("sys/class/net/veth0/queues/rx-0/rps_cpus", "0\n");
        let set = |inode: Option<u64>, setting: &str| {
            let netns = inode.map(|inode| crate::journal::Namespace { path: "/run/netns/x".into(), inode });
            let identity = model().identity;
            let root = Path::new("/");
            let info = BeginInfo { identity: &identity, root, netns, what: String::new(), confirm: None };
            let mut transaction = Transaction::begin(&bench.store(), info).expect("begun");
            transaction.set(&host, &mut model(), &setting.parse().expect("a setting")).expect("set");
            transaction.keep().expect("kept");
        };
        set(Some(1), "rps veth0/rx-0 = 4");
        set(Some(2), "rps veth0/rx-0 = 5");
        set(Some(1), "rps eth0/rx-0 = 4");
        set(None, "rps eth0/rx-0 = 5");
        let open = bench.store().open_of("/", "boot-1").expect("listed");
        assert_eq!(covered_by(&open[0].1, &open[1..]), None);
        assert_eq!(covered_by(&open[2].1, &open[3..]), Some(open[3].0.as_str()), "hardware is one");
    }
}
