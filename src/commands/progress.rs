//! Progress on a terminal, silence in a pipe.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Waits for `length`, or until `stop` is set, with a bar on standard error; without one when that is
/// no terminal.
pub(super) fn wait(what: &str, length: Duration, stop: &AtomicBool) {
    let bar = bar(what, u64::try_from(length.as_millis()).unwrap_or(u64::MAX));
    let begun = Instant::now();
    while begun.elapsed() < length && !stop.load(Ordering::SeqCst) {
        std::thread::sleep((length - begun.elapsed().min(length)).min(Duration::from_millis(100)));
        bar.set_position(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
    }
    bar.finish_and_clear();
}

/// A bar of `length` steps, headed by `what`. indicatif hides it when standard error is no terminal.
pub(super) fn bar(what: &str, length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template("{msg:40} [{bar:24}] {elapsed}")
        .expect("the template is valid")
        .progress_chars("=> ");
    bar.set_style(style);
    bar.set_message(what.to_owned());
    bar
}
