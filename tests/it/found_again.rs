//! Undo on the running kernel after the environment has changed: an interface with another name, in another network
//! namespace, recreated or out of sight. Each of these once closed the transaction with rxlab's value still set, or
//! wrote to another interface.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rxlab::lab::{Namespace, Range};
use rxlab_change::journal::{Disk, Store};
use rxlab_sys::Host;

use crate::lab::{host_in, inside, range};
use crate::process::{Ended, Running, end_guards, guards, one_line, wait_for};
use crate::{quiet, require};

/// Two namespaces connected by a veth pair with two queues, and their own journal.
pub(crate) struct World {
    pub(crate) range: Range,
    pub(crate) state: tempfile::TempDir,
}

impl World {
    /// `None` if the test is skipped.
    pub(crate) fn new() -> Option<Self> {
        let state = tempfile::tempdir().expect("a temporary directory");
        range(2).map(|range| Self { range, state })
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.state.path().join("state")
    }

    /// `rxlab` in the process's own network namespace.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rxlab"));
        self.places(&mut command).args(args).stdin(Stdio::null());
        command
    }

    fn places<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.arg("--state-dir").arg(self.state()).arg("--run-dir").arg(self.state.path().join("run"))
    }

    pub(crate) fn rxlab(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("rxlab runs")
    }

    /// Runs `rxlab --netns SERVER` with `args`.
    pub(crate) fn on_server(&self, args: &[&str]) -> Output {
        let netns = self.range.server.path();
        self.rxlab(&[&["--netns", netns.to_str().expect("text")], args].concat())
    }

    /// A shell script in `namespace`, with its own mount namespace whose /sys shows it. `$@` is rxlab.
    pub(crate) fn inside(&self, namespace: &Namespace, script: &str) -> Command {
        let mut command = inside(namespace, "unshare");
        command.args(["--mount", "sh", "-euc", &format!("mount -t sysfs sysfs /sys\n{script}"), "sh"]);
        self.places(command.arg(env!("CARGO_BIN_EXE_rxlab")));
        command
    }

    pub(crate) fn apply(&self, setting: &str) {
        self.on_server(&["apply", "--setting", setting]).exits(0);
    }

    /// A trial of RPS on the server, in its second slot.
    fn start_trial(&self) -> Running {
        let mut command = self.command(&["trial", "run", "--live", "--netns"]);
        command.arg(self.range.server.path());
        command.args(["--set", "rps srv0/rx-0 = 0-1", "--washout", "50ms", "--measure", "100ms"]);
        let trial = Running::start(command.args(["--pairs", "400", "--calibration", "0"]));
        wait_for("arm B", || mask(&self.range.server, "srv0", 0) == "3");
        trial
    }

    /// Waits until a guard has reverted the change, and has ended: until then it may hold the lock.
    pub(crate) fn wait_for_guard(&self) {
        let is_back = || mask(&self.range.server, "srv0", 0) == "0" && !self.has_open();
        wait_for("the guard", || is_back() && guards(self.state.path()).is_empty());
    }

    pub(crate) fn has_open(&self) -> bool {
        !Store::new(Disk::new(self.state())).open_ids().expect("listed").is_empty()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        end_guards(self.state.path());
    }
}

fn mask_path(nic: &str, queue: u32) -> String {
    format!("sys/class/net/{nic}/queues/rx-{queue}/rps_cpus")
}

pub(crate) fn mask(namespace: &Namespace, nic: &str, queue: u32) -> String {
    host_in(namespace).read_text(&mask_path(nic, queue)).expect("there").trim().to_owned()
}

pub(crate) fn set_mask(namespace: &Namespace, nic: &str, queue: u32, mask: &str) {
    host_in(namespace).write(&mask_path(nic, queue), mask.as_bytes()).expect("written");
}

