//! One write: to the object that was found, whatever has its name by then, and only over the value that was seen.
//!
//! The kernel has no compare-and-write. A knob may have to read before it writes, so the last look comes after that: right
//! before the first operation that changes something.

use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

use super::locate::INTERFACES;
use crate::journal::Armed;
use crate::knob::{Knob, KnobError, group_directory_and_path};
use rxlab_path::model::Model;
use rxlab_setting::Target;
use rxlab_sys::{Action, Cause, Host, HostError, Operation};

/// A value that was seen, and where.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    /// Number of the object of the target ([`super::object_id`]).
    pub(super) object: Option<u64>,
    pub(super) value: &'a str,
}

/// Reason why a value was not set.
#[derive(Debug)]
pub(super) enum Unset {
    /// Its name leads to another object. Nothing was written.
    Another,
    /// It is another value by now. Nothing was written.
    Changed(String),
    /// It cannot be read. Nothing was written.
    Unreadable(KnobError),
    /// The write was refused, or what the kernel kept cannot be read.
    Failed(KnobError),
}

/// Writes `value` if the target still has what was seen, and returns what the kernel kept.
pub(super) fn set(
    knob: &dyn Knob,
    (host, model): (&dyn Host, &Model),
    (target, known): (&Target, Known<'_>),
    value: &str,
    armed: &Armed,
) -> Result<String, Unset> {
    let (pinned, target) = pin(host, target, known.object).map_err(|error| match error.cause {
        // ESTALE, or nothing has the name.
        Cause::Missing => Unset::Another,
        cause if cause == Errno::STALE.into() => Unset::Another,
        _ => Unset::Unreadable(knob.site(host, model, target).unreadable(&error)),
    })?;
    let host = pinned.as_deref().unwrap_or(host);
    let look = || match knob.read(knob.site(host, model, &target)) {
        Ok(now) if knob.same(known.value, &now) => Ok(()),
        Ok(now) => Err(Unset::Changed(now)),
        Err(error) => Err(Unset::Unreadable(error)),
    };
    let looking = LookingHost { host, look: &look, state: Mutex::new(State::New) };
    let written = knob.write(knob.site(&looking, model, &target), value, armed);
    if let State::Refused(unset) = looking.into_state() {
        return Err(unset);
    }
    written.and_then(|()| knob.read(knob.site(host, model, &target))).map_err(Unset::Failed)
}

type Pinned<'a> = (Option<Box<dyn Host + 'a>>, Target);

/// The machine with the directory of a target, and the target there.
fn pin<'a>(host: &'a dyn Host, target: &Target, object: Option<u64>) -> Result<Pinned<'a>, HostError> {
    let (directory, there) = match target {
        // The group of a unit is looked for once.
        Target::Cgroup(_) | Target::Unit(_) => match group_directory_and_path(host, target) {
            Ok((directory, path)) => {
                let there = Target::cgroup(&format!("{path}/")).unwrap_or_else(|| target.clone());
                (directory, there)
            }
            Err(_) => return Ok((None, target.clone())),
        },
        target => match target.nic() {
            Some(nic) => (format!("{INTERFACES}/{nic}"), target.clone()),
            None => return Ok((None, target.clone())),
        },
    };
    let Some(inode) = object else { return Ok((None, there)) };
    host.pinned(&directory, inode).map(|pinned| (pinned, there))
}

/// A machine on which a last look comes before the first change.
struct LookingHost<'a> {
    host: &'a dyn Host,
    look: &'a (dyn Fn() -> Result<(), Unset> + Sync),
    state: Mutex<State>,
}

enum State {
    New,
    Looked,
    Refused(Unset),
}

impl LookingHost<'_> {
    fn look(&self, operation: Operation, path: &str) -> Result<(), HostError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::New = *state {
            *state = (self.look)().map_or_else(State::Refused, |()| State::Looked);
        }
        match *state {
            State::Refused(_) => Err(HostError::new(operation, path, Errno::CANCELED)),
            _ => Ok(()),
        }
    }

    fn into_state(self) -> State {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for LookingHost<'_> {
    fn write(&self, path: &str, value: &[u8]) -> Result<(), HostError> {
        self.look(Operation::Write, path)?;
        self.host.write(path, value)
    }

    fn act(&self, action: &Action) -> Result<(), HostError> {
        self.look(Operation::Act, &action.path())?;
        self.host.act(action)
    }

    rxlab_sys::pass_on!([host] read, list, link, query, now_ns, inode, namespaces);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::{Known, Unset, set};
    use crate::apply::testbed::RPS;
    use crate::apply::{BeginInfo, Transaction};
    use crate::journal::{Intent, Store};
    use crate::knob;
    use crate::knob::testbed::model;
    use rxlab_sys::{Action, Host, HostError, Query, RecordedHost};

    /// Another program writes to a file right before its `at`th reading.
    struct Busy {
        host: RecordedHost,
        path: &'static str,
        at: u32,
        reads: AtomicU32,
    }

    impl Host for Busy {
        fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
            if path == self.path && self.reads.fetch_add(1, Ordering::Relaxed) + 1 == self.at {
                self.host.write(path, b"20\n")?;
            }
            self.host.read(path)
        }

        fn act(&self, action: &Action) -> Result<(), HostError> {
            self.host.act(action)
        }

        fn query(&self, query: &Query) -> Result<Vec<u8>, HostError> {
            self.host.query(query)
        }

        rxlab_sys::pass_on!([host] write, list, link, now_ns, inode, namespaces);
    }

    #[test]
    fn a_value_that_is_no_longer_the_one_seen_is_not_overwritten() {
        let (_state, store) = Store::scratch();
        let transaction = Transaction::begin_at(&store, BeginInfo::new(&model().identity), 0).expect("begun");
        let mut journal = transaction.journal;
        let armed = journal.arm(Intent::sample("rps", "eth0/rx-0", "0-1", "2")).expect("armed");
        let (knob, model) = (knob::find("rps").expect("a knob"), model());
        let target = "eth0/rx-0".parse().expect("a target");
        let said = |at: u32| {
            let host = RecordedHost::new().with(RPS, "3\n");
            let host = Busy { host, path: RPS, at, reads: AtomicU32::new(0) };
            let known = Known { object: None, value: "0-1" };
            let set = set(knob, (&host, &model), (&target, known), "2", &armed);
            (set, host.host.read_text(RPS).expect("there"))
        };
        let (refused, left) = said(1);
        assert!(matches!(refused, Err(Unset::Changed(now)) if now == "5"), "the last look");
        assert_eq!(left, "20\n");
        let (kept, _) = said(2);
        assert_eq!(kept.expect("written"), "5", "what is read back is said");
    }
}
