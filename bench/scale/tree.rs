//! A large machine as plain files: nodes of 128 CPUs with two threads per core, one NIC with a queue for
//! every so many CPUs, and the kernel threads and services of such a machine.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const NODE: u32 = 128;
/// CPUs that share a last-level cache.
const CACHE: u32 = 16;
/// ksoftirqd, migration, cpuhp and two kworkers.
const THREADS_OF_CPU: [&str; 5] = ["ksoftirqd", "migration", "cpuhp", "kworker/0", "kworker/1"];
pub(crate) const COUNTERS: [&str; 6] =
    ["rx_packets", "rx_bytes", "rx_dropped", "rx_missed_errors", "tx_packets", "tx_bytes"];
const SERVICES: u32 = 300;
const DESCRIPTORS: u32 = 8;
const NAMESPACE: &str = "net:[4026531840]";
pub(crate) const DEVICE: &str = "sys/devices/pci0000:00/0000:00:03.0";

pub(crate) struct Tree<'a> {
    pub(crate) root: &'a Path,
    pub(crate) files: usize,
}

impl Tree<'_> {
    pub(crate) fn file(&mut self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
        fs::write(path, content).expect("written");
        self.files += 1;
    }

    pub(crate) fn link(&mut self, path: &str, target: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
        symlink(target, path).expect("linked");
    }
}

/// Creates the tree below `root` and returns the number of files.
pub(crate) fn make(root: &Path, cpus: u32, queues: u32) -> usize {
    let mut tree = Tree { root, files: 0 };
    identity(&mut tree);
    topology(&mut tree, cpus);
    counters(&mut tree, cpus, queues);
    nic(&mut tree, cpus, queues);
    processes(&mut tree, cpus);
    sockets(&mut tree);
    tree.files
}

fn identity(tree: &mut Tree<'_>) {
    tree.file("proc/sys/kernel/hostname", "large\n");
    tree.file("proc/sys/kernel/osrelease", "6.12.0\n");
    tree.file("proc/sys/kernel/random/boot_id", "00000000-0000-4000-8000-000000000001\n");
    tree.file("proc/sys/net/core/rps_sock_flow_entries", "0\n");
}

fn topology(tree: &mut Tree<'_>, cpus: u32) {
    let base = "sys/devices/system/cpu";
    for list in ["online", "present", "possible"] {
        tree.file(&format!("{base}/{list}"), format!("0-{}\n", cpus - 1));
    }
    tree.file(&format!("{base}/isolated"), "\n");
    for cpu in 0..cpus {
        let (node, core, cache) = (cpu / NODE, cpu / 2, cpu / CACHE * CACHE);
        let place = format!("{base}/cpu{cpu}");
        tree.file(&format!("{place}/topology/core_id"), format!("{}\n", core % (NODE / 2)));
        tree.file(&format!("{place}/topology/physical_package_id"), format!("{node}\n"));
        let siblings = format!("{}-{}\n", core * 2, core * 2 + 1);
        tree.file(&format!("{place}/topology/thread_siblings_list"), siblings);
        let package = format!("{}-{}\n", node * NODE, ((node + 1) * NODE).min(cpus) - 1);
        tree.file(&format!("{place}/topology/package_cpus_list"), package);
        for index in 0..4 {
            let (level, shared) = match index {
                3 => (3, format!("{cache}-{}\n", cache + CACHE - 1)),
                _ => (index.max(1), format!("{}-{}\n", core * 2, core * 2 + 1)),
            };
            tree.file(&format!("{place}/cache/index{index}/level"), format!("{level}\n"));
            tree.file(&format!("{place}/cache/index{index}/shared_cpu_list"), shared);
        }
        tree.link(&format!("{place}/node{node}"), &format!("../../node/node{node}"));
    }
    for node in 0..cpus.div_ceil(NODE) {
        let last = ((node + 1) * NODE).min(cpus) - 1;
        tree.file(
            &format!("sys/devices/system/node/node{node}/cpulist"),
            format!("{}-{last}\n", node * NODE),
        );
    }
}

