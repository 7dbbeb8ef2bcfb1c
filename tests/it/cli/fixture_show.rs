//! `rxlab show` on every captured host.

use crate::fixtures::{captured, names};
use crate::process::{Ended, rxlab};

#[test]
fn captured_hosts_are_shown() {
    let state = tempfile::tempdir().expect("a temporary directory");
    for name in names() {
        let text = rxlab(state.path(), &["show", "--snapshot", &captured(&name)]).exits(0);
        assert!(text.lines().all(|line| line.len() <= 80), "{name}: {text}");
        insta::assert_snapshot!(name, text);
    }
}
