//! Paths of the simulated machine: the objects that they lead to, and the faults that prevent it.

use rustix::io::Errno as Os;
use rxlab_sys::{HostError, Operation};

use super::State;
use super::kernel::{CPUS, Machine, THREADS, list};
use super::schedule::{Area, QueueValue, Slot};

/// Object at a path.
pub(super) enum Node {
    Interfaces,
    /// The link to the driver of a device on a bus.
    Driver(usize),
    Loopback,
    Interface(usize),
    InterfaceFile(usize, String),
    Queues(usize),
    Queue(usize, usize, bool),
    Value(Slot),
    Interrupts,
    /// The threads of a process.
    Tasks(usize),
    /// The file `stat` of a process or a thread.
    Stat(u32, u64),
    /// The name of the thread of a NAPI.
    Poller(String),
    /// `ifindex` of an interface.
    Index(usize),
    /// The directory of all control groups, and of one.
    Groups,
    Group(usize),
    /// The lists of queues and NAPIs.
    Napis,
    /// All processes: the threads of the kernel.
    Processes,
    Fixed(String),
    Absent,
}

/// What paths lead to, seen from one namespace.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// Cookie of the namespace that the files are of.
    pub(super) files: u64,
    /// A directory that is held open, with its inode: what is below it does not depend on names.
    pub(super) pin: Option<(String, u64)>,
}

impl View {
    /// Inode of the directory that is held open, for a path below it.
    fn pin_of(&self, path: &str) -> Option<u64> {
        let (pinned, inode) = self.pin.as_ref()?;
        path.strip_prefix(&**pinned)?.starts_with('/').then_some(*inode)
    }

    pub(super) fn node(&self, machine: &Machine, path: &str) -> Node {
        if let Some(rest) = path.strip_prefix("sys/class/net") {
            return self.interface_node(machine, path, rest);
        }
        if path == "proc" {
            return Node::Processes;
        }
        if let Some(rest) = path.strip_prefix("proc/") {
            return proc_node(machine, rest);
        }
        if let Some(rest) = path.strip_prefix(GROUPS) {
            return self.group_node(machine, path, rest);
        }
        match path {
            "sys/devices/system/cpu/online" => Node::Fixed(format!("{}\n", list(machine.online))),
            "sys/devices/system/cpu/present" => Node::Fixed(format!("0-{}\n", CPUS - 1)),
            _ => Node::Absent,
        }
    }

    fn interface_node(&self, machine: &Machine, path: &str, rest: &str) -> Node {
        let Some(rest) = rest.strip_prefix('/') else { return Node::Interfaces };
        let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
        if (name, rest) == ("lo", "") {
            return Node::Loopback;
        }
        let at = match self.pin_of(path) {
            Some(pin) => machine.devices.iter().position(|device| device.inode == pin && device.netns != 0),
            None => machine.find(self.files, name),
        };
        let Some(at) = at else { return Node::Absent };
        if rest.is_empty() {
            return Node::Interface(at);
        }
        let device = &machine.devices[at];
        let Some(rest) = rest.strip_prefix("queues") else {
            return match rest {
                "ifindex" => Node::Index(at),
                "carrier_down_count" => Node::InterfaceFile(at, format!("{}\n", device.carrier_downs)),
                "device/driver" if device.pci.is_some() => Node::Driver(at),
                "threaded" => Node::Value(Slot::Threaded(u8::try_from(at).unwrap_or(0))),
                "napi_defer_hard_irqs" if device.pci.is_some() => {
                    Node::Value(Slot::Defer(u8::try_from(at).unwrap_or(0)))
                }
                "gro_flush_timeout" if device.pci.is_some() => {
                    Node::Value(Slot::Flush(u8::try_from(at).unwrap_or(0)))
                }
                "operstate" => Node::InterfaceFile(at, "up\n".to_owned()),
                _ => Node::Absent,
            };
        };
        let Some(rest) = rest.strip_prefix('/') else { return Node::Queues(at) };
        let (queue, file) = rest.split_once('/').unwrap_or((rest, ""));
        let (is_rx, number) = match (queue.strip_prefix("rx-"), queue.strip_prefix("tx-")) {
            (Some(number), _) => (true, number),
            (_, Some(number)) => (false, number),
            _ => return Node::Absent,
        };
        let number = number.parse::<usize>().ok().filter(|number| (*number as u64) < device.count());
        let Some(number) = number else { return Node::Absent };
        let (device, queue) = (u8::try_from(at).unwrap_or(0), u8::try_from(number).unwrap_or(0));
        match (file, is_rx) {
            ("", _) => Node::Queue(at, number, is_rx),
            ("rps_cpus", true) => Node::Value(Slot::Rps(device, queue)),
            ("rps_flow_cnt", true) => Node::Value(Slot::Rfs(device, queue)),
            ("xps_cpus", false) if machine.device(device).has_xps() => Node::Value(Slot::Xps(device, queue)),
            _ => Node::Absent,
        }
    }

    fn group_node(&self, machine: &Machine, path: &str, rest: &str) -> Node {
        let Some(rest) = rest.strip_prefix('/') else { return Node::Groups };
        let (name, file) = rest.split_once('/').unwrap_or((rest, ""));
        let at = match self.pin_of(path) {
            Some(pin) => machine.groups.iter().position(|group| group.inode == pin && group.exists),
            None => machine.find_group(name),
        };
        match (at, file) {
            (Some(at), "") => Node::Group(at),
            (Some(at), "cpuset.cpus") => Node::Value(Slot::Group(u8::try_from(at).unwrap_or(0))),
            _ => Node::Absent,
        }
    }
}

/// Where the control groups are mounted.
pub(super) const GROUPS: &str = "sys/fs/cgroup/cpuset";

