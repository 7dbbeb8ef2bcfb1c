//! `rxlab explain`: a finding's condition, cause, remedy and source; or a term, with its knob and its findings.

mod named;
mod term;

use self::term::Term;
use super::{Global, output};
use crate::error::{CommandError, Result};
use rxlab_advise::diagnose::{RULES, Rule};
use rxlab_faces::report::printed::RulesReport;
use rxlab_faces::report::text::{STRONG, command_lines, paragraph, styled};

/// Explain a finding or a term: when the doctor reports it, what causes it, what helps, and the sources
///
/// A term is one of the glossary, a knob, a file or a counter of the kernel, or a driver, such as rps, ksoftirqd,
/// ListenOverflows or ixgbe: what it is, and the findings that are about it. Without NAME: lists all findings.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The name at the end of a finding's first line, such as one-core-hotspot, or a term
    #[arg(value_name = "NAME")]
    name: Vec<String>,
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    let name = &args.name.join(" ");
    if name.is_empty() {
        let entries = RulesReport::new(RULES.iter().collect(), Vec::new());
        return output::print(global, &entries, || {
            list() + &next(global, &format!("explain {}", RULES[0].id))
        });
    }
    if let Some(rule) = RULES.iter().find(|rule| rule.id == name) {
        let entries = RulesReport::new(vec![rule], Vec::new());
        // Whether it is found here, with its figures.
        return output::print(global, &entries, || text(rule) + &next(global, "doctor -v"));
    }
    // `ksoftirqd/2` is the thread of CPU 2.
    let of_cpu = name.split_once('/').filter(|(_, cpu)| cpu.parse::<u32>().is_ok());
    let term = Term::find(of_cpu.map_or(name, |(thread, _)| thread)).ok_or_else(|| unknown(name))?;
    let entries = RulesReport::new(term.rules.clone(), term.entries());
    output::print(global, &entries, || term.text() + &next(global, &term.next()))
}

/// The next command, on a terminal only.
fn next(global: &Global, command: &str) -> String {
    let line = format!("{} {command}", global.program());
    if output::is_interactive() { command_lines("next: ", &line) } else { String::new() }
}

fn unknown(name: &str) -> CommandError {
    let near = nearest(name);
    CommandError::usage(format!("unknown finding or term `{name}`"))
        .hint_all((!near.is_empty()).then(|| format!("nearest: {}", near.join(", "))))
        .hint("`rxlab explain` lists all findings")
}

fn text(rule: &Rule) -> String {
    let fires = (rule.fires)();
    let rows = [
        ("fires when", fires.as_str()),
        ("silent when", rule.silent),
        ("shows", rule.evidence),
        ("cause", rule.cause),
        ("try", rule.remedy),
        ("source", rule.source),
    ];
    let head = format!("{}\n{}\n", styled(STRONG, rule.id), paragraph("", rule.asks));
    rows.iter().fold(head, |text, (label, what)| text + &paragraph(&format!("  {label:<11}  "), what))
}

fn list() -> String {
    let longest = RULES.iter().map(|rule| rule.id.len()).max().unwrap_or_default();
    RULES.iter().map(|rule| paragraph(&format!("{:<longest$}  ", rule.id), rule.asks)).collect()
}

/// Up to three rules that share a word with `id`, nearest first: by shared words, then by edit distance. A word of four
/// letters or more may have one typing error.
fn nearest(id: &str) -> Vec<&'static str> {
    let is_near = |word: &str, own: &str| strsim::osa_distance(word, own) <= (word.len() / 4).min(1);
    let shared =
        |name: &str| id.split('-').filter(|word| name.split('-').any(|own| is_near(word, own))).count();
    let mut names: Vec<&str> = RULES.iter().map(|rule| rule.id).filter(|name| shared(name) > 0).collect();
    names.sort_by_key(|name| (std::cmp::Reverse(shared(name)), strsim::levenshtein(id, name)));
    names.truncate(3);
    names
}

#[cfg(test)]
mod tests {
    use super::{list, nearest, text, unknown};
    use rxlab_advise::diagnose::RULES;
    use rxlab_faces::report::text::plain;

    #[test]
    fn every_rule_is_explained_in_80_columns() {
        let all = RULES.iter().map(text).chain([list()]).collect::<String>();
        let plain = plain(&all);
        for rule in RULES {
            let last = plain.split(rule.id).count();
            assert!(last > 2, "{} is in the list and in its text", rule.id);
        }
    }

    #[test]
    fn a_misspelt_id_gets_the_nearest_names() {
        assert_eq!(nearest("one-core-hotpsot")[0], "one-core-hotspot");
        assert_eq!(nearest("rfs")[0], "rfs-half-configured");
        let error = unknown("hotspt");
        assert_eq!(error.hints[0], "nearest: one-core-hotspot");
        assert_eq!(nearest("foo"), [""; 0]);
        assert_eq!(error.kind.exit_code(), 2);
    }
}
