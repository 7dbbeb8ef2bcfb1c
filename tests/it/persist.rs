//! persist, restore and unpersist as the user sees them, on a machine made of plain files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use rxlab_path::sample::Scope;
use rxlab_sys::LiveHost;

use crate::lab::inside;
use crate::process::{Ended, Running, copy_program};
use crate::tree::{Tree, look, program};
use crate::{quiet, require};

const SET: [&str; 5] = ["apply", "--setting", "rps eth0/rx-0 = 2-3", "--setting", "rfs_entries host = 4096"];

/// A machine whose program has the same path as the tests' program has here.
fn tree() -> Tree {
    let tree = Tree::new();
    tree.install_program();
    tree
}

/// Every file below the configuration directory.
fn etc(tree: &Tree) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.expect("listed").path();
            match path.read_link() {
                Ok(target) => drop(found.insert(path, target.into_os_string().into_encoded_bytes())),
                Err(_) if path.is_dir() => walk(&path, found),
                Err(_) => drop(found.insert(path.clone(), std::fs::read(&path).expect("readable"))),
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&tree.root().join("etc"), &mut found);
    found
}

/// Reboots the machine: state in memory is lost.
fn boot(tree: &Tree) {
    tree.write("proc/sys/kernel/random/boot_id", "boot-2\n");
    tree.write("proc/sys/net/core/rps_sock_flow_entries", "0\n");
    tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "00\n");
}

#[test]
fn settings_survive_a_boot_until_unpersisted() {
    let tree = tree();
    tree.write("etc/hosts", "127.0.0.1 localhost\n");
    let before = etc(&tree);
    tree.rxlab(&["persist"]).says(4, "nothing is applied and confirmed");
    tree.rxlab(&SET).exits(0);
    tree.rxlab(&["persist"]).says_all(0, &["wrote ", "rps eth0/rx-0 = 2-3"]);
    let installed = etc(&tree);
    let names: Vec<_> = installed
        .keys()
        .map(|path| path.strip_prefix(tree.root()).expect("below").display().to_string())
        .collect();
    assert_eq!(
        names,
        [
            "etc/hosts",
            "etc/rxlab/plan.toml",
            "etc/systemd/system/multi-user.target.wants/rxlab.service",
            "etc/systemd/system/rxlab.service",
            "etc/systemd/system/rxlab@.service",
            "etc/udev/rules.d/90-rxlab.rules",
        ]
    );
    let (code, text) = tree.rxlab(&["persist"]).said();
    assert!(code == 0 && !text.contains("wrote "), "{text}");
    assert_eq!(etc(&tree), installed);
    boot(&tree);
    tree.rxlab(&["restore"]).says(0, "rps eth0/rx-0 = 2-3  (was off)");
    assert_eq!(
        (tree.rps("eth0", 0).as_str(), tree.read("proc/sys/net/core/rps_sock_flow_entries")),
        ("c", "4096".into())
    );
    assert_eq!(tree.rxlab(&["restore"]).said(), (0, "all values are already set\n".into()));
    tree.rxlab(&["unpersist"]).says_all(0, &["removed ", "current values are unchanged"]);
    assert_eq!(etc(&tree), before);
    assert_eq!(tree.rps("eth0", 0), "c");
    let (code, text) = tree.rxlab(&["undo"]).said();
    assert!(code == 0 && tree.rps("eth0", 0) == "0", "restored values are in the journal: {text}");
    assert_eq!(tree.rxlab(&["unpersist"]).said(), (0, "nothing is persisted\n".into()));
}

