//! A machine made of plain files: eight CPUs, of which 7 is offline and 6 isolated, `eth0` with two pairs of queues
//! on a bus, and `veth0` with one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rxlab_base::parse::{attribute, one_message};
use rxlab_change::apply::{ApplyError, BeginInfo, Transaction};
use rxlab_change::journal::{Disk, Store};
use rxlab_change::knob::{KNOBS, KnobError};
use rxlab_path::model::{Identity, Model};
use rxlab_path::sample::{Inventory, Scope};
use rxlab_sys::{Host, LiveHost};

use crate::answers::answers;
use crate::process::end_guards;

const INTERRUPTS: &str = "           CPU0       CPU1
 24:  1  2  PCI-MSI 1-edge  eth0-TxRx-0
 25:  3  4  PCI-MSI 2-edge  eth0-TxRx-1
 26:  5  6  PCI-MSI 3-edge  eth0-rx-1
 39:  0  1  PCI-MSI 0-edge  eth0
 40:  1  1  PCI-MSI 4-edge  eth0-tx-0
 41:  1  1  PCI-MSI 5-edge  eth0-tx-1
";

pub(crate) const PCI: &str = "sys/devices/pci0000:00/0000:00:03.0";

/// A temporary machine, with a state directory next to it.
pub(crate) struct Tree {
    directory: tempfile::TempDir,
    // True if a command may have left a guard behind.
    has_guard: AtomicBool,
}

impl Tree {
    pub(crate) fn new() -> Self {
        // In memory: thousands of these are created, and they do not test disk syncs.
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let directory = directory.expect("a temporary directory");
        let tree = Self { directory, has_guard: AtomicBool::new(false) };
        let files = [
            ("proc/sys/kernel/hostname", "treehost\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("proc/sys/kernel/random/boot_id", "boot-1\n"),
            ("proc/sys/net/core/rps_sock_flow_entries", "0\n"),
            ("proc/irq/24/smp_affinity", "ff\n"),
            ("proc/irq/25/smp_affinity", "01\n"),
            ("proc/irq/26/smp_affinity", "02\n"),
            ("proc/irq/39/smp_affinity", "08\n"),
            ("proc/irq/40/smp_affinity", "02\n"),
            ("proc/irq/41/smp_affinity", "04\n"),
            ("proc/interrupts", INTERRUPTS),
            ("proc/stat", "cpu  2 0 2 2 0 0 0 0 0 0\ncpu0 1 0 1 1 0 0 0 0 0 0\ncpu1 1 0 1 1 0 0 0 0 0 0\n"),
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
                tree.write(&format!("{base}/queues/tx-{queue}/xps_rxqs"), "0\n");
            }
            tree.write(&format!("{base}/operstate"), "up\n");
            tree.write(&format!("{base}/type"), "1\n");
            tree.write(&format!("{base}/flags"), "0x1003\n");
        }
        answers().iter().for_each(|(path, answer)| tree.write(path, answer));
        tree.link("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/net/eth0");
        tree.link("sys/class/net/veth0", "../../devices/virtual/net/veth0");
        tree.link(&format!("{PCI}/net/eth0/device"), "../../../0000:00:03.0");
        tree.link(&format!("{PCI}/driver"), "../../../bus/pci/drivers/igb");
        tree.write("sys/bus/pci/devices/README", "\n");
        tree.link(&format!("{PCI}/subsystem"), "../../../bus/pci");
        tree.set_up_kernel();
        tree.start_processes();
        tree
    }

    /// Sysctls, a clock, NAPIs, and threads that poll those of `eth0`.
    fn set_up_kernel(&self) {
        for (name, value) in [
            ("netdev_budget", "300"),
            ("netdev_budget_usecs", "8000"),
            ("netdev_max_backlog", "1000"),
            ("dev_weight", "64"),
            ("gro_normal_batch", "8"),
            ("skb_defer_max", "64"),
            ("flow_limit_cpu_bitmap", "00"),
            ("rps_default_mask", "00"),
            ("busy_poll", "0"),
            ("busy_read", "0"),
            ("rmem_default", "212992"),
            ("rmem_max", "212992"),
            ("somaxconn", "4096"),
        ] {
            self.write(&format!("proc/sys/net/core/{name}"), format!("{value}\n"));
        }
        self.write("proc/sys/net/ipv4/tcp_max_syn_backlog", "1024\n");
        self.write("proc/sys/net/netfilter/nf_conntrack_max", "262144\n");
        self.write("proc/irq/default_smp_affinity", "3f\n");
        let clock = "sys/devices/system/clocksource/clocksource0";
        self.write(&format!("{clock}/current_clocksource"), "tsc\n");
        self.write(&format!("{clock}/available_clocksource"), "tsc hpet acpi_pm \n");
        for nic in ["eth0", "veth0"] {
            for file in ["threaded", "napi_defer_hard_irqs", "gro_flush_timeout"] {
                self.write(&format!("sys/class/net/{nic}/{file}"), "0\n");
            }
        }
        self.write("sys/class/net/eth0/ifindex", "4\n");
        let (mut queues, mut napis) = (Vec::new(), Vec::new());
        for queue in 0..2u32 {
            let (napi, thread) = (8193 + queue, 500 + queue);
            let polled = [(1, 4), (2, napi), (4, thread), (5, 0), (6, 0), (7, 0), (8, 0)];
            queues.extend(one_message(&numbers(&[(1, queue), (2, 4), (3, 0), (4, napi)])));
            napis.extend(one_message(&numbers(&polled)));
            self.process(thread, &format!("napi/eth0-{napi}"), 2, 950);
            let status = "Name:\tnapi\nCpus_allowed_list:\t0-7\n";
            self.write(&format!("proc/{thread}/task/{thread}/status"), status);
        }
        self.write("netlink/netdev/queue-get", &queues);
        self.write("netlink/netdev/napi-get", &napis);
    }

