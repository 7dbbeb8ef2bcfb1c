//! A term: its entries in the glossary, its knob, what the kernel names so, and the findings about it.

use super::named::named;
use rxlab_advise::diagnose::{RULES, Rule};
use rxlab_faces::report::text::{STRONG, paragraph, styled};
use rxlab_setting::tunable::{Tunable, known_elsewhere, tunable};

const GLOSSARY: &str = include_str!("../../../docs/glossary.md");

/// Findings listed at most.
const LISTED: usize = 8;

/// What is known of a name that is no finding's.
pub(super) struct Term {
    name: String,
    /// Entries of the glossary, each `term: meaning`.
    entries: Vec<String>,
    knob: Option<&'static Tunable>,
    /// As a counter, a statistic or a driver.
    named: Vec<String>,
    /// Findings that name it, those with it in their id first.
    pub(super) rules: Vec<&'static Rule>,
}

impl Term {
    /// `None` if nothing has the name.
    pub(super) fn find(name: &str) -> Option<Self> {
        let named = named(name);
        let name = name.to_lowercase();
        let wanted = words(&name);
        let entries = entries();
        let exact: Vec<String> = entries.iter().filter(|entry| entry.is(&name)).map(Entry::text).collect();
        // One or two letters are in too many words.
        let loose = || {
            entries
                .iter()
                .filter(|_| name.len() > 2)
                .filter(|entry| entry.has(&wanted))
                .map(Entry::text)
                .collect()
        };
        let entries = if exact.is_empty() { loose() } else { exact };
        let knob = tunable(&name).or_else(|| known_elsewhere(&name));
        let mut rules: Vec<&Rule> =
            RULES.iter().filter(|rule| name.len() > 2 && is_about(rule, &wanted)).collect();
        rules.sort_by_key(|rule| !contains(&words(rule.id), &wanted));
        let is_empty = entries.is_empty() && knob.is_none() && named.is_empty() && rules.is_empty();
        (!wanted.is_empty() && !is_empty).then_some(Self { name, entries, knob, named, rules })
    }

    /// Entries of the glossary, and what the kernel and its drivers name so.
    pub(super) fn entries(&self) -> Vec<String> {
        [&self.entries[..], &self.named].concat()
    }

    pub(super) fn text(&self) -> String {
        let mut out: String = self.entries.iter().map(|entry| paragraph("", entry)).collect();
        if let Some(knob) = self.knob {
            out +=
                &paragraph("", &format!("knob {}: {} (risk: {})", knob.name, knob.owner.place(), knob.risk));
        }
        out += &self.named.iter().map(|line| paragraph("", line)).collect::<String>();
        if !self.rules.is_empty() {
            out += &format!("{}\n", styled(STRONG, &format!("findings about {}", self.name)));
        }
        let longest = self.rules.iter().take(LISTED).map(|rule| rule.id.len()).max().unwrap_or_default();
        for rule in self.rules.iter().take(LISTED) {
            out += &paragraph(&format!("  {:<longest$}  ", rule.id), rule.asks);
        }
        if self.rules.len() > LISTED {
            out += &format!("  and {} more: `rxlab explain` lists all\n", self.rules.len() - LISTED);
        }
        out
    }

    /// The command that goes on from here: the first finding about the term, or what is found on this machine.
    pub(super) fn next(&self) -> String {
        self.rules.first().map_or_else(|| "doctor".to_owned(), |rule| format!("explain {}", rule.id))
    }
}

struct Entry {
    /// Its text as in the file, on one line.
    text: &'static str,
    line: String,
}

impl Entry {
    fn text(&self) -> String {
        // Without the marks of Markdown, and without links.
        let text = self.line.replace("**", "").replace('`', "");
        match text.find(" ([") {
            Some(link) => text[..link].to_owned() + ".",
            None => text,
        }
    }

    /// True if `name` is one of the terms that it explains, or stands in parentheses in one.
    fn is(&self, name: &str) -> bool {
        let terms = self.text.split("**").skip(1).step_by(2).map(str::to_lowercase);
        terms.into_iter().any(|term| term == name || term.split(['(', ')']).any(|part| part.trim() == name))
    }

    /// True if the words are among those of its terms, or are a name of the kernel in it.
    fn has(&self, wanted: &[String]) -> bool {
        let terms: Vec<String> = self.text.split("**").skip(1).step_by(2).flat_map(words).collect();
        let names: Vec<String> = self.text.split('`').skip(1).step_by(2).flat_map(words).collect();
        contains(&terms, wanted) || contains(&names, wanted)
    }
}

fn entries() -> Vec<Entry> {
    let paragraphs = GLOSSARY.split("\n- ").skip(1);
    let entry = |text: &'static str| {
        let text = text.split("\n\n").next().unwrap_or(text);
        Entry { text, line: text.split_whitespace().collect::<Vec<_>>().join(" ") }
    };
    paragraphs.map(entry).collect()
}

/// Words in lower case; a name with underscores is one.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// True if `all` has the words of `wanted` in their order, next to each other.
fn contains(all: &[String], wanted: &[String]) -> bool {
    !wanted.is_empty() && all.windows(wanted.len()).any(|some| some == wanted)
}

fn is_about(rule: &Rule, wanted: &[String]) -> bool {
    let fires = (rule.fires)();
    let texts = [rule.id, rule.asks, &fires, rule.evidence, rule.cause, rule.remedy];
    texts.iter().any(|text| contains(&words(text), wanted))
}

#[cfg(test)]
mod tests {
    use super::{Term, entries};
    use rxlab_faces::report::text::plain;

    #[test]
    fn what_people_look_up_is_found() {
        for (typed, entry, finding) in [
            ("rps", "RPS (receive packet steering)", Some("single-queue-no-rps")),
            ("RPS", "RPS (receive packet steering)", Some("single-queue-no-rps")),
            ("ksoftirqd", "softirq: kernel work", Some("one-core-hotspot")),
            ("softirq", "softirq: kernel work", Some("softirq-not-receive")),
            ("irq", "interrupt (IRQ)", None),
            ("rps_cpus", "RPS (receive packet steering)", None),
            ("isolcpus", "isolated CPU", None),
            ("busy polling", "busy polling: a task", None),
            ("netdev_max_backlog", "backlog: the packets", None),
            ("tcp_rmem", "receive buffer: ", None),
            ("vf", "virtual function (VF, SR-IOV)", None),
            ("interrupt moderation", "coalescing, or interrupt", None),
            ("softnet_stat", "time squeeze (squeezed)", None),
        ] {
            let term = Term::find(typed).expect(typed);
            let text = plain(&term.text());
            assert!(text.contains(entry), "{typed}: {text}");
            let ids: Vec<&str> = term.rules.iter().map(|rule| rule.id).collect();
            assert!(finding.is_none_or(|finding| ids.contains(&finding)), "{typed}: {ids:?}");
        }
        assert!(plain(&Term::find("rps_cpus").expect("found").text()).contains("knob rps: /sys/class/net/"));
        for unknown in ["", "-", "xyzzy", "one-core-hotpot"] {
            assert!(Term::find(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn every_entry_has_a_term_and_a_meaning() {
        let entries = entries();
        assert!(entries.len() >= 50, "{}", entries.len());
        for entry in entries {
            assert!(entry.text.starts_with("**") && !entry.text().contains(['*', '`']), "{}", entry.text());
        }
    }
}
