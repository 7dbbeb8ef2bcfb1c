//! A machine made of plain files: eight CPUs of which 7 is offline and 6 isolated, `eth0` with two
//! queues on a bus, and `veth0` with one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rxlab::host::{Host, LiveHost};
use rxlab::journal::{Disk, Store};
use rxlab::knob::KNOBS;
use rxlab::model::{Cpu, DeviceAddress, Fact, Identity, Irq, Model, Nic, NicKind, RxQueue};
use rxlab::units::{CpuId, CpuMask, IrqId};

const PCI: &str = "sys/devices/pci0000:00/0000:00:03.0";

/// A temporary machine and a state directory beside it.
pub(crate) struct Tree {
    directory: tempfile::TempDir,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let tree = Self { directory: tempfile::tempdir().expect("a temporary directory") };
        let files = [
            ("proc/sys/kernel/hostname", "treehost\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("proc/sys/kernel/random/boot_id", "boot-1\n"),
            ("proc/sys/net/core/rps_sock_flow_entries", "0\n"),
            ("proc/irq/24/smp_affinity", "ff\n"),
            ("proc/irq/25/smp_affinity", "01\n"),
            ("proc/irq/26/smp_affinity", "02\n"),
            ("proc/interrupts", "           CPU0       CPU1\n 24:  1  2  PCI-MSI 1-edge  virtio0-input.0\n"),
            ("proc/stat", "cpu  1 0 1 1 0 0 0 0 0 0\ncpu0 1 0 1 1 0 0 0 0 0 0\n"),
            ("sys/devices/system/cpu/present", "0-7\n"),
            ("sys/devices/system/cpu/online", "0-6\n"),
            ("sys/devices/system/cpu/isolated", "6\n"),
        ];
        for (path, content) in files {
            tree.write(path, content);
        }
        for (base, queues) in [(format!("{PCI}/net/eth0"), 2), ("sys/devices/virtual/net/veth0".into(), 1)] {
            for queue in 0..queues {
                tree.write(&format!("{base}/queues/rx-{queue}/rps_cpus"), "00\n");
                tree.write(&format!("{base}/queues/rx-{queue}/rps_flow_cnt"), "0\n");
                tree.write(&format!("{base}/queues/tx-{queue}/xps_cpus"), "00\n");
            }
            tree.write(&format!("{base}/operstate"), "up\n");
            tree.write(&format!("{base}/type"), "1\n");
            tree.write(&format!("{base}/flags"), "0x1003\n");
        }
        tree.link("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/net/eth0");
        tree.link("sys/class/net/veth0", "../../devices/virtual/net/veth0");
        tree.link(&format!("{PCI}/net/eth0/device"), "../../../0000:00:03.0");
        tree.write("sys/bus/pci/devices/README", "\n");
        tree.link(&format!("{PCI}/subsystem"), "../../../bus/pci");
        tree
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// The directory that holds both.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().expect("a file has a directory")).expect("created");
        std::fs::write(path, content).expect("written");
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).expect("readable").trim().to_owned()
    }

    pub(crate) fn rps(&self, nic: &str, queue: u32) -> String {
        self.read(&format!("sys/class/net/{nic}/queues/rx-{queue}/rps_cpus"))
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().expect("a link has a directory")).expect("created");
        std::os::unix::fs::symlink(target, path).expect("linked");
    }

    pub(crate) fn host(&self) -> LiveHost {
        LiveHost::open(&self.root()).expect("opened")
    }

    pub(crate) fn store(&self) -> Store {
        Store::new(Disk::new(self.state()))
    }

    /// `rxlab` on this machine.
    pub(crate) fn rxlab(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("rxlab runs")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rxlab"));
        command.arg("--root").arg(self.root()).arg("--state-dir").arg(self.state()).args(args);
        command
    }

    /// The value of every target of every knob.
    pub(crate) fn values(&self) -> BTreeMap<String, String> {
        values(&self.host())
    }
}

/// The value of every target of every knob.
pub(crate) fn values(host: &dyn Host) -> BTreeMap<String, String> {
    let model = model();
    let mut values = BTreeMap::new();
    for knob in KNOBS {
        for target in knob.targets(&model) {
            let value = knob.read(host, &model, &target).expect("every value can be read");
            values.insert(format!("{} {target}", knob.name()), value);
        }
    }
    values
}

/// What a tree is. Queue 1 of `eth0` has two interrupts.
pub(crate) fn model() -> Model {
    let cpu = |n| Cpu {
        id: CpuId(n),
        online: n != 7,
        isolated: n == 6,
        core: None,
        package: None,
        siblings: CpuMask::new(),
        l3: CpuMask::new(),
        node: None,
    };
    let irq = |n: &u32| Irq {
        number: IrqId(*n),
        action: format!("virtio0-input.{n}"),
        affinity: Fact::Unsupported,
        effective: Fact::Unsupported,
    };
    let queue = |index, irqs: &[u32]| RxQueue {
        index,
        rps_cpus: Fact::Unsupported,
        rps_flow_cnt: Fact::Unsupported,
        irqs: irqs.iter().map(irq).collect(),
    };
    let nic = |name: &str, address: &str, kind, rx| Nic {
        name: name.parse().expect("a name"),
        address: DeviceAddress(address.to_owned()),
        kind,
        driver: None,
        node: None,
        up: true,
        rx,
        tx: Vec::new(),
        other_irqs: Vec::new(),
    };
    Model {
        schema: "rxlab.model/1".to_owned(),
        identity: Identity {
            hostname: "treehost".to_owned(),
            kernel: "6.1.0".to_owned(),
            boot_id: "boot-1".to_owned(),
        },
        cpus: (0..8).map(cpu).collect(),
        nics: vec![
            nic("eth0", "pci:0000:00:03.0", NicKind::Device, vec![queue(0, &[24]), queue(1, &[25, 26])]),
            nic("veth0", "virtual:veth0", NicKind::Virtual, vec![queue(0, &[])]),
        ],
        rps_sock_flow_entries: Fact::Known(0),
        irqbalance: None,
    }
}

/// Standard output and standard error, and the exit code.
pub(crate) fn said(output: &Output) -> (i32, String) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code().expect("not killed"), String::from_utf8(text).expect("text"))
}