#[test]
fn a_renamed_interface_is_restored() {
    let Some(world) = World::new() else { return };
    let server = &world.range.server;
    set_mask(server, "srv0", 0, "1");
    world.apply("rps srv0/rx-0 = 0-1");
    server.ip("link set srv0 down").expect("down");
    server.ip("link set srv0 name lan7").expect("renamed");
    world.rxlab(&["status"]).says(0, "rps lan7/rx-0 = 0-1  (was 0)  kept");
    world.rxlab(&["undo"]).says(0, "rps lan7/rx-0: back to 0");
    assert_eq!((mask(server, "lan7", 0).as_str(), world.has_open()), ("1", false));
}

/// By the time of the undo the name belongs to another interface, which has rxlab's value as well.
#[test]
fn a_name_that_changed_hands() {
    let Some(world) = World::new() else { return };
    let server = &world.range.server;
    world.apply("rps srv0/rx-0 = 0-1");
    server.ip("link set srv0 down").expect("down");
    server.ip("link set srv0 name lan7").expect("renamed");
    server.ip("link add srv0 type veth peer name other").expect("added");
    set_mask(server, "srv0", 0, "3");
    world.rxlab(&["undo"]).says(0, "rps lan7/rx-0: back to off");
    assert_eq!(mask(server, "lan7", 0), "0");
    assert_eq!(mask(server, "srv0", 0), "3", "foreign, whatever its value");
}

#[test]
fn an_interface_moved_to_another_namespace_is_restored() {
    let Some(world) = World::new() else { return };
    let (server, client) = (&world.range.server, &world.range.client);
    world.apply("rps srv0/rx-0 = 0-1");
    server.ip(&format!("link set srv0 netns {}", client.path().display())).expect("moved");
    world.rxlab(&["undo"]).says(0, "rps srv0/rx-0: back to off");
    assert_eq!((mask(client, "srv0", 0).as_str(), world.has_open()), ("0", false));
}

#[test]
fn an_interface_that_left_and_returned_is_restored() {
    let Some(world) = World::new() else { return };
    let (server, client) = (&world.range.server, &world.range.client);
    world.apply("rps srv0/rx-0 = 0-1");
    server.ip(&format!("link set srv0 netns {}", client.path().display())).expect("moved");
    client.ip(&format!("link set srv0 name srv9 netns {}", server.path().display())).expect("moved back");
    world.rxlab(&["undo"]).exits(0);
    assert_eq!((mask(server, "srv9", 0).as_str(), world.has_open()), ("0", false));
}

/// The change was made in the process's own namespace, and the undo runs in another one.
#[test]
fn undo_works_from_another_namespace() {
    let Some(world) = World::new() else { return };
    let (server, client) = (&world.range.server, &world.range.client);
    let apply = "exec \"$@\" apply --setting 'rps srv0/rx-0 = 0-1'";
    world.inside(server, apply).exits(0);
    // An interface with the same name in this namespace is a different one.
    client.ip("link add srv0 type veth peer name other").expect("added");
    set_mask(client, "srv0", 0, "3");
    world.inside(client, "exec \"$@\" undo").says(0, "rps srv0/rx-0: back to off");
    assert_eq!((mask(server, "srv0", 0).as_str(), mask(client, "srv0", 0).as_str()), ("0", "3"));
    assert!(!world.has_open());
}

/// The kernel reuses the inode of a deleted namespace for the next one, and container engines name every first
/// interface eth0.
#[test]
fn a_namespace_with_a_reused_inode_is_left_alone() {
    let Some(world) = World::new() else { return };
    let _visible = quiet::all_visible();
    let inner = Namespace::new().expect("made");
    inner.ip("link add eth0 type veth peer name eth1").expect("added");
    let netns = inner.path();
    let apply = ["--netns", netns.to_str().expect("text"), "apply", "--setting", "rps eth0/rx-0 = 0-1"];
    world.rxlab(&apply).exits(0);
    drop(inner);
    let later = Namespace::new().expect("made");
    later.ip("link add eth0 type veth peer name eth1").expect("added");
    set_mask(&later, "eth0", 0, "3");
    world.rxlab(&["undo"]).says(0, "rps eth0/rx-0: gone, and its value with it");
    assert_eq!((mask(&later, "eth0", 0).as_str(), world.has_open()), ("3", false));
}

