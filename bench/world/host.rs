//! The simulated kernel as files and answers. Every operation is a moment at which the adversary may move.

use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno as Os;
use rxlab_base::parse::{Scheduling, attribute, ethtool, link_request, one_message};
use rxlab_base::units::{CpuId, CpuMask, NicName};
use rxlab_change::knob::testbed::features_answer;
use rxlab_sys::{
    Action, Cause, Entry, EthtoolChange, EthtoolGet, Hidden, Host, HostError, Namespace, OpenError,
    Operation, OtherView, Query,
};

use super::kernel::{
    CPUS, Device, MAX_QUEUES, Machine, Queue, THREADS, list, scheduling, scheduling_of, table,
};
use super::processes::Group;
use super::schedule::{Area, NicValue, QueueValue, Slot};
use super::{Counted, Link, Mutation, State, World};

/// The namespace of every command, by its own name.
pub(crate) const OWN: &str = "/proc/thread-self/ns/net";

/// The machine seen from one of its network namespaces.
pub(crate) struct SimHost {
    world: Arc<World>,
    /// Of the sockets.
    netns: Namespace,
    /// Cookie of the namespace that the files are of.
    files: u64,
}

/// An escaped name that is not UTF-8.
const ODD: &str = "\\xff\\xfe";

/// Stands for all values of all NAPIs and their threads, in the rule about checks and writes.
const NAPIS: Slot = Slot::QueueDefer(0, 0);

/// Object at a path.
enum Node {
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

impl SimHost {
    /// Seen from the namespace of all commands.
    pub(crate) fn own(world: &Arc<World>) -> Self {
        let mut state = world.state();
        let is_other = state.fault(|area| area == Area::View).is_some();
        let [own, other] = [0, 1].map(|at| state.machine.namespaces[at].clone());
        drop(state);
        let netns = Namespace { path: OWN.into(), inode: own.inode, cookie: Some(own.cookie) };
        Self { world: Arc::clone(world), netns, files: if is_other { other.cookie } else { own.cookie } }
    }

    fn cookie(&self) -> u64 {
        self.netns.cookie.unwrap_or(0)
    }

    /// What the running command wrote last, with a mutation.
    fn taken_for_kept(&self, path: &str) -> Option<Vec<u8>> {
        let mut state = self.world.state();
        let running = state.running();
        let (pid, written, text) = state.last_text.take()?;
        (running == Some(pid) && written == path).then_some(text)
    }

    fn node(&self, machine: &Machine, path: &str) -> Node {
        if let Some(rest) = path.strip_prefix("sys/class/net") {
            return self.interface_node(machine, rest);
        }
        if path == "proc" {
            return Node::Processes;
        }
        if let Some(rest) = path.strip_prefix("proc/") {
            return proc_node(machine, rest);
        }
        if let Some(rest) = path.strip_prefix(GROUPS) {
            return group_node(machine, rest);
        }
        match path {
            "sys/devices/system/cpu/online" => Node::Fixed(format!("{}\n", list(machine.online))),
            "sys/devices/system/cpu/present" => Node::Fixed(format!("0-{}\n", CPUS - 1)),
            _ => Node::Absent,
        }
    }

