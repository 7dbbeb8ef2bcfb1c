//! Several guests of one shape at a time, with a stand-in for QEMU.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::guest::lab;
use crate::require;

const PACKAGE: &str = "linux-image-amd64";

/// Waits until both guests have got this far, prints its identity on its first serial line, and fails.
const QEMU: &str = r#"#!/bin/sh
: >"$MEET/$NAME"
while [ "$(ls "$MEET" | wc -l)" -lt 2 ]; do sleep 0.05; done
for word in "$@"; do
    case $word in
    file:*)
        echo "the console of $NAME" >"${word#file:}"
        exit 1
        ;;
    esac
done
"#;

fn guest(directory: &Path, name: &str) -> Child {
    let mut command = Command::new(lab());
    command.args(["8cpu-1queue".as_ref(), directory.join("job.sh").as_os_str()]);
    let path = std::env::var("PATH").expect("a path");
    command.env("PATH", format!("{}:{path}", directory.join("bin").display()));
    command.env("RXLAB_LAB_CACHE", directory.join("cache")).env("RXLAB_LAB_SECONDS", "60");
    command.env("MEET", directory.join("meet")).env("NAME", name);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started")
}

/// One of two guests once removed the other's console, and both wrote to the same one.
#[test]
fn each_guest_has_its_own_console() {
    require::needs!(vm);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    for name in ["bin", "cache", "meet"] {
        std::fs::create_dir(path(name)).expect("created");
    }
    let cache = std::env::var_os("RXLAB_LAB_CACHE").map_or("/var/tmp/rxlab-lab".into(), PathBuf::from);
    symlink(cache.join(PACKAGE), path("cache").join(PACKAGE)).expect("linked");
    std::fs::write(path("job.sh"), "").expect("written");
    let qemu = path("bin/qemu-system-x86_64");
    std::fs::write(&qemu, QEMU).expect("written");
    std::fs::set_permissions(&qemu, PermissionsExt::from_mode(0o755)).expect("executable");
    let guests = ["one", "two"].map(|name| (name, guest(directory.path(), name)));
    let mut consoles = Vec::new();
    for (name, guest) in guests {
        let out = guest.wait_with_output().expect("ended");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(5), "{said}");
        let console = format!("the console of {name}\n");
        assert!(said.ends_with(&console), "{name}: {said}");
        consoles.push(console);
    }
    let kept = std::fs::read_to_string(path("cache/8cpu-1queue.console")).expect("kept");
    assert!(consoles.contains(&kept), "{kept}");
}
