//! The simulated kernel: interfaces, queues, interrupts, CPUs, control groups and sysctls of a small machine, as data.
//!
//! Numbers stand for values: a CPU mask, a table size, a count. Every value records its last writer.

use rxlab_base::units::{CpuId, CpuMask};

use super::processes::{Group, MAX_THREADS, Process};
use super::schedule::{Foreign, GroupMove, Slot, ThreadMove};

/// CPUs of the machine.
pub(crate) const CPUS: u32 = 4;
const ALL_CPUS: u64 = (1 << CPUS) - 1;
/// Queues that a device on a bus can have.
pub(crate) const MAX_QUEUES: u8 = 4;

/// Last writer of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The kernel, for a new queue, interrupt or machine; or the initial state.
    Kernel,
    /// Another program or an administrator.
    Foreign,
    /// A command of rxlab.
    Rxlab,
}

/// A value and its origin.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) now: u64,
    pub(crate) by: By,
    /// Values that others than rxlab had set, or the kernel had chosen, since the last foreign write: a
    /// transaction may go back to any of them.
    pub(crate) originals: Vec<u64>,
    /// `originals` from before foreign writes.
    older: Vec<u64>,
    /// A value of others that a write of rxlab to another slot discarded, and that has not been set since.
    pub(crate) discarded: Option<u64>,
    /// The operation before which another program set it last.
    pub(crate) set_at: u32,
}

impl Value {
    pub(super) fn new(now: u64) -> Self {
        Self { now, by: By::Kernel, originals: vec![now], older: Vec::new(), discarded: None, set_at: 0 }
    }

    /// The kernel resets it.
    pub(super) fn reset(&mut self, fresh: u64) {
        // A foreign value is lost with the queue, and nothing shows it any more.
        if self.by == By::Foreign {
            self.lose();
        }
        self.now = fresh;
        self.by = By::Kernel;
        self.discarded = None;
        if !self.originals.contains(&fresh) {
            self.originals.push(fresh);
        }
    }

    pub(crate) fn foreign(&mut self, value: u64) {
        self.older.append(&mut self.originals);
        self.originals.push(value);
        self.now = value;
        self.by = By::Foreign;
        self.discarded = None;
    }

    /// The value of a thread that one with this value starts; `main` are the originals of the main thread.
    pub(crate) fn inherited(&self, main: &[u64]) -> Self {
        let mut value = self.clone();
        value.originals.extend_from_slice(main);
        if self.by != By::Rxlab {
            value.originals.push(self.now);
        }
        value
    }

    /// A write of rxlab to another slot resets it: the command that began after operation `began` has to set it again.
    /// A value that others set since may be lost: the command has read the values before.
    fn discard(&mut self, fresh: u64, began: u32) {
        let was_there = self.by != By::Rxlab && self.set_at <= began;
        let discarded = if was_there { Some(self.discarded.unwrap_or(self.now)) } else { self.discarded };
        self.lose();
        self.reset(fresh);
        self.discarded = discarded.filter(|value| *value != fresh);
    }

    /// rxlab has the queue recreated. It restores the value from its recorded intent: a foreign value set
    /// after that is lost with the old queue.
    pub(crate) fn lose(&mut self) {
        self.originals.extend_from_slice(&self.older);
    }

    /// rxlab writes. `expected`: the value before may be overwritten and is not one to go back to.
    pub(crate) fn ours(&mut self, value: u64, expected: bool) {
        if expected {
            self.originals.extend_from_slice(&self.older);
        }
        self.now = value;
        self.by = By::Rxlab;
        self.discarded = None;
    }

    /// True if it is rxlab's, and not a value from before.
    pub(crate) fn is_ours(&self) -> bool {
        self.by == By::Rxlab && !self.originals.contains(&self.now)
    }
}

/// One pair of queues with the interrupt of both.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    pub(crate) rx_inode: u64,
    pub(crate) tx_inode: u64,
    pub(crate) rps: Value,
    pub(crate) rfs: Value,
    pub(crate) xps: Value,
    pub(crate) irq: u32,
    pub(crate) affinity: Value,
    /// Of its NAPI.
    pub(crate) defer: Value,
}

