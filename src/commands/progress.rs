//! Progress on a terminal; nothing in a pipe.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // Draws the bars of all other modules.

use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use rxlab_faces::report::text::clean;

/// A progress bar on standard error, which indicatif hides if that is not a terminal. Names in its message cannot control
/// the terminal.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// A bar of `length` steps with a message after it.
    pub(super) fn new(length: u64) -> Self {
        Self(ProgressBar::new(length).with_style(style("{bar:30} {eta} left, {msg}")))
    }

    pub(super) fn spinner() -> Self {
        Self(ProgressBar::new_spinner().with_style(style("{spinner} {msg}")))
    }

    pub(super) fn set_position(&self, position: u64) {
        self.0.set_position(position);
    }

    /// Sets the elapsed time of a [`clock`].
    pub(super) fn set_elapsed(&self, elapsed: Duration) {
        self.0.set_position(milliseconds(elapsed));
    }

    pub(super) fn set_message(&self, message: &str) {
        self.0.set_message(clean(message));
    }

    /// Shows lines above the bar.
    pub(super) fn set_lines(&self, lines: &[String]) {
        self.0.set_style(style("{msg}\n[{wide_bar}] {eta} left").progress_chars("=> "));
        let lines: Vec<String> = lines.iter().map(|line| clean(line)).collect();
        self.0.set_message(lines.join("\n"));
    }

    pub(super) fn tick(&self) {
        self.0.tick();
    }

    /// Keeps the bar's clock running between steps.
    pub(super) fn tick_every(&self, interval: Duration) {
        self.0.enable_steady_tick(interval);
    }

    pub(super) fn finish_and_clear(&self) {
        self.0.finish_and_clear();
    }
}

/// True if standard error is a terminal, so that a user may be watching.
pub(super) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// Waits for `length`, or until `stop` is set, with a bar on standard error if that is a terminal.
pub(super) fn wait(what: &str, length: Duration, stop: &AtomicBool) {
    let bar = clock(what, length);
    let begun = Instant::now();
    while begun.elapsed() < length && !stop.load(Ordering::SeqCst) {
        std::thread::sleep((length - begun.elapsed().min(length)).min(Duration::from_millis(100)));
        bar.set_elapsed(begun.elapsed());
    }
    bar.finish_and_clear();
}

/// A bar of `length` steps, headed by `what`, with the time left at the pace so far.
pub(super) fn bar(what: &str, length: u64) -> Bar {
    let bar = Bar(ProgressBar::new(length));
    bar.0.set_style(style("{msg} [{wide_bar}] {eta} left").progress_chars("=> "));
    bar.set_message(what);
    bar
}

/// A bar for a time of known length.
pub(super) fn clock(what: &str, length: Duration) -> Bar {
    let left = |state: &ProgressState, out: &mut dyn Write| {
        let left = state.len().unwrap_or_default().saturating_sub(state.pos());
        // A failed write only hides the text.
        let _ = write!(out, "{} s left", left.div_ceil(1000));
    };
    let bar = Bar(ProgressBar::new(milliseconds(length)));
    let style = style("{msg} [{wide_bar}] {left}").with_key("left", left);
    bar.0.set_style(style.progress_chars("=> "));
    bar.set_message(what);
    bar
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is valid")
}
