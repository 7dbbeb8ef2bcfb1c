//! Control groups as targets, on the running kernel: several names of one, and some that went and came back.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rxlab_change::journal::{Disk, Store};
use rxlab_sys::{Cause, Host, LiveHost};

use crate::numbering::hiding;
use crate::process::{Ended, Running, one_line, rxlab, wait_for};
use crate::require;

/// A control group of version 1 with CPUs, and a journal.
struct Group {
    path: PathBuf,
    state: tempfile::TempDir,
}

impl Group {
    /// `None` if the test is skipped.
    fn new(name: &str) -> Option<Self> {
        const CPUSETS: &str = "/sys/fs/cgroup/cpuset";
        let missing = || (!Path::new(CPUSETS).join("cpuset.cpus").exists()).then(|| "not mounted".to_owned());
        if !require::root() || !require::have("cpuset", missing) {
            return None;
        }
        // Two tests had groups of one name, which failed when they ran at once.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(CPUSETS).join(format!("rxlab-test-{name}-{}-{number}", std::process::id()));
        let group = Self { path, state: tempfile::tempdir().expect("a temporary directory") };
        group.make("0-1");
        Some(group)
    }

    fn make(&self, cpus: &str) {
        fs::create_dir(&self.path).expect("made");
        self.set(cpus);
        fs::write(self.path.join("cpuset.mems"), "0").expect("written");
    }

    fn set(&self, cpus: &str) {
        fs::write(self.path.join("cpuset.cpus"), cpus).expect("written");
    }

    fn cpus(&self) -> String {
        fs::read_to_string(self.path.join("cpuset.cpus")).expect("there").trim().to_owned()
    }

    fn name(&self) -> &str {
        self.path.file_name().and_then(OsStr::to_str).expect("text")
    }

    fn rxlab(&self, args: &[&str]) -> (i32, String) {
        rxlab(self.state.path(), args).said()
    }

    fn apply(&self, name: &str, cpus: &str) -> String {
        let known = self.open();
        self.rxlab(&["apply", "--set", &format!("affinity cgroup:{name} = {cpus}")]).exits(0);
        self.open().into_iter().find(|id| !known.contains(id)).expect("begun")
    }

    fn open(&self) -> Vec<String> {
        Store::new(Disk::new(self.state.path())).open_ids().expect("listed")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}

/// The older of two transactions with two spellings of one group was once undone first, and the original was lost.
#[test]
fn a_group_has_one_name_in_the_journal() {
    let Some(group) = Group::new("alias") else { return };
    let name = group.name();
    let older = group.apply(&format!("/{name}"), "0");
    group.apply(&format!("//./{name}/"), "1");
    group.rxlab(&["undo", &older]).says(4, "changed the same values after");
    group.rxlab(&["undo"]).exits(0);
    assert_eq!((group.cpus().as_str(), group.open().len()), ("0-1", 0));
    // A group of version 1 can be renamed; both transactions are of one group.
    let older = group.apply(&format!("/{name}"), "0");
    let renamed = group.path.with_extension("b");
    fs::rename(&group.path, &renamed).expect("renamed");
    group.apply(&format!("/{name}.b"), "1");
    group.rxlab(&["undo", &older]).says(4, "changed the same values after");
    let undone = group.rxlab(&["undo"]).says(0, &format!("affinity cgroup:/{name}.b: back to 0-1"));
    fs::rename(&renamed, &group.path).expect("renamed back");
    assert_eq!((group.cpus().as_str(), group.open().len()), ("0-1", 0), "{undone}");
}

/// A group that is not mounted was once taken for gone, and one made again for the old one.
#[test]
fn a_group_is_gone_if_its_file_system_says_so() {
    let Some(group) = Group::new("gone") else { return };
    let name = format!("/{}", group.name());
    group.apply(&name, "0");
    for hide in ["umount /sys/fs/cgroup/cpuset", "mount -t tmpfs tmpfs /sys/fs/cgroup/cpuset"] {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-euc", &format!("{hide}\nexec \"$@\""), "sh"]);
        let run = rxlab(group.state.path(), &["undo"]);
        command.arg(run.get_program()).args(run.get_args()).stdin(Stdio::null());
        let text = one_line(&command.exits(5));
        assert!(text.contains("its control group file system is not mounted here"), "{text}");
        assert_eq!((group.cpus().as_str(), group.open().len()), ("0", 1), "{hide}");
    }
    fs::remove_dir(&group.path).expect("removed");
    group.make("0");
    let text = group.rxlab(&["undo"]).says(0, "gone, and its value with it");
    assert_eq!((group.cpus().as_str(), group.open().len()), ("0", 0), "another one: {text}");
    group.apply(&name, "1");
    fs::remove_dir(&group.path).expect("removed");
    group.rxlab(&["undo"]).says(0, "gone, and its value with it");
    group.make("0-1");
}

