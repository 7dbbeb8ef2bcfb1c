//! Processes seen from several PID and time namespaces, on the running kernel: numbers and start times that are another
//! process's elsewhere.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rxlab_base::parse;
use rxlab_sys::Host;

use crate::found_again::{World, mask};
use crate::lab::{host_in, inside};
use crate::process::{Ended, Running, end_guards, one_line, wait_for};
use crate::require;

/// CPUs that each thread of a process may run on, the main thread first.
fn lists(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let tid = |task: std::io::Result<std::fs::DirEntry>| {
        let name = task.expect("listed").file_name();
        name.to_str().and_then(|name| name.parse().ok()).expect("a number")
    };
    let mut tids: Vec<u32> = tasks.map(tid).collect();
    // The kernel begins with low numbers again after the highest.
    tids.sort_by_key(|tid| (*tid != pid, *tid));
    let list = |tid| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).expect("it runs");
        parse::allowed_cpus(&text).expect("whole").to_string()
    };
    tids.into_iter().map(list).collect()
}

fn allowed(pid: u32) -> String {
    lists(pid).remove(0)
}

fn number(process: &Running) -> u32 {
    process.pid().as_raw_nonzero().get().unsigned_abs()
}

/// The first child of a process.
fn child(pid: u32) -> u32 {
    let mut found = None;
    wait_for("a child", || {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        found = parse::children(&text).expect("numbers").first().copied();
        found.is_some()
    });
    found.expect("found")
}

/// A PID namespace with a process in it.
struct Inner {
    shell: Running,
    /// Its number inside.
    inside: u32,
    /// Its number outside.
    outside: u32,
}

impl Inner {
    /// Starts `sleep` in a new PID namespace, as number `pid` there if that is given. `more` are arguments of unshare.
    fn new(more: &[&str], pid: Option<u32>) -> Self {
        let script = "[ $# = 0 ] || echo $(($1 - 1)) > /proc/sys/kernel/ns_last_pid\n\
                      sleep 600 & echo $!; wait";
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child"]).args(more).args(["sh", "-euc", script, "sh"]);
        command.args(pid.map(|pid| pid.to_string())).stdin(Stdio::null());
        let mut shell = Running::start(&mut command);
        let inside = shell.first_line().trim().parse().expect("a number");
        let outside = child(child(number(&shell)));
        let inner = Self { shell, inside, outside };
        wait_for("sleep", || {
            std::fs::read_to_string(format!("/proc/{outside}/comm")).is_ok_and(|name| name == "sleep\n")
        });
        inner
    }

    /// The same command in the namespace. With `mounts`, it sees the mounts there, else the outer `/proc`.
    fn enter(&self, mounts: bool, command: &Command) -> Command {
        let shell = number(&self.shell);
        let mut inner = Command::new("nsenter");
        inner.arg(format!("--pid=/proc/{shell}/ns/pid_for_children"));
        if mounts {
            inner.arg(format!("--mount=/proc/{}/ns/mnt", self.outside));
        }
        inner.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
        inner
    }
}

/// Numbers from an outer `/proc` were once given to system calls: an innocent process was moved, and the value of the named
/// one was lost.
#[test]
fn nothing_is_set_by_numbers_of_another_namespace() {
    let Some(world) = World::new() else { return };
    require::needs!(root, ethtool);
    let named = Running::silent(Command::new("sleep").arg("600"));
    let pid = number(&named);
    let inner = Inner::new(&[], Some(pid));
    assert_eq!(inner.inside, pid);
    let state = || [pid, inner.outside].map(allowed);
    let before = state();
    let run = |args: &[&str]| inner.enter(false, &world.command(args)).said();
    let why = "mount a /proc of this one, or run rxlab outside of it";
    let set = |cpu: u32| format!("affinity pid:{pid} = {cpu}");
    let text = one_line(&run(&["apply", "--set", &set(0)]).exits(3));
    let numbers = "/proc may have the process numbers of another PID namespace (this is process ";
    assert!(text.contains(numbers) && text.contains(why), "{text}");
    assert_eq!((state(), world.has_open()), (before.clone(), false));

    world.rxlab(&["apply", "--set", &set(1)]).exits(0);
    let applied = ["1".to_owned(), before[1].clone()];
    assert_eq!(state(), applied);
    for (command, code) in [("status", 1), ("undo", 5)] {
        let text = one_line(&run(&[command]).exits(code));
        assert!(text.contains(why), "{text}");
        assert_eq!((state(), world.has_open()), (applied.clone(), true), "{command}");
    }
    world.rxlab(&["undo"]).says(0, "back to all");
    assert_eq!((state(), world.has_open()), (before, false));

    // Nor are threads ended whose values could not be set again.
    let (server, netns) = (&world.range.server, world.range.server.path());
    inside(server, "ethtool").args(["-K", "srv0", "gro", "on"]).exits(0);
    let threaded = "sys/class/net/srv0/threaded";
    host_in(server).write(threaded, b"1").expect("written");
    let off = ["--netns", netns.to_str().expect("text"), "apply", "--set", "threaded srv0 = off"];
    let text = one_line(&run(&off).exits(3));
    assert!(text.contains(why), "{text}");
    let kept = host_in(server).read_text(threaded).expect("there");
    assert_eq!((kept.trim(), world.has_open()), ("1", false));
}

