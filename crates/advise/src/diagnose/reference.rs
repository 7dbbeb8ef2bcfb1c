//! `docs/findings.md`: generated from the rules and checked by a test.

#![allow(clippy::disallowed_methods)] // Compares a file of the source tree.

use super::{RULES, Rule};

fn section(rule: &Rule) -> String {
    format!(
        "## {}\n{}\n\n- Fires when {}.\n- Silent when {}.\n- Shows {}.\n- Cause: {}\n- Remedy: {}\n- Source: \
         {}.\n",
        rule.id,
        rule.asks,
        (rule.fires)(),
        rule.silent,
        rule.evidence,
        rule.cause,
        rule.remedy,
        rule.source
    )
}

fn document() -> String {
    let head = "# Findings of the doctor\n\nGenerated from the rules in `crates/advise/src/diagnose` by `make docs`.\n\nEvery rule examines one sample of a \
                few seconds and needs traffic to fire: a quiet machine gets \"no traffic\". `rxlab \
                doctor` exits with 1 if there are findings; a note that no plan addresses is shown but does \
                not change the exit code.\n";
    RULES.iter().fold(head.to_owned(), |text, rule| text + "\n" + &section(rule))
}

#[test]
fn findings_md_is_what_the_rules_say() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings.md");
    let want = document();
    if std::env::var_os("RXLAB_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &want).expect("docs/findings.md can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == want, "docs/findings.md is out of date: run make docs");
}