/// `sys/class/net` cannot be listed at the deadline. The guard once concluded that the device was gone. Without
/// CAP_SYS_ADMIN, it sees only what is mounted on /sys.
#[test]
fn a_guard_waits_until_interfaces_can_be_listed() {
    let Some(world) = World::new() else { return };
    let server = &world.range.server;
    let script = "setpriv --bounding-set -sys_admin --inh-caps -sys_admin \"$@\" apply --setting 'rps srv0/rx-0 = 0-1' --confirm 1s\n\
                  umount --lazy /sys\nsleep 3\ntouch \"$MARK\"\nmount -t sysfs sysfs /sys\nsleep 30";
    let mark = world.state.path().join("mark");
    let mut command = world.inside(server, script);
    let script = Running::start(command.env("MARK", &mark));
    wait_for("the change", || mask(server, "srv0", 0) == "3");
    wait_for("the deadline, with nothing in sight", || mark.exists());
    // Only now the guard can list interfaces again.
    world.wait_for_guard();
    drop(script);
}

/// Another program removes a queue and adds it back. The kernel has reset the value, and the transaction was once
/// closed over the original as if the value were foreign.
#[test]
fn a_queue_that_went_and_came_back() {
    let Some(world) = World::new() else { return };
    require::needs!(ethtool);
    let server = &world.range.server;
    let channels = |count: u32| {
        let script = format!("exec ethtool -L srv0 rx {count} tx {count}");
        world.inside(server, &script).exits(0);
    };
    set_mask(server, "srv0", 1, "2");
    world.apply("rps srv0/rx-1 = 0-1");
    channels(1);
    world.rxlab(&["undo"]).says(4, "the queue does not exist now; another `rxlab undo` sets 1");
    assert!(world.has_open());
    channels(2);
    assert_eq!(mask(server, "srv0", 1), "0", "a new queue has no mask");
    world.rxlab(&["undo"]).says(0, "rps srv0/rx-1: back to 1");
    assert_eq!((mask(server, "srv0", 1).as_str(), world.has_open()), ("2", false));
}

/// A value equal to a new queue's default was set on the existing queue. Nothing shows who set it, so the original is
/// kept until the user decides.
#[test]
fn a_default_set_by_another_program_is_left_to_the_user() {
    let Some(world) = World::new() else { return };
    let server = &world.range.server;
    set_mask(server, "srv0", 0, "2");
    for decision in ["--force", "--forget"] {
        world.apply("rps srv0/rx-0 = 0-1");
        set_mask(server, "srv0", 0, "0");
        world.rxlab(&["undo"]).says(4, "which the kernel gives a new queue");
        let id = Store::new(Disk::new(world.state())).open_ids().expect("listed").remove(0);
        world.rxlab(&["undo", decision, &id]).exits(0);
        assert!(!world.has_open());
        assert_eq!(mask(server, "srv0", 0), if decision == "--force" { "2" } else { "0" });
    }
}

/// A link flap does not reset the XPS of a veth, but it once made undo consider a default that was set since as the
/// kernel's.
#[test]
fn a_default_set_after_a_link_flap_is_foreign() {
    let Some(world) = World::new() else { return };
    let (server, client) = (&world.range.server, &world.range.client);
    let path = "sys/class/net/srv0/queues/tx-0/xps_cpus";
    let set = |mask: &str| host_in(server).write(path, mask.as_bytes()).expect("written");
    set("1");
    world.apply("xps_cpus srv0/tx-0 = 1");
    client.ip("link set cli0 down").expect("down");
    client.ip("link set cli0 up").expect("up");
    set("0");
    let text = world.rxlab(&["undo"]).says(4, "left alone");
    assert_eq!(host_in(server).read_text(path).expect("there").trim(), "0");
    assert!(world.has_open() && text.contains("next: `rxlab undo --force"), "{text}");
}

