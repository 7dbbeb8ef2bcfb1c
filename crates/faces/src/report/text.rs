//! Text for a terminal, by default of 80 columns: wrapping, styles, and the [`Table`].
//!
//! Text is never truncated: it continues on the next line. Text is host names, kernel names and numbers, so one
//! character counts as one column. Styles are ANSI sequences; output goes through [`for_screen`], which drops them
//! where they are not wanted.

mod screen;
mod table;
mod tree;

use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use rxlab_base::grammar::terminal::shown;

pub use screen::{for_json, for_screen, is_odd};
pub use table::{Cell, Column, Table, left, right, wrapping};
pub use tree::Node;

/// Columns of a line without a terminal.
pub const WIDTH: usize = 80;

/// Minimum and maximum columns of the layout: with fewer, figures and words do not fit; with more, lines are hard to
/// read.
const BOUNDS: (usize, usize) = (40, 120);

/// Fewest lines of the layout.
const LEAST_ROWS: usize = 8;

/// Lines of a screen without a terminal, and at most: what fits a small one is read at a glance.
const HEIGHT: usize = 24;

static SIZE: OnceLock<(usize, usize)> = OnceLock::new();

/// Columns available to a line: [`WIDTH`], or the terminal's.
pub fn columns() -> usize {
    SIZE.get().map_or(WIDTH, |(columns, _)| *columns)
}

/// Lines of a screen, without that of the prompt.
pub fn rows() -> usize {
    SIZE.get().map_or(HEIGHT, |(_, rows)| *rows) - 1
}

/// Sets the layout of all text to a terminal of `columns` and `rows`. Only the first call has an effect; call it before
/// anything is printed.
pub fn fit_terminal(columns: usize, rows: usize) {
    let _ = SIZE.set((columns.clamp(BOUNDS.0, BOUNDS.1), rows.clamp(LEAST_ROWS, HEIGHT)));
}

pub const STRONG: Style = Style::new().bold();
pub const FAINT: Style = Style::new().dimmed();
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Results that are worse, or broken.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Results to check before relying on them.
pub const CAUTION: Style = AnsiColor::Yellow.on_default();
/// Remarks without a judgement.
pub const NOTE: Style = AnsiColor::Cyan.on_default();

/// `text` in `style`, then reset.
pub fn styled(style: Style, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{style}{text}{style:#}") }
}

/// Columns that `text` takes.
pub fn width(text: &str) -> usize {
    text.chars().count()
}

/// Columns that styled text takes, without its styles.
fn plain_width(text: &str) -> usize {
    width(&anstream::adapter::strip_str(text).to_string())
}

/// `text` without its styles, for tests; every line has to fit the width.
#[cfg(any(test, feature = "testing"))]
pub fn plain(text: &str) -> String {
    let text = anstream::adapter::strip_str(text).to_string();
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    text
}

/// `text` as one line that controls no terminal and looks like no other: [`shown`].
pub fn clean(text: &str) -> String {
    shown(text).into_owned()
}

/// Breaks `text` into lines of at most `width` columns, at white space. A longer word is broken after a comma (CPU
/// lists) if it has one, else after a slash (paths), else anywhere. Returns at least one line, maybe empty.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let words: Vec<String> = text.split_ascii_whitespace().map(clean).collect();
    wrap_clean(&words.join(" "), width)
}

/// The same of text that is clean already.
fn wrap_clean(text: &str, width: usize) -> Vec<String> {
    let room = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for mut rest in units(text) {
        if used > 0 && used + 1 + self::width(&rest) > room {
            lines.push(String::new());
            used = 0;
        }
        while self::width(&rest) > room {
            let (head, tail) = split_long(&rest, room);
            push(&mut lines, &head);
            lines.push(String::new());
            rest = tail;
        }
        if used > 0 {
            push(&mut lines, " ");
            used += 1;
        }
        push(&mut lines, &rest);
        used += self::width(&rest);
    }
    lines
}

/// A paragraph of full lines: `first` before the first line, an equal indent before the others. Ends with a line break.
pub fn paragraph(first: &str, text: &str) -> String {
    let indent = plain_width(first);
    let mut out = String::new();
    for (index, line) in wrap(text, columns().saturating_sub(indent)).iter().enumerate() {
        let before = if index == 0 { first.to_owned() } else { " ".repeat(indent) };
        out.push_str(format!("{before}{line}").trim_end());
        out.push('\n');
    }
    out
}

/// A [`paragraph`] for each of `texts`, all with the same `first`.
pub fn paragraphs(first: &str, texts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    texts.into_iter().map(|text| paragraph(first, text.as_ref())).collect()
}

/// A command line after `first`. If too long, it is broken before flags, with backslashes, so that a shell joins the
/// lines. A flag longer than a line is not broken.
pub fn command_lines(first: &str, command: &str) -> String {
    let indent = plain_width(first);
    let room = columns().saturating_sub(indent);
    let mut lines: Vec<String> = vec![String::new()];
    let mut parts = flags(command).into_iter().peekable();
    while let Some(part) = parts.next() {
        let last = lines.last_mut().expect("begins with one line");
        // All but the last part need room for a backslash.
        let taken = width(last) + width(&part) + if parts.peek().is_some() { 2 } else { 0 };
        if last.is_empty() || taken <= room {
            last.push_str(&part);
        } else {
            last.push_str(" \\");
            lines.push(format!(" {part}"));
        }
    }
    let blanks = " ".repeat(indent);
    lines
        .iter()
        .enumerate()
        .map(|(index, line)| format!("{}{}\n", if index == 0 { first } else { &blanks }, clean(line)))
        .collect()
}