impl Queue {
    /// Its values, and those of a new one of a device with this `napi_defer_hard_irqs`.
    fn values(&mut self, of_device: u64) -> [(&mut Value, u64); 5] {
        let Queue { rps, rfs, xps, affinity, defer, .. } = self;
        [(rps, 0), (rfs, 0), (xps, 0), (affinity, ALL_CPUS), (defer, of_device)]
    }

    /// The kernel resets its values.
    fn reset(&mut self, of_device: u64) {
        self.values(of_device).into_iter().for_each(|(value, fresh)| value.reset(fresh));
    }

    /// The number of its NAPI, which no other one gets.
    pub(crate) fn napi(&self) -> u32 {
        8192 + u32::try_from(self.rx_inode).unwrap_or(0)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub(crate) inode: u64,
    pub(crate) name: String,
    /// Its name is not UTF-8: no file is found by it.
    pub(crate) is_odd: bool,
    /// Cookie of its network namespace; 0 once it is gone.
    pub(crate) netns: u64,
    /// Address of the PCI function; `None` for a virtual one.
    pub(crate) pci: Option<&'static str>,
    pub(crate) ifindex: u32,
    pub(crate) carrier_downs: u64,
    pub(crate) queues: Vec<Queue>,
    /// Current number of queues.
    pub(crate) count: Value,
    /// 1 if threads poll its queues.
    pub(crate) threaded: Value,
    /// Of its NAPIs, unless one was given its own.
    pub(crate) defer: Value,
    /// The indirection table: 0 is the driver's choice, else a queue above 0 in each four bits.
    pub(crate) rss: Value,
    /// True if its queues or interrupts were ever recreated.
    pub(crate) made_again: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Netns {
    pub(crate) path: &'static str,
    pub(crate) inode: u64,
    pub(crate) cookie: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) boot: u32,
    pub(crate) namespaces: Vec<Netns>,
    pub(crate) devices: Vec<Device>,
    pub(crate) processes: Vec<Process>,
    pub(crate) groups: Vec<Group>,
    /// Scheduling of the thread of each CPU.
    pub(crate) ksoftirqd: Vec<Value>,
    /// Cookies of namespaces with an interface whose name is not UTF-8.
    pub(crate) odd: Vec<u64>,
    pub(crate) entries: Value,
    pub(crate) budget: Value,
    pub(crate) online: u64,
    next_inode: u64,
    next_cookie: u64,
    next_name: u32,
    next_irq: u32,
    next_start: u64,
}

/// Numbers of the processes.
const PIDS: [u32; 2] = [800, 900];

const PATHS: [&str; 3] = ["/proc/1/ns/net", "/run/netns/a", "/run/netns/b"];
const NAMES: [&str; 4] = ["eth0", "eth1", "veth0", "veth1"];
const FUNCTIONS: [Option<&str>; 4] = [Some("0000:00:03.0"), Some("0000:00:04.0"), None, None];

impl Machine {
    pub(crate) fn new() -> Self {
        Self::booted(1, 0)
    }

    /// Resets everything to the state after boot.
    pub(crate) fn boot(&mut self) {
        *self = Self::booted(self.boot + 1, self.next_name);
    }

    /// Inodes begin again, so those of another boot prove nothing.
    fn booted(boot: u32, next_name: u32) -> Self {
        let mut machine = Self {
            boot,
            namespaces: Vec::new(),
            devices: Vec::new(),
            processes: Vec::new(),
            groups: Vec::new(),
            ksoftirqd: vec![Value::new(OTHER); CPUS as usize],
            odd: Vec::new(),
            entries: Value::new(0),
            budget: Value::new(300),
            online: ALL_CPUS,
            next_inode: 1000,
            next_cookie: 0,
            next_name,
            next_irq: 24,
            next_start: 5000,
        };
        machine.processes = PIDS.map(|pid| machine.process(pid)).into();
        machine.groups = ["web", "db"].map(|name| Group::new(machine.inode(), name)).into();
        for (inode, path) in (4_026_531_840..).zip(PATHS) {
            let cookie = machine.cookie();
            machine.namespaces.push(Netns { path, inode, cookie });
        }
        for (at, (name, pci)) in NAMES.into_iter().zip(FUNCTIONS).enumerate() {
            let count = if pci.is_some() || at == 2 { 2 } else { 1 };
            let device = machine.make(name, pci, count);
            machine.devices.push(device);
        }
        machine
    }