#[test]
fn edited_files_are_kept() {
    let tree = tree();
    tree.rxlab(&SET).exits(0);
    tree.rxlab(&["persist"]).exits(0);
    let service = tree.read("etc/systemd/system/rxlab.service");
    tree.write("etc/systemd/system/rxlab.service", format!("{service}\nNice=5\n"));
    let edited = etc(&tree);
    for verb in ["persist", "unpersist"] {
        tree.rxlab(&[verb]).says(4, "/rxlab.service was edited or is not from rxlab: nothing was ");
        assert_eq!(etc(&tree), edited);
    }
    std::fs::remove_file(tree.root().join("etc/systemd/system/rxlab.service")).expect("removed");
    tree.rxlab(&["unpersist"]).exits(0);
    assert_eq!(etc(&tree), BTreeMap::new());
}

#[test]
fn a_rehearsal_installs_and_removes_nothing() {
    let tree = tree();
    tree.rxlab(&SET).exits(0);
    let text = tree.rxlab(&["persist", "--dry-run"]).says(0, "would write ");
    assert!(text.contains("rxlab.service\n") && text.ends_with("nothing was changed\n"), "{text}");
    assert_eq!(etc(&tree), BTreeMap::new());
    tree.rxlab(&["persist"]).exits(0);
    let text = tree.rxlab(&["persist", "--dry-run"]).says(0, "unchanged: ");
    assert!(!text.contains("would write"), "{text}");
    let installed = etc(&tree);
    let text = tree.rxlab(&["unpersist", "--dry-run"]).says(0, "would remove ");
    assert!(text.contains("rxlab.service\n") && text.ends_with("nothing was changed\n"), "{text}");
    assert_eq!(etc(&tree), installed);
}

#[test]
fn only_settings_that_can_hold_are_persisted() {
    let tree = tree();
    let persist = |text: &str| tree.rxlab(&["persist", "--plan", &tree.file("plan.toml", text)]).said();
    persist("[[setting]]\nset = \"rps eth7/rx-0 = 1\"\n").says(2, "no interface eth7");
    persist("host = \"web1\"\n[[setting]]\nset = \"rps eth0/rx-0 = 1\"\n")
        .says(4, "the plan is for host web1");
    assert_eq!(etc(&tree), BTreeMap::new());
    let args = [&SET[..], &["--confirm", "60s"]].concat();
    tree.rxlab(&args).exits(0);
    tree.rxlab(&["persist"]).says(4, "is left out: it is not confirmed");
    tree.rxlab(&["confirm"]).exits(0);
    tree.rxlab(&["persist"]).exits(0);
}

/// A way out of a plan that cuts the machine off the network at each boot. Not even the plan is read.
#[test]
fn a_boot_with_rxlab_off_restores_nothing() {
    let tree = tree();
    tree.rxlab(&SET).exits(0);
    tree.rxlab(&["persist"]).says(0, "a boot with `rxlab=off` on the kernel command line");
    boot(&tree);
    let plan = tree.read("etc/rxlab/plan.toml");
    tree.write("etc/rxlab/plan.toml", "not a plan");
    tree.write("proc/cmdline", "root=/dev/vda1 quiet rxlab=off\n");
    let off = (0, "nothing is restored: the kernel was booted with `rxlab=off`\n".to_owned());
    for args in [&["restore", "--wait", "60s"][..], &["restore", "--nic", "eth0"]] {
        assert_eq!(tree.rxlab(args).said(), off);
    }
    assert_eq!(tree.rps("eth0", 0), "00");
    tree.write("etc/rxlab/plan.toml", format!("{plan}\n"));
    tree.write("proc/cmdline", "root=/dev/vda1 quiet rxlab=on\n");
    let (code, text) = tree.rxlab(&["restore"]).said();
    assert!(code == 0 && tree.rps("eth0", 0) == "c", "{text}");
}

