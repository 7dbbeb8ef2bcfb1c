//! systemd's own check of the units of the package, and of those that commands write; `persist.rs` has those of
//! `rxlab persist`.

use std::path::{Path, PathBuf};
use std::process::Command;

use rxlab_change::persist::{Folder, Restore, record_files, timer_files};

use crate::require;

/// Complaints of systemd about a unit; units that it refers to are next to it.
fn complaints(unit: &Path) -> String {
    let out = Command::new("systemd-analyze").arg("verify").arg(unit).output().expect("it runs");
    // It also reads the machine's own units, and may complain about some.
    let said = String::from_utf8(out.stderr).expect("text");
    said.lines().filter(|line| line.contains("rxlab")).map(|line| format!("{line}\n")).collect()
}

/// Copies the units of the package to `folder`. Returns their paths there.
fn packaged(folder: &Path) -> Vec<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/systemd");
    let copy = |source: PathBuf| {
        let path = folder.join(source.file_name().expect("a name"));
        // systemd checks that the program exists: here it is the one under test.
        let text = std::fs::read_to_string(&source).expect("read");
        std::fs::write(&path, text.replace("/usr/bin/rxlab", env!("CARGO_BIN_EXE_rxlab"))).expect("written");
        path
    };
    std::fs::read_dir(sources).expect("listed").map(|entry| copy(entry.expect("listed").path())).collect()
}

/// Writes the units of `rxlab record install` and `rxlab trial checkpoint --at` below `etc`. Returns their paths.
fn written(etc: &Path) -> Vec<PathBuf> {
    let restore = Restore {
        program: env!("CARGO_BIN_EXE_rxlab").into(),
        options: Vec::new(),
        etc: etc.to_owned(),
        state: "/var/lib/rxlab".into(),
    };
    let mut files = record_files(&["--every".to_owned(), "1s".to_owned()], &restore);
    files.extend(timer_files("0003-rps+rfs", &["2026-11-24 11:00:00 UTC".to_owned()], &restore));
    let written = Folder::new(etc).install(&files).expect("written");
    written.into_iter().map(|one| one.path).filter(|path| !path.is_symlink()).collect()
}

/// All units, in a directory.
fn all() -> (tempfile::TempDir, Vec<PathBuf>) {
    let etc = tempfile::tempdir().expect("a temporary directory");
    let mut units = written(etc.path());
    units.extend(packaged(&etc.path().join("systemd/system")));
    (etc, units)
}

#[test]
fn systemd_accepts_every_unit() {
    require::needs!(program("systemd", "systemd-analyze", "--version"));
    let (_etc, units) = all();
    assert!(units.len() >= 4, "{units:?}");
    for unit in units {
        assert_eq!(complaints(&unit), "", "{}", unit.display());
        let good = std::fs::read_to_string(&unit).expect("read");
        std::fs::write(&unit, good.replacen("Description=", "Descriptio=", 1)).expect("written");
        assert!(complaints(&unit).contains("Descriptio"), "the check itself works");
        std::fs::write(&unit, good).expect("written");
    }
}

/// Everything of ours that runs all the time.
#[test]
fn services_are_confined() {
    require::needs!(program("systemd", "systemd-analyze", "--version"));
    let (_etc, units) = all();
    let is_confined = |unit: &Path| {
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=true", "--threshold=15"]).arg(unit);
        command.output().expect("it runs").status.success()
    };
    let services = units.iter().filter(|unit| {
        let text = std::fs::read_to_string(unit).expect("read");
        text.contains("\n[Service]\n") && !text.contains("\nType=oneshot\n")
    });
    let services: Vec<&PathBuf> = services.collect();
    assert_eq!(services.len(), 3, "{services:?}");
    for unit in services {
        assert!(is_confined(unit), "{}: exposed by 1.5 of 10 or less", unit.display());
        let text = std::fs::read_to_string(unit).expect("read");
        for limit in ["LimitNOFILE=", "TasksMax=", "MemoryMax="] {
            assert!(text.contains(&format!("\n{limit}")), "{limit}: {text}");
        }
        // With CAP_SYS_PTRACE, what `@system-service` allows would write to the memory of any process.
        let filters = text.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=~"));
        assert!(filters.flat_map(str::split_whitespace).any(|call| call == "process_vm_writev"), "{text}");
        let weaker = text.replace("ProtectProc=invisible\n", "");
        std::fs::write(unit, weaker).expect("written");
        assert!(!is_confined(unit), "the check itself works");
    }
}
