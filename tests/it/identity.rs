//! What a value belongs to, on the running kernel: one view of files and sockets, names that lead nowhere, several names
//! of one target, and values that are persisted over and over.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use rxlab::lab::Namespace;
use rxlab_base::parse::{GroSize, ethtool};
use rxlab_base::units::NicName;
use rxlab_change::journal::{Disk, Store};
use rxlab_sys::{Action, Cause, EthtoolGet, Host, Query};

use crate::found_again::{World, mask, set_mask};
use crate::lab::{host_in, inside};
use crate::process::{Ended, Running, one_line, renaming, rxlab, take_name, wait_for};
use crate::{quiet, require};

/// `ip link set FROM name TO` inside, with any bytes.
fn rename(namespace: &Namespace, from: &[u8], to: &[u8]) {
    let mut command = inside(namespace, "ip");
    command.args(["link", "set"]).arg(OsStr::from_bytes(from)).arg("name").arg(OsStr::from_bytes(to));
    command.exits(0);
}

fn gro(namespace: &Namespace, nic: &str) -> String {
    let text = inside(namespace, "ethtool").args(["-k", nic]).exits(0);
    let line = text.lines().find(|line| line.starts_with("generic-receive-offload:"));
    line.expect("shown").rsplit(' ').next().expect("a value").to_owned()
}

/// Names and inodes from the sysfs of one namespace, sockets in another: undo once overwrote an interface that was never
/// changed, and exited with 0.
#[test]
fn files_and_sockets_are_of_one_namespace() {
    let Some(world) = World::new() else { return };
    require::needs!(ethtool);
    let (server, client) = (&world.range.server, &world.range.client);
    client.ip("link add srv0 type veth peer name other").expect("added");
    for (namespace, value) in [(server, "off"), (client, "on")] {
        inside(namespace, "ethtool").args(["-K", "srv0", "gro", value]).exits(0);
    }
    set_mask(client, "srv0", 0, "3");
    let state = || [server, client].map(|namespace| (gro(namespace, "srv0"), mask(namespace, "srv0", 0)));
    let before = state();
    // The script sees the sysfs of the client.
    let run = |script: &str| {
        let script = format!("exec nsenter --net=\"$SERVER\" {script}");
        let mut command = world.inside(client, &script);
        command.env("SERVER", server.path()).said()
    };
    let apply = "\"$@\" apply --set 'gro srv0 = on' --set 'rps srv0/rx-0 = 1'";
    run(apply).exits(0);
    let changed = ("on".to_owned(), "2".to_owned());
    assert_eq!(state(), [changed, before[1].clone()], "the interface of the sockets");
    run("\"$@\" undo").says(0, "rps srv0/rx-0: back to off");
    assert_eq!((state(), world.has_open()), (before.clone(), false));
    // Where no sysfs can be mounted, the two are compared.
    let bare = "setpriv --bounding-set -sys_admin --inh-caps -sys_admin ";
    let why = "/sys shows a network namespace other than this process's: it";
    run(&format!("{bare}{apply}")).says(3, why);
    run(&format!("{bare}\"$@\" show")).says(0, &format!("rxlab: warning: {why}"));
    assert_eq!((state(), world.has_open()), (before.clone(), false));
    run(apply).exits(0);
    let applied = state();
    run(&format!("{bare}\"$@\" undo")).says(4, why);
    assert_eq!((state(), world.has_open()), (applied, true));
    // Its own namespace in both views needs no mount.
    let own = world.inside(server, &format!("exec {bare}\"$@\" undo")).says(0, "rps srv0/rx-0: back to off");
    assert!(!own.contains("warning"), "{own}");
    assert_eq!((state(), world.has_open()), (before, false));
}

/// An interface of another program with a name that is not UTF-8 once kept all values of its namespace from being restored.
#[test]
fn a_name_that_is_not_text_decides_nothing() {
    let Some(world) = World::new() else { return };
    let server = &world.range.server;
    world.on_server(&["apply", "--set", "rps srv0/rx-0 = 1", "--confirm", "2s"]).exits(0);
    server.ip("link add c0 type veth peer name c1").expect("added");
    rename(server, b"c1", b"z\xff");
    rename(server, b"c0", b"\xff\xfe\xfd\xfc\xfb");
    world.wait_for_guard();
    world.apply("rps srv0/rx-0 = 1");
    world.rxlab(&["status"]).says(0, "rps srv0/rx-0 = 1  (was off)  kept");
    world.rxlab(&["undo"]).says(0, "rps srv0/rx-0: back to off");
    // Only the interface itself, under such a name, cannot be restored.
    world.apply("rps srv0/rx-0 = 1");
    server.ip("link set srv0 down").expect("down");
    rename(server, b"srv0", b"srv\xff");
    world.rxlab(&["undo"]).says(5, r"its interface is now named srv\xff, which");
    rename(server, b"srv\xff", b"lan7");
    world.rxlab(&["undo"]).says(0, "rps lan7/rx-0: back to off");
    assert_eq!((mask(server, "lan7", 0).as_str(), world.has_open()), ("0", false));
}