/// The unit runs before the driver has created the second queue, and before the interface has its final name.
#[test]
fn restore_waits_for_queues_and_finds_the_device_again() {
    let tree = tree();
    let plan = tree.plan(&["rps eth0/rx-1 = 4", "rps veth0/rx-0 = 1"]);
    tree.rxlab(&["persist", "--plan", &plan]).exits(0);
    boot(&tree);
    let device = tree.root().join("sys/devices/pci0000:00/0000:00:03.0/net");
    std::fs::rename(device.join("eth0"), device.join("lan0")).expect("renamed");
    std::fs::remove_file(tree.root().join("sys/class/net/eth0")).expect("removed");
    tree.rxlab(&["restore"]).says(4, "rps eth0/rx-1 = 4: interface not found");
    assert_eq!(tree.rps("veth0", 0), "2", "existing queues are set");
    tree.link("sys/class/net/lan0", "../../devices/pci0000:00/0000:00:03.0/net/lan0");
    std::fs::rename(device.join("lan0/queues/rx-1"), device.join("later")).expect("renamed");
    tree.rxlab(&["restore", "--nic", "lan0"]).says(4, "lan0 has no queue rx-1 (it has rx-0)");
    let waiting = Running::start(&mut tree.command(&["restore", "--nic", "lan0", "--wait", "30s"]));
    std::thread::sleep(Duration::from_millis(300));
    std::fs::rename(device.join("later"), device.join("lan0/queues/rx-1")).expect("renamed");
    waiting.output().says(0, "rps lan0/rx-1 = 4  (was off)");
    assert_eq!(tree.rps("lan0", 1), "10");
}

/// The interface exists at boot, but is down: its driver has not requested an interrupt yet. All settings of the
/// interface were once refused for that, and not tried again.
#[test]
fn restore_waits_for_the_interrupt_of_an_interface() {
    let tree = tree();
    let settings = ["irq_affinity eth0/irq-eth0 = 5", "rps eth0/rx-0 = 2"];
    tree.rxlab(&["persist", "--plan", &tree.plan(&settings)]).exits(0);
    boot(&tree);
    let up = std::fs::read_to_string(tree.root().join("proc/interrupts")).expect("readable");
    let down: String = up.split_inclusive('\n').filter(|line| !line.contains("eth0")).collect();
    tree.write("proc/interrupts", &down);
    tree.rxlab(&["restore"]).says(4, "no interrupt of eth0/irq-eth0 found: ");
    let waiting = Running::start(&mut tree.command(&["restore", "--wait", "30s"]));
    std::thread::sleep(Duration::from_millis(300));
    tree.write("proc/interrupts", &up);
    let text = waiting.output().exits(0);
    assert!(settings.iter().all(|set| text.contains(set)), "{text}");
    assert_eq!((tree.read("proc/irq/39/smp_affinity"), tree.rps("eth0", 0)), ("20".into(), "4".into()));
}

/// At boot irqbalance and other processes may not be running yet. One missing process once kept all other settings
/// from being applied.
#[test]
fn restore_waits_for_processes_and_sets_the_rest() {
    const WEB: &str = "sys/fs/cgroup/system.slice/web.service";
    let tree = tree();
    tree.write(&format!("{WEB}/cpuset.cpus"), "0-7\n");
    // If the kernel's first thread is visible, all processes are.
    tree.process(2, "kthreadd", 0, 1);
    let plan = tree.plan(&[
        "irqbalance eth0 = banned",
        "irq_affinity eth0/rx-0 = 3",
        "affinity unit:web = 4-5",
        "napi_priority eth0/rx-0 = rr:3",
        "netdev_budget host = 600",
    ]);
    tree.rxlab(&["persist", "--plan", &plan]).exits(0);
    boot(&tree);
    let processes = ["proc/70", WEB, "proc/500"].map(|path| {
        let away = tree.path().join(path.replace('/', "-"));
        std::fs::rename(tree.root().join(path), &away).expect("renamed");
        (away, tree.root().join(path))
    });
    let text = tree.rxlab(&["restore"]).exits(4);
    for why in [
        "irqbalance: eth0: irqbalance is not running",
        "affinity: unit:web.service: no control group has this unit's name: the unit is not running",
        "napi_priority: the NAPIs of eth0/rx-0 are unknown: its thread, process 500, is not visible",
    ] {
        assert!(text.contains(why), "{text}");
    }
    assert_eq!(tree.read("proc/irq/24/smp_affinity"), "8", "existing queues are set");
    assert_eq!(tree.read("proc/sys/net/core/netdev_budget"), "600");
    let waiting = Running::start(&mut tree.command(&["restore", "--wait", "30s"]));
    for (away, back) in processes {
        std::thread::sleep(Duration::from_millis(300));
        std::fs::rename(away, back).expect("renamed");
    }
    let text = waiting.output().exits(0);
    for set in
        ["irqbalance eth0 = banned", "affinity unit:web.service = 4-5", "napi_priority eth0/rx-0 = rr:3"]
    {
        assert!(text.contains(set), "{text}");
    }
    assert!(!text.contains("irq_affinity"), "{text}");
    assert_eq!(tree.rxlab(&["restore"]).said(), (0, "all values are already set\n".to_owned()));
}

