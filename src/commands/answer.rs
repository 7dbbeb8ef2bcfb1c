//! Lines that a user types in answer to a question: none that was typed or pasted before it, and none of a paste.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{QueueSelector, tcflush};

/// Input that follows a line within this time was pasted with it: no hand is that fast.
const PASTE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// One line was typed; without its line feed.
    Line(String),
    /// Several lines arrived at once. All of them are dropped.
    Paste,
    /// It has ended: no more lines will come.
    Ended,
    /// Nothing within the time.
    Nothing,
}

/// Drops what was typed on the terminal before a question.
pub(super) fn discard_earlier() {
    // Fails if standard input is no terminal: then the caller asks nothing.
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
}

/// Waits at most `patience` for a line. A signal ends the wait.
pub(super) fn next_event(input: impl AsFd, patience: Duration) -> Event {
    let mut bytes = [0; 4096];
    if !has_input(&input, patience) {
        return Event::Nothing;
    }
    // A terminal gives one line at a time.
    let length = match rustix::io::read(&input, &mut bytes) {
        Ok(length) if length > 0 => length,
        Err(Errno::INTR) => return Event::Nothing,
        Ok(_) | Err(_) => return Event::Ended,
    };
    let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    let mut is_paste = line.contains('\n');
    while has_input(&input, PASTE) && rustix::io::read(&input, &mut bytes).is_ok_and(|length| length > 0) {
        is_paste = true;
    }
    if is_paste { Event::Paste } else { Event::Line(line.to_owned()) }
}

/// True if reading would not block: there is input, or it has ended.
fn has_input(input: impl AsFd, patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).ok();
    let mut polled = [PollFd::new(&input, PollFlags::IN)];
    match poll(&mut polled, patience.as_ref()) {
        Ok(ready) => ready > 0,
        // The next read returns any other error.
        Err(errno) => errno != Errno::INTR,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::{Event, next_event};

    #[test]
    fn a_line_differs_from_the_end_and_from_no_input() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        assert_eq!(next_event(&reader, Duration::from_millis(1)), Event::Nothing);
        let patience = Duration::from_secs(60);
        for (typed, line) in [("\n", ""), ("ip route show\r\n", "ip route show")] {
            writer.write_all(typed.as_bytes()).expect("written");
            assert_eq!(next_event(&reader, patience), Event::Line(line.to_owned()));
        }
        drop(writer);
        assert_eq!(next_event(&reader, patience), Event::Ended);
    }

    /// An empty line in a pasted text is no Enter.
    #[test]
    fn lines_that_arrive_together_are_a_paste() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        for pasted in ["\nip route show\n", "ip route show\n\n", "\n\n"] {
            writer.write_all(pasted.as_bytes()).expect("written");
            assert_eq!(next_event(&reader, Duration::from_secs(60)), Event::Paste);
            assert_eq!(next_event(&reader, Duration::ZERO), Event::Nothing, "dropped as a whole");
        }
    }
}
