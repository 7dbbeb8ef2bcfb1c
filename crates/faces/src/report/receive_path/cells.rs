//! Facts as cells: a value, or the word for its absence.

use crate::report::text::{BAD, CAUTION, Cell, FAINT, paragraph};
use rxlab_base::units::CpuMask;
use rxlab_path::model::{Fact, Irq, Nic, Source};

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
            Fact::NotAsked => "not queried".to_owned(),
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
        self.0.iter().enumerate().map(|(index, text)| paragraph(&format!("[{}] ", index + 1), text)).collect()
    }
}

/// Name of a fact about an interrupt, after its file: `IRQ 24 smp_affinity_list`.
pub(super) fn irq_file(irq: &Irq, file: &str) -> String {
    format!("IRQ {} {file}", irq.number)
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

/// Items with equal keys together, in the order of the first of each.
pub(super) fn grouped<K: PartialEq, T>(items: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, item) in items {
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

pub(super) fn off() -> Cell {
    Cell::styled(FAINT, "off")
}

pub(super) fn not_applicable() -> Cell {
    Cell::styled(FAINT, "-")
}

/// Name of a source, after `known by`.
pub(super) fn words(source: Source) -> &'static str {
    match source {
        Source::Netlink => "the kernel (netdev netlink)",
        Source::MsiName => "the device's MSI list and the interrupt's name",
        Source::Order => "the order of the device's interrupts",
        Source::Only => "the device's only interrupt that may receive",
        Source::Name => "the device's name in that of the interrupt",
    }
}

/// Marks for links that are weaker than the strongest one shown.
pub(super) struct Marks {
    strongest: Source,
    weaker: Vec<Source>,
}

impl Marks {
    /// Marks for the interrupts of the queues of `nics`.
    pub(super) fn new<'a>(nics: impl IntoIterator<Item = &'a Nic>) -> Self {
        let irqs = nics.into_iter().flat_map(|nic| &nic.rx).flat_map(|queue| &queue.irqs);
        let mut sources: Vec<Source> = irqs.map(|irq| irq.source).collect();
        sources.sort_unstable();
        sources.dedup();
        let mut sources = sources.into_iter();
        Self { strongest: sources.next().unwrap_or_default(), weaker: sources.collect() }
    }

    /// The number of an interrupt, with its mark in front.
    pub(super) fn number(&self, irq: &Irq) -> String {
        format!("{}{}", self.mark(irq.source), irq.number)
    }

    fn mark(&self, source: Source) -> &'static str {
        match source {
            source if source == self.strongest => "",
            Source::Name => "?",
            _ => "~",
        }
    }

    /// Meaning of the marks; empty if there are none.
    pub(super) fn legend(&self) -> String {
        let line = |source: &Source| {
            let text = format!("queue known by {}; unmarked: by {}", words(*source), words(self.strongest));
            paragraph(&format!("{} ", self.mark(*source)), &text)
        };
        self.weaker.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Footnotes, ranges};
    use rxlab_base::units::{Fact, Need};

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
        let expected = ["0", "not queried", "-", "needs CAP_NET_ADMIN", "broken [1]", "broken [1]"];
        assert_eq!(words.map(&mut word), expected);
        assert_eq!(notes.render(), "[1] x: `?` is not a number\n");
    }
}
