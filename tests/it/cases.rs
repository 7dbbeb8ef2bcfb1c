//! The field cases of `docs/cases/` in their short form, with their factor and with one that does nothing.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::quiet;

mod a;
mod b;
mod c;
mod d;
mod e;

/// A line of a case's output.
#[derive(Debug, Deserialize)]
pub(super) struct Conclusion {
    conclusion: String,
    expected: String,
    reached: String,
}

impl Conclusion {
    fn is_reached(&self) -> bool {
        self.expected == self.reached
    }
}

/// Runs `cases/CASE.sh --short` with more `options`. Returns its conclusions.
fn run(case: &str, options: &[&str]) -> Vec<Conclusion> {
    let _alone = quiet::alone();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("cases/{case}.sh"));
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM"]).arg(script).arg("--short").args(options);
    command.args(["--rxlab", env!("CARGO_BIN_EXE_rxlab")]).arg("--out").arg(directory.path());
    let out = command.stdin(Stdio::null()).output().expect("the case runs");
    let (text, log) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let conclusions: Vec<Conclusion> = text.lines().map(parse).collect();
    let all = conclusions.iter().all(Conclusion::is_reached);
    assert_eq!(out.status.code(), Some(i32::from(!all)), "{text}\n{log}");
    println!("{text}");
    conclusions
}

/// All conclusions are reached.
fn holds(case: &str) {
    let conclusions = run(case, &[]);
    assert!(!conclusions.is_empty(), "case {case} concludes nothing");
    for conclusion in conclusions {
        assert!(conclusion.is_reached(), "{conclusion:?}");
    }
}

/// With a factor that does nothing, exactly the conclusions named `changed` are not reached.
fn rests_on_its_factor(case: &str, changed: &[&str]) {
    let conclusions = run(case, &["--no-op"]);
    let missed = conclusions.iter().filter(|conclusion| !conclusion.is_reached());
    let missed: Vec<&str> = missed.map(|conclusion| conclusion.conclusion.as_str()).collect();
    assert_eq!(missed, changed, "{conclusions:?}");
}