    fn make(&mut self, name: &str, pci: Option<&'static str>, count: u8) -> Device {
        let queues = if pci.is_some() { MAX_QUEUES } else { count };
        let inode = self.inode();
        Device {
            inode,
            name: name.to_owned(),
            is_odd: false,
            netns: self.namespaces[0].cookie,
            pci,
            ifindex: u32::try_from(inode).unwrap_or(0),
            carrier_downs: 1,
            queues: (0..queues).map(|_| self.queue()).collect(),
            count: Value::new(u64::from(count)),
            threaded: Value::new(0),
            defer: Value::new(0),
            rss: Value::new(0),
            made_again: false,
        }
    }

    fn queue(&mut self) -> Queue {
        self.next_irq += 1;
        Queue {
            rx_inode: self.inode(),
            tx_inode: self.inode(),
            rps: Value::new(0),
            rfs: Value::new(0),
            xps: Value::new(0),
            irq: self.next_irq,
            affinity: Value::new(ALL_CPUS),
            defer: Value::new(0),
        }
    }

    fn process(&mut self, pid: u32) -> Process {
        let starts = [self.start(), self.start()];
        Process::new(pid, starts, ALL_CPUS)
    }

    fn start(&mut self) -> u64 {
        self.next_start += 1;
        self.next_start
    }

    pub(crate) fn process_of(&self, process: u8) -> &Process {
        &self.processes[usize::from(process) % self.processes.len()]
    }

    /// Something happens to a process.
    pub(crate) fn move_thread(&mut self, process: u8, act: ThreadMove) {
        let at = usize::from(process) % self.processes.len();
        let start = self.start();
        match act {
            ThreadMove::Start(parent) => self.processes[at].start(parent, start),
            ThreadMove::End(thread) => self.processes[at].end(thread),
            ThreadMove::Replace(thread) => {
                self.processes[at].end(thread);
                self.processes[at].start(0, start);
            }
            ThreadMove::Again => self.processes[at] = self.process(self.processes[at].pid),
        }
    }

    fn inode(&mut self) -> u64 {
        self.next_inode += 1;
        self.next_inode
    }

    fn cookie(&mut self) -> u64 {
        self.next_cookie += 1;
        self.next_cookie
    }

    fn name(&mut self) -> String {
        self.next_name += 1;
        format!("dev{}", self.next_name)
    }

    /// The devices of a namespace.
    pub(crate) fn in_netns(&self, cookie: u64) -> impl Iterator<Item = (usize, &Device)> {
        self.devices.iter().enumerate().filter(move |(_, device)| device.netns == cookie && cookie != 0)
    }

    pub(crate) fn find(&self, cookie: u64, name: &str) -> Option<usize> {
        self.in_netns(cookie).find(|(_, device)| device.name == name && !device.is_odd).map(|(at, _)| at)
    }

    pub(crate) fn device(&self, device: u8) -> &Device {
        &self.devices[self.at(device)]
    }

    fn at(&self, device: u8) -> usize {
        usize::from(device) % self.devices.len()
    }

    /// A number of what a value lives in, which nothing else gets.
    pub(crate) fn identity(&self, slot: Slot) -> u64 {
        match slot {
            Slot::Entries | Slot::Budget | Slot::Ksoftirqd(_) => 0,
            Slot::Group(group) => self.groups[self.group(group)].inode,
            Slot::Rps(device, _)
            | Slot::Rfs(device, _)
            | Slot::Xps(device, _)
            | Slot::Irq(device, _)
            | Slot::QueueDefer(device, _)
            | Slot::Defer(device)
            | Slot::Rss(device)
            | Slot::Threaded(device)
            | Slot::Channels(device) => self.device(device).inode,
            Slot::Thread(process, at) => {
                let thread = self.process_of(process).threads.get(usize::from(at));
                thread.and_then(Option::as_ref).map_or(0, |thread| thread.start)
            }
        }
    }

