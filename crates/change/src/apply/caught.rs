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

    #[test]
    fn a_panic_is_an_error_with_its_message() {
        assert_eq!(caught(|| 1), Ok(1));
        let at = 3;
        assert_eq!(caught(|| panic!("at {at}")), Err::<(), _>("internal error: at 3".to_owned()));
        let passed = std::panic::catch_unwind(|| caught(|| std::panic::resume_unwind(Box::new(1))));
        assert!(passed.is_err());
    }
}