/// The kernel escapes the blank in the mount list. Such a namespace was once skipped, and its interfaces considered
/// gone.
#[test]
fn an_interface_in_a_namespace_held_only_by_a_mount() {
    let Some(world) = World::new() else { return };
    let script = "\"$@\" apply --setting 'rps srv0/rx-0 = 0-1'\n\
                  touch \"$DIR/my ns\"\n\
                  unshare --net mount --bind /proc/self/ns/net \"$DIR/my ns\"\n\
                  ip link set srv0 netns \"$DIR/my ns\"\n\
                  \"$@\" undo\n\
                  nsenter --net=\"$DIR/my ns\" sh -euc \
                  'mount -t sysfs sysfs /sys; cat /sys/class/net/srv0/queues/rx-0/rps_cpus'";
    let mut command = world.inside(&world.range.server, script);
    let text = command.env("DIR", world.state.path()).says(0, "rps srv0/rx-0: back to off");
    assert_eq!(text.lines().last(), Some("0"), "{text}");
}

/// A namespace that is mounted only where other processes see it was once skipped, and its interfaces considered gone.
#[test]
fn an_interface_in_a_namespace_of_another_mount_namespace() {
    let Some(world) = World::new() else { return };
    require::needs!(root);
    world.apply("rps srv0/rx-0 = 0-1");
    let script = "touch \"$DIR/ns\"\n\
                  unshare --net mount --bind /proc/self/ns/net \"$DIR/ns\"\n\
                  ip link set srv0 netns \"$DIR/ns\"\n\
                  nsenter --net=\"$DIR/ns\" mount -t sysfs sysfs /sys\n\
                  while read -r line; do eval \"$line\"; done";
    let mut command = world.inside(&world.range.server, script);
    let mut holder = Running::start(command.env("DIR", world.state.path()).stdin(Stdio::piped()));
    let (mut input, lines) = (holder.stdin(), holder.lines());
    let mut run = |line: &str| {
        writeln!(input, "{line}").expect("it reads");
        lines.recv().expect("it answers")
    };
    // What covers the mount hides what is in it, and nothing else.
    let hiding = quiet::hiding();
    run("mount -t tmpfs tmpfs \"$DIR\"; echo covered");
    an_interface_moved_to_another_namespace_is_restored();
    // Once undo opened what was in its place.
    run("mkfifo \"$DIR/ns\"; echo waits");
    let undo = world.command(&["undo"]);
    let mut bounded = Command::new("timeout");
    bounded.arg("30").arg(undo.get_program()).args(undo.get_args());
    let text = one_line(&bounded.output().expect("it runs").exits(5));
    assert!(
        text.contains("the namespace mounted on /proc/") && text.contains("/ns is not visible"),
        "{text}"
    );
    assert!(world.has_open());
    run("umount \"$DIR\"; echo uncovered");
    drop(hiding);
    world.rxlab(&["undo"]).says(0, "rps srv0/rx-0: back to off");
    assert_eq!(run("cat /sys/class/net/srv0/queues/rx-0/rps_cpus"), "0");
    assert!(!world.has_open());
}

/// A failing disk is remounted read-only. Neither guard nor undo could then take their lock on it.
#[test]
fn a_file_system_that_went_read_only() {
    let Some(world) = World::new() else { return };
    let server = &world.range.server;
    let script = "mkdir -p \"$STATE\"\nmount -t tmpfs -o mode=755 tmpfs \"$STATE\"\n\
                  \"$@\" apply --setting 'rps srv0/rx-0 = 0-1' --confirm 2s\n\
                  mount -o remount,ro \"$STATE\"\n\
                  while [ $(cat /sys/class/net/srv0/queues/rx-0/rps_cpus) != 0 ]; do sleep 0.1; done\n\
                  ls \"$STATE\"/journal/*.jsonl >/dev/null\n\
                  \"$@\" undo && exit 7\n\
                  mount -o remount,rw \"$STATE\"\n\
                  while ls \"$STATE\"/journal/*.jsonl 2>/dev/null; do sleep 0.1; done";
    let mut command = world
        .inside(server, &format!("exec timeout 40 sh -euc '{}' sh \"$@\"", script.replace('\'', "'\\''")));
    command.env("STATE", world.state()).says(0, "the values are back, but cannot append to the journal");
    assert_eq!(mask(server, "srv0", 0), "0");
}