    /// The value of a slot; `None` while it does not exist.
    pub(crate) fn value(&self, slot: Slot) -> Option<&Value> {
        let queue = |device: u8, queue: u8| {
            let device = self.device(device);
            (device.netns != 0).then_some(())?;
            let at = usize::from(queue);
            device.queues.get(at).filter(|_| u64::from(queue) < device.count.now)
        };
        match slot {
            Slot::Entries => Some(&self.entries),
            Slot::Budget => Some(&self.budget),
            Slot::Ksoftirqd(cpu) => self.ksoftirqd.get(usize::from(cpu)),
            Slot::Group(group) => Some(&self.groups[self.group(group)]).filter(|g| g.exists).map(|g| &g.cpus),
            Slot::QueueDefer(device, at) => {
                self.device(device).pci?;
                Some(&queue(device, at)?.defer)
            }
            Slot::Defer(device) | Slot::Rss(device) => {
                let is_there = |device: &&Device| device.netns != 0 && device.pci.is_some();
                let device = Some(self.device(device)).filter(is_there)?;
                Some(if matches!(slot, Slot::Rss(_)) { &device.rss } else { &device.defer })
            }
            Slot::Rps(device, at) => Some(&queue(device, at)?.rps),
            Slot::Rfs(device, at) => Some(&queue(device, at)?.rfs),
            Slot::Xps(device, at) => Some(&queue(device, at).filter(|_| self.has_xps(device))?.xps),
            Slot::Threaded(device) => {
                let device = self.device(device);
                (device.netns != 0).then_some(&device.threaded)
            }
            Slot::Irq(device, at) => {
                self.device(device).pci?;
                Some(&queue(device, at)?.affinity)
            }
            Slot::Channels(device) => {
                let device = self.device(device);
                (device.netns != 0 && device.pci.is_some()).then_some(&device.count)
            }
            Slot::Thread(process, at) => {
                let thread = self.process_of(process).threads.get(usize::from(at))?;
                thread.as_ref().map(|thread| &thread.cpus)
            }
        }
    }

    pub(crate) fn value_mut(&mut self, slot: Slot) -> Option<&mut Value> {
        self.value(slot)?;
        Some(match slot {
            Slot::Entries => &mut self.entries,
            Slot::Budget => &mut self.budget,
            Slot::Ksoftirqd(cpu) => &mut self.ksoftirqd[usize::from(cpu)],
            Slot::Group(group) => {
                let at = self.group(group);
                &mut self.groups[at].cpus
            }
            Slot::QueueDefer(device, at) => &mut self.queue_mut(device, at).defer,
            Slot::Defer(device) | Slot::Rss(device) => {
                let at = self.at(device);
                let device = &mut self.devices[at];
                if matches!(slot, Slot::Rss(_)) { &mut device.rss } else { &mut device.defer }
            }
            Slot::Rps(device, at) => &mut self.queue_mut(device, at).rps,
            Slot::Rfs(device, at) => &mut self.queue_mut(device, at).rfs,
            Slot::Xps(device, at) => &mut self.queue_mut(device, at).xps,
            Slot::Threaded(device) => {
                let at = self.at(device);
                &mut self.devices[at].threaded
            }
            Slot::Irq(device, at) => &mut self.queue_mut(device, at).affinity,
            Slot::Channels(device) => {
                let at = self.at(device);
                &mut self.devices[at].count
            }
            Slot::Thread(process, at) => {
                let process = usize::from(process) % self.processes.len();
                &mut self.processes[process].threads[usize::from(at)].as_mut()?.cpus
            }
        })
    }

    fn queue_mut(&mut self, device: u8, queue: u8) -> &mut Queue {
        let at = self.at(device);
        &mut self.devices[at].queues[usize::from(queue)]
    }

    /// True if a device has a choice of transmit queues.
    pub(crate) fn has_xps(&self, device: u8) -> bool {
        self.device(device).queues.len() > 1
    }

    /// Every slot of the devices that exist.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let mut slots = vec![Slot::Entries, Slot::Budget];
        for (at, device) in (0u8..).zip(&self.devices) {
            slots.extend([Slot::Channels(at), Slot::Threaded(at), Slot::Defer(at), Slot::Rss(at)]);
            for queue in (0u8..).zip(&device.queues).map(|(queue, _)| queue) {
                slots.extend([Slot::Rps(at, queue), Slot::Rfs(at, queue), Slot::Xps(at, queue)]);
                slots.extend([Slot::Irq(at, queue), Slot::QueueDefer(at, queue)]);
            }
        }
        for (process, _) in (0u8..).zip(&self.processes) {
            slots.extend((0..MAX_THREADS).map(|at| Slot::Thread(process, at)));
        }
        slots.extend((0u8..).zip(&self.groups).map(|(at, _)| Slot::Group(at)));
        slots.extend((0u8..).zip(&self.ksoftirqd).map(|(cpu, _)| Slot::Ksoftirqd(cpu)));
        slots.retain(|slot| self.value(*slot).is_some());
        slots
    }

