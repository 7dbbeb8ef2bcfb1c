//! Facts as cells: a value, or the word for its absence.

use crate::model::Fact;
use crate::report::text::{BAD, CAUTION, Cell, FAINT, paragraph};
use crate::units::CpuMask;

/// Broken facts in order of appearance.
#[derive(Default)]
pub(super) struct Footnotes(Vec<String>);

impl Footnotes {
    /// A fact as a cell: `show` of a known value, `-` if unsupported or not asked, `needs ...` if denied, or the number
    /// of a footnote if broken. `place` names the fact.
    pub(super) fn cell<T>(&mut self, fact: &Fact<T>, place: &str, show: impl FnOnce(&T) -> Cell) -> Cell {
        match fact {
            Fact::Known(value) => show(value),
            Fact::NotAsked | Fact::Unsupported => not_applicable(),
            Fact::Denied(_) => Cell::styled(CAUTION, self.word(fact, place, |_| String::new())),
            Fact::Broken(_) => Cell::styled(BAD, self.word(fact, place, |_| String::new())),
        }
    }

    /// The same without a style, for use inside a line.
    pub(super) fn word<T>(&mut self, fact: &Fact<T>, place: &str, show: impl FnOnce(&T) -> String) -> String {
        match fact {
            Fact::Known(value) => show(value),
            Fact::NotAsked => "not asked".to_owned(),
            Fact::Unsupported => "-".to_owned(),
            Fact::Denied(need) => format!("needs {need}"),
            Fact::Broken(why) => {
                let note = format!("{place}: {why}");
                // A fact shown twice has one note.
                let number = self.0.iter().position(|there| *there == note).unwrap_or(self.0.len());
                if number == self.0.len() {
                    self.0.push(note);
                }
                format!("broken [{}]", number + 1)
            }
        }
    }

    /// The notes, one paragraph each.
    pub(super) fn render(&self) -> String {
        let note = |(index, text): (usize, &String)| paragraph(&format!("[{}] ", index + 1), text);
        self.0.iter().enumerate().map(note).collect()
    }
}

/// CPUs that work is handed to; `off` if empty.
pub(super) fn mask(cpus: &CpuMask) -> Cell {
    if cpus.is_empty() { off() } else { cpus.to_string().into() }
}

/// Entries of a table; `off` if 0.
pub(super) fn entries(entries: &u32) -> Cell {
    if *entries == 0 { off() } else { entries.to_string().into() }
}

/// CPUs as ranges, or `none`.
pub(super) fn list(cpus: &CpuMask) -> String {
    if cpus.is_empty() { "none".to_owned() } else { cpus.to_string() }
}

/// `CPU 3` or `CPUs 0-3`.
pub(super) fn cpus_text(cpus: &CpuMask) -> String {
    format!("CPU{} {}", if cpus.len() == 1 { "" } else { "s" }, list(cpus))
}

/// Numbers as ranges, such as `40-43,77`; `none` if empty.
pub(super) fn ranges(numbers: impl IntoIterator<Item = u32>) -> String {
    let numbers: std::collections::BTreeSet<u32> = numbers.into_iter().collect();
    let numbers: Vec<u32> = numbers.into_iter().collect();
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    let text = runs.collect::<Vec<_>>().join(",");
    if text.is_empty() { "none".to_owned() } else { text }
}

pub(super) fn off() -> Cell {
    Cell::styled(FAINT, "off")
}

pub(super) fn not_applicable() -> Cell {
    Cell::styled(FAINT, "-")
}

#[cfg(test)]
mod tests {
    use super::{Footnotes, ranges};
    use crate::units::{Fact, Need};

    #[test]
    fn numbers_are_ranges() {
        assert_eq!(ranges([77, 41, 40, 42, 41, u32::MAX]), "40-42,77,4294967295");
        assert_eq!(ranges([]), "none");
    }

    #[test]
    fn every_kind_of_absence_is_a_word() {
        let mut notes = Footnotes::default();
        let mut word = |fact: Fact<u32>| notes.word(&fact, "x", u32::to_string);
        let broken = || Fact::Broken("`?` is not a number".into());
        let denied = Fact::Denied(Need::NetAdmin);
        let words = [Fact::Known(0), Fact::NotAsked, Fact::Unsupported, denied, broken(), broken()];
        let expected = ["0", "not asked", "-", "needs CAP_NET_ADMIN", "broken [1]", "broken [1]"];
        assert_eq!(words.map(&mut word), expected);
        assert_eq!(notes.render(), "[1] x: `?` is not a number\n");
    }
}