fn counters(tree: &mut Tree<'_>, cpus: u32, queues: u32) {
    let header: String = (0..cpus).map(|cpu| format!("{:>11}", format!("CPU{cpu}"))).collect();
    let row =
        |count: &dyn Fn(u32) -> u64| (0..cpus).map(|cpu| format!("{:>11}", count(cpu))).collect::<String>();
    let mut interrupts = format!("     {header}\n");
    for irq in 0..queues + 8 {
        // A queue's interrupts are on one CPU, with leftover counts on its previous CPU.
        let at = irq * cpus / (queues + 8);
        let counts = row(&|cpu| if cpu == at { 81_234_567 } else { u64::from(cpu % 97 == 0) });
        let action = if irq < queues { format!("virtio0-input.{irq}") } else { format!("nvme0q{irq}") };
        let number = irq + 100;
        writeln!(interrupts, "{number:>4}:{counts}  PCI-MSIX-0000:00:03.0 {irq}-edge {action}")
            .expect("text");
        tree.file(&format!("proc/irq/{number}/smp_affinity_list"), format!("{at}\n"));
        tree.file(&format!("proc/irq/{number}/effective_affinity_list"), format!("{at}\n"));
        if irq < queues {
            tree.file(&format!("{DEVICE}/msi_irqs/{number}"), "msix\n");
        }
    }
    for name in ["NMI", "LOC", "SPU", "PMI", "IWI", "RTR", "RES", "CAL", "TLB"] {
        writeln!(interrupts, " {name}:{}   Some more", row(&|cpu| 1_000_000 + u64::from(cpu))).expect("text");
    }
    tree.file("proc/interrupts", interrupts);
    let mut softirqs = format!("          {header}\n");
    for name in ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"]
    {
        writeln!(softirqs, "{name:>10}:{}", row(&|cpu| 1_000_000 + u64::from(cpu))).expect("text");
    }
    tree.file("proc/softirqs", softirqs);
    let mut stat = "cpu  1 2 3 4 5 6 7 8 0 0\n".to_owned();
    let mut softnet = String::new();
    for cpu in 0..cpus {
        writeln!(stat, "cpu{cpu} 2255314 34 2290113 622625063 11 22 33 44 0 0").expect("text");
        let zeros = "00000000 ".repeat(11);
        writeln!(softnet, "0012d687 {zeros}{cpu:08x} 00000000 00000000").expect("text");
    }
    stat += "intr 1\nctxt 1\nbtime 1\nprocesses 1\n";
    tree.file("proc/stat", stat);
    tree.file("proc/net/softnet_stat", softnet);
}

fn nic(tree: &mut Tree<'_>, cpus: u32, queues: u32) {
    let base = format!("{DEVICE}/virtio0/net/eth0");
    tree.file(&format!("{base}/operstate"), "up\n");
    tree.file(&format!("{base}/ifindex"), "2\n");
    tree.file(&format!("{DEVICE}/numa_node"), "0\n");
    tree.link("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/virtio0/net/eth0");
    tree.link("sys/bus/pci/devices/0000:00:03.0", "../../../devices/pci0000:00/0000:00:03.0");
    for counter in COUNTERS {
        tree.file(&format!("{base}/statistics/{counter}"), "123456789\n");
    }
    let none = vec!["00000000"; cpus.div_ceil(32) as usize].join(",");
    for queue in 0..queues {
        tree.file(&format!("{base}/queues/rx-{queue}/rps_cpus"), format!("{none}\n"));
        tree.file(&format!("{base}/queues/rx-{queue}/rps_flow_cnt"), "0\n");
        tree.file(&format!("{base}/queues/tx-{queue}/xps_cpus"), format!("{none}\n"));
    }
}

fn processes(tree: &mut Tree<'_>, cpus: u32) {
    let mut pid = 10;
    for cpu in 0..cpus {
        for name in THREADS_OF_CPU {
            tree.file(&format!("proc/{pid}/comm"), format!("{name}/{cpu}\n"));
            if name == "ksoftirqd" {
                tree.file(&format!("proc/{pid}/schedstat"), "123456789 1234 5678\n");
            }
            pid += 1;
        }
    }
    // This list of kthreadd's children distinguishes kernel threads from programs.
    tree.file("proc/2/comm", "kthreadd\n");
    let children: Vec<String> = (10..pid).map(|thread| thread.to_string()).collect();
    tree.file("proc/2/task/2/children", children.join(" "));
    for service in 0..SERVICES {
        tree.file(&format!("proc/{pid}/comm"), format!("service{service}\n"));
        tree.link(&format!("proc/{pid}/ns/net"), NAMESPACE);
        for fd in 0..DESCRIPTORS {
            tree.link(&format!("proc/{pid}/fd/{fd}"), &format!("socket:[{}]", inode(service, fd)));
        }
        tree.file(&format!("proc/{pid}/cgroup"), format!("0::/system.slice/service{service}.service\n"));
        let allowed = format!("Name:\tservice\nCpus_allowed_list:\t0-{}\n", cpus - 1);
        tree.file(&format!("proc/{pid}/status"), allowed);
        // One thread each (field 20), on the CPU of field 39.
        let (before, after) = ("0 ".repeat(16), "0 ".repeat(18));
        let stat = format!("{pid} (service{service}) S {before}1 {after}{} 0 0 0 0\n", service % cpus);
        tree.file(&format!("proc/{pid}/stat"), &stat);
        tree.file(&format!("proc/{pid}/task/{pid}/stat"), stat);
        pid += 1;
    }
}

/// Each service listens on one port, and has seven connections.
fn sockets(tree: &mut Tree<'_>) {
    tree.file("proc/1/comm", "init\n");
    tree.link("proc/1/ns/net", NAMESPACE);
    let head =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
    let row = |service: u32, fd: u32| {
        let state = if fd == 0 { "0A" } else { "01" };
        let (port, inode) = (1024 + service, inode(service, fd));
        format!(
            "   0: 0100000A:{port:04X} 0200000A:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 {inode} 1 0\n"
        )
    };
    let rows = (0..SERVICES).flat_map(|service| (0..DESCRIPTORS).map(move |fd| row(service, fd)));
    tree.file("proc/net/tcp", head.to_owned() + &rows.collect::<String>());
    for table in ["tcp6", "udp", "udp6"] {
        tree.file(&format!("proc/net/{table}"), head);
    }
}

fn inode(service: u32, fd: u32) -> u32 {
    1_000 + service * DESCRIPTORS + fd
}