    /// The number that the kernel keeps when this one is written to a slot; `None` if it refuses the write.
    pub(crate) fn kept(&self, slot: Slot, value: u64) -> Option<u64> {
        match slot {
            // Offline CPUs are dropped silently.
            Slot::Rps(..) | Slot::Xps(..) => Some(value & self.online),
            Slot::Threaded(_) => (value < 2).then_some(value),
            Slot::Irq(..) => (value & self.online != 0).then_some(value),
            Slot::Thread(..) => (value & self.online != 0).then_some(value & ALL_CPUS),
            Slot::Rfs(..) | Slot::Entries if value > 0 => Some(value.next_power_of_two()),
            Slot::Group(_) => Some(value & ALL_CPUS),
            // No queue of the table may go (`ethnl_set_channels`); a table with other queues is refused.
            Slot::Channels(device) if value < 2 && self.device(device).rss.now != 0 => None,
            Slot::Rss(device) if value != 0 && self.device(device).count.now < 2 => None,
            Slot::Channels(..) => (1..=u64::from(MAX_QUEUES)).contains(&value).then_some(value),
            _ => Some(value),
        }
    }

    /// Queues are torn down and recreated, as by virtio_net.
    pub(crate) fn make_queues(&mut self, device: u8) {
        let at = self.at(device);
        let mut made: Vec<Queue> = (0..self.devices[at].queues.len()).map(|_| self.queue()).collect();
        let device = &mut self.devices[at];
        device.made_again = true;
        device.rss.reset(0);
        let defer = device.defer.now;
        for (old, new) in device.queues.iter_mut().zip(&mut made) {
            old.reset(defer);
            (old.rx_inode, old.tx_inode, old.irq) = (new.rx_inode, new.tx_inode, new.irq);
        }
    }

    /// Queues are recreated because rxlab requested a change; there `was` another number of them.
    pub(crate) fn make_queues_for_rxlab(&mut self, device: u8, was: u64, began: u32) {
        let at = self.at(device);
        let before = usize::try_from(was).unwrap_or(0);
        let mut discarded: Vec<Option<u64>> = Vec::new();
        let Device { queues, rss, defer, .. } = &mut self.devices[at];
        let defer = defer.now;
        rss.discard(0, began);
        let table = rss.discarded;
        for (number, queue) in queues.iter_mut().enumerate() {
            for (value, fresh) in queue.values(defer) {
                if number < before {
                    value.discard(fresh, began)
                } else {
                    value.lose()
                }
                discarded.push(value.discarded);
            }
        }
        self.make_queues(device);
        let values = self.devices[at].queues.iter_mut().flat_map(|queue| queue.values(defer));
        values.zip(discarded).for_each(|((value, _), discarded)| value.discarded = discarded);
        self.devices[at].rss.discarded = table;
    }

    /// A number of polls for all NAPIs of a device replaces those of each (`netdev_set_defer_hard_irqs`); `began` is that of
    /// the command of rxlab that wrote it, `None` of another program.
    pub(crate) fn spread_defer(&mut self, device: u8, began: Option<u32>) {
        let at = self.at(device);
        let Device { queues, defer, .. } = &mut self.devices[at];
        for value in queues.iter_mut().map(|queue| &mut queue.defer) {
            let discarded = value.discarded.filter(|value| *value != defer.now);
            match began {
                Some(began) if value.by == By::Foreign => value.discard(defer.now, began),
                Some(_) => {
                    value.reset(defer.now);
                    value.discarded = discarded;
                }
                None => value.foreign(defer.now),
            }
        }
    }

    fn group(&self, group: u8) -> usize {
        usize::from(group) % self.groups.len()
    }

    /// The group at a path below the mount point.
    pub(crate) fn find_group(&self, name: &str) -> Option<usize> {
        self.groups.iter().position(|group| group.exists && group.name == name)
    }

    /// Something happens to a control group.
    pub(crate) fn move_group(&mut self, group: u8, act: GroupMove) {
        let (at, name) = (self.group(group), self.name());
        if !self.groups[at].exists {
            return;
        }
        match act {
            GroupMove::Rename => self.groups[at].name = name,
            GroupMove::Swap => {
                let other = (at + 1) % self.groups.len();
                if self.groups[other].exists {
                    let name = std::mem::take(&mut self.groups[at].name);
                    self.groups[at].name = std::mem::replace(&mut self.groups[other].name, name);
                }
            }
            GroupMove::Remake => self.groups[at] = Group::new(self.inode(), &self.groups[at].name.clone()),
            GroupMove::Remove => self.groups[at].exists = false,
        }
    }

