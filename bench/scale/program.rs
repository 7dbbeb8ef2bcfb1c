//! The program under test.

use std::path::{Path, PathBuf};

/// The program of the same build: examples are one folder below it.
pub(crate) fn rxlab() -> PathBuf {
    let own = std::env::current_exe().expect("every process has a program");
    let program = own.parent().and_then(Path::parent).expect("target/release/examples").join("rxlab");
    assert!(program.exists(), "build it first: cargo build --release");
    program
}