/// Only a read-only mount keeps root out.
#[test]
fn a_read_only_etc_is_one_clear_line() {
    require::needs!(root);
    let tree = tree();
    std::fs::create_dir(tree.root().join("etc")).expect("made");
    tree.rxlab(&SET).exits(0);
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$0/etc\" \"$0/etc\" && mount -o remount,ro,bind \"$0/etc\" && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script]).arg(tree.root()).arg(env!("CARGO_BIN_EXE_rxlab"));
    command.arg("--root").arg(tree.root()).arg("--state-dir").arg(tree.state()).arg("persist");
    let (code, text) = command.said();
    let line = format!(
        "rxlab: cannot write {}/etc/rxlab/plan.toml: Read-only file system (os error 30)\n",
        tree.root().display()
    );
    assert_eq!((code, text), (3, line));
    assert_eq!(etc(&tree), BTreeMap::new());
}

/// systemd's own check of the units, which looks for the program on this machine.
#[test]
fn systemd_accepts_the_units() {
    require::needs!(program("systemd", "systemd-analyze", "--version"));
    let Some(installed) = Installed::new() else { return };
    installed.persist().exits(0);
    let units = installed.at("etc/systemd/system");
    // A template is verified through one of its instances.
    std::fs::copy(units.join("rxlab@.service"), units.join("rxlab@eth0.service")).expect("copied");
    let verify = |units: &Path| {
        let mut command = Command::new("systemd-analyze");
        command.arg("verify").args(["rxlab.service", "rxlab@eth0.service"].map(|unit| units.join(unit)));
        command.said()
    };
    let (code, text) = verify(&units);
    // It also reads the machine's own units, and may complain about some.
    assert!(code == 0 && !text.contains("rxlab"), "{text}");
    let good = std::fs::read_to_string(units.join("rxlab.service")).expect("read");
    std::fs::write(units.join("rxlab.service"), good.replace("Type=oneshot", "Typ=oneshot"))
        .expect("written");
    assert!(verify(&units).1.contains("Unknown key"), "the check itself works");
    // Result of the condition on this machine, which was booted without the argument.
    let condition = good.lines().find(|line| line.starts_with("ConditionKernelCommandLine=")).expect("there");
    let holds = |condition: &str| {
        let mut command = Command::new("systemd-analyze");
        command.args(["condition", condition]).output().expect("it runs").status.success()
    };
    assert!(holds(condition) && !holds(&condition.replace('!', "")), "{condition}");
}