/// A command line split before each flag and each `&&` outside quotes; all parts but the first begin with a blank.
fn flags(command: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    for (at, c) in command.char_indices() {
        is_quoted ^= c == '\'';
        let rest = &command[at..];
        if !is_quoted && (rest.starts_with(" --") || rest.starts_with(" && ")) {
            parts.push(String::new());
        }
        parts.last_mut().expect("begins with one part").push(c);
    }
    parts
}

/// Units that follow their figure as a word of its own; rates, such as `packets/s`, are known by their end.
const AFTER_FIGURES: [&str; 12] = ["%", "ns", "us", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB", "x"];

/// True if a word is the unit of the figure at the end of the text before it.
fn is_unit(before: &str, word: &str) -> bool {
    let unit = word.trim_end_matches(['.', ',', ';', ':', ')', ']']);
    before.ends_with(|c: char| c.is_ascii_digit()) && (AFTER_FIGURES.contains(&unit) || unit.ends_with("/s"))
}

/// Words; units stay with their figure: `51 %`, `6,239 packets/s` and `[-53, -49]` are never split. Neither is a command in
/// backquotes, which a reader copies.
pub(super) fn units(text: &str) -> Vec<String> {
    let has_pairs = text.matches('`').count().is_multiple_of(2);
    let mut units: Vec<String> = Vec::new();
    for word in text.split_ascii_whitespace() {
        let joins = units.last().is_some_and(|last| {
            let open = last.rfind('[').is_some_and(|at| !last[at..].contains(']'));
            let is_quoted = has_pairs && !last.matches('`').count().is_multiple_of(2);
            is_unit(last, word) || is_quoted || (open && last.ends_with(',') && word.contains(']'))
        });
        match units.last_mut() {
            Some(last) if joins => {
                last.push(' ');
                last.push_str(word);
            }
            _ => units.push(word.to_owned()),
        }
    }
    units
}

/// Columns of the longest unbroken part of clean `text`: a word, or an element of a comma-separated list.
fn longest_word(text: &str) -> usize {
    let parts = |unit: &String| unit.split_inclusive(',').map(|part| width(part.trim())).max();
    units(text).iter().filter_map(parts).max().unwrap_or(0)
}

fn push(lines: &mut [String], text: &str) {
    lines.last_mut().expect("wrap starts with one line").push_str(text);
}

/// Splits a word longer than `room` columns.
fn split_long(word: &str, room: usize) -> (String, String) {
    let head: String = word.chars().take(room).collect();
    let slash = || head.rfind('/').filter(|at| *at > 0);
    // A comma of a figure with a unit is in a number.
    let cut = head.rfind(' ').or(head.rfind(',')).or_else(slash).map_or(head.len(), |at| at + 1);
    (word[..cut].trim_end().to_owned(), word[cut..].trim_start().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{CAUTION, command_lines, paragraph, styled, wrap};

    #[test]
    fn a_command_is_broken_where_a_shell_joins_it() {
        assert_eq!(command_lines("next: ", "rxlab doctor"), "next: rxlab doctor\n");
        let head = styled(CAUTION, "next: ");
        let long = format!("rxlab doctor --for {} --nic eth0", "5".repeat(60));
        assert!(command_lines(&head, &long).ends_with("\\\n        --nic eth0\n"), "styles take no columns");
        let command =
            "rxlab trial run --set 'rfs_entries host = 32768' --set 'rfs eth0/rx-0 = --live 1' --live";
        assert_eq!(
            command_lines("next: ", command),
            "next: rxlab trial run --set 'rfs_entries host = 32768' \\\n        --set 'rfs eth0/rx-0 = --live 1' --live\n"
        );
    }

    #[test]
    fn words_and_cpu_lists_break_where_a_reader_expects_it() {
        assert_eq!(wrap("the quick brown fox", 10), ["the quick", "brown fox"]);
        assert_eq!(wrap("0,2,4,6,8,10,12", 6), ["0,2,4,", "6,8,", "10,12"]);
        assert_eq!(wrap("cost 1,234,567 now", 10), ["cost", "1,234,567", "now"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("a/networking/scaling.rst", 20), ["a/networking/", "scaling.rst"]);
        assert_eq!(wrap("fell by 51 % [-53, -49] so", 12), ["fell by 51 %", "[-53, -49]", "so"]);
        assert_eq!(
            wrap("costs 157 us, 6,239 packets/s; 7 idle", 17),
            ["costs 157 us,", "6,239 packets/s;", "7 idle"]
        );
        assert_eq!(wrap("1,234 packets/s", 10), ["1,234", "packets/s"], "not within the number");
        assert_eq!(wrap("see `rxlab undo 7` first", 16), ["see", "`rxlab undo 7`", "first"]);
        assert_eq!(wrap("a ` b c", 3), ["a `", "b c"], "one backquote quotes nothing");
        assert_eq!(wrap("", 3), [""]);
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(wrap("a\u{1b}[31mb", 20), ["a\\u{1b}[31mb"]);
    }

    #[test]
    fn paragraphs_hang() {
        let text = "word ".repeat(30);
        let out = paragraph("note: ", &text);
        assert!(out.starts_with("note: word") && out.contains("\n      word"));
        assert!(out.lines().all(|line| line.len() <= 80));
    }

    /// Regression: continued lines were indented by the length of the label's escape codes.
    #[test]
    fn styles_do_not_count_as_indent() {
        let text = "word ".repeat(30);
        let styled = paragraph(&format!("{} ", styled(CAUTION, "lost:")), &text);
        assert_eq!(anstream::adapter::strip_str(&styled).to_string(), paragraph("lost: ", &text));
    }
}
