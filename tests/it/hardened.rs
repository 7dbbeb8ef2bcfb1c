//! Guard, undo and lock on the running kernel, where something is in short supply or in another's hands.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use rxlab::lab::Range;
use rxlab_change::journal::{Disk, Storage, Store};
use rxlab_sys::Host;

use crate::lab::{host_in, inside, range};
use crate::process::{Ended, Running, end_guards, guards, on_a_terminal, one_line, wait_for};
use crate::require;

const MASK: &str = "sys/class/net/srv0/queues/rx-0/rps_cpus";
const SET: [&str; 2] = ["--set", "rps srv0/rx-0 = 0-1"];

/// A veth pair in namespaces of its own, and a journal.
struct Scene {
    range: Range,
    state: tempfile::TempDir,
}

impl Scene {
    /// `None` if the test is skipped.
    fn new() -> Option<Self> {
        let state = tempfile::tempdir().expect("a temporary directory");
        range(2).map(|range| Self { range, state })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.state.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rxlab"));
        command.arg("--state-dir").arg(self.path("state")).arg("--run-dir").arg(self.path("run"));
        command.arg("--netns").arg(self.range.server.path()).args(args).stdin(Stdio::null());
        command
    }

    fn rxlab(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("rxlab runs")
    }

    fn apply(&self, args: &[&str]) -> Output {
        self.rxlab(&[&["apply"], &SET[..], args].concat())
    }

    /// `apply --confirm` on a terminal, once the value is set, and what is typed there.
    fn counting_down(&self, time: &str) -> (Running, ChildStdin) {
        let apply = self.command(&[&["apply"], &SET[..], &["--confirm", time]].concat());
        let mut terminal = Running::start(on_a_terminal(&apply).stdin(Stdio::piped()));
        let stdin = terminal.stdin();
        wait_for("the change", || self.mask() == "3");
        (terminal, stdin)
    }

    fn mask(&self) -> String {
        host_in(&self.range.server).read_text(MASK).expect("there").trim().to_owned()
    }

    /// `program` with `args` before the command line of rxlab.
    fn under(&self, program: &str, args: &[&str], rxlab: &[&str]) -> Command {
        let inner = self.command(rxlab);
        let mut command = Command::new(program);
        command.args(args).arg(inner.get_program()).args(inner.get_args()).stdin(Stdio::null());
        command
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        end_guards(self.state.path());
    }
}

/// Any user could once hold the lock, and the file then named another process.
#[test]
fn the_lock_is_roots_and_its_holder_is_named() {
    let Some(scene) = Scene::new() else { return };
    scene.apply(&[]).exits(0);
    let lock = scene.path("run/lock");
    for path in ["", "run", "state"] {
        std::fs::set_permissions(scene.path(path), std::fs::Permissions::from_mode(0o755)).expect("set");
    }
    if require::root() {
        let mut stranger = Command::new("setpriv");
        stranger.args(["--reuid=65534", "--regid=65534", "--clear-groups", "flock", "-n"]).arg(&lock);
        let output = stranger.arg("true").output().expect("setpriv runs");
        assert!(!output.status.success(), "{output:?}");
    }
    let holder = Running::silent(Command::new("flock").arg(&lock).args(["sleep", "60"]));
    wait_for("the lock", || Disk::of_this_machine(scene.path("state"), scene.path("run")).lock().is_err());
    std::fs::write(&lock, "1 0\n").expect("written");
    let pid = holder.pid().as_raw_nonzero();
    let text = scene.rxlab(&["undo"]).exits(5);
    let text = one_line(&text);
    assert!(text.contains(&format!("process {pid} holds the lock")), "{text}");
    assert!(text.contains("it is `flock`, run by user "), "{text}");
    drop(holder);
    // Its child has the file open for as long as it lives.
    for pid in crate::process::mentioning(Path::new("60")) {
        let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        let open =
            std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).into_iter().flatten().flatten();
        let mut open = open.filter_map(|file| std::fs::read_link(file.path()).ok());
        if line == b"sleep\x0060\0" && open.any(|file| file == lock) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    wait_for("the undo", || scene.rxlab(&["undo"]).status.success());
    assert_eq!(scene.mask(), "0");
}