    fn interface_node(&self, machine: &Machine, rest: &str) -> Node {
        let Some(rest) = rest.strip_prefix('/') else { return Node::Interfaces };
        let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
        if (name, rest) == ("lo", "") {
            return Node::Loopback;
        }
        let Some(at) = machine.find(self.files, name) else { return Node::Absent };
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

    /// The node of a path at this operation, or the fault that prevents it.
    fn meet<T>(
        &self,
        path: &str,
        operation: Operation,
        answer: impl FnOnce(&mut State, Node) -> Option<T>,
    ) -> Result<T, HostError> {
        // Paths that no machine of the world has are not simulated.
        let known = [
            "sys/class/net",
            "proc/irq/",
            "proc/interrupts",
            GROUPS,
            "proc/2",
            "proc/sys/net/core/",
            "proc/8",
            "proc/9",
            "proc/10",
            "sys/devices/system/cpu/online",
        ];
        let mut state = self.world.state();
        let mut node = self.node(&state.machine, path);
        if known.iter().any(|known| path.starts_with(known)) {
            let link = match (&node, operation) {
                (Node::Value(_), Operation::Write) => Link::Write,
                // The threads of a process are one value.
                (Node::Value(Slot::Thread(process, _)), _) => Link::Read(Slot::Thread(*process, 0)),
                (Node::Tasks(process), _) => Link::Read(Slot::Thread(u8::try_from(*process).unwrap_or(0), 0)),
                (Node::Stat(pid, _), _) => Link::Read(Slot::Thread(u8::from(*pid >= 900), 0)),
                // A value of a NAPI is read from several files.
                (Node::Poller(_) | Node::Index(_), _) => Link::Read(NAPIS),
                (Node::Value(slot), _) if slot.is_of_napi() => Link::Read(NAPIS),
                (Node::Value(slot), _) => Link::Read(*slot),
                _ => Link::Other,
            };
            if !matches!(node, Node::Absent | Node::Fixed(_)) || path.starts_with("sys/devices/system/cpu") {
                drop(state);
                let is_moved = self.world.step(Counted::Any, link);
                state = self.world.state();
                if is_moved {
                    node = self.node(&state.machine, path);
                }
            }
        }
        let refused = prevented(&mut state, &node, operation, path);
        let node = match (node, &refused) {
            (Node::Interrupts, Err(_)) if state.has(Mutation::NoInterrupts) => {
                Node::Fixed(NO_INTERRUPTS.to_owned())
            }
            (node, _) => {
                refused?;
                node
            }
        };
        answer(&mut state, node).ok_or_else(|| HostError::new(operation, path, Cause::Missing))
    }
}

/// Where the control groups are mounted.
const GROUPS: &str = "sys/fs/cgroup/cpuset";

fn group_node(machine: &Machine, rest: &str) -> Node {
    let Some(rest) = rest.strip_prefix('/') else { return Node::Groups };
    let (name, file) = rest.split_once('/').unwrap_or((rest, ""));
    match (machine.find_group(name), file) {
        (Some(at), "") => Node::Group(at),
        (Some(at), "cpuset.cpus") => Node::Value(Slot::Group(u8::try_from(at).unwrap_or(0))),
        _ => Node::Absent,
    }
}

/// The thread `ksoftirqd/N` is process `KSOFTIRQD + N`.
const KSOFTIRQD: u32 = 20;

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
fn prevented(state: &mut State, node: &Node, operation: Operation, path: &str) -> Result<(), HostError> {
    match state.fault(|area| hits(area, node, operation)) {
        Some(errno) => Err(HostError::new(operation, path, Os::from_raw_os_error(errno))),
        None => Ok(()),
    }
}

fn value_text(slot: Slot, value: u64) -> String {
    match slot {
        Slot::Rps(..) | Slot::Xps(..) | Slot::Irq(..) => format!("{value:x}\n"),
        Slot::Thread(..) | Slot::NapiCpus(..) => {
            format!("Name:\tserver\nCpus_allowed_list:\t{}\n", list(value))
        }
        Slot::Group(_) => format!("{}\n", list(value)),
        Slot::Ksoftirqd(cpu) => stat(KSOFTIRQD + u32::from(cpu), &format!("ksoftirqd/{cpu}"), value),
        _ => format!("{value}\n"),
    }
}

/// The file `stat` of a thread of the kernel with this scheduling.
fn stat(pid: u32, name: &str, value: u64) -> String {
    let (policy, priority, nice) = scheduling_of(value);
    let zeros = |count| " 0".repeat(count);
    format!("{pid} ({name}) S 2{} {nice}{} {priority} {policy}{}\n", zeros(14), zeros(20), zeros(11))
}

/// The file `stat` of the thread that polls a queue.
fn poller_stat(machine: &Machine, slot: Slot) -> Option<String> {
    let pid = u32::try_from(machine.identity(slot)).ok()?;
    Some(stat(pid, &machine.thread_name(pid)?, machine.value(slot)?.now))
}

fn number(slot: Slot, bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    match slot {
        Slot::Rps(..) | Slot::Xps(..) | Slot::Irq(..) => {
            Some(CpuMask::from_hex(text).ok()?.iter().fold(0, |mask, cpu| mask | 1 << cpu.0))
        }
        Slot::Group(_) => Some(text.parse::<CpuMask>().ok()?.iter().fold(0, |mask, cpu| mask | 1 << cpu.0)),
        _ => text.parse().ok(),
    }
}

fn interrupts(machine: &Machine) -> String {
    let mut text = "           CPU0       CPU1       CPU2       CPU3\n".to_owned();
    for (at, device) in machine.devices.iter().enumerate() {
        if device.pci.is_none() || device.netns == 0 {
            continue;
        }
        for (queue, number) in device.queues.iter().zip(0..device.count()) {
            text += &format!(" {}:  1  2  3  4  PCI-MSI 1-edge  virtio{at}-input.{number}\n", queue.irq);
        }
    }
    text
}

fn link_of(at: usize, device: &Device) -> String {
    match device.pci {
        Some(function) => format!("../../devices/pci0000:00/{function}/virtio{at}/net/{}", device.name),
        None => format!("../../devices/virtual/net/{}", device.name),
    }
}

/// The queues of the devices of a namespace, or their NAPIs.
fn napis(machine: &Machine, cookie: u64, query: &Query) -> Vec<u8> {
    let mut answer = Vec::new();
    for (_, device) in machine.in_netns(cookie) {
        let queues = (0..).zip(&device.queues).take(usize::try_from(device.count()).unwrap_or(0));
        for (number, queue) in queues {
            // A veth does not say which NAPI polls a queue.
            let napi = device.pci.map(|_| (4, queue.napi));
            let numbers: Vec<(u16, u32)> = match query {
                Query::Napis if !device.has_napis() => continue,
                Query::Napis => napi_of(device, queue),
                _ => [(1, number), (2, device.ifindex), (3, 0)].into_iter().chain(napi).collect(),
            };
            let attributes: Vec<u8> = numbers
                .into_iter()
                .flat_map(|(kind, number)| attribute(kind, number.to_ne_bytes()))
                .collect();
            answer.extend(one_message(&attributes));
        }
    }
    answer
}

/// The settings of a NAPI, by their attributes.
const SETTINGS: [(u16, QueueValue); 4] =
    [(5, QueueValue::Defer), (6, QueueValue::Flush), (7, QueueValue::Suspend), (8, QueueValue::Threaded)];

fn napi_of(device: &Device, queue: &Queue) -> Vec<(u16, u32)> {
    let number = |value| u32::try_from(queue.value(value).now).unwrap_or(0);
    let thread = (number(QueueValue::Threaded) == 1).then_some((4, queue.thread));
    let ids = [(1, device.ifindex), (2, queue.napi)].into_iter().chain(thread);
    ids.chain(SETTINGS.map(|(kind, value)| (kind, number(value)))).collect()
}

/// The interfaces of a namespace, with their kinds. One whose name is not UTF-8 is left out: nothing can name it.
fn links(machine: &Machine, cookie: u64) -> Vec<u8> {
    const IFLA_LINKINFO: u16 = 18;
    const IFLA_INFO_KIND: u16 = 1;
    let message = |device: &Device| {
        let name = device.name.parse().ok().filter(|_| !device.is_odd)?;
        let kind = attribute(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, b"veth\0"));
        let mut message = link_request(&name, if device.pci.is_none() { &kind } else { &[] });
        message[4..8].copy_from_slice(&device.ifindex.to_ne_bytes());
        Some(one_message(&message))
    };
    machine.in_netns(cookie).filter_map(|(_, device)| message(device)).flatten().collect()
}

fn rings(device: &Device) -> Vec<u8> {
    let size = u32::try_from(device.nic_value(NicValue::Ring).now).unwrap_or(0);
    one_message(
        &[(2, 4096), (6, size)]
            .map(|(kind, count): (u16, u32)| attribute(kind, count.to_ne_bytes()))
            .concat(),
    )
}

/// The offloads of a veth, of which the world has one.
fn offloads(device: &Device) -> Vec<u8> {
    let is_on = device.nic_value(NicValue::Gro).now == 1;
    features_answer(&[GRO], if is_on { &[GRO] } else { &[] }, &[])
}

const GRO: &str = "rx-gro";

/// A list with an interrupt of no interface.
const NO_INTERRUPTS: &str =
    "           CPU0       CPU1       CPU2       CPU3\n 9:  1  2  3  4  IO-APIC 9-fasteoi  acpi\n";

fn channels(device: &Device) -> Vec<u8> {
    let counts = [(5, u32::from(MAX_QUEUES)), (9, u32::try_from(device.count()).unwrap_or(0))];
    one_message(&counts.map(|(kind, count)| attribute(kind, count.to_ne_bytes())).concat())
}

impl SimHost {
    fn in_one_view(&self, operation: Operation, path: &str) -> Result<(), HostError> {
        self.check_view().map_err(|_| HostError::new(operation, path, Cause::OtherView))
    }