/// A process was once put back to the CPUs of its group as its own, and an older change of a process was closed over a newer one
/// of its group, which then gave the process what the older one had set.
#[test]
fn a_process_and_its_group_are_not_both_set() {
    let Some(group) = Group::new("members") else { return };
    let process = Running::silent(Command::new("sleep").arg("300"));
    let pid = process.pid().as_raw_nonzero().to_string();
    fs::write(group.path.join("cgroup.procs"), &pid).expect("moved");
    let allowed = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.expect("shown").trim().to_owned()
    };
    let (inner, outer) =
        (format!("affinity pid:{pid} = 0"), format!("affinity cgroup:/{} = 0", group.name()));
    for (first, second, why) in
        [(&inner, &outer, "is a process in it"), (&outer, &inner, "is its control group")]
    {
        group.rxlab(&["apply", "--set", first]).exits(0);
        group.rxlab(&["apply", "--set", &second.replace("= 0", "= 1")]).says(4, why);
        assert_eq!(allowed(), "0", "{second}");
        group.rxlab(&["undo"]).exits(0);
        assert_eq!((group.cpus().as_str(), &*allowed(), group.open().len()), ("0-1", "0-1", 0), "{first}");
    }
    // Nor is a list emptied that the kernel keeps.
    let inherit = format!("affinity cgroup:/{} = inherit", group.name());
    let kept = "this kernel empties the list only of a group without processes";
    group.rxlab(&["apply", "--dry-run", "--set", &inherit]).says(2, kept);
    drop(process);
    group.rxlab(&["apply", "--set", &inherit]).exits(0);
    assert_eq!(group.cpus(), "");
    group.rxlab(&["undo"]).exits(0);
    assert_eq!(group.cpus(), "0-1");
    // Nor is one given that it would keep with the first process that comes.
    group.set("\n");
    group.rxlab(&["apply", "--set", &outer]).says(3, kept);
    assert_eq!((group.cpus().as_str(), group.open().len()), ("", 0));
}

/// Version 1 leaves threads of other PID namespaces out of its lists: in one, a group with processes looked empty.
#[test]
fn a_group_may_have_processes_of_other_pid_namespaces() {
    let Some(group) = Group::new("outside") else { return };
    let process = Running::silent(Command::new("sleep").arg("300"));
    fs::write(group.path.join("cgroup.procs"), process.pid().as_raw_nonzero().to_string()).expect("moved");
    let inherit = format!("affinity cgroup:/{} = inherit", group.name());
    let dry = rxlab(group.state.path(), &["apply", "--dry-run", "--set", &inherit]);
    let mut inside = Command::new("unshare");
    inside.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    inside.arg(dry.get_program()).args(dry.get_args()).stdin(Stdio::null());
    let text = one_line(&inside.exits(5));
    assert!(text.contains("are unknown: some may not be visible in this PID namespace"), "{text}");
}

/// A group whose name is not UTF-8 was passed over, and what is in it counted as outside of the groups above.
#[test]
fn a_group_whose_name_is_not_text_may_have_the_process() {
    let Some(group) = Group::new("unnamed") else { return };
    let odd = group.path.join(OsStr::from_bytes(b"z\xff"));
    fs::create_dir(&odd).expect("made");
    fs::write(odd.join("cpuset.mems"), "0")
        .and_then(|()| fs::write(odd.join("cpuset.cpus"), "0"))
        .expect("written");
    let process = Running::silent(Command::new("sleep").arg("300"));
    let pid = process.pid().as_raw_nonzero();
    fs::write(odd.join("cgroup.procs"), pid.to_string()).expect("moved");
    group.apply(&format!("/{}", group.name()), "0");
    let (code, text) = group.rxlab(&["apply", "--set", &format!("affinity pid:{pid} = 1")]);
    drop(process);
    group.rxlab(&["undo"]).exits(0);
    wait_for("the end of the process", || fs::remove_dir(&odd).is_ok());
    assert!(code == 5 && one_line(&text).contains("its name is not UTF-8"), "{code}: {text}");
}

/// The same command in a control group namespace whose root is `group`.
fn grouped(group: &Group, command: &Command) -> Command {
    let script = "echo $$ > \"$0/cgroup.procs\"; exec unshare --cgroup \"$@\"";
    let mut grouped = Command::new("sh");
    grouped.args(["-euc", script]).arg(&group.path).arg(command.get_program()).args(command.get_args());
    grouped.stdin(Stdio::null());
    grouped
}