/// A control group of processes, removed at the end.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Self> {
        let version_1 = Path::new("/sys/fs/cgroup/pids");
        let above = if version_1.is_dir() { version_1 } else { Path::new("/sys/fs/cgroup") };
        let group = above.join(format!("rxlab-test-{}", std::process::id()));
        std::fs::create_dir(&group).ok()?;
        let group = Self(group);
        group.0.join("pids.max").exists().then_some(group)
    }

    fn write(&self, file: &str, value: &str) {
        std::fs::write(self.0.join(file), value).expect("written");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// The guard once needed a thread, and its panic left the change in place.
#[test]
fn a_guard_that_can_start_no_thread_reverts_the_change() {
    let Some(scene) = Scene::new() else { return };
    let Some(group) = Group::new() else {
        println!("skipped: there is no control group of processes");
        return;
    };
    scene.apply(&["--confirm", "1s"]).exits(0);
    let guard = guards(scene.state.path())[0].as_raw_nonzero().to_string();
    group.write("cgroup.procs", &guard);
    group.write("pids.max", "1");
    wait_for("the guard", || scene.mask() == "0");
    wait_for("its end", || guards(scene.state.path()).is_empty());
}

/// SIGXFSZ once ended undo at the same record each time, and the guard.
#[test]
fn a_journal_that_cannot_grow_does_not_stop_undo_and_guard() {
    let Some(scene) = Scene::new() else { return };
    let limited = |limit: u64, args: &[&str]| {
        scene.under("prlimit", &[&format!("--fsize={limit}")], args).output().expect("prlimit runs")
    };
    scene.apply(&[]).exits(0);
    let journal = std::fs::read_dir(scene.path("state/journal")).expect("listed").flatten();
    let journal = journal.map(|entry| entry.path()).find(|path| path.extension().is_some()).expect("open");
    let size = journal.metadata().expect("there").len();
    let code = limited(size + 10, &["undo"]).status.code();
    // With CAP_SYS_RESOURCE the limit is lifted.
    assert!(matches!(code, Some(0 | 5)), "{code:?}");
    assert_eq!(scene.mask(), "0");
    scene.rxlab(&["undo"]).exits(0);
    let confirmed = [&["apply"], &SET[..], &["--confirm", "1s"]].concat();
    limited(size + 60, &confirmed).exits(0);
    wait_for("the guard", || scene.mask() == "0");
}

/// The guard once believed a file that had lost its end: "was reverted", and the change stayed.
#[test]
fn a_guard_waits_for_the_lost_end_of_its_journal() {
    let Some(scene) = Scene::new() else { return };
    scene.apply(&["--confirm", "4s"]).exits(0);
    // Until it has read all of it: it looks every 0.2 s.
    std::thread::sleep(Duration::from_secs(1));
    let store = Store::new(Disk::new(scene.path("state")));
    let file = store.path(&store.open_ids().expect("listed")[0]);
    let whole = std::fs::read(&file).expect("readable");
    let first_line = whole.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    for lost in [&whole[..first_line], b"", &vec![0; whole.len()]] {
        std::fs::write(&file, lost).expect("written");
        std::thread::sleep(Duration::from_millis(1500));
        assert_eq!((guards(scene.state.path()).len(), scene.mask()), (1, "3".to_owned()));
    }
    std::fs::write(&file, &whole).expect("written");
    wait_for("the guard", || scene.mask() == "0");
    wait_for("its end", || guards(scene.state.path()).is_empty());
}

/// A limit of open files that is lowered while the guard waits once kept the change for as long as it lasted.
#[test]
fn a_guard_without_descriptors_reverts_the_change() {
    let Some(scene) = Scene::new() else { return };
    scene.apply(&["--confirm", "2s"]).exits(0);
    let guard = guards(scene.state.path())[0].as_raw_nonzero().to_string();
    let limited =
        Command::new("prlimit").args(["--nofile=3:", "--pid", &guard]).output().expect("prlimit runs");
    assert!(limited.status.success(), "{limited:?}");
    wait_for("the guard", || scene.mask() == "0");
    wait_for("its end", || guards(scene.state.path()).is_empty());
}

/// What could not be opened was once taken for gone: undo advised to give the values up.
#[test]
fn a_command_that_may_open_few_files_says_so() {
    let Some(scene) = Scene::new() else { return };
    scene.apply(&[]).exits(0);
    let limited = |args: &[&str]| {
        let limit = ["--nofile=10:10", "setpriv", "--bounding-set=-sys_resource"];
        scene.under("prlimit", &limit, args).exits(3)
    };
    for command in ["undo", "status"] {
        let text = one_line(&limited(&[command]));
        assert!(text.contains("may open 10 files, and rxlab needs 32"), "{text}");
    }
    scene.rxlab(&["undo"]).exits(0);
    assert_eq!(scene.mask(), "0");
}

/// The first process of a PID namespace takes all others with it: its guard once ended before the deadline.
#[test]
fn the_first_process_of_a_pid_namespace_waits_for_its_guard() {
    let Some(scene) = Scene::new() else { return };
    let mut command = inside(&scene.range.server, "unshare");
    command.args([
        "--pid",
        "--fork",
        "--mount-proc",
        "sh",
        "-euc",
        "mount -t sysfs sysfs /sys\nexec \"$@\"",
        "sh",
    ]);
    command.arg(env!("CARGO_BIN_EXE_rxlab"));
    command.arg("--state-dir").arg(scene.path("state")).arg("--run-dir").arg(scene.path("run"));
    command.arg("apply").args(SET).args(["--confirm", "1s"]).stdin(Stdio::null());
    (&mut command)
        .says_all(4, &["the first of its PID namespace", "was not confirmed in time and was reverted"]);
    assert_eq!(scene.mask(), "0");
}

/// A container with the process numbers of its machine, such as that of `kubectl debug node`, is seen by its control groups. The
/// command once returned, and the guard ended with the container.
#[test]
fn a_container_with_the_process_numbers_of_its_machine_waits_for_its_guard() {
    let Some(scene) = Scene::new() else { return };
    std::fs::write(scene.path("groups"), "0::/../../../init.scope\n").expect("written");
    let mut command = inside(&scene.range.server, "unshare");
    command.args(["--mount", "sh", "-euc"]);
    command.arg("mount --bind \"$1\" /proc/1/cgroup\nmount -t sysfs sysfs /sys\nshift\nexec \"$@\"");
    command.arg("sh").arg(scene.path("groups")).arg(env!("CARGO_BIN_EXE_rxlab"));
    command.arg("--state-dir").arg(scene.path("state")).arg("--run-dir").arg(scene.path("run"));
    command.arg("apply").args(SET).args(["--confirm", "1s"]).stdin(Stdio::null());
    (&mut command)
        .says_all(4, &["the guard ends with this container", "was not confirmed in time and was reverted"]);
    assert_eq!(scene.mask(), "0");
}

/// The command once waited for a guard that had been killed, and left the change.
#[test]
fn a_countdown_reverts_the_change_of_a_killed_guard() {
    let Some(scene) = Scene::new() else { return };
    let (terminal, stdin) = scene.counting_down("3s");
    end_guards(scene.state.path());
    let output = terminal.output();
    drop(stdin);
    let text = one_line(&output.exits(4));
    assert!(text.contains("was not confirmed in time and was reverted"), "{text}");
    assert_eq!(scene.mask(), "0");
}

/// The command once reported the kept change as an error.
#[test]
fn a_countdown_ends_when_another_command_confirms() {
    let Some(scene) = Scene::new() else { return };
    let (terminal, stdin) = scene.counting_down("60s");
    wait_for("the transaction", || scene.rxlab(&["confirm"]).status.success());
    let text = one_line(&terminal.output().exits(0));
    drop(stdin);
    assert!(text.contains("was confirmed by another command"), "{text}");
    scene.rxlab(&["undo"]).exits(0);
}

/// The command once said "was reverted" of values that another one had given up.
#[test]
fn a_countdown_says_how_the_change_has_ended() {
    let Some(scene) = Scene::new() else { return };
    let (terminal, stdin) = scene.counting_down("60s");
    let store = Store::new(Disk::new(scene.path("state")));
    let id = store.open_ids().expect("listed").remove(0);
    wait_for("the command", || scene.rxlab(&["undo", "--forget", &id]).status.success());
    let text = one_line(&terminal.output().exits(4));
    drop(stdin);
    assert!(text.contains(&format!("transaction {id}: given up, values left as they were")), "{text}");
    assert_eq!(scene.mask(), "3");
}

/// What was typed before the question once confirmed the change, and so did a pasted text.
#[test]
fn only_a_typed_enter_confirms() {
    let Some(scene) = Scene::new() else { return };
    let apply = |time: &str, input: &[&str]| {
        let mut terminal =
            on_a_terminal(&scene.command(&[&["apply"], &SET[..], &["--confirm", time]].concat()));
        let mut terminal = Running::start(terminal.stdin(Stdio::piped()));
        let mut stdin = terminal.stdin();
        for (turn, text) in input.iter().enumerate() {
            if turn > 0 {
                wait_for("the change", || scene.mask() == "3");
                std::thread::sleep(Duration::from_millis(800));
            }
            stdin.write_all(text.as_bytes()).expect("written");
        }
        let code = terminal.output().status.code();
        drop(stdin);
        code
    };
    for input in [&["\n"][..], &["", "ip route show\n"], &["", "\nip route show\n\n"]] {
        assert_eq!(apply("3s", input), Some(4), "{input:?}");
        assert_eq!(scene.mask(), "0", "{input:?}");
    }
    assert_eq!(apply("60s", &["", "\n"]), Some(0));
    assert_eq!(scene.mask(), "3");
    scene.rxlab(&["undo"]).exits(0);
}

/// A state directory that is out of sight, as after umount, once counted as empty.
#[test]
fn a_journal_out_of_sight_is_not_empty() {
    let Some(scene) = Scene::new() else { return };
    scene.apply(&[]).exits(0);
    let (state, away) = (scene.path("state"), scene.path("away"));
    std::fs::rename(&state, &away).expect("renamed");
    let elsewhere = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rxlab"));
        command.arg("--state-dir").arg(scene.path("other")).arg("--run-dir").arg(scene.path("run"));
        command.arg("--netns").arg(scene.range.server.path()).args(["apply", "--set", "rps srv0/rx-0 = 0"]);
        command.output().expect("rxlab runs")
    };
    for refused in [scene.apply(&["--set", "rps srv0/rx-1 = 0"]), elsewhere()] {
        (&refused).says_all(4, &["its journal is missing", "rxlab undo --forget 000001-"]);
    }
    let undo = scene.rxlab(&["undo"]).says(5, "its journal is missing");
    assert_eq!(scene.rxlab(&["undo", "--dry-run"]).said(), (5, undo));
    scene.rxlab(&["status"]).says(1, "its journal is missing");
    let text = scene.rxlab(&["history"]).says(0, "its journal is missing");
    assert!(!text.contains("no changes"), "{text}");
    assert_eq!(scene.mask(), "3");
    std::fs::rename(&away, &state).expect("back");
    let other = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rxlab"));
        command.arg("--state-dir").arg(scene.path("other")).arg("--run-dir").arg(scene.path("run"));
        command.args(args).output().expect("rxlab runs")
    };
    let named = format!("another journal has open changes: `rxlab --state-dir {} status`", state.display());
    (&other(&["status"])).says(0, &named);
    (&other(&["confirm"])).says(4, &named);
    scene.rxlab(&["undo"]).exits(0);
    assert_eq!(scene.mask(), "0");
    // Given up, once it is clear that it does not come back.
    let text = scene.apply(&[]).exits(0);
    let id =
        text.split_whitespace().find(|word| word.starts_with("00000")).expect("an id").trim_end_matches(':');
    std::fs::rename(&state, &away).expect("renamed");
    scene.rxlab(&["undo", "--forget", id]).says(0, "is given up");
    elsewhere().exits(0);
}