    /// The device of a name, on a bus or virtual.
    fn find(&self, state: &State, nic: &NicName, is_virtual: bool) -> Option<u8> {
        let at = state.machine.find(self.cookie(), nic.as_str())?;
        (state.machine.devices[at].pci.is_none() == is_virtual).then(|| u8::try_from(at).ok())?
    }

    /// Carries out an action that sets one value, which `found` looks for and gives a number.
    fn set(&self, path: &str, found: impl FnOnce(&State) -> Option<(Slot, u64)>) -> Result<(), HostError> {
        let failed = |cause: Cause| HostError::new(Operation::Act, path, cause);
        self.in_one_view(Operation::Act, path)?;
        self.world.step(Counted::Any, Link::Write);
        let mut state = self.world.state();
        let (slot, value) = found(&state).ok_or_else(|| failed(Cause::Missing))?;
        prevented(&mut state, &Node::Value(slot), Operation::Act, path)?;
        let done = state.write(slot, value);
        state.die_in_call(slot);
        drop(state);
        self.world.written();
        if done { Ok(()) } else { Err(failed(Cause::Errno(22))) }
    }

    /// sched_setaffinity(2), which takes the number of a thread.
    fn move_thread(&self, pid: u32, tid: u32, cpus: &CpuMask) -> Result<(), HostError> {
        let path = format!("proc/{pid}/task/{tid}/status");
        let failed = |cause: Cause| HostError::new(Operation::Act, &path, cause);
        let wanted = (0..CPUS).filter(|cpu| cpus.contains(CpuId(*cpu))).fold(0, |mask, cpu| mask | 1 << cpu);
        let written = self.meet(&path, Operation::Write, |state, node| {
            let Node::Value(slot) = node else { return None };
            Some(state.write(slot, wanted))
        });
        let written = written.map_err(|error| failed(error.cause))?;
        self.world.written();
        if written { Ok(()) } else { Err(failed(Cause::Errno(22))) }
    }
}

/// The number of a request of one attribute: length, kind, 32 bits.
fn number32(attributes: &[u8]) -> Option<u64> {
    attributes.get(4..8)?.try_into().ok().map(u32::from_ne_bytes).map(u64::from)
}

/// sched_setattr(2) of a thread of the kernel.
fn scheduled(state: &State, pid: u32, wanted: &Scheduling) -> Option<(Slot, u64)> {
    let cpu = pid.checked_sub(KSOFTIRQD).filter(|cpu| *cpu < CPUS);
    let slot = match cpu {
        Some(cpu) => Slot::Ksoftirqd(u8::try_from(cpu).ok()?),
        None => state.machine.of_thread(pid, QueueValue::NapiPriority)?,
    };
    let nice = if wanted.policy == 5 && state.has(Mutation::OneStep) { 0 } else { wanted.nice };
    let (policy, priority) = (u64::from(wanted.policy), u64::from(wanted.priority));
    // The nice value is set by a second call.
    let is_cut = state.dies_in_call() && matches!(policy, 1 | 2 | 5);
    let was = scheduling_of(state.machine.value(slot)?.now).2;
    Some((slot, scheduling(policy, priority, if is_cut { was } else { i64::from(nice) })))
}

impl Host for SimHost {
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        if let Some(text) = self.taken_for_kept(path) {
            return Ok(text);
        }
        let text = self.meet(path, Operation::Read, |state, node| match node {
            Node::Fixed(text) | Node::InterfaceFile(_, text) => Some(text),
            Node::Interrupts => Some(interrupts(&state.machine)),
            Node::Poller(name) => Some(format!("{name}\n")),
            Node::Index(at) => Some(format!("{}\n", state.machine.devices[at].ifindex)),
            Node::Value(slot @ Slot::NapiPriority(..)) => poller_stat(&state.machine, slot),
            Node::Value(slot) => Some(value_text(slot, state.machine.value(slot)?.now)),
            Node::Stat(..) if state.has(Mutation::ThreadsByNumber) && path.contains("/task/") => None,
            Node::Stat(tid, start) => {
                Some(format!("{tid} (server) S{} {start}{}\n", " 0".repeat(18), " 0".repeat(30)))
            }
            _ => None,
        });
        text.map(String::into_bytes)
    }