    /// A process dies in a call in which the kernel makes the threads that poll a device: it goes on without
    /// threads (`napi_kthread_create` in net/core/dev.c).
    pub(crate) fn lose_threads(&mut self, device: u8, began: u32) {
        let at = self.at(device);
        if self.devices[at].threaded.now == 1 {
            self.devices[at].threaded.discard(0, began);
        }
    }

    /// Renames a device to an unused name.
    pub(crate) fn rename(&mut self, device: u8) {
        let at = self.at(device);
        self.devices[at].name = self.name();
        self.devices[at].is_odd = false;
    }

    /// A device gets a name that is not UTF-8.
    pub(crate) fn rename_odd(&mut self, device: u8) {
        let at = self.at(device);
        self.devices[at].is_odd = true;
    }

    /// Devices with such names get others.
    pub(crate) fn rename_all(&mut self) {
        for device in (0u8..).zip(&self.devices.clone()).filter(|(_, device)| device.is_odd).map(|(at, _)| at)
        {
            self.rename(device);
        }
    }

    /// Any user makes an interface with such a name in a namespace.
    pub(crate) fn add_odd(&mut self, netns: u8) {
        let cookie = self.namespaces[usize::from(netns) % self.namespaces.len()].cookie;
        if !self.odd.contains(&cookie) {
            self.odd.push(cookie);
        }
    }

    pub(crate) fn swap_names(&mut self, one: u8, other: u8) {
        let (one, other) = (self.at(one), self.at(other));
        if one != other && self.devices[one].netns == self.devices[other].netns {
            let name = std::mem::take(&mut self.devices[one].name);
            self.devices[one].name = std::mem::replace(&mut self.devices[other].name, name);
        }
    }

    pub(crate) fn move_to(&mut self, device: u8, netns: u8) {
        let at = self.at(device);
        let to = self.namespaces[usize::from(netns) % self.namespaces.len()].cookie;
        if self.devices[at].netns == 0 || self.devices[at].netns == to {
            return;
        }
        if self.find(to, &self.devices[at].name).is_some() {
            self.devices[at].name = self.name();
        }
        self.devices[at].netns = to;
    }

    pub(crate) fn delete(&mut self, device: u8) {
        let at = self.at(device);
        self.devices[at].netns = 0;
        self.devices[at].defer.reset(0);
        self.devices[at].rss.reset(0);
        self.devices[at].queues.iter_mut().for_each(|queue| queue.reset(0));
        let count = self.devices[at].queues.len().min(2) as u64;
        self.devices[at].count.reset(count);
        self.devices[at].threaded.reset(0);
    }

    /// A device is recreated. Hardware comes back to the initial namespace.
    pub(crate) fn remake(&mut self, device: u8) {
        let at = self.at(device);
        let (name, netns) = (self.devices[at].name.clone(), self.devices[at].netns);
        self.delete(device);
        self.make_queues(device);
        let home = self.namespaces[0].cookie;
        let netns = if self.devices[at].pci.is_some() || netns == 0 { home } else { netns };
        let name = if self.find(netns, &name).is_some() { self.name() } else { name };
        let (inode, is_virtual) = (self.inode(), self.devices[at].pci.is_none());
        let device = &mut self.devices[at];
        (device.inode, device.netns, device.name) = (inode, netns, name);
        device.ifindex = u32::try_from(inode).unwrap_or(0);
        device.carrier_downs = 1;
        if is_virtual {
            // Another interface, which no transaction has touched.
            for queue in &mut device.queues {
                (queue.rps, queue.rfs, queue.xps) = (Value::new(0), Value::new(0), Value::new(0));
            }
            device.threaded = Value::new(0);
        }
    }

    /// The link goes down and up; interrupts are requested again.
    pub(crate) fn reset_link(&mut self, device: u8) {
        let at = self.at(device);
        let device = &mut self.devices[at];
        device.carrier_downs += 1;
        device.made_again = true;
        device.queues.iter_mut().for_each(|queue| queue.affinity.reset(ALL_CPUS));
    }