/// Where procfs hid the process, or a control group namespace named its groups otherwise, both were set, and neither order of
/// undo restored them. And a group that has the name of another one there was taken for that.
#[test]
fn a_process_and_its_group_are_not_both_set_from_another_view() {
    let (Some(group), Some(outer)) = (Group::new("viewed"), Group::new("viewer")) else { return };
    let process = Running::silent(Command::new("sleep").arg("300"));
    let pid = process.pid().as_raw_nonzero().to_string();
    fs::write(group.path.join("cgroup.procs"), &pid).expect("moved");
    let (of_process, of_group) =
        (format!("affinity pid:{pid} = 0"), format!("affinity cgroup:/{} = 1", group.name()));
    let apply = |set: &str| rxlab(group.state.path(), &["apply", "--set", set]);
    for (first, second, why) in
        [(&of_process, &of_group, "is a process in it"), (&of_group, &of_process, "is its control group")]
    {
        apply(first).exits(0);
        grouped(&outer, &apply(second)).says(4, why);
        grouped(&outer, &rxlab(group.state.path(), &["undo"])).exits(0);
        grouped(&outer, &apply(first)).exits(0);
        apply(second).says(4, why);
        group.rxlab(&["undo"]).exits(0);
        assert_eq!((group.cpus().as_str(), group.open().len()), ("0-1", 0), "{first}");
    }
    apply(&of_process).exits(0);
    let (code, text) = hiding(&apply(&of_group)).said();
    if require::have("hidepid", || (code == 77).then(|| text.clone())) {
        let why = format!("cannot read /proc/{pid}/stat: /proc does not show this process");
        assert!(code == 3 && one_line(&text).contains(&why), "{code}: {text}");
    }
    group.rxlab(&["undo"]).exits(0);
    // The group of the process has the path of the first one there.
    let inner =
        Group { path: outer.path.join(group.name()), state: tempfile::tempdir().expect("a directory") };
    inner.make("0-1");
    fs::write(inner.path.join("cgroup.procs"), &pid).expect("moved");
    apply(&of_group).exits(0);
    grouped(&outer, &apply(&of_process)).exits(0);
    for _ in 0..2 {
        group.rxlab(&["undo"]).exits(0);
    }
    assert_eq!((group.cpus().as_str(), group.open().len()), ("0-1", 0));
    drop(process);
    drop(inner);
}

/// In a user namespace, the kernel says of every group outside of the mounted part that there is none.
#[test]
fn a_group_that_a_user_namespace_does_not_reach_is_not_gone() {
    let (Some(group), Some(other)) = (Group::new("outside"), Group::new("mounted")) else { return };
    let missing = || {
        let (code, text) = Command::new("unshare").args(["--user", "--map-root-user", "true"]).said();
        (code != 0).then_some(text)
    };
    if !require::have("user_namespaces", missing) {
        return;
    }
    group.apply(&format!("/{}", group.name()), "0");
    let undo = rxlab(group.state.path(), &["undo"]);
    let script = "mount --bind \"$0\" /sys/fs/cgroup/cpuset\n\
                  exec unshare --user --map-root-user --mount \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-euc", script]).arg(&other.path);
    command.arg(undo.get_program()).args(undo.get_args()).stdin(Stdio::null());
    let text = one_line(&command.exits(5));
    assert!(text.contains("its control group is not at its path, and only root"), "{text}");
    assert_eq!((group.cpus().as_str(), group.open().len()), ("0", 1));
    group.rxlab(&["undo"]).exits(0);
    assert_eq!((group.cpus().as_str(), group.open().len()), ("0-1", 0));
}

/// A list was once written after the look for the group's directory, in which another one may take its path.
#[test]
fn a_group_that_is_held_is_reached_at_no_other_path() {
    let Some(group) = Group::new("held") else { return };
    let host = LiveHost::open(Path::new("/")).expect("opened");
    let path = group.path.strip_prefix("/").ok().and_then(Path::to_str).expect("text");
    let inode = host.inode(path).expect("there");
    let held = host.pinned(path, inode).expect("it is the one").expect("held");
    let renamed = group.path.with_extension("b");
    fs::rename(&group.path, &renamed).expect("renamed");
    group.make("0");
    held.write(&format!("{path}/cpuset.cpus"), b"1").expect("written");
    let moved = fs::read_to_string(renamed.join("cpuset.cpus")).expect("there");
    assert_eq!((moved.trim(), group.cpus().as_str()), ("1", "0"));
    assert_eq!(held.read_text(&format!("{path}/cpuset.cpus")).expect("there").trim(), "1");
    fs::remove_dir(&renamed).expect("removed");
    assert_eq!(held.write(&format!("{path}/cpuset.cpus"), b"0").expect_err("removed").cause, Cause::Missing);
    assert_eq!(group.cpus(), "0");
}
