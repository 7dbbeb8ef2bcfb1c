//! `rxlab show` on every captured host.

use std::path::Path;

use crate::process::{Ended, rxlab};

#[test]
fn captured_hosts_are_shown() {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hosts");
    let state = tempfile::tempdir().expect("a temporary directory");
    let mut names: Vec<String> = std::fs::read_dir(&hosts)
        .expect("listed")
        .map(|entry| entry.expect("listed").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    assert!(names.len() >= 3, "{names:?}");
    for name in names {
        let file = hosts.join(&name).join("host.tar.zst");
        let show = rxlab(state.path(), &["show", "--snapshot", file.to_str().expect("text")]).output();
        let text = show.expect("rxlab runs").exits(0);
        assert!(text.lines().all(|line| line.len() <= 80), "{name}: {text}");
        insta::assert_snapshot!(name, text);
    }
}
