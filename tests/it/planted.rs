//! Links that another user planted at paths that rxlab is about to write.

use crate::process::Ended;
use crate::tree::Tree;

#[test]
fn planted_links_are_not_followed() {
    let tree = Tree::new();
    let at = |name: &str| tree.path().join(name);
    let victim = at("victim");
    std::fs::write(&victim, "secret").expect("written");
    // Names of temporary files in earlier versions.
    for planted in ["out.part", ".out.part"] {
        std::os::unix::fs::symlink(&victim, at(planted)).expect("linked");
    }
    let out = at("out");
    tree.rxlab(&["snapshot", "--for", "0s", "-o", out.to_str().expect("text")]).exits(0);
    assert!(out.symlink_metadata().expect("there").is_file());
    let link = at("link");
    std::os::unix::fs::symlink(&victim, &link).expect("linked");
    for command in [
        &["snapshot", "--for", "0s", "--force", "-o"][..],
        &["plan", "--setting", "rps eth0/rx-0 = 1", "-o"],
        &["load", "http://127.0.0.1:1/", "--for", "100ms", "--hdr-log"],
        &["demo", "--html"],
    ] {
        let (code, text) = tree.rxlab(&[command, &[link.to_str().expect("text")]].concat()).said();
        assert!([2, 5].contains(&code), "{command:?}: {text}");
        let line = format!("rxlab: cannot write {}: it is a symbolic link; name the file ", link.display());
        assert!(text.lines().any(|said| said.starts_with(&line)), "{command:?}: {text}");
    }
    assert_eq!(std::fs::read(&victim).expect("there"), b"secret");
    assert!(link.is_symlink());
    // A dangling link would create the file that it names.
    std::fs::remove_file(&victim).expect("removed");
    let (code, text) = tree.rxlab(&["snapshot", "--for", "0s", "-o", link.to_str().expect("text")]).said();
    assert!(code == 2 && text.contains("link already exists") && !victim.exists(), "{text}");
}