/// udev's own evaluation of the rule, and of the path of a device. An earlier rule names the interface.
#[test]
fn udev_starts_the_unit_of_an_interface() {
    require::needs!(netns);
    let Some(udevadm) = require::udevadm() else { return };
    let tree = tree();
    let settings = ["apply", "--setting", "rps veth0/rx-0 = 1", "--setting", "rps eth0/rx-0 = 1"];
    tree.rxlab(&settings).exits(0);
    tree.rxlab(&["persist"]).exits(0);
    let script = "mount -t sysfs sysfs /sys; mount -t tmpfs tmpfs /run; mkdir -p /etc/udev
        mount -t tmpfs tmpfs /etc/udev; mkdir /etc/udev/rules.d
        cp \"$1\"/etc/udev/rules.d/* /etc/udev/rules.d
        echo 'SUBSYSTEM==\"net\", NAME=\"lan0\"' >/etc/udev/rules.d/80-name.rules
        \"$2\" test --action=\"$3\" /sys/class/net/veth0 2>&1
        ! \"$2\" test --action=\"$3\" /sys/class/net/veth1 2>&1 | grep rxlab@";
    for (action, starts) in [("add", 1), ("move", 1), ("change", 0)] {
        // A new one each time: udev renames this one even in a test.
        let namespace = rxlab::lab::Namespace::new().expect("made");
        namespace.ip("link add veth0 type veth peer name veth1").expect("added");
        let mut command = inside(&namespace, "unshare");
        command.args(["--mount", "sh", "-euc", script, "sh"]).arg(tree.root());
        let text = command.args([&udevadm, action]).exits(0);
        let said_of_it = text.lines().filter(|line| line.contains("90-rxlab.rules:"));
        let complaints: Vec<&str> = said_of_it.filter(|line| !line.contains(" RUN '")).collect();
        assert_eq!(complaints, [""; 0], "{text}");
        let run = "run: '/bin/systemctl --no-block start rxlab@lan0.service'";
        assert_eq!(text.matches(run).count(), starts, "{action}: {text}");
    }
    let host = LiveHost::open(Path::new("/")).expect("opened");
    for nic in look(&host, Scope::Path).nics {
        let Some(address) = nic.address.0.strip_prefix("pci:").filter(|address| !address.contains('/'))
        else {
            continue;
        };
        let mut command = Command::new(&udevadm);
        command.args(["test-builtin", "path_id"]).arg(format!("/sys/class/net/{}", nic.name));
        let (_, text) = command.said();
        assert!(text.contains(&format!("ID_PATH=pci-{address}\n")), "{text}");
    }
}

/// The program, configuration and state of this machine, in a directory that only root can change. It is removed when
/// dropped; nothing else on the machine is touched.
struct Installed {
    directory: tempfile::TempDir,
    /// The plan holds a current value of the machine, which no other test may change meanwhile.
    _settings: quiet::Held,
}

