//! persist, restore and unpersist as the user sees them, on a machine of plain files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::Running;
use crate::require;
use crate::tree::{Tree, said};

const SET: [&str; 5] = ["apply", "--setting", "rps eth0/rx-0 = 2-3", "--setting", "rfs_entries host = 4096"];

/// Every file below the directory of configuration.
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

/// The machine is started anew, and what was in memory is gone.
fn boot(tree: &Tree) {
    tree.write("proc/sys/kernel/random/boot_id", "boot-2\n");
    tree.write("proc/sys/net/core/rps_sock_flow_entries", "0\n");
    tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "00\n");
}

#[test]
fn over_a_boot_and_away_again() {
    let tree = Tree::new();
    tree.write("etc/hosts", "127.0.0.1 localhost\n");
    let before = etc(&tree);
    let (code, text) = said(&tree.rxlab(&["persist"]));
    assert!(code == 4 && text.contains("nothing is applied and confirmed"), "{text}");
    assert_eq!(said(&tree.rxlab(&SET)).0, 0);
    let (code, text) = said(&tree.rxlab(&["persist"]));
    assert!(code == 0 && text.contains("wrote ") && text.contains("rps eth0/rx-0 = 2-3"), "{text}");
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
    let (code, text) = said(&tree.rxlab(&["persist"]));
    assert!(code == 0 && !text.contains("wrote "), "{text}");
    assert_eq!(etc(&tree), installed);
    boot(&tree);
    let (code, text) = said(&tree.rxlab(&["restore"]));
    assert!(code == 0 && text.contains("rps eth0/rx-0 = 2-3  (was off)"), "{text}");
    assert_eq!(
        (tree.rps("eth0", 0).as_str(), tree.read("proc/sys/net/core/rps_sock_flow_entries")),
        ("c", "4096".into())
    );
    let (code, text) = said(&tree.rxlab(&["restore"]));
    assert!(code == 0 && text == "everything is so already\n", "{text}");
    let (code, text) = said(&tree.rxlab(&["unpersist"]));
    assert!(code == 0 && text.contains("removed ") && text.contains("the values of now stay"), "{text}");
    assert_eq!(etc(&tree), before);
    assert_eq!(tree.rps("eth0", 0), "c");
    let (code, text) = said(&tree.rxlab(&["undo"]));
    assert!(code == 0 && tree.rps("eth0", 0) == "0", "what restore set is journalled: {text}");
    let (code, text) = said(&tree.rxlab(&["unpersist"]));
    assert!(code == 0 && text == "nothing is persisted\n", "{text}");
}

#[test]
fn edited_files_are_left_alone() {
    let tree = Tree::new();
    assert_eq!(said(&tree.rxlab(&SET)).0, 0);
    assert_eq!(said(&tree.rxlab(&["persist"])).0, 0);
    let service = tree.read("etc/systemd/system/rxlab.service");
    tree.write("etc/systemd/system/rxlab.service", &format!("{service}\nNice=5\n"));
    let edited = etc(&tree);
    for verb in ["persist", "unpersist"] {
        let (code, text) = said(&tree.rxlab(&[verb]));
        assert_eq!(code, 4, "{text}");
        assert!(text.contains("/rxlab.service was edited or is not of rxlab: nothing was "), "{text}");
        assert_eq!(etc(&tree), edited);
    }
    std::fs::remove_file(tree.root().join("etc/systemd/system/rxlab.service")).expect("removed");
    assert_eq!(said(&tree.rxlab(&["unpersist"])).0, 0);
    assert_eq!(etc(&tree), BTreeMap::new());
}