/// The thread `ksoftirqd/N` is process `KSOFTIRQD + N`.
pub(super) const KSOFTIRQD: u32 = 20;

fn ksoftirqd_node(pid: u32, file: &str) -> Option<Node> {
    let cpu = pid.checked_sub(KSOFTIRQD).filter(|cpu| *cpu < CPUS)?;
    match file {
        "comm" => Some(Node::Fixed(format!("ksoftirqd/{cpu}\n"))),
        "stat" => Some(Node::Value(Slot::Ksoftirqd(u8::try_from(cpu).ok()?))),
        _ => None,
    }
}

fn proc_node(machine: &Machine, rest: &str) -> Node {
    match rest {
        "self/mountinfo" => {
            return Node::Fixed(format!("30 20 0:26 / /{GROUPS} rw - cgroup cgroup rw,cpuset\n"));
        }
        // The parent of the kernel's threads.
        "2/comm" => return Node::Fixed("kthreadd\n".to_owned()),
        "2/stat" => return Node::Fixed(format!("2 (kthreadd) S 0{}\n", " 0".repeat(48))),
        "cgroups" => return Node::Fixed("cpuset\t4\t3\t1\n".to_owned()),
        "interrupts" => return Node::Interrupts,
        "sys/kernel/hostname" => return Node::Fixed("world\n".to_owned()),
        "sys/kernel/osrelease" => return Node::Fixed("6.1.0\n".to_owned()),
        "sys/kernel/random/boot_id" => return Node::Fixed(format!("boot-{}\n", machine.boot)),
        "sys/net/core/rps_sock_flow_entries" => return Node::Value(Slot::Entries),
        "sys/net/core/netdev_budget" => return Node::Value(Slot::Budget),
        "irq/default_smp_affinity" => return Node::Fixed("f\n".to_owned()),
        _ => {}
    }
    if let Some(node) = process_node(machine, rest) {
        return node;
    }
    let irq = rest.strip_prefix("irq/").and_then(|rest| rest.strip_suffix("/smp_affinity"));
    let Some(irq) = irq.and_then(|irq| irq.parse::<u32>().ok()) else { return Node::Absent };
    for (at, device) in (0u8..).zip(&machine.devices) {
        let queue = device.queues.iter().position(|queue| queue.irq == irq);
        let queue = queue.filter(|queue| (*queue as u64) < device.count() && device.pci.is_some());
        if let (Some(queue), true) = (queue, device.netns != 0) {
            return Node::Value(Slot::Irq(at, u8::try_from(queue).unwrap_or(0)));
        }
    }
    Node::Absent
}

/// `PID/stat`, `PID/status`, `PID/task`, and those files of a thread.
fn process_node(machine: &Machine, rest: &str) -> Option<Node> {
    let (pid, rest) = rest.split_once('/')?;
    let pid: u32 = pid.parse().ok()?;
    if let Some(node) = ksoftirqd_node(pid, rest) {
        return Some(node);
    }
    if pid > THREADS {
        let slot = machine.of_thread(pid, QueueValue::NapiCpus)?;
        return match rest {
            "comm" => Some(Node::Poller(machine.thread_name(pid)?)),
            "stat" => machine.of_thread(pid, QueueValue::NapiPriority).map(Node::Value),
            _ => (rest == format!("task/{pid}/status")).then_some(Node::Value(slot)),
        };
    }
    let at = machine.processes.iter().position(|process| process.pid == pid)?;
    let process = &machine.processes[at];
    let (tid, file) = match rest.strip_prefix("task/") {
        Some(rest) => rest.split_once('/')?,
        None => ("", rest),
    };
    let tid = if tid.is_empty() { pid } else { tid.parse().ok()? };
    let thread = process.thread(tid)?;
    Some(match file {
        "task" => Node::Tasks(at),
        "stat" => Node::Stat(tid, thread.start),
        "status" if rest == "status" => Node::Fixed(format!("Name:\tserver\nTgid:\t{pid}\n")),
        "status" => Node::Value(Slot::Thread(u8::try_from(at).ok()?, u8::try_from(tid - pid).ok()?)),
        _ => return None,
    })
}

/// True if a fault prevents an operation.
fn hits(area: Area, node: &Node, operation: Operation) -> bool {
    let device = match node {
        Node::Interface(at)
        | Node::Driver(at)
        | Node::InterfaceFile(at, _)
        | Node::Index(at)
        | Node::Queues(at)
        | Node::Queue(at, ..) => Some(*at),
        // Interrupts and threads have files of their own.
        Node::Value(Slot::Irq(..) | Slot::NapiCpus(..) | Slot::NapiPriority(..)) => None,
        Node::Value(slot) => slot.device().map(usize::from),
        _ => None,
    };
    match (area, node) {
        (Area::Interfaces, Node::Interfaces) => true,
        (Area::Device(of), _) => device == Some(usize::from(of)),
        (Area::Writes(of), Node::Value(Slot::Irq(at, _))) if operation == Operation::Write => of == *at,
        (Area::Writes(of), _) => {
            matches!(operation, Operation::Write | Operation::Act) && device == Some(usize::from(of))
        }
        (Area::Interrupts, Node::Interrupts | Node::Value(Slot::Irq(..))) => true,
        (Area::Napis, Node::Napis) => true,
        _ => false,
    }
}

/// The error of an operation that a fault prevents.
pub(super) fn prevented(
    state: &mut State,
    node: &Node,
    operation: Operation,
    path: &str,
) -> Result<(), HostError> {
    match state.fault(|area| hits(area, node, operation)) {
        Some(errno) => Err(HostError::new(operation, path, Os::from_raw_os_error(errno))),
        None => Ok(()),
    }
}
