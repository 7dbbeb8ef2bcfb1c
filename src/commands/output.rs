//! Standard output and standard error: the one way from a command to the terminal.
//!
//! Names and values from elsewhere cannot control the terminal ([`for_screen`]), and a closed pipe does not change the
//! exit code: the rest of the output is dropped. clippy bans direct use of the streams elsewhere.

#![allow(clippy::disallowed_methods)] // Opens the streams for all other modules.

use std::io::{self, IsTerminal, Write};

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use serde::Serialize;

use crate::commands::Global;
use crate::error::{CommandError, Result};
use rxlab_base::grammar::terminal::shown;
use rxlab_faces::report::text::{columns, for_json, for_screen, is_odd, paragraph, paragraphs};

/// Standard output: JSON with `--json`, else text. All output must go through this module.
pub(crate) fn stdout(global: &Global) -> Output {
    if global.json { json_stdout() } else { text_stdout() }
}

/// Standard output for JSON, even without `--json`.
pub(crate) fn json_stdout() -> Output {
    Output::new(io::stdout(), Form::Json)
}

/// Standard output for text, even with `--json`.
pub(crate) fn text_stdout() -> Output {
    Output::new(io::stdout(), Form::Text { styles: has_colours() })
}

/// Standard output for lines without styles of ours: every name in them is kept apart from every other.
pub(crate) fn plain_stdout() -> Output {
    Output::new(io::stdout(), Form::Plain)
}

/// Prints an error to standard error: each message and hint on a line of its own, or, on a terminal, on lines that do not
/// break words.
pub(crate) fn complain(error: &CommandError) {
    // If even standard error is closed, nothing can be reported.
    let _ = try_to_complain(error);
}

/// The same, for what must not be lost.
pub(crate) fn try_to_complain(error: &CommandError) -> io::Result<()> {
    let text = if io::stderr().is_terminal() {
        let message = paragraph("rxlab: ", &shown(&error.message));
        message + &paragraphs("  hint: ", error.hints.iter().map(|hint| shown(hint)))
    } else {
        format!("rxlab: {error}\n")
    };
    let mut out = stderr();
    out.write_all(text.as_bytes())?;
    if out.is_closed() { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
}

/// Prints clap's styled error: as it is, or, on a terminal, on lines that fit it.
pub(crate) fn complain_of_usage(text: &str) {
    let text = if io::stderr().is_terminal() { narrowed(text, columns()) } else { text.to_owned() };
    let _ = stderr().write_all(text.as_bytes());
}

/// Breaks lines wider than `columns` between words; what continues a line is indented by two more. Styles take no columns.
fn narrowed(text: &str, columns: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let mut used = 0;
        for (index, word) in line.split(' ').enumerate() {
            let taken = strip_str(word).to_string().chars().count();
            if index > 0 && used > indent && used + 1 + taken > columns {
                out += &format!("\n{:1$}", "", indent + 2);
                used = indent + 2;
            } else if index > 0 {
                out.push(' ');
                used += 1;
            }
            out += word;
            used += taken;
        }
        out.push('\n');
    }
    out
}

/// Standard error, filtered as standard output is.
pub(crate) fn stderr() -> Output {
    let styles = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
    Output::new(io::stderr(), Form::Text { styles })
}

/// Prints a value: as JSON with `--json`, else its text.
pub(crate) fn print(global: &Global, value: &impl Serialize, text: impl FnOnce() -> String) -> Result {
    if global.json {
        return json(value);
    }
    let mut out = text_stdout();
    out.write_all(text().as_bytes())?;
    Ok(out.flush()?)
}