#[test]
fn only_what_can_hold_is_persisted() {
    let tree = Tree::new();
    let plan = tree.path().join("plan.toml");
    let persist = |text: &str| {
        std::fs::write(&plan, text).expect("written");
        said(&tree.rxlab(&["persist", "--plan", plan.to_str().expect("text")]))
    };
    let (code, text) = persist("[[setting]]\nset = \"rps eth7/rx-0 = 1\"\n");
    assert!(code == 2 && text.contains("there is no interface eth7"), "{text}");
    let (code, text) = persist("host = \"web1\"\n[[setting]]\nset = \"rps eth0/rx-0 = 1\"\n");
    assert!(code == 4 && text.contains("the plan is for the host web1"), "{text}");
    assert_eq!(etc(&tree), BTreeMap::new());
    let args = [&SET[..], &["--confirm", "60s"]].concat();
    assert_eq!(said(&tree.rxlab(&args)).0, 0);
    let (code, text) = said(&tree.rxlab(&["persist"]));
    assert!(code == 4 && text.contains("is left out: it is not finished, not confirmed"), "{text}");
    assert_eq!(said(&tree.rxlab(&["confirm"])).0, 0);
    assert_eq!(said(&tree.rxlab(&["persist"])).0, 0);
}

/// The unit runs before the driver has made the second queue, and before the name is the final one.
#[test]
fn restore_waits_for_queues_and_finds_the_device_again() {
    let tree = Tree::new();
    let plan = tree.path().join("plan.toml");
    std::fs::write(
        &plan,
        "[[setting]]\nset = \"rps eth0/rx-1 = 4\"\n[[setting]]\nset = \"rps veth0/rx-0 = 1\"\n",
    )
    .expect("written");
    assert_eq!(said(&tree.rxlab(&["persist", "--plan", plan.to_str().expect("text")])).0, 0);
    boot(&tree);
    let device = tree.root().join("sys/devices/pci0000:00/0000:00:03.0/net");
    std::fs::rename(device.join("eth0"), device.join("lan0")).expect("renamed");
    std::fs::remove_file(tree.root().join("sys/class/net/eth0")).expect("removed");
    let (code, text) = said(&tree.rxlab(&["restore"]));
    assert!(code == 4 && text.contains("rps eth0/rx-1 = 4: the interface is not there"), "{text}");
    assert_eq!(tree.rps("veth0", 0), "2", "what is there is set");
    tree.link("sys/class/net/lan0", "../../devices/pci0000:00/0000:00:03.0/net/lan0");
    std::fs::rename(device.join("lan0/queues/rx-1"), device.join("later")).expect("renamed");
    let (code, text) = said(&tree.rxlab(&["restore", "--nic", "lan0"]));
    assert!(code == 4 && text.contains("lan0 has no queue rx-1 (it has: rx-0)"), "{text}");
    let waiting = Running::start(&mut tree.command(&["restore", "--nic", "lan0", "--wait", "30s"]));
    std::thread::sleep(Duration::from_millis(300));
    std::fs::rename(device.join("later"), device.join("lan0/queues/rx-1")).expect("renamed");
    let (code, text) = said(&waiting.output());
    assert!(code == 0 && text.contains("rps lan0/rx-1 = 4  (was off)"), "{text}");
    assert_eq!(tree.rps("lan0", 1), "10");
}

/// The interface is there at the boot, but nobody has brought it up: its driver has asked for no interrupt of its own.
/// All settings of the interface were once refused for that, and not tried again.
#[test]
fn restore_waits_for_the_interrupt_of_an_interface() {
    let tree = Tree::new();
    let plan = tree.path().join("plan.toml");
    let settings = ["irq_affinity eth0/irq-eth0 = 5", "rps eth0/rx-0 = 2"];
    let text: String = settings.iter().map(|set| format!("[[setting]]\nset = \"{set}\"\n")).collect();
    std::fs::write(&plan, text).expect("written");
    assert_eq!(said(&tree.rxlab(&["persist", "--plan", plan.to_str().expect("text")])).0, 0);
    boot(&tree);
    let up = std::fs::read_to_string(tree.root().join("proc/interrupts")).expect("readable");
    let down: String = up.split_inclusive('\n').filter(|line| !line.contains("eth0")).collect();
    tree.write("proc/interrupts", &down);
    let (code, text) = said(&tree.rxlab(&["restore"]));
    assert!(code == 4 && text.contains("eth0/irq-eth0 has no interrupt: "), "{text}");
    let waiting = Running::start(&mut tree.command(&["restore", "--wait", "30s"]));
    std::thread::sleep(Duration::from_millis(300));
    tree.write("proc/interrupts", &up);
    let (code, text) = said(&waiting.output());
    assert_eq!(code, 0, "{text}");
    assert!(settings.iter().all(|set| text.contains(set)), "{text}");
    assert_eq!((tree.read("proc/irq/39/smp_affinity"), tree.rps("eth0", 0)), ("20".into(), "4".into()));
}