    fn write(&self, path: &str, value: &[u8]) -> Result<(), HostError> {
        self.in_one_view(Operation::Write, path)?;
        let mut errno = 22;
        let written = self.meet(path, Operation::Write, |state, node| {
            let Node::Value(slot) = node else { return None };
            if matches!(slot, Slot::Threaded(_)) {
                // EOPNOTSUPP: it has no NAPIs.
                errno = 95;
            }
            let written = number(slot, value).is_some_and(|value| state.write(slot, value));
            if let (true, Some(pid)) = (state.has(Mutation::NotReadBack), state.running()) {
                state.last_text = Some((pid, path.to_owned(), value.to_vec()));
            }
            state.die_in_call(slot);
            Some(written)
        })?;
        self.world.written();
        if written {
            Ok(())
        } else {
            Err(HostError::new(Operation::Write, path, Os::from_raw_os_error(errno)))
        }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        let cookie = self.files;
        self.meet(path, Operation::List, |state, node| {
            let is_hidden = state.fault(|area| area == Area::NoInterfaces).is_some();
            let machine = &state.machine;
            let mut names: Vec<String> = match node {
                Node::Interfaces if is_hidden => Vec::new(),
                Node::Interfaces => {
                    let name = |device: &Device| match device.is_odd {
                        true => format!("{}{ODD}", device.name),
                        false => device.name.clone(),
                    };
                    let devices = machine.in_netns(cookie).map(|(_, device)| name(device));
                    let odd = machine.odd.contains(&cookie).then(|| ODD.to_owned());
                    devices.chain(["lo".to_owned()]).chain(odd).collect()
                }
                Node::Groups => {
                    let groups = machine.groups.iter().filter(|group| group.exists);
                    groups.map(|group| group.name.clone()).collect()
                }
                Node::Group(_) => vec!["cpuset.cpus".to_owned()],
                Node::Processes => (KSOFTIRQD..KSOFTIRQD + CPUS).map(|pid| pid.to_string()).collect(),
                Node::Tasks(at) => machine.processes[at].alive().map(|(tid, _)| tid.to_string()).collect(),
                Node::Loopback => Vec::new(),
                Node::Interface(_) => ["carrier_down_count", "ifindex", "operstate", "queues", "threaded"]
                    .map(String::from)
                    .into(),
                Node::Queues(at) => {
                    let count = machine.devices[at].count();
                    ["rx", "tx"]
                        .iter()
                        .flat_map(|kind| (0..count).map(move |n| format!("{kind}-{n}")))
                        .collect()
                }
                Node::Queue(_, _, true) => vec!["rps_cpus".to_owned(), "rps_flow_cnt".to_owned()],
                Node::Queue(at, ..) if machine.devices[at].has_xps() => {
                    vec!["xps_cpus".to_owned()]
                }
                Node::Queue(..) => Vec::new(),
                _ => return None,
            };
            names.sort();
            Some(names)
        })
    }