    /// The kernel's softirq threads, irqbalance as process 70, and process 812, which listens with two threads.
    fn start_processes(&self) {
        for cpu in 0..8 {
            self.process(20 + cpu, &format!("ksoftirqd/{cpu}"), 2, 31);
        }
        self.process(70, "irqbalance", 1, 900);
        self.write("socket/irqbalance/70/setup", "SLEEP 10 IRQ 3 LOAD 0 DIFF 0 CLASS 0 BANNED 00000000");
        self.process(812, "web", 1, 5000);
        for (thread, list) in [(812, "0-7"), (813, "2")] {
            let status = format!("Name:\tweb\nCpus_allowed_list:\t{list}\n");
            self.write(&format!("proc/812/task/{thread}/status"), &status);
        }
        self.link("proc/812/fd/3", "socket:[99]");
        self.write(
            "proc/net/tcp",
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0700000A:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 99 1 0 0\n",
        );
    }

    /// Files of procfs for a process with this name, parent and start time.
    pub(crate) fn process(&self, pid: u32, name: &str, parent: u32, start: u64) {
        let zeros = "0 ".repeat(19);
        let stat = format!("{pid} ({name}) S {parent} 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} {zeros}\n");
        self.write(&format!("proc/{pid}/stat"), &stat);
        self.write(&format!("proc/{pid}/comm"), format!("{name}\n"));
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// The directory that contains both.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file next to both, and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.into_os_string().into_string().expect("text")
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
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

    pub(crate) fn link(&self, path: &str, target: &str) {
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
        let guarded = args.iter().any(|word| ["--confirm", "guard", "trial"].contains(word));
        self.has_guard.fetch_or(guarded, Ordering::Relaxed);
        command
    }

    /// A trial of this specification.
    pub(crate) fn trial(&self, text: &str) -> Command {
        self.command(&["trial", "run", &self.file("spec.toml", text)])
    }

    /// Writes a plan of these settings, and returns its path.
    pub(crate) fn plan(&self, settings: &[&str]) -> String {
        let text: String = settings.iter().map(|set| format!("[[setting]]\nset = \"{set}\"\n")).collect();
        self.file("plan.toml", &text)
    }

    /// Creates a file at the path of the program, below the root: the units run it on the machine that boots from
    /// there.
    pub(crate) fn install_program(&self) {
        let program = program();
        let program = program.strip_prefix("/").expect("absolute").to_str().expect("text");
        self.write(program, "");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.root().join(program), executable).expect("made executable");
    }

    pub(crate) fn begin(&self) -> Transaction {
        begin(&self.store(), &self.root(), &model().identity).expect("begun")
    }

    /// The value of every target of every knob.
    pub(crate) fn values(&self) -> BTreeMap<String, String> {
        values_in(&self.host(), &model())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if self.has_guard.load(Ordering::Relaxed) {
            end_guards(self.path());
        }
    }
}

/// Path of the program without links, as the units name it.
pub(crate) fn program() -> PathBuf {
    std::fs::canonicalize(env!("CARGO_BIN_EXE_rxlab")).expect("built")
}

/// Attributes of 32 bits.
pub(crate) fn numbers(all: &[(u16, u32)]) -> Vec<u8> {
    all.iter().flat_map(|(kind, value)| attribute(*kind, value.to_ne_bytes())).collect()
}

/// The value of every target of every knob on this machine.
pub(crate) fn values_in(host: &dyn Host, model: &Model) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    for knob in KNOBS {
        for target in knob.targets(model) {
            match knob.read(knob.site(host, model, &target)) {
                Ok(value) => values.insert(format!("{} {target}", knob.name()), value),
                Err(KnobError::Unsupported { .. } | KnobError::NotThere { .. }) => None,
                Err(error) => panic!("{error}"),
            };
        }
    }
    values
}

/// The receive path of a fresh tree. Queue 1 of `eth0` has two interrupts. Read once, and from a separate tree:
/// reading is not an operation of the machine under test.
pub(crate) fn model() -> Model {
    static MODEL: LazyLock<Model> = LazyLock::new(|| look(&Tree::new().host(), Scope::All));
    MODEL.clone()
}

/// The receive path of a machine, read now.
pub(crate) fn look(host: &dyn Host, scope: Scope) -> Model {
    Model::new(&Inventory::take(host, scope))
}

/// Begins a transaction on the machine at `root`.
pub(crate) fn begin(store: &Store, root: &Path, identity: &Identity) -> Result<Transaction, ApplyError> {
    Transaction::begin(store, BeginInfo { root, what: "a test".into(), ..BeginInfo::new(identity) })
}