/// At the boot neither irqbalance nor a process may be there yet. One of them once kept all the others from
/// being set.
#[test]
fn restore_waits_for_processes_and_sets_the_rest() {
    const WEB: &str = "sys/fs/cgroup/system.slice/web.service";
    let tree = Tree::new();
    tree.write(&format!("{WEB}/cpuset.cpus"), "\n");
    // Who sees the kernel's own first thread sees everybody.
    tree.process(2, "kthreadd", 0, 1);
    let plan = tree.path().join("plan.toml");
    let settings = [
        "irqbalance eth0 = banned",
        "irq_affinity eth0/rx-0 = 3",
        "affinity unit:web = 4-5",
        "napi_priority eth0/rx-0 = rr:3",
        "netdev_budget host = 600",
    ];
    let text: String = settings.iter().map(|set| format!("[[setting]]\nset = \"{set}\"\n")).collect();
    std::fs::write(&plan, text).expect("written");
    assert_eq!(said(&tree.rxlab(&["persist", "--plan", plan.to_str().expect("text")])).0, 0);
    boot(&tree);
    let set_aside = |path: &str| {
        let away = tree.path().join(path.replace('/', "-"));
        std::fs::rename(tree.root().join(path), &away).expect("renamed");
        (away, tree.root().join(path))
    };
    let processes = ["proc/70", WEB, "proc/500"].map(set_aside);
    let (code, text) = said(&tree.rxlab(&["restore"]));
    assert_eq!(code, 4, "{text}");
    for why in [
        "irqbalance: eth0: irqbalance does not run",
        "affinity: unit:web: no control group has the name of this unit: it does not run",
        "napi_priority: eth0/rx-0: its thread, process 500, is not to be seen",
    ] {
        assert!(text.contains(why), "{text}");
    }
    assert_eq!(tree.read("proc/irq/24/smp_affinity"), "8", "what is there is set");
    assert_eq!(tree.read("proc/sys/net/core/netdev_budget"), "600");
    let waiting = Running::start(&mut tree.command(&["restore", "--wait", "30s"]));
    for (away, back) in processes {
        std::thread::sleep(Duration::from_millis(300));
        std::fs::rename(away, back).expect("renamed");
    }
    let (code, text) = said(&waiting.output());
    assert_eq!(code, 0, "{text}");
    for set in ["irqbalance eth0 = banned", "affinity unit:web = 4-5", "napi_priority eth0/rx-0 = rr:3"] {
        assert!(text.contains(set), "{text}");
    }
    assert!(!text.contains("irq_affinity"), "{text}");
    assert_eq!(said(&tree.rxlab(&["restore"])), (0, "everything is so already\n".to_owned()));
}

/// Root is kept out by a read-only mount alone.
#[test]
fn a_read_only_etc_is_one_clear_line() {
    if !require::root() {
        return;
    }
    let tree = Tree::new();
    std::fs::create_dir(tree.root().join("etc")).expect("made");
    assert_eq!(said(&tree.rxlab(&SET)).0, 0);
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$0/etc\" \"$0/etc\" && mount -o remount,ro,bind \"$0/etc\" && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script]).arg(tree.root()).arg(env!("CARGO_BIN_EXE_rxlab"));
    command.arg("--root").arg(tree.root()).arg("--state-dir").arg(tree.state()).arg("persist");
    let (code, text) = said(&command.output().expect("unshare runs"));
    let line = format!(
        "rxlab: cannot write {}/etc/rxlab/plan.toml: Read-only file system (os error 30)\n",
        tree.root().display()
    );
    assert_eq!((code, text), (3, line));
    assert_eq!(etc(&tree), BTreeMap::new());
}