/// The namespace of the process that has this number outside was once changed.
#[test]
fn no_namespace_is_entered_by_a_number_of_another_one() {
    let Some(world) = World::new() else { return };
    let inner = Inner::new(&[], None);
    for options in
        [&["--netns", "1", "status"][..], &["trial", "run", "--load", "http://h", "--load-netns", "1"]]
    {
        let text = one_line(&inner.enter(false, &world.command(options)).said().exits(2));
        assert!(text.contains("/proc may have the process numbers of another PID namespace"), "{text}");
    }
    world.rxlab(&["--netns", &std::process::id().to_string(), "status"]).exits(0);
}

/// The same command where procfs hides other processes. It exits with 77 before Linux 5.8.
pub(crate) fn hiding(command: &Command) -> Command {
    let script = "mount -t proc -o hidepid=4 proc /proc || exit 77\n\
                  exec setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace \"$@\"";
    let mut hiding = Command::new("unshare");
    hiding.args(["--mount", "sh", "-euc", script, "sh"]).arg(command.get_program()).args(command.get_args());
    hiding.stdin(Stdio::null());
    hiding
}

/// An interface in a network namespace that only hidden processes are in was once gone, and its value stayed.
#[test]
fn an_interface_of_hidden_processes_is_not_gone() {
    let Some(world) = World::new() else { return };
    require::needs!(root);
    let server = &world.range.server;
    let run = |command: &Command| {
        let mut run = inside(server, "env");
        run.arg(command.get_program()).args(command.get_args());
        run
    };
    run(&world.command(&["apply", "--set", "rps srv0/rx-0 = 1"])).exits(0);
    let mut holder = Running::start(
        Command::new("unshare")
            .args(["--net", "sh", "-c", "echo ready; exec sleep 600"])
            .stdin(Stdio::null()),
    );
    holder.first_line();
    server.ip(&format!("link set srv0 netns {}", number(&holder))).expect("moved");
    // From the namespace that the interface was in, and from another one, which does not find that either.
    let undo = || hiding(&world.command(&["undo"]));
    for (mut command, expected) in [(run(&undo()), 5), (undo(), 4)] {
        let (code, text) = command.said();
        let text = one_line(&text);
        if require::have("hidepid", || (code == 77).then(|| text.clone())) {
            let why = "/proc hides processes, and what only they have (hidepid=ptraceable)";
            assert!(code == expected && text.contains(why), "{code}: {text}");
        }
        assert!(world.has_open());
    }
    world.rxlab(&["undo"]).says(0, "rps srv0/rx-0: back to off");
    assert!(!world.has_open());
}

/// A process that procfs hides (hidepid) was once gone, and its value stayed.
#[test]
fn a_hidden_process_is_not_gone() {
    let Some(world) = World::new() else { return };
    require::needs!(root);
    let process = Running::silent(Command::new("sleep").arg("600"));
    let pid = number(&process);
    let before = allowed(pid);
    world.rxlab(&["apply", "--set", &format!("affinity pid:{pid} = 0")]).exits(0);
    let (code, text) = hiding(&world.command(&["undo"])).said();
    let text = one_line(&text);
    if require::have("hidepid", || (code == 77).then(|| text.clone())) {
        let why = format!("cannot read /proc/{pid}/stat: /proc does not show this process");
        assert!(code == 5 && text.contains(&why), "{code}: {text}");
    }
    assert_eq!((allowed(pid).as_str(), world.has_open()), ("0", true));
    world.rxlab(&["undo"]).exits(0);
    assert_eq!((allowed(pid), world.has_open()), (before, false));
}

/// The guard once killed the process that has the number of the lock's holder in its own PID namespace.
#[test]
fn a_guard_kills_nothing_by_a_number_of_another_namespace() {
    let Some(world) = World::new() else { return };
    require::needs!(root);
    world.rxlab(&["undo"]).exits(0);
    let mut holder = Command::new("sh");
    holder.args(["-euc", "read line; exec flock -o \"$1\" sleep 600", "sh"]);
    holder.arg(world.state.path().join("run/lock")).stdin(Stdio::piped());
    let mut holder = Running::start(&mut holder);
    let inner = Inner::new(&[], Some(number(&holder)));
    let netns = world.range.server.path();
    let set = "rps srv0/rx-0 = 0-1";
    let apply = ["--netns", netns.to_str().expect("text"), "apply", "--confirm", "1s", "--set", set];
    inner.enter(false, &world.command(&apply)).said().exits(0);
    holder.stdin().write_all(b"\n").expect("it reads");
    // The deadline, and the time after which a holder is killed.
    std::thread::sleep(Duration::from_secs(9));
    assert!(!holder.has_ended());
    let is_there = Path::new("/proc").join(inner.outside.to_string()).join("exe").exists();
    assert!(is_there, "an innocent process was killed");
    assert_eq!(mask(&world.range.server, "srv0", 0), "3");
    let sleep = child(number(&holder));
    drop(holder);
    Command::new("kill").arg(sleep.to_string()).status().expect("kill runs");
    world.wait_for_guard();
}