impl Installed {
    /// `None` if the test is skipped.
    fn new() -> Option<Self> {
        if !require::root() {
            return None;
        }
        let settings = quiet::settings();
        // In a container with another network namespace this file does not exist.
        let Ok(value) = std::fs::read_to_string("/proc/sys/net/core/netdev_budget") else {
            println!("skipped: net.core is that of the initial namespace");
            return None;
        };
        let directory = tempfile::Builder::new().prefix("rxlab-test-").tempdir_in("/var/lib");
        let installed = Self { directory: directory.expect("made"), _settings: settings };
        for folder in ["bin", "etc", "state"] {
            std::fs::create_dir(installed.at(folder)).expect("made");
            installed.chmod(folder, 0o755);
        }
        copy_program(&installed.at("bin/rxlab"));
        installed.chmod("bin/rxlab", 0o755);
        // The current value of the machine: restoring it changes nothing.
        let plan = format!("[[setting]]\nset = \"netdev_budget host = {}\"\n", value.trim());
        std::fs::write(installed.at("plan.toml"), plan).expect("written");
        Some(installed)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn chmod(&self, path: &str, mode: u32) {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(self.at(path), mode).expect("changed");
    }

    fn chown(&self, path: &str, user: u32) {
        std::os::unix::fs::lchown(self.at(path), Some(user), None).expect("changed");
    }

    /// `persist` by a program at `path`.
    fn persist_by(&self, path: &Path) -> Output {
        let mut command = Command::new(path);
        command.arg("--state-dir").arg(self.at("state")).arg("persist");
        command.arg("--plan").arg(self.at("plan.toml")).arg("--etc").arg(self.at("etc"));
        command.output().expect("it runs")
    }

    fn persist(&self) -> Output {
        self.persist_by(&self.at("bin/rxlab"))
    }

    fn restore(&self) -> Output {
        let mut command = Command::new(self.at("bin/rxlab"));
        command.arg("--state-dir").arg(self.at("state")).args(["restore", "--etc"]).arg(self.at("etc"));
        command.output().expect("it runs")
    }

    /// Number of names in the configuration directory.
    fn etc(&self) -> usize {
        std::fs::read_dir(self.at("etc")).expect("listed").count()
    }
}

const NOBODY: u32 = 65534;

/// A unit that runs a program from a user's directory gives that user root at the next boot.
#[test]
fn a_program_that_others_can_change_is_not_persisted() {
    let Some(installed) = Installed::new() else { return };
    let refused = |said_so: (i32, String), component: &Path, owner: &str, mode: &str| {
        let (code, text) = said_so;
        let line = format!(
            "but users other than root can change {} (owner {owner}, mode {mode})\n  hint: `make install` puts",
            component.display()
        );
        assert!(code == 2 && text.starts_with("rxlab: root would run ") && text.contains(&line), "{text}");
        assert_eq!(installed.etc(), 0, "nothing is written");
        text
    };
    let program = installed.at("bin/rxlab");
    installed.chmod("bin/rxlab", 0o775);
    let text = refused(installed.persist().said(), &program, "root", "0775");
    assert!(
        text.ends_with(&format!("hint: or: chown root: {0} && chmod go-w {0}\n", program.display())),
        "{text}"
    );
    installed.chmod("bin/rxlab", 0o757);
    refused(installed.persist().said(), &program, "root", "0757");
    installed.chmod("bin/rxlab", 0o755);
    installed.chown("bin/rxlab", NOBODY);
    refused(installed.persist().said(), &program, "uid 65534", "0755");
    installed.chown("bin/rxlab", 0);
    installed.chown("bin", NOBODY);
    refused(installed.persist().said(), &installed.at("bin"), "uid 65534", "0755");
    installed.chown("bin", 0);
    installed.chmod("bin", 0o1777);
    let text = refused(installed.persist().said(), &installed.at("bin"), "root", "1777");
    assert!(!text.contains("chmod"), "a directory like /tmp is accepted: {text}");
    installed.chmod("bin", 0o755);
    // The units name the program itself, so a link to it does not matter.
    let theirs = tempfile::tempdir_in("/tmp").expect("a temporary directory");
    let link = theirs.path().join("rxlab");
    std::os::unix::fs::symlink(&program, &link).expect("linked");
    installed.persist_by(&link).exits(0);
    let unit = std::fs::read_to_string(installed.at("etc/systemd/system/rxlab.service")).expect("read");
    assert!(unit.contains(&format!("\nExecStart={} --state-dir ", program.display())), "{unit}");
}

/// The plan that the boot applies as root and its journal: checked before they are written, and at boot.
#[test]
fn a_plan_or_journal_that_others_can_change_is_refused() {
    let Some(installed) = Installed::new() else { return };
    let refused = |said_so: (i32, String), does: &str, component: &str, remedy: &str| {
        let (code, text) = said_so;
        let path = installed.at(component);
        let line = format!("but users other than root can change {} (", path.display());
        assert!(code == 2 && text.starts_with(&format!("rxlab: root would {does} ")), "{text}");
        assert!(text.contains(&line) && text.contains(remedy) && text.lines().count() == 2, "{text}");
    };
    for (component, does) in [("etc", "apply"), ("state", "keep its journal in")] {
        installed.chmod(component, 0o775);
        refused(installed.persist().said(), does, component, " && chmod go-w ");
        installed.chmod(component, 0o1777);
        refused(installed.persist().said(), does, component, "hint: name another directory with --");
        installed.chmod(component, 0o755);
        assert_eq!(installed.etc(), 0, "nothing is written");
    }
    installed.persist().exits(0);
    for component in ["etc/rxlab/plan.toml", "etc/rxlab", "etc"] {
        let mode = if component.ends_with("toml") { 0o644 } else { 0o755 };
        installed.chmod(component, mode | 0o020);
        refused(installed.restore().said(), "apply", component, " && chmod go-w ");
        installed.chmod(component, mode);
        installed.chown(component, NOBODY);
        refused(installed.restore().said(), "apply", component, "hint: chown root: ");
        installed.chown(component, 0);
    }
    installed.chmod("state", 0o777);
    refused(installed.restore().said(), "keep its journal in", "state", " && chmod go-w ");
    installed.chmod("state", 0o755);
    assert_eq!(installed.restore().said(), (0, "all values are already set\n".to_owned()));
}

/// Root's umask may allow group writes; `restore` would refuse directories created with it.
#[test]
fn a_lax_umask_creates_no_directory_that_restore_refuses() {
    let Some(installed) = Installed::new() else { return };
    let script =
        "umask 0; exec \"$0\" --state-dir \"$1/state\" persist --plan \"$1/plan.toml\" --etc \"$1/etc\"";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(installed.at("bin/rxlab")).arg(installed.directory.path());
    command.exits(0);
    assert_eq!(installed.restore().said(), (0, "all values are already set\n".to_owned()));
}

/// The units are for the machine that boots from the other root: its paths, and its program.
#[test]
fn units_of_another_root_have_its_paths() {
    let tree = Tree::new();
    tree.rxlab(&SET).exits(0);
    if require::root() {
        let (code, text) = tree.rxlab(&["persist"]).said();
        let hint = format!("hint: `make install DESTDIR={0}` puts the program", tree.root().display());
        assert!(
            code == 2 && text.contains(" at each boot, but there is no ") && text.contains(&hint),
            "{text}"
        );
        assert_eq!(etc(&tree), BTreeMap::new());
    }
    let persist = |state: &Path, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rxlab"));
        command.arg("--root").arg(tree.root()).arg("--state-dir").arg(state).arg("persist").args(more);
        command.said()
    };
    tree.install_program();
    let plan = tree.plan(&["rps eth0/rx-0 = 1"]);
    let plan = ["--plan", &plan];
    persist(&tree.root().join("var/lib/rxlab"), &plan).exits(0);
    let unit = tree.read("etc/systemd/system/rxlab.service");
    let start = format!("\nExecStart={} restore --wait 60s\n", program().display());
    assert!(unit.contains(&start) && unit.contains("\nConditionPathExists=/etc/rxlab/plan.toml\n"), "{unit}");
    assert!(unit.contains("\nRequiresMountsFor=/etc /var/lib/rxlab\n"), "{unit}");
    // Below that root the link points to its own /srv; here it would point to that of this machine.
    std::fs::remove_dir_all(tree.root().join("etc/udev")).expect("removed");
    let outside = tree.path().join("outside");
    std::fs::create_dir(&outside).expect("made");
    std::os::unix::fs::symlink(&outside, tree.root().join("etc/udev")).expect("linked");
    for args in [&["unpersist"][..], &["persist"]] {
        let (code, text) = tree.rxlab(args).said();
        let line = format!("/etc/udev/rules.d leads to {}, out of the root\n", outside.display());
        assert!(code == 2 && text.contains(&line), "{text}");
    }
    assert_eq!(std::fs::read_dir(&outside).expect("listed").count(), 0);
    let elsewhere = [&plan[..], &["--etc", "/srv/etc"]].concat();
    persist(&tree.state(), &elsewhere).says(2, "--etc /srv/etc is not below --root ");
}