    pub(crate) fn set_online(&mut self, cpu: u8, online: bool) {
        let bit = 1 << (u32::from(cpu) % CPUS);
        // CPU 0 stays.
        self.online = if online { self.online | bit } else { self.online & !bit | 1 };
        let online = self.online;
        // A thread that loses its last CPU may run on all.
        let threads = self.processes.iter_mut().flat_map(|process| process.threads.iter_mut().flatten());
        threads.filter(|thread| thread.cpus.now & online == 0).for_each(|thread| thread.cpus.reset(ALL_CPUS));
        // An interrupt that loses its last CPU moves to all others.
        for queue in self.devices.iter_mut().flat_map(|device| &mut device.queues) {
            if queue.affinity.now & online == 0 {
                queue.affinity.reset(online);
            }
        }
    }

    /// A namespace is deleted and another one is created, which gets its inode. Virtual interfaces are
    /// deleted with it; hardware moves to the initial one.
    pub(crate) fn reuse(&mut self, netns: u8) {
        let at = 1 + usize::from(netns) % (self.namespaces.len() - 1);
        let gone = self.namespaces[at].cookie;
        for device in 0..u8::try_from(self.devices.len()).unwrap_or(0) {
            let at = usize::from(device);
            if self.devices[at].netns == gone {
                if self.devices[at].pci.is_some() { self.move_to(device, 0) } else { self.delete(device) }
            }
        }
        self.namespaces[at].cookie = self.cookie();
    }

    /// The number that another program writes.
    pub(crate) fn foreign(&self, slot: Slot, what: Foreign) -> u64 {
        match what {
            Foreign::Ours(which) => ours(slot, which),
            Foreign::Other(which) => other(slot, which),
            Foreign::First | Foreign::Fresh => match slot {
                Slot::Entries | Slot::Rps(..) | Slot::Rfs(..) | Slot::Xps(..) | Slot::Threaded(_) => 0,
                Slot::Budget => 300,
                Slot::Defer(_) | Slot::Rss(_) | Slot::Group(_) => 0,
                Slot::QueueDefer(..) if what == Foreign::First => 0,
                Slot::QueueDefer(device, _) => self.device(device).defer.now,
                Slot::Ksoftirqd(_) => OTHER,
                Slot::Irq(..) if what == Foreign::First => ALL_CPUS,
                Slot::Thread(..) => ALL_CPUS,
                Slot::Irq(..) => self.online,
                Slot::Channels(_) => 2,
            },
        }
    }

    /// Another program writes a number.
    pub(crate) fn write_foreign(&mut self, slot: Slot, value: u64, at: u32) {
        let Some(kept) = self.kept(slot, value) else { return };
        let Some(found) = self.value_mut(slot) else { return };
        let changes = found.now != kept;
        found.foreign(kept);
        found.set_at = at;
        match slot {
            Slot::Channels(device) if changes => self.make_queues(device),
            Slot::Defer(device) => self.spread_defer(device, None),
            _ => {}
        }
    }
}

/// Values that commands set, and values that only others set.
fn palette(slot: Slot) -> ([u64; 3], [u64; 3]) {
    match slot {
        Slot::Rps(..) | Slot::Xps(..) => ([0b0110, 0b0010, 0b0100], [0b1001, 0b1000, 0b1010]),
        // There is no third value: what others set equals what a command sets.
        Slot::Threaded(_) => ([1, 1, 0], [1, 1, 1]),
        Slot::Rfs(..) => ([256, 512, 2048], [1024, 64, 128]),
        Slot::Irq(..) => ([0b0010, 0b0100, 0b0110], [0b1000, 0b1001, 0b1010]),
        Slot::Channels(_) => ([1, 4, 1], [3, 3, 3]),
        // Never all CPUs that are online, which is a value of its own.
        Slot::Thread(..) => ([0b0110, 0b0010, 0b0100], [0b1000, 0b1100, 0b1010]),
        Slot::Defer(_) | Slot::QueueDefer(..) => ([2, 4, 6], [1, 3, 5]),
        Slot::Rss(_) => ([0x2221, 0x2111, 0x2222], [0x1112, 0x1122, 0x2122]),
        Slot::Group(_) => ([0b0110, 0b0010, 0b0100], [0b1000, 0b1100, 0b1010]),
        Slot::Ksoftirqd(_) => (
            [scheduling(1, 10, 0), scheduling(0, 0, -5), scheduling(2, 5, 0)],
            [scheduling(5, 0, 3), scheduling(3, 0, 4), scheduling(1, 50, -2)],
        ),
        Slot::Entries => ([32768, 16384, 8192], [4096, 1024, 2048]),
        Slot::Budget => ([600, 700, 800], [450, 350, 250]),
    }
}