/// A main thread and one that is pinned to CPU 1.
const PINNED: &str = "import os, threading, time
def run():
    os.sched_setaffinity(0, {1})
    print('ready', flush=True)
    time.sleep(600)
threading.Thread(target=run, daemon=True).start()
time.sleep(600)
";

/// True if the kernel has time namespaces.
fn has_time_namespaces() -> bool {
    let missing = || (!Path::new("/proc/self/ns/time").exists()).then(|| "CONFIG_TIME_NS".to_owned());
    require::root() && require::have("time_namespaces", missing)
}

/// The same command in a new time namespace, whose boot is so many seconds earlier.
fn shifted(seconds: i64, command: &Command) -> Command {
    let mut shifted = Command::new("unshare");
    shifted.args(["--time", "--fork", "--boottime", &seconds.to_string()]);
    shifted.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    shifted
}

/// Start times depend on the time namespace of the reader: living processes were once gone.
#[test]
fn a_process_is_the_same_in_every_time_namespace() {
    let Some(world) = World::new() else { return };
    if !has_time_namespaces() {
        return;
    }
    let mut process = Running::start(Command::new("python3").args(["-c", PINNED]).stdin(Stdio::null()));
    process.first_line();
    let pid = number(&process);
    let before = lists(pid);
    assert_eq!(before[1], "1");
    let set = format!("affinity pid:{pid} = 0");
    let (apply, undo) = (world.command(&["apply", "--set", &set]), world.command(&["undo"]));
    let plain = |command: &Command| {
        let mut plain = Command::new(command.get_program());
        plain.args(command.get_args()).stdin(Stdio::null());
        plain
    };
    let inside = |command: &Command| shifted(100_000, command);
    for (mut apply, mut undo) in
        [(inside(&apply), plain(&undo)), (plain(&apply), inside(&undo)), (inside(&apply), inside(&undo))]
    {
        apply.exits(0);
        assert_eq!(lists(pid), ["0", "0"]);
        undo.exits(0);
        assert_eq!((lists(pid), world.has_open()), (before.clone(), false));
    }
}

/// A number of a container is another process's on its machine, or none's: living processes were once gone.
#[test]
fn a_process_of_another_pid_namespace_is_not_gone() {
    let Some(world) = World::new() else { return };
    require::needs!(root);
    let inner = Inner::new(&["--mount-proc"], None);
    let before = allowed(inner.outside);
    let set = format!("affinity pid:{} = 0", inner.inside);
    inner.enter(true, &world.command(&["apply", "--set", &set])).exits(0);
    assert_eq!(allowed(inner.outside), "0");
    let text = one_line(&world.rxlab(&["status"]).exits(1));
    assert!(text.contains("unknown: its number is of another PID namespace"), "{text}");
    let text = one_line(&world.rxlab(&["undo"]).exits(5));
    assert!(text.contains("run `rxlab undo` there") && text.contains("`rxlab undo --forget "), "{text}");
    assert_eq!((allowed(inner.outside).as_str(), world.has_open()), ("0", true));
    inner.enter(true, &world.command(&["undo"])).says(0, "back to all");
    assert_eq!((allowed(inner.outside), world.has_open()), (before, false));
}

/// CLOCK_BOOTTIME depends on the time namespace: a change was once reverted by another command before its deadline.
#[test]
fn a_deadline_is_the_same_in_every_time_namespace() {
    let Some(world) = World::new() else { return };
    if !has_time_namespaces() {
        return;
    }
    let netns = world.range.server.path();
    let apply = |set| {
        let netns = netns.to_str().expect("text");
        world.command(&["--netns", netns, "apply", "--confirm", "60s", "--set", set])
    };
    let uptime = i64::try_from(rxlab_sys::boottime_ns() / 1_000_000_000).expect("years");
    // One that begins close to its boot, and one long after.
    for shift in [10 - uptime, 100_000] {
        shifted(shift, &apply("rps srv0/rx-0 = 0-1")).exits(0);
        for mut look in
            [world.command(&["status"]), shifted(-shift.min(0) + 5000, &world.command(&["status"]))]
        {
            let text = one_line(&look.exits(0));
            let left = text.split_once("reverts in ").expect("it waits").1;
            let left: u32 = left.split(' ').next().and_then(|left| left.parse().ok()).expect("seconds");
            assert!((30..=60).contains(&left), "{text}");
        }
        apply("rps srv0/rx-1 = 0").says(4, "is waiting for confirmation");
        assert_eq!(mask(&world.range.server, "srv0", 0), "3");
        world.rxlab(&["confirm"]).exits(0);
        shifted(7, &world.command(&["undo"])).exits(0);
        assert_eq!((mask(&world.range.server, "srv0", 0).as_str(), world.has_open()), ("0", false));
    }
    end_guards(world.state.path());
}