    fn find_group(&self, mount: &str, inode: u64) -> Result<Option<String>, HostError> {
        self.meet(mount, Operation::List, |state, node| {
            let Node::Groups = node else { return None };
            let is_it = |group: &&Group| group.exists && group.inode == inode;
            let found =
                state.machine.groups.iter().find(is_it).filter(|_| !state.has(Mutation::GroupsByPath));
            Some(found.map(|group| format!("/{}", group.name)))
        })
    }

    fn link(&self, path: &str) -> Result<String, HostError> {
        self.meet(path, Operation::Link, |state, node| match node {
            Node::Interface(at) => Some(link_of(at, &state.machine.devices[at])),
            Node::Driver(_) => Some("../../../../bus/virtio/drivers/virtio_net".to_owned()),
            Node::Loopback => Some("../../devices/virtual/net/lo".to_owned()),
            _ => None,
        })
    }

    fn query(&self, query: &Query) -> Result<Vec<u8>, HostError> {
        let path = query.path();
        let missing = || HostError::new(Operation::Ask, &path, Cause::Missing);
        let (get, nic) = match query {
            Query::Queues | Query::Napis => {
                // All values of all NAPIs are one answer.
                self.world.step(Counted::Any, Link::Read(NAPIS));
                let mut state = self.world.state();
                return match prevented(&mut state, &Node::Napis, Operation::Ask, &path) {
                    Err(_) if state.has(Mutation::NoNapis) => Ok(Vec::new()),
                    prevented => prevented.map(|()| napis(&state.machine, self.cookie(), query)),
                };
            }
            Query::Links => {
                self.world.step(Counted::Any, Link::Other);
                return Ok(links(&self.world.state().machine, self.cookie()));
            }
            Query::Ethtool(get, nic) => (*get, nic),
            _ => return Err(missing()),
        };
        let (value, is_virtual) = match get {
            EthtoolGet::Channels => (NicValue::Channels, false),
            EthtoolGet::Rss | EthtoolGet::RxRings => (NicValue::Rss, false),
            EthtoolGet::Rings => (NicValue::Ring, false),
            EthtoolGet::Features => (NicValue::Gro, true),
            _ => return Err(missing()),
        };
        let at = self.find(&self.world.state(), nic, is_virtual);
        self.world.step(Counted::Any, at.map_or(Link::Other, |at| Link::Read(value.of(at))));
        let mut state = self.world.state();
        // Not every driver reports the number of rings.
        let at = self.find(&state, nic, is_virtual).filter(|at| get != EthtoolGet::RxRings || *at == 0);
        let at = at.ok_or_else(missing)?;
        prevented(&mut state, &Node::Value(value.of(at)), Operation::Ask, &path)?;
        let device = state.machine.device(at);
        Ok(match get {
            EthtoolGet::Channels => channels(device),
            EthtoolGet::Rings => rings(device),
            EthtoolGet::Features => offloads(device),
            // `struct ethtool_rxnfc`: a command, a kind of flow, and the count.
            EthtoolGet::RxRings => {
                one_message(&[&[0; 8][..], &device.count().to_ne_bytes(), &[0; 176]].concat())
            }
            _ => {
                let table = table(device.nic_value(NicValue::Rss).now, device.count());
                one_message(&attribute(4, table.map(u32::to_ne_bytes).concat()))
            }
        })
    }