/// Scheduling as a number.
pub(crate) const fn scheduling(policy: u64, priority: u64, nice: i64) -> u64 {
    policy << 16 | priority << 8 | (nice + 20) as u64
}

/// Policy, priority and nice value of such a number.
pub(crate) fn scheduling_of(value: u64) -> (u64, u64, i64) {
    (value >> 16, value >> 8 & 0xff, (value & 0xff) as i64 - 20)
}

/// Scheduling of a new thread.
const OTHER: u64 = scheduling(0, 0, 0);

/// The queue of each entry of the table that a number stands for, with so many queues.
pub(crate) fn table(value: u64, queues: u64) -> [u32; 4] {
    std::array::from_fn(|at| match (value >> (4 * at) & 0xf) as u32 {
        0 => at as u32 % (queues.max(1) as u32),
        queue => queue - 1,
    })
}

/// A value that commands set.
pub(crate) fn ours(slot: Slot, which: u8) -> u64 {
    palette(slot).0[usize::from(which) % 3]
}

/// A value that only others set.
pub(crate) fn other(slot: Slot, which: u8) -> u64 {
    palette(slot).1[usize::from(which) % 3]
}

/// A number as a knob writes it: canonical text of the value.
pub(crate) fn text(slot: Slot, value: u64) -> String {
    match slot {
        Slot::Rps(..) | Slot::Xps(..) | Slot::Threaded(_) if value == 0 => "off".to_owned(),
        Slot::Threaded(_) => "on".to_owned(),
        Slot::Group(_) if value == 0 => "inherit".to_owned(),
        Slot::Rss(_) => match value {
            0 => "default".to_owned(),
            0x2221 => "weights 1,3".to_owned(),
            0x2111 => "weights 3,1".to_owned(),
            0x2222 => "weights 0,1".to_owned(),
            _ => format!("table {}", table(value, 1).map(|queue| queue.to_string()).join(",")),
        },
        Slot::Ksoftirqd(_) => match scheduling_of(value) {
            (0, _, 0) => "other".to_owned(),
            (0, _, nice) => format!("nice:{nice}"),
            (1, priority, 0) => format!("fifo:{priority}"),
            (1, priority, nice) => format!("fifo:{priority} nice:{nice}"),
            (2, priority, 0) => format!("rr:{priority}"),
            (2, priority, nice) => format!("rr:{priority} nice:{nice}"),
            (3, _, nice) => format!("batch nice:{nice}"),
            (_, _, 0) => "idle".to_owned(),
            (_, _, nice) => format!("idle nice:{nice}"),
        },
        Slot::Group(_) => list(value),
        Slot::Rps(..) | Slot::Xps(..) | Slot::Irq(..) | Slot::Thread(..) => list(value),
        Slot::Channels(_) => format!("combined {value}"),
        _ => value.to_string(),
    }
}

/// CPUs as a list: `0-2,5`.
pub(crate) fn list(mask: u64) -> String {
    (0..64).filter(|cpu| mask >> cpu & 1 == 1).map(CpuId).collect::<CpuMask>().to_string()
}

/// The name of the knob of a slot.
pub(crate) fn knob(slot: Slot) -> &'static str {
    match slot {
        Slot::Entries => "rfs_entries",
        Slot::Budget => "netdev_budget",
        Slot::Rps(..) => "rps",
        Slot::Rfs(..) => "rfs",
        Slot::Xps(..) => "xps_cpus",
        Slot::Threaded(_) => "threaded",
        Slot::Irq(..) => "irq_affinity",
        Slot::Channels(_) => "channels",
        Slot::Defer(_) => "napi_defer_hard_irqs",
        Slot::QueueDefer(..) => "queue_defer_hard_irqs",
        Slot::Rss(_) => "rss",
        Slot::Thread(..) | Slot::Group(_) => "affinity",
        Slot::Ksoftirqd(_) => "ksoftirqd_priority",
    }
}