/// The lock was once opened for writing, which fails on a file system that has become read-only.
#[test]
fn the_lock_is_taken_on_a_file_system_that_went_read_only() {
    let Some(world) = World::new() else { return };
    let server = &world.range.server;
    let script = "mount -t tmpfs -o mode=755 tmpfs \"$DIR\"\n\
                  \"$@\" apply --setting 'rps srv0/rx-0 = 0-1'\n\
                  mount -o remount,ro \"$DIR\"\n\
                  \"$@\" undo && exit 7\n\
                  cat /sys/class/net/srv0/queues/rx-0/rps_cpus\n\
                  mount -o remount,rw \"$DIR\"\n\
                  \"$@\" undo";
    let mut command = world.inside(server, script);
    let text = command.env("DIR", world.state.path()).exits(0);
    let text = one_line(&text);
    assert!(text.contains("the values are back, but cannot append to the journal"), "{text}");
    assert!(text.contains("rps srv0/rx-0: already off"), "{text}");
    assert_eq!(mask(server, "srv0", 0), "0");
}

/// Undo of one journal would consider the other one's values foreign, and the original would be lost.
#[test]
fn two_journals_on_one_machine() {
    let Some(world) = World::new() else { return };
    world.apply("rps srv0/rx-0 = 0");
    let other = world.state.path().join("other");
    let second = |root: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rxlab"));
        command.args(["--root", root]).arg("--state-dir").arg(&other);
        command.arg("--run-dir").arg(world.state.path().join("run")).arg("--netns");
        command.arg(world.range.server.path()).args(["apply", "--setting", "rps srv0/rx-0 = 1"]).said()
    };
    second("/").says(4, "is open in another journal");
    assert_eq!(mask(&world.range.server, "srv0", 0), "1", "as it was");
    // Another spelling of `/` once had its own lock.
    second("/tmp/..").says(4, "is open in another journal");
    world.rxlab(&["undo"]).exits(0);
    second("/").exits(0);
}

/// A stopped or hanging applier keeps the lock. The guard once waited for it forever.
#[test]
fn the_change_of_a_stopped_applier_is_restored() {
    let Some(world) = World::new() else { return };
    // A trial holds the lock from its first slot to its last. Its deadline is far away, so the guard is terminated.
    let trial = world.start_trial();
    trial.signal(rustix::process::Signal::STOP);
    let guards = guards(world.state.path());
    rustix::process::kill_process(guards[0], rustix::process::Signal::TERM).expect("sent");
    world.wait_for_guard();
}

/// The deadline of a trial is twice its length away, which may be hours.
#[test]
fn a_killed_trial_is_restored_at_once() {
    let Some(world) = World::new() else { return };
    let trial = world.start_trial();
    trial.signal(rustix::process::Signal::KILL);
    world.wait_for_guard();
}

/// The state directory is out of sight for a moment while the guard waits, as when it is renamed and back.
#[test]
fn a_guard_survives_an_invisible_journal() {
    let Some(world) = World::new() else { return };
    world.on_server(&["apply", "--setting", "rps srv0/rx-0 = 0-1", "--confirm", "3s"]).exits(0);
    let away = world.state.path().join("away");
    std::fs::rename(world.state(), &away).expect("renamed");
    std::thread::sleep(Duration::from_millis(800));
    assert!(!world.state().exists(), "the guard makes no second journal");
    std::fs::rename(&away, world.state()).expect("renamed back");
    world.wait_for_guard();
}