/// Prints a value as JSON. Its shape is the type's `Serialize`, with its own `schema` field; nothing is added here.
pub(crate) fn json(value: &impl Serialize) -> Result {
    let text = serde_json::to_string_pretty(value).map_err(|error| cannot_write(&error))?;
    let mut out = json_stdout();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Prints one of several values, and flushes, because a program may be waiting for it: as a line of JSON with `--json`,
/// else its text. True once the pipe is closed: the caller should end then.
pub(crate) fn line(global: &Global, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<bool> {
    let mut out = stdout(global);
    if global.json {
        writeln!(out, "{}", json_line(value)?)?
    } else {
        out.write_all(text().as_bytes())?
    }
    out.flush()?;
    Ok(out.is_closed())
}

/// A value as JSON in one line.
pub(crate) fn json_line(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| cannot_write(&error))
}

fn cannot_write(error: &serde_json::Error) -> CommandError {
    CommandError::failed(format!("cannot write JSON: {error}"))
}

/// Fits the text layout to the terminal on standard output, if there is one.
pub(crate) fn fit_terminal() {
    if let Ok(size) = rustix::termios::tcgetwinsize(io::stdout()) {
        // A terminal that does not know its size reports 0.
        if size.ws_col > 0 && size.ws_row > 0 {
            rxlab_faces::report::text::fit_terminal(size.ws_col.into(), size.ws_row.into());
        }
    }
}

/// True if a user can read standard output and answer on standard input.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// True if standard output shows colours and the user wants them (`NO_COLOR`).
pub(crate) fn has_colours() -> bool {
    AutoStream::choice(&io::stdout()) != ColorChoice::Never
}

/// Returns an error if standard output would change `text`, which a program is going to read.
pub(crate) fn check_passes(what: &str, text: &str) -> Result {
    if text.contains(is_odd) {
        Err(CommandError::usage(format!(
            "{what} has characters that control a terminal or look like others, and is not printed"
        ))
        .hint("write it into a file with -o, or print it with --json"))
    } else {
        Ok(())
    }
}

/// A stream that filters line by line.
pub(crate) struct Output {
    stream: Box<dyn Write>,
    form: Form,
    /// Bytes of the unfinished line.
    rest: Vec<u8>,
    is_closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text {
        styles: bool,
    },
    /// Text without styles: what looks like one is of a name.
    Plain,
    Json,
}

impl Output {
    fn new(stream: impl Write + 'static, form: Form) -> Self {
        Self { stream: Box::new(stream), form, rest: Vec::new(), is_closed: false }
    }

    /// True once a write has found the pipe closed. Commands that print without end, and do nothing else, exit then.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn pass(&mut self, act: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        match act(&mut self.stream) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            done => done,
        }
    }

    /// Writes out the first `length` bytes, filtered.
    fn pass_first(&mut self, length: usize) -> io::Result<()> {
        let rest = self.rest.split_off(length);
        let whole = std::mem::replace(&mut self.rest, rest);
        let text = String::from_utf8_lossy(&whole);
        let filtered = match self.form {
            Form::Text { styles } => for_screen(&text, styles),
            Form::Plain => text.split_inclusive('\n').map(shown_line).collect::<String>().into(),
            Form::Json => for_json(&text),
        };
        self.pass(|stream| stream.write_all(filtered.as_bytes()))
    }
}

fn shown_line(line: &str) -> String {
    match line.strip_suffix('\n') {
        Some(line) => shown(line).into_owned() + "\n",
        None => shown(line).into_owned(),
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        if let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') {
            // None of our own sequences spans a line break.
            self.pass_first(self.rest.len() - bytes.len() + end + 1)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_first(self.rest.len())?;
        self.pass(|stream| stream.flush())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Text without a final line break. Commands that must know whether it was written flush themselves.
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::{Form, Output, check_passes, narrowed};

    /// Accepts `room` bytes, then fails with `then`.
    #[derive(Clone)]
    struct Pipe {
        taken: Arc<Mutex<Vec<u8>>>,
        room: usize,
        then: io::ErrorKind,
    }

    impl Pipe {
        fn new(room: usize, then: io::ErrorKind) -> Self {
            Self { taken: Arc::default(), room, then }
        }

        fn text(&self) -> String {
            String::from_utf8(self.taken.lock().expect("taken").clone()).expect("text")
        }
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut taken = self.taken.lock().expect("taken");
            let length = bytes.len().min(self.room - taken.len());
            taken.extend_from_slice(&bytes[..length]);
            if length == 0 && !bytes.is_empty() { Err(self.then.into()) } else { Ok(length) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const PLAIN: Form = Form::Text { styles: false };

    #[test]
    fn a_long_error_continues_below_its_text() {
        let error = "\u{1b}[1merror:\u{1b}[0m invalid value '5' for '--for'\n\n  tip: write 5s\n";
        assert_eq!(
            narrowed(error, 23),
            "\u{1b}[1merror:\u{1b}[0m invalid value\n  '5' for '--for'\n\n  tip: write 5s\n"
        );
        assert_eq!(narrowed("  a-long-word b", 6), "  a-long-word\n    b\n");
    }

    #[test]
    fn sequences_in_pieces_are_filtered_whole() {
        let pipe = Pipe::new(1000, io::ErrorKind::Other);
        let mut out = Output::new(pipe.clone(), PLAIN);
        for piece in ["a\u{1b}", "[1mb\u{1b}", "]0;\n", "c\u{1b}[0m", "d"] {
            write!(out, "{piece}").expect("written");
        }
        assert_eq!(pipe.text(), "ab\\u{1b}]0;\n");
        drop(out);
        assert_eq!(pipe.text(), "ab\\u{1b}]0;\ncd");
    }

    #[test]
    fn a_closed_pipe_takes_everything_and_a_full_disk_is_an_error() {
        let pipe = Pipe::new(3, io::ErrorKind::BrokenPipe);
        let mut out = Output::new(pipe.clone(), Form::Json);
        assert!(!out.is_closed());
        writeln!(out, "abcdef").and_then(|()| writeln!(out, "more")).and_then(|()| out.flush()).expect("ok");
        assert!(out.is_closed());
        drop(out);
        assert_eq!(pipe.text(), "abc");
        let mut out = Output::new(Pipe::new(3, io::ErrorKind::StorageFull), PLAIN);
        assert_eq!(writeln!(out, "abcdef").expect_err("full").kind(), io::ErrorKind::StorageFull);
        assert!(!out.is_closed());
    }

    #[test]
    fn text_for_programs_passes_unchanged_or_is_refused() {
        assert!(check_passes("the script", "rps 'e\u{fc}0'\n\tx\n").is_ok());
        let error = check_passes("the script", "rps 'e\u{1b}0'\n").expect_err("refused");
        assert!(error.message.starts_with("the script has characters that"));
    }
}
