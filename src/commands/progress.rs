//! Progress on a terminal, silence in a pipe.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // Draws the bars of all others.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::report::text::clean;

/// A progress bar on standard error. Names in its message cannot steer the terminal.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// A bar of `length` steps with a message behind it; `None` where standard error is no terminal.
    pub(super) fn on_terminal(length: u64) -> Option<Self> {
        let bar = || ProgressBar::new(length).with_style(style("{bar:30} {msg}"));
        std::io::stderr().is_terminal().then(|| Self(bar()))
    }

    /// A bar of unknown length; `None` where standard error is no terminal.
    pub(super) fn spinner_on_terminal() -> Option<Self> {
        let bar = || ProgressBar::new_spinner().with_style(style("{spinner} {msg}"));
        std::io::stderr().is_terminal().then(|| Self(bar()))
    }

    pub(super) fn set_position(&self, position: u64) {
        self.0.set_position(position);
    }

    pub(super) fn set_message(&self, message: &str) {
        self.0.set_message(clean(message));
    }

    pub(super) fn tick(&self) {
        self.0.tick();
    }

    /// Lets the bar's clock run on between steps.
    pub(super) fn tick_every(&self, interval: Duration) {
        self.0.enable_steady_tick(interval);
    }

    pub(super) fn finish_and_clear(&self) {
        self.0.finish_and_clear();
    }
}

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
pub(super) fn bar(what: &str, length: u64) -> Bar {
    let bar = Bar(ProgressBar::new(length));
    bar.0.set_style(style("{msg:40} [{bar:24}] {elapsed}").progress_chars("=> "));
    bar.set_message(what);
    bar
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is valid")
}
