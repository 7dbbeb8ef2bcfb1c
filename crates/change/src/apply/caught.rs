//! Panics as errors, where values are already set: an undo goes on with the next value.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The result of `act`, or the message of its panic. Whatever `act` was changing must be readable again from the machine
/// or the journal. Other unwinding passes: it has no message.
pub(super) fn caught<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        match text.or_else(|| payload.downcast_ref::<&str>().copied()) {
            Some(text) => format!("internal error: {text}"),
            None => resume_unwind(payload),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::caught;
    use crate::apply::testbed::{RPS, begin, resume, set, setting};
    use crate::journal::Store;
    use crate::knob::testbed::model;
    use rxlab_sys::{Failpoint, FlakyHost, Host, RecordedHost};

    /// A machine that panics at its operation `at`.
    fn machine(mask: &str, at: u64) -> FlakyHost<RecordedHost> {
        let fuse = Failpoint::new(Some(at), || panic!("blown"));
        FlakyHost::new(RecordedHost::new().with(RPS, mask), Vec::new(), fuse)
    }

    #[test]
    fn values_are_restored_after_a_panic_at_any_operation() {
        for at in 1..8 {
            let (_state, store) = Store::scratch();
            let id = set(&store, &machine("3\n", 0), &["rps eth0/rx-0 = 4"]);
            let host = machine("10\n", at);
            let first = resume(&store, &id).undo(&host, &model());
            if !first.closed {
                assert!(first.has_failed(), "{first:?}");
                assert!(resume(&store, &id).undo(&host, &model()).closed, "the next attempt, {at}");
            }
            assert_eq!(host.read_text(RPS).as_deref().map(str::trim), Ok("3"), "{at}");
        }
    }

    #[test]
    fn an_apply_that_panics_is_rolled_back() {
        for at in 1..5 {
            let (_state, store) = Store::scratch();
            let host = machine("3\n", at);
            let settings = [setting("rps eth0/rx-0 = 4")];
            if let Err(failure) = begin(&store, None).apply(&host, &model(), &settings, &false.into()) {
                assert!(failure.error.to_string().contains("blown"), "{}", failure.error);
                assert_eq!(host.read_text(RPS).as_deref().map(str::trim), Ok("3"), "{at}");
            }
        }
    }

    #[test]
    fn a_panic_is_an_error_with_its_message() {
        assert_eq!(caught(|| 1), Ok(1));
        let at = 3;
        assert_eq!(caught(|| panic!("at {at}")), Err::<(), _>("internal error: at 3".to_owned()));
        let passed = std::panic::catch_unwind(|| caught(|| std::panic::resume_unwind(Box::new(1))));
        assert!(passed.is_err());
    }
}
