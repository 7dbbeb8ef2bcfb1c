//! `rxlab explain`: a finding's condition, cause, remedy and source.

use serde::Serialize;

use super::{Global, output};
use crate::error::{CommandError, Result};
use rxlab_advise::diagnose::{RULES, Rule};
use rxlab_faces::report::text::{STRONG, paragraph, styled};

/// Explain a finding: when the doctor reports it, what causes it, what helps, and the sources
///
/// Without ID: lists all findings.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The name at the end of the finding's first line, such as one-core-hotspot
    #[arg(value_name = "ID")]
    id: Option<String>,
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    let one = args.id.as_deref().map(find).transpose()?;
    let rules = one.map_or_else(|| RULES.iter().collect(), |rule| vec![rule]);
    let entries = Entries { schema: "rxlab.rules/1", rules };
    output::print(global, &entries, || one.map_or_else(list, text))
}

fn find(id: &str) -> Result<&'static Rule> {
    RULES.iter().find(|rule| rule.id == id).ok_or_else(|| {
        let near = nearest(id);
        CommandError::usage(format!("unknown finding `{id}`"))
            .hint_all((!near.is_empty()).then(|| format!("nearest: {}", near.join(", "))))
            .hint("`rxlab explain` lists all findings")
    })
}

#[derive(Serialize)]
struct Entries {
    schema: &'static str,
    rules: Vec<&'static Rule>,
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
    use super::{find, list, nearest, text};
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
        let error = find("hotspot").map(|rule| rule.id).expect_err("half a name");
        assert_eq!(error.hints[0], "nearest: one-core-hotspot");
        assert_eq!(nearest("foo"), [""; 0]);
        assert_eq!(error.kind.exit_code(), 2);
    }
}