/// One program with such a name, which any user may run, kept the threads of NAPIs, and queues, from being set.
#[test]
fn a_program_whose_name_is_not_text_refuses_nothing() {
    let Some(world) = World::new() else { return };
    world.apply("gro srv0 = on");
    world.apply("threaded srv0 = on");
    let mut program = renaming();
    take_name(&mut program);
    let name = fs::read(format!("/proc/{}/comm", program.pid().as_raw_nonzero())).expect("it runs");
    assert_eq!(name, b"z\xff)\n");
    world.apply("threaded srv0 = off");
    world.rxlab(&["undo"]).exits(0);
    assert!(!world.has_open());
}

/// An ordinary user's own namespace with such a name once hid a device that had moved.
#[test]
fn a_users_namespace_hides_no_device() {
    let Some(world) = World::new() else { return };
    require::needs!(root);
    let server = &world.range.server;
    let script =
        "ip link add type veth; ip link set veth0 name \"$(printf 'z\\377')\"; echo made; exec sleep 60";
    let mut user = Command::new("setpriv");
    user.args([
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        "unshare",
        "-Urn",
        "sh",
        "-c",
        script,
    ]);
    let mut user = user.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("started");
    let mut line = String::new();
    let out = user.stdout.take().expect("piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("read");
    let done = std::panic::catch_unwind(|| {
        assert_eq!(line, "made\n");
        // Namespaces are searched in the order of inodes.
        let later = Namespace::new().expect("made");
        world.apply("rps srv0/rx-0 = 1");
        server.ip(&format!("link set srv0 netns {}", later.path().display())).expect("moved");
        world.rxlab(&["undo"]).says(0, "rps srv0/rx-0: back to off");
        assert_eq!((mask(&later, "srv0", 0).as_str(), world.has_open()), ("0", false));
        // Nor does it keep one from being gone.
        let _visible = quiet::all_visible();
        later.ip("link add x0 type veth peer name x1").expect("added");
        let netns = later.path();
        let apply = ["--netns", netns.to_str().expect("text"), "apply", "--set", "rps x0/rx-0 = 1"];
        world.rxlab(&apply).exits(0);
        later.ip("link del x0").expect("removed");
        world.rxlab(&["undo"]).says(0, "rps x0/rx-0: gone, and its value with it");
    });
    user.kill().and_then(|()| user.wait()).expect("ended");
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// A user who mounted a namespace below a file system that never answers once had undo, guard and `status` wait for ever.
#[test]
fn a_path_that_a_user_made_is_not_walked() {
    let Some(world) = World::new() else { return };
    require::needs!(root);
    let _hiding = quiet::hiding();
    // The namespace can be reached, but only on a path of the user's.
    let script = "mount -t tmpfs tmpfs /mnt; touch /mnt/ns; unshare -n mount --bind /proc/self/ns/net /mnt/ns; \
                  echo made; exec sleep 60";
    let mut user = Command::new("setpriv");
    user.args(["--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "-Urm", "sh", "-c", script]);
    let mut user = Running::start(user.stdin(Stdio::null()));
    assert_eq!(user.lines().recv().as_deref(), Ok("made"));
    let server = &world.range.server;
    server.ip("link add x0 type veth peer name x1").expect("added");
    world.apply("rps x0/rx-0 = 1");
    server.ip("link del x0").expect("removed");
    let text = one_line(&world.rxlab(&["undo"]).exits(5));
    assert!(text.contains("/root/mnt/ns is not visible"), "{text}");
    drop(user);
    world.rxlab(&["undo"]).says(0, "rps x0/rx-0: gone, and its value with it");
}

/// `rps_cpus` was once written, and ethtool asked and told, by a name that another interface had taken over.
#[test]
fn an_interface_that_is_held_is_reached_by_no_other_name() {
    let Some(world) = World::new() else { return };
    require::needs!(ethtool);
    let server = &world.range.server;
    server.ip("link add c0 type veth peer name c1").expect("added");
    ["srv0", "c0"].into_iter().for_each(|nic| {
        inside(server, "ethtool").args(["-K", nic, "gro", "off"]).exits(0);
        server.ip(&format!("link set {nic} down")).expect("down");
    });
    let host = host_in(server);
    let path = "sys/class/net/srv0";
    let inode = host.inode(path).expect("there");
    let held = host.pinned(path, inode).expect("it is the one").expect("held");
    rename(server, b"srv0", b"moved");
    rename(server, b"c0", b"srv0");
    let srv0: NicName = "srv0".parse().expect("a name");
    held.write(&format!("{path}/queues/rx-0/rps_cpus"), b"3").expect("written");
    assert_eq!([mask(server, "moved", 0), mask(server, "srv0", 0)], ["3", "0"]);
    let attributes = ethtool::wanted("rx-gro", true);
    let on = Action::Ethtool { get: EthtoolGet::Features, nic: srv0.clone(), attributes };
    held.act(&on).expect("set by its index");
    assert_eq!(["moved", "srv0"].map(|nic| gro(server, nic)), ["on", "off"]);
    let features = Query::Ethtool(EthtoolGet::Features, srv0.clone());
    assert_ne!(held.query(&features), host.query(&features), "each of its own");
    assert!(held.query(&Query::Ethtool(EthtoolGet::Driver, srv0.clone())).is_ok(), "an ioctl");
    let size = Action::Link { nic: srv0, attributes: GroSize::All.attribute(70_000) };
    held.act(&size).expect("set by its index");
    let has_size = |nic: &str| {
        inside(server, "ip").args(["-d", "link", "show", nic]).exits(0).contains("gro_max_size 70000")
    };
    assert_eq!([has_size("moved"), has_size("srv0")], [true, false]);
    // In another network namespace its files are reached, and its index is that of none.
    let other = &world.range.client;
    server.ip(&format!("link set moved netns {}", other.path().display())).expect("moved");
    held.write(&format!("{path}/queues/rx-0/rps_cpus"), b"1").expect("written");
    assert_eq!([mask(other, "moved", 0), mask(server, "srv0", 0)], ["1", "0"]);
    assert_eq!(held.act(&on).expect_err("gone from here").cause, Cause::Missing);
    assert_eq!(gro(server, "srv0"), "off");
    let stale = host.pinned(path, inode).err().expect("another interface");
    assert_eq!(stale.cause, Cause::from(rustix::io::Errno::STALE));
}

/// A persisted value of an interface that is made again and again. Each time once left another open transaction.
#[test]
fn an_interface_that_comes_back_leaves_one_transaction() {
    let Some(world) = World::new() else { return };
    require::needs!(root);
    let server = &world.range.server;
    let directory = tempfile::Builder::new().prefix("rxlab-test-").tempdir_in("/var/lib").expect("made");
    let etc = directory.path().join("etc");
    fs::create_dir_all(etc.join("rxlab")).expect("made");
    let plan = "[[setting]]\nset = \"rps x0/rx-0 = 1\"\n";
    fs::write(etc.join("rxlab/plan.toml"), plan).expect("written");
    let restore = || {
        let netns = server.path();
        let mut command = Command::new(env!("CARGO_BIN_EXE_rxlab"));
        command.arg("--state-dir").arg(directory.path().join("state")).arg("--run-dir");
        command.arg(directory.path().join("run")).arg("--netns").arg(netns);
        command.args(["restore", "--nic", "x0", "--etc"]).arg(&etc).stdin(Stdio::null()).exits(0)
    };
    let store = Store::new(Disk::new(directory.path().join("state")));
    for round in 0..20 {
        server.ip("link add x0 type veth peer name x1").expect("added");
        restore();
        assert_eq!(mask(server, "x0", 0), "2");
        // Namespaces of other tests may have been hidden for a moment: then the next round closes the earlier one.
        let open = store.open_ids().expect("listed").len();
        assert!(open <= 2, "round {round}: {open}");
        // Another program sets the value back, and it is persisted again.
        set_mask(server, "x0", 0, "0");
        restore();
        assert_eq!(mask(server, "x0", 0), "2");
        let now = store.open_ids().expect("listed").len();
        assert!((1..=open).contains(&now), "round {round}: {now} of {open}");
        server.ip("link del x0").expect("removed");
    }
}

/// What one network namespace had was persisted, and so set, in another one; a renamed interface by its old name, which another
/// one may have by now.
#[test]
fn what_is_kept_is_of_this_namespace_and_has_its_present_name() {
    require::needs!(netns);
    let [own, other] = ["own", "other"].map(|_| Namespace::new().expect("made"));
    let directory = tempfile::Builder::new().prefix("rxlab-test-").tempdir_in("/var/lib").expect("made");
    own.ip("link add w0 type veth peer name w1").expect("added");
    own.ip("link add y0 type veth peer name y1").expect("added");
    let run = |namespace: &Namespace, args: &[&str]| {
        let own = rxlab(&directory.path().join("state"), args);
        inside(namespace, own.get_program().to_str().expect("text")).args(own.get_args()).said()
    };
    let of_own = |args: &[&str]| run(&own, args);
    of_own(&["apply", "--set", "rps w0/rx-0 = 1", "--set", "somaxconn host = 4000"]).exits(0);
    let (code, text) = run(&other, &["export", "--to", "sh"]);
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("is left out: it was made in another network namespace"), "{text}");
    run(&other, &["persist", "--dry-run"]).says(2, "units would set it in that of the first process");
    for (from, to) in [("w0", "z0"), ("y0", "w0"), ("z0", "y0")] {
        rename(&own, from.as_bytes(), to.as_bytes());
    }
    let text = of_own(&["export", "--to", "sh"]).exits(0);
    assert!(text.contains("/y0/queues/rx-0/rps_cpus") && !text.contains("/w0/"), "{text}");
    // As the first process of a container whose network this is.
    let (program, etc) = (directory.path().join("rxlab"), directory.path().join("etc"));
    fs::copy(env!("CARGO_BIN_EXE_rxlab"), &program).expect("copied");
    let mut persist = inside(&own, "unshare");
    persist.args(["--pid", "--fork", "--mount-proc"]).arg(program);
    persist
        .args(rxlab(&directory.path().join("state"), &["persist", "--dry-run", "--etc"]).get_args())
        .arg(etc);
    persist.says_all(0, &["would write ", "rps y0/rx-0 = 1"]);
    own.ip("link del y0").expect("removed");
    let text = of_own(&["export", "--to", "sysctl"]).exits(0);
    assert!(
        text.contains("rps w0/rx-0 of transaction 000001-") && text.contains("it no longer exists"),
        "{text}"
    );
    of_own(&["undo"]).exits(0);
}

/// A root with the files of the running kernel once had a journal of its own. Each undo took the values of the other for foreign
/// ones, and the original was lost.
#[test]
fn a_running_kernel_is_not_changed_as_another_root() {
    let Some(world) = World::new() else { return };
    let server = &world.range.server;
    let run = |what: &str| {
        let script = format!("mkdir -p \"$ROOT\"\nmount --rbind / \"$ROOT\"\n\"$@\" --root \"$ROOT\" {what}");
        let mut command = world.inside(server, &script);
        command.env("ROOT", world.state.path().join("root")).said()
    };
    run("apply --set 'rps srv0/rx-0 = 0-1'").says(3, "--root shows a running kernel");
    assert_eq!((mask(server, "srv0", 0).as_str(), world.has_open()), ("0", false));
    run("show").says(0, "srv0");
    // Parts of it, below directories of files.
    let script = "for part in class devices; do\n\
                  mkdir -p \"$ROOT/sys/$part\"; mount --rbind /sys/$part \"$ROOT/sys/$part\"\ndone\n\
                  mkdir \"$ROOT/proc\"; \"$@\" --root \"$ROOT\" apply --set 'rps srv0/rx-0 = 0-1'";
    let mut command = world.inside(server, script);
    let text = command.env("ROOT", world.state.path().join("parts")).said().exits(3);
    assert!(one_line(&text).contains("it may not be of the machine that this process acts on"), "{text}");
    assert_eq!(mask(server, "srv0", 0), "0");
}

/// A persisted plan got a value that a newer change held. `restore` once set it in the older transaction: the value before both
/// was lost, and `status` named the wrong one.
#[test]
fn a_plan_that_grows_over_a_newer_change_is_undone_before_it() {
    let Some(world) = World::new() else { return };
    require::needs!(root);
    let server = &world.range.server;
    let directory = tempfile::Builder::new().prefix("rxlab-test-").tempdir_in("/var/lib").expect("made");
    let (etc, state) = (directory.path().join("etc"), directory.path().join("state"));
    fs::create_dir_all(etc.join("rxlab")).expect("made");
    let command = |args: &[&str]| {
        let mut command = rxlab(&state, &["--netns"]);
        command.arg(server.path()).args(args).said()
    };
    let restore = |settings: &[&str]| {
        let plan = settings.iter().map(|setting| format!("[[setting]]\nset = \"{setting}\"\n"));
        fs::write(etc.join("rxlab/plan.toml"), plan.collect::<String>()).expect("written");
        command(&["restore", "--etc", etc.to_str().expect("text")]).exits(0);
    };
    let masks = || [0, 1].map(|queue| mask(server, "srv0", queue));
    let before = masks();
    restore(&["rps srv0/rx-0 = 1"]);
    command(&["apply", "--set", "rps srv0/rx-1 = 0-1"]).exits(0);
    restore(&["rps srv0/rx-0 = 1", "rps srv0/rx-1 = 1"]);
    assert_eq!(masks(), ["2", "2"]);
    let ids = Store::new(Disk::new(&state)).open_ids().expect("listed");
    let text = one_line(&command(&["status"]).exits(0));
    assert_eq!((ids.len(), text.matches(&format!("left to {}", ids[2])).count()), (3, 1), "{text}");
    command(&["undo", &ids[1]]).says(4, "changed the same values after");
    command(&["undo"]).exits(0);
    assert_eq!(masks(), before);
}

/// The sysfs of a namespace is mounted for it: nothing has to be mounted on /sys.
#[test]
fn a_guard_needs_nothing_on_sys() {
    let Some(world) = World::new() else { return };
    let server = &world.range.server;
    let script = "\"$@\" apply --setting 'rps srv0/rx-0 = 0-1' --confirm 1s\numount --lazy /sys\nsleep 30";
    let script = Running::start(&mut world.inside(server, script));
    wait_for("the change", || mask(server, "srv0", 0) == "3");
    world.wait_for_guard();
    drop(script);
    drop(host_in(server));
}

/// The place of a file below /sys is found by /proc. Without this process in it, the kernel was once said not to support the value.
#[test]
fn a_proc_without_this_process_is_named() {
    let Some(world) = World::new() else { return };
    let server = &world.range.server;
    let netns = tempfile::NamedTempFile::new().expect("a temporary file");
    let script = "mount --bind \"$SERVER\" \"$NETNS\"\nmount -t tmpfs tmpfs /proc\n\
                  \"$@\" --netns \"$NETNS\" apply --set 'rps srv0/rx-0 = 0-1'";
    let mut command = world.inside(&world.range.client, script);
    command.env("SERVER", server.path()).env("NETNS", netns.path());
    let text = one_line(&command.said().exits(3));
    assert!(text.contains("/proc does not show this process"), "{text}");
    assert_eq!(mask(server, "srv0", 0), "0");
}

/// A container has its /sys read-only, and LXC (`sys:mixed`) only the interfaces in it writable: rxlab once took all of it
/// for read-only.
#[test]
fn a_read_only_sys_with_writable_interfaces_can_be_changed() {
    let Some(world) = World::new() else { return };
    let server = &world.range.server;
    let apply = "\"$@\" apply --set 'rps srv0/rx-0 = 0-1'";
    let read_only = "mount -o remount,bind,ro /sys";
    world.inside(server, &format!("{read_only}\n{apply}")).said().says(3, "read-only");
    // The sysfs of a namespace that is named is mounted for it, and writable.
    for from in [server, &world.range.client] {
        let apply = apply.replace("apply", "--netns \"$SERVER\" apply");
        let mut command = world.inside(from, &format!("{read_only}\n{apply}"));
        command.env("SERVER", server.path()).said().says(3, "read-only");
    }
    assert_eq!((mask(server, "srv0", 0).as_str(), world.has_open()), ("0", false));
    // The same where `/sys` is of another namespace, which has no such interface.
    for enter in ["", "exec nsenter --net=\"$SERVER\" "] {
        let from = if enter.is_empty() { server } else { &world.range.client };
        let run = |what: &str| {
            let interfaces = "/sys/devices/virtual/net";
            let mixed = format!("mount --bind {interfaces} {interfaces}\n{read_only}");
            let mut command = world.inside(from, &format!("{mixed}\n{enter}{what}"));
            command.env("SERVER", server.path()).exits(0)
        };
        run(apply);
        assert_eq!(mask(server, "srv0", 0), "3");
        run("\"$@\" undo");
        assert_eq!((mask(server, "srv0", 0).as_str(), world.has_open()), ("0", false));
    }
}