/// systemd's own opinion of the units.
#[test]
fn systemd_understands_the_units() {
    if !require::program("systemd", "systemd-analyze", "--version") {
        return;
    }
    let tree = Tree::new();
    assert_eq!(said(&tree.rxlab(&SET)).0, 0);
    assert_eq!(said(&tree.rxlab(&["persist"])).0, 0);
    let units = tree.root().join("etc/systemd/system");
    // A template is verified as one of its instances.
    std::fs::copy(units.join("rxlab@.service"), units.join("rxlab@eth0.service")).expect("copied");
    let verify = |units: &Path| {
        let mut command = Command::new("systemd-analyze");
        command.arg("verify").args(["rxlab.service", "rxlab@eth0.service"].map(|unit| units.join(unit)));
        said(&command.output().expect("it runs"))
    };
    let (code, text) = verify(&units);
    // It also reads the machine's own units, some of which it may not like.
    assert!(code == 0 && !text.contains("rxlab"), "{text}");
    let broken = std::fs::read_to_string(units.join("rxlab.service")).expect("read");
    std::fs::write(units.join("rxlab.service"), broken.replace("Type=oneshot", "Typ=oneshot"))
        .expect("written");
    assert!(verify(&units).1.contains("Unknown key"), "the check itself works");
}

/// udev's own opinion of the rule, and of where a device is. An earlier rule gives the interface a name.
#[test]
fn udev_starts_the_unit_of_an_interface() {
    if !require::netns() {
        return;
    }
    let Some(udevadm) = require::udevadm() else { return };
    let tree = Tree::new();
    let settings = ["apply", "--setting", "rps veth0/rx-0 = 1", "--setting", "rps eth0/rx-0 = 1"];
    assert_eq!(said(&tree.rxlab(&settings)).0, 0);
    assert_eq!(said(&tree.rxlab(&["persist"])).0, 0);
    let script = "mount -t sysfs sysfs /sys; mount -t tmpfs tmpfs /run; mkdir -p /etc/udev
        mount -t tmpfs tmpfs /etc/udev; mkdir /etc/udev/rules.d
        cp \"$1\"/etc/udev/rules.d/* /etc/udev/rules.d
        echo 'SUBSYSTEM==\"net\", NAME=\"lan0\"' >/etc/udev/rules.d/80-name.rules
        \"$2\" test --action=\"$3\" /sys/class/net/veth0 2>&1
        ! \"$2\" test --action=\"$3\" /sys/class/net/veth1 2>&1 | grep rxlab@";
    for (action, starts) in [("add", 1), ("move", 1), ("change", 0)] {
        // A new one each time: udev gives this one its name in a test as well.
        let namespace = rxlab::lab::Namespace::new().expect("made");
        namespace.ip("link add veth0 type veth peer name veth1").expect("added");
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", namespace.path().display()));
        command.args(["unshare", "--mount", "sh", "-euc", script, "sh"]);
        command.arg(tree.root()).args([&udevadm, action]);
        let (code, text) = said(&command.output().expect("nsenter runs"));
        assert_eq!(code, 0, "{text}");
        let said_of_it = text.lines().filter(|line| line.contains("90-rxlab.rules:"));
        let complaints: Vec<&str> = said_of_it.filter(|line| !line.contains(" RUN '")).collect();
        assert_eq!(complaints, [""; 0], "{text}");
        let run = "run: '/bin/systemctl --no-block start rxlab@lan0.service'";
        assert_eq!(text.matches(run).count(), starts, "{action}: {text}");
    }
    let host = rxlab::host::LiveHost::open("/".as_ref()).expect("opened");
    let inventory = rxlab::sample::Inventory::take(&host, rxlab::sample::Scope::Path);
    for nic in rxlab::model::Model::new(&inventory).nics {
        let Some(address) = nic.address.0.strip_prefix("pci:").filter(|address| !address.contains('/'))
        else {
            continue;
        };
        let mut command = Command::new(&udevadm);
        command.args(["test-builtin", "path_id"]).arg(format!("/sys/class/net/{}", nic.name));
        let (_, text) = said(&command.output().expect("it runs"));
        assert!(text.contains(&format!("ID_PATH=pci-{address}\n")), "{text}");
    }
}