    fn act(&self, action: &Action) -> Result<(), HostError> {
        if let Action::ThreadCpus { pid, tid, cpus } = action {
            return self.move_thread(*pid, *tid, cpus);
        }
        let path = action.path();
        self.set(&path, |state| match action {
            Action::Napi { id, attributes } => {
                let kind = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?);
                let (_, value) = SETTINGS.into_iter().find(|(setting, _)| *setting == kind)?;
                Some((state.machine.of_napi(self.cookie(), *id, value)?, number32(attributes)?))
            }
            Action::EthtoolIoctl { nic, change: EthtoolChange::Table { queues, reset, .. } } => {
                let packed =
                    (0..).zip(queues).fold(0, |all, (at, queue)| all | u64::from(queue + 1) << (4 * at));
                Some((Slot::Rss(self.find(state, nic, false)?), if *reset { 0 } else { packed }))
            }
            Action::Ethtool { get: EthtoolGet::Channels, nic, attributes } => {
                Some((Slot::Channels(self.find(state, nic, false)?), number32(attributes)?))
            }
            Action::Ethtool { get: EthtoolGet::Rings, nic, attributes } => {
                Some((Slot::Ring(self.find(state, nic, false)?), number32(attributes)?))
            }
            Action::Ethtool { get: EthtoolGet::Features, nic, attributes } => Some((
                Slot::Gro(self.find(state, nic, true)?),
                u64::from(*attributes == ethtool::wanted(GRO, true)),
            )),
            Action::ThreadPolicy { pid, scheduling } => scheduled(state, *pid, scheduling),
            _ => None,
        })
    }

    fn now_ns(&self) -> u64 {
        self.world.state().clock
    }

    fn inode(&self, path: &str) -> Result<u64, HostError> {
        let name =
            path.strip_prefix("sys/class/net/").map_or(path, |rest| rest.split('/').next().unwrap_or(""));
        self.world.step(Counted::Any, Link::Inode(crc32fast::hash(name.as_bytes())));
        let mut state = self.world.state();
        let node = self.node(&state.machine, path);
        prevented(&mut state, &node, Operation::List, path)?;
        let by_path = state.has(Mutation::GroupsByPath) && matches!(node, Node::Group(_));
        if state.knows_names_only() || by_path {
            // Above those of the simulated machine.
            return Ok(path.bytes().fold(1 << 40, |sum, byte| 31 * (sum % (1 << 50)) + u64::from(byte)));
        }
        match node {
            // Each namespace has its own.
            Node::Loopback => Ok(self.files),
            Node::Interface(at) => Ok(state.machine.devices[at].inode),
            Node::Group(at) => Ok(state.machine.groups[at].inode),
            Node::Queue(at, queue, true) => Ok(state.machine.devices[at].queues[queue].rx_inode),
            Node::Queue(at, queue, false) => Ok(state.machine.devices[at].queues[queue].tx_inode),
            _ => Err(HostError::new(Operation::List, path, Cause::Missing)),
        }
    }

    fn entries(&self, path: &str) -> Result<Vec<Entry>, HostError> {
        let mut entries = Vec::new();
        for name in self.list(path)? {
            let is_text = !name.ends_with(ODD);
            let inode = match self.inode(&format!("{path}/{name}")) {
                _ if !is_text => {
                    let state = self.world.state();
                    if state.has(Mutation::NamesAreText) {
                        return Err(HostError::new(Operation::List, path, Cause::NotText));
                    }
                    let mut devices = state.machine.in_netns(self.files).map(|(_, device)| device);
                    let of = devices.find(|device| device.is_odd && name == format!("{}{ODD}", device.name));
                    Some(of.map_or(u64::MAX - self.files, |device| device.inode))
                }
                Ok(inode) => Some(inode),
                Err(error) if error.cause == Cause::Missing => None,
                Err(error) => return Err(error),
            };
            entries.push(Entry { name, is_text, inode });
        }
        Ok(entries)
    }

    fn check_view(&self) -> Result<(), OtherView> {
        let is_one = self.files == self.cookie();
        if is_one { Ok(()) } else { Err(OtherView("simulated".to_owned())) }
    }

    fn namespace(&self) -> Option<&Namespace> {
        Some(&self.netns)
    }

    fn namespaces(&self) -> Result<Vec<Namespace>, Hidden> {
        self.world.step(Counted::Any, Link::Other);
        let mut state = self.world.state();
        if state.fault(|area| area == Area::Namespaces).is_some() {
            return Err(Hidden("cannot look for namespaces in /proc: simulated".to_owned()));
        }
        let all = &state.machine.namespaces;
        let one = |n: &super::kernel::Netns| Namespace {
            path: n.path.into(),
            inode: n.inode,
            cookie: Some(n.cookie),
        };
        if state.knows_names_only() {
            return Ok(all.iter().take(1).map(one).collect());
        }
        Ok(all.iter().map(one).collect())
    }

    fn seen_from(&self, namespace: &Namespace, _: Option<&Namespace>) -> Result<Box<dyn Host>, OpenError> {
        self.world.step(Counted::Any, Link::Other);
        let mut state = self.world.state();
        let failed = |errno| OpenError::Namespace { path: PathBuf::from(&namespace.path), errno };
        if let Some(errno) = state.fault(|area| area == Area::Enter) {
            return Err(failed(Os::from_raw_os_error(errno)));
        }
        let is_own = namespace.path.as_os_str() == OWN;
        let all = &state.machine.namespaces;
        let found = all
            .iter()
            .enumerate()
            .find(|(at, n)| n.path == namespace.path.as_os_str() || (is_own && *at == 0));
        let (_, found) = found.ok_or_else(|| failed(Os::NOENT))?;
        let netns =
            Namespace { path: namespace.path.clone(), inode: found.inode, cookie: Some(found.cookie) };
        let files = found.cookie;
        Ok(Box::new(SimHost { world: Arc::clone(&self.world), netns, files }))
    }
}