/// The notice of the guard once said "was reverted" of a value that it had left alone.
#[test]
fn the_notice_says_what_was_done_with_each_value() {
    let Some(scene) = Scene::new() else { return };
    scene.apply(&["--confirm", "1s"]).exits(0);
    host_in(&scene.range.server).write(MASK, b"2").expect("written");
    let notices = scene.path("state/journal/notices");
    wait_for("the notice", || std::fs::read_dir(&notices).is_ok_and(|mut all| all.next().is_some()));
    // It is not read there.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("opened");
    scene.command(&["status"]).stderr(full).output().expect("rxlab runs");
    let text = one_line(&scene.rxlab(&["status"]).exits(1));
    assert!(text.contains("was not confirmed in time and was not reverted: 1 value left"), "{text}");
    assert!(text.contains("rps srv0/rx-0: left alone: it has since been changed to 1"), "{text}");
    scene.rxlab(&["status"]).exits(0);
    scene.rxlab(&["history"]).says(0, "left as others set");
}

/// Until the deadline, `status` once said that the change reverts by itself.
#[test]
fn a_change_without_its_guard_is_a_finding() {
    let Some(scene) = Scene::new() else { return };
    scene.apply(&["--confirm", "60s"]).exits(0);
    let waits = || scene.rxlab(&["status"]).says(0, " s unless you run `rxlab confirm`");
    // A command that looks does not hide the guard from the next one.
    waits();
    waits();
    kill_process(guards(scene.state.path())[0], Signal::KILL).expect("killed");
    wait_for("its end", || guards(scene.state.path()).is_empty());
    let text = one_line(&scene.rxlab(&["status"]).exits(1));
    assert!(text.contains("not confirmed, and no guard is running to revert it: run `rxlab undo`"), "{text}");
    scene.rxlab(&["history"]).says(0, "guard is running to");
    scene.rxlab(&["undo"]).exits(0);
    assert_eq!(scene.mask(), "0");
    let left = std::fs::read_dir(scene.path("run")).expect("listed").flatten();
    let left: Vec<_> = left.map(|file| file.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("guard-")), "{left:?}");
}

/// `confirm` once said "is kept" long after the deadline that a killed guard did not keep.
#[test]
fn a_late_confirmation_is_refused_unless_asked_for() {
    let Some(scene) = Scene::new() else { return };
    for (confirm, code, kept) in [(&["confirm"][..], 4, "3"), (&["confirm", "--late"], 0, "3")] {
        if scene.mask() == "0" {
            scene.apply(&["--confirm", "1s"]).exits(0);
            kill_process(guards(scene.state.path())[0], Signal::KILL).expect("killed");
            std::thread::sleep(Duration::from_millis(1500));
        }
        let text = one_line(&scene.rxlab(confirm).exits(code));
        assert_eq!(code == 4, text.contains("s ago, and its journal has no revert"), "{text}");
        assert_eq!(scene.mask(), kept);
    }
    scene.rxlab(&["undo"]).exits(0);
    assert_eq!(scene.mask(), "0");
}
