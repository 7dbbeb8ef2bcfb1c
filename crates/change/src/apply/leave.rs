//! Values set by another program inside a transaction: left alone, even if equal to a value that the
//! transaction itself had set.

use super::Transaction;
use super::locate::{is_as_old, object_of, was_made_again};
use super::undo::has_part_of_ours;
use crate::journal::{JournalError, Outcome};
use crate::knob::{self, Knob};
use rxlab_path::model::Model;
use rxlab_setting::Target;
use rxlab_sys::Host;

impl Transaction {
    /// Excludes a target from undo because another program set it to `live`. Undo by itself recognises this
    /// by the value alone, so it cannot detect a foreign value that equals one of ours. A value of which a part is
    /// ours is left to undo, which restores that part. The next write of
    /// this transaction to the target includes it again. A target that was never written, or that now
    /// belongs to another device, needs nothing.
    pub fn leave(
        &mut self,
        host: &dyn Host,
        model: &Model,
        knob: &str,
        target: &Target,
        live: &str,
    ) -> Result<(), JournalError> {
        let object = object_of(host, model, target);
        let touched = self.journal.history().touched();
        let Some(touched) = touched.into_iter().find(|t| t.is_of(knob, target, &object)) else {
            return Ok(());
        };
        // Its name moved to another object in the meantime: `live` may belong to either.
        if touched.object().inode() != object.inode() {
            return Ok(());
        }
        // Undo judges each part by itself.
        if knob::find(knob)
            .is_some_and(|knob| has_part_of_ours(knob, knob.site(host, model, target), &touched, live))
        {
            return Ok(());
        }
        let is_new = |knob: &dyn Knob| {
            knob.is_fresh(host, live)
                && !is_as_old(knob, knob.site(host, model, target), self.journal.history().began())
        };
        let is_fresh = knob::find(knob).is_some_and(is_new);
        // Undo restores values that the kernel reset with the queue.
        if is_fresh && was_made_again(host, &touched, target, self.journal.history()) {
            return Ok(());
        }
        let left = Outcome::Drift { live: live.to_owned(), fresh: is_fresh };
        if touched.outcome.as_ref() == Some(&left) {
            return Ok(());
        }
        self.journal.undone(touched.seq, &left)
    }
}

#[cfg(test)]
mod tests {
    use crate::apply::Transaction;
    use crate::apply::testbed::{begin, setting};
    use crate::journal::Store;
    use crate::knob::testbed::model;
    use rxlab_sys::{Host, RecordedHost};

    const RPS: [&str; 2] =
        ["sys/class/net/eth0/queues/rx-0/rps_cpus", "sys/class/net/eth0/queues/rx-1/rps_cpus"];

    /// `4` on both queues, then `5`, then back to the original on the first.
    #[test]
    fn what_is_left_is_not_put_back_even_where_it_is_one_of_our_values() {
        let (_state, store) = Store::scratch();
        let host = RecordedHost::new().with(RPS[0], "3\n").with(RPS[1], "3\n");
        let mut transaction = begin(&store, None);
        let target = "eth0/rx-0".parse().expect("a target");
        let leave = |transaction: &mut Transaction| {
            transaction.leave(&host, &model(), "rps", &target, "4").expect("noted");
            transaction.journal().history().records.len()
        };
        let before = transaction.journal().history().records.len();
        assert_eq!(leave(&mut transaction), before, "never written to");
        for text in ["rps eth0/rx-0 = 4", "rps eth0/rx-1 = 4", "rps eth0/rx-0 = 5"] {
            transaction.set(&host, &mut model(), &setting(text)).expect("set");
        }
        // CPU 4 again, which was ours.
        host.write(RPS[0], b"10").expect("written");
        let noted = leave(&mut transaction);
        assert_eq!(leave(&mut transaction), noted, "noted once");
        let undo = transaction.undo(&host, &model());
        assert!(undo.closed);
        assert_eq!(RPS.map(|path| host.read_text(path).expect("there")), ["10", "3"]);
    }
}
