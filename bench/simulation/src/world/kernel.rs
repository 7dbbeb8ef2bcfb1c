//! The simulated kernel: interfaces, queues, interrupts, CPUs, control groups and sysctls of a small machine, as data.
//!
//! Numbers stand for values: a CPU mask, a table size, a count. Every value records its last writer.

mod device;
mod value;
mod words;

use rxlab_base::parse::TICK_NS;

use super::processes::{Group, MAX_THREADS, Process};
use super::schedule::{Foreign, GroupMove, Home, NicValue, QueueValue, Slot, ThreadMove};

pub(crate) use self::device::{Device, Queue, Writer};
use self::device::{Numbers, Thread};
pub(crate) use self::value::{By, Value};
use self::words::OTHER;
pub(crate) use self::words::{knob, list, other, ours, scheduling, scheduling_of, table, text};

pub(crate) const CPUS: u32 = 4;
pub(crate) const ALL_CPUS: u64 = (1 << CPUS) - 1;
/// Queues that a device on a bus can have.
pub(crate) const MAX_QUEUES: u8 = 4;

#[derive(Debug, Clone)]
pub(crate) struct Netns {
    pub(crate) path: &'static str,
    pub(crate) inode: u64,
    pub(crate) cookie: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) boot: u32,
    /// Nanoseconds since boot.
    pub(crate) clock: u64,
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

/// Numbers of the threads of NAPIs are above this one.
pub(crate) const THREADS: u32 = 100_000;

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
            clock: 0,
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
        machine.groups = ["web.service", "db.service"].map(|name| Group::new(machine.inode(), name)).into();
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
        let mut device = Device::new(self.inode(), name.to_owned(), pci, count);
        device.netns = self.namespaces[0].cookie;
        device.queues = (0..Device::room(pci, count)).map(|_| Queue::new(self.numbers())).collect();
        device
    }

    fn numbers(&mut self) -> Numbers {
        self.next_irq += 1;
        let (rx_inode, tx_inode) = (self.inode(), self.inode());
        let number = u32::try_from(rx_inode).unwrap_or(0);
        let thread = Thread { tid: THREADS + number, began: self.clock / TICK_NS };
        Numbers { rx_inode, tx_inode, irq: self.next_irq, napi: 8192 + number, thread }
    }

    /// Numbers of all queues of a device, should they be made again.
    fn numbers_of(&mut self, at: usize) -> Vec<Numbers> {
        (0..self.devices[at].queues.len()).map(|_| self.numbers()).collect()
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
        match slot.home() {
            Home::Host | Home::Cpu(_) => 0,
            Home::Group(group) => self.groups[self.group(group)].inode,
            Home::Nic(device, _) => self.device(device).inode,
            Home::Queue(device, queue, value) => {
                let device = self.device(device);
                let queue = &device.queues[usize::from(queue)];
                match value {
                    value if QueueValue::THREAD.contains(&value) => u64::from(queue.thread.tid),
                    value if QueueValue::NAPI.contains(&value) => u64::from(queue.napi),
                    _ => device.inode,
                }
            }
            Home::Thread(process, at) => {
                let thread = self.process_of(process).threads.get(usize::from(at));
                thread.and_then(Option::as_ref).map_or(0, |thread| thread.start)
            }
        }
    }

    /// The value of a slot; `None` while it does not exist.
    pub(crate) fn value(&self, slot: Slot) -> Option<&Value> {
        match slot.home() {
            Home::Host => Some(if slot == Slot::Budget { &self.budget } else { &self.entries }),
            Home::Cpu(cpu) => self.ksoftirqd.get(usize::from(cpu)),
            Home::Group(group) => Some(&self.groups[self.group(group)]).filter(|g| g.exists).map(|g| &g.cpus),
            Home::Nic(device, value) => {
                let device = self.device(device);
                device.has(value).then(|| device.nic_value(value))
            }
            Home::Queue(device, queue, value) => {
                let (device, queue) = (self.device(device), usize::from(queue));
                device.queue_has(queue, value).then(|| device.queues[queue].value(value))
            }
            Home::Thread(process, at) => {
                let thread = self.process_of(process).threads.get(usize::from(at))?;
                thread.as_ref().map(|thread| &thread.cpus)
            }
        }
    }

    pub(crate) fn value_mut(&mut self, slot: Slot) -> Option<&mut Value> {
        self.value(slot)?;
        Some(match slot.home() {
            Home::Host if slot == Slot::Budget => &mut self.budget,
            Home::Host => &mut self.entries,
            Home::Cpu(cpu) => &mut self.ksoftirqd[usize::from(cpu)],
            Home::Group(group) => {
                let at = self.group(group);
                &mut self.groups[at].cpus
            }
            Home::Nic(device, value) => {
                let at = self.at(device);
                self.devices[at].nic_value_mut(value)
            }
            Home::Queue(device, queue, value) => {
                let at = self.at(device);
                self.devices[at].queues[usize::from(queue)].value_mut(value)
            }
            Home::Thread(process, at) => {
                let process = usize::from(process) % self.processes.len();
                &mut self.processes[process].threads[usize::from(at)].as_mut()?.cpus
            }
        })
    }

    /// Every slot with a value.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let mut slots = vec![Slot::Entries, Slot::Budget];
        for (at, device) in (0u8..).zip(&self.devices) {
            slots.extend(
                NicValue::ALL.into_iter().filter(|value| device.has(*value)).map(|value| value.of(at)),
            );
            for queue in 0..device.queues.len() {
                let there = QueueValue::ALL.into_iter().filter(|value| device.queue_has(queue, *value));
                slots.extend(there.map(|value| value.of(at, u8::try_from(queue).unwrap_or(0))));
            }
        }
        for (process, _) in (0u8..).zip(&self.processes) {
            slots.extend(
                (0..MAX_THREADS)
                    .map(|at| Slot::Thread(process, at))
                    .filter(|slot| self.value(*slot).is_some()),
            );
        }
        slots.extend(
            (0u8..).zip(&self.groups).filter(|(_, group)| group.exists).map(|(at, _)| Slot::Group(at)),
        );
        slots.extend((0u8..).zip(&self.ksoftirqd).map(|(cpu, _)| Slot::Ksoftirqd(cpu)));
        slots
    }

    /// The slot of a NAPI's value, by the number of the NAPI, in a namespace.
    pub(crate) fn of_napi(&self, cookie: u64, napi: u32, value: QueueValue) -> Option<Slot> {
        self.of_queue(value, |device, queue| device.netns == cookie && queue.napi == napi)
    }

    /// The slot of the value of a thread that polls a queue, by the number of the thread.
    pub(crate) fn of_thread(&self, thread: u32, value: QueueValue) -> Option<Slot> {
        self.of_queue(value, |_, queue| queue.thread.tid == thread)
    }

    /// The tick in which the thread with a value began.
    pub(crate) fn thread_began(&self, slot: Slot) -> Option<u64> {
        let Home::Queue(device, queue, _) = slot.home() else { return None };
        Some(self.device(device).queues.get(usize::from(queue))?.thread.began)
    }

    fn of_queue(&self, value: QueueValue, is_it: impl Fn(&Device, &Queue) -> bool) -> Option<Slot> {
        (0u8..).zip(&self.devices).find_map(|(at, device)| {
            let queue = device.queues.iter().position(|queue| is_it(device, queue))?;
            let slot = || value.of(at, u8::try_from(queue).unwrap_or(0));
            device.queue_has(queue, value).then(slot)
        })
    }

    /// The name of the NAPI that a thread polls.
    pub(crate) fn thread_name(&self, thread: u32) -> Option<String> {
        let Home::Queue(device, queue, _) = self.of_thread(thread, QueueValue::NapiCpus)?.home() else {
            return None;
        };
        let device = self.device(device);
        Some(format!("napi/{}-{}", device.name, device.queues[usize::from(queue)].napi))
    }

    /// The number that the kernel keeps when this one is written to a slot; `None` if it refuses the write.
    pub(crate) fn kept(&self, slot: Slot, value: u64) -> Option<u64> {
        match slot {
            // Offline CPUs are dropped silently.
            Slot::Rps(..) | Slot::Xps(..) => Some(value & self.online),
            // A device without NAPIs refuses (`modify_napi_threaded`).
            Slot::Threaded(device) => (value < 2 && self.device(device).has_napis()).then_some(value),
            Slot::QueueThreaded(..) | Slot::Gro(_) => (value < 2).then_some(value),
            Slot::Irq(..) => (value & self.online != 0).then_some(value),
            Slot::Thread(..) | Slot::NapiCpus(..) => (value & self.online != 0).then_some(value & ALL_CPUS),
            Slot::Rfs(..) | Slot::Entries if value > 0 => Some(value.next_power_of_two()),
            Slot::Group(_) => Some(value & ALL_CPUS),
            // No queue of the table may go (`ethnl_set_channels`); a table with other queues is refused.
            Slot::Channels(device) if value < 2 && self.device(device).nic_value(NicValue::Rss).now != 0 => {
                None
            }
            Slot::Rss(device) if value != 0 && self.device(device).count() < 2 => None,
            Slot::Channels(..) => (1..=u64::from(MAX_QUEUES)).contains(&value).then_some(value),
            _ => Some(value),
        }
    }

    /// A write was refused.
    pub(crate) fn refused(&mut self, slot: Slot) {
        if let Slot::Channels(device) | Slot::Ring(device) | Slot::Gro(device) = slot {
            let at = self.at(device);
            self.devices[at].made_again = true;
        }
    }

    /// A value has changed: what else the kernel or a driver changes with it. `was` is the value before.
    pub(crate) fn follow(&mut self, slot: Slot, was: u64, by: &Writer) {
        let Some(now) = self.value(slot).map(|value| value.now) else { return };
        if let Home::Queue(device, queue, QueueValue::Threaded) = slot.home()
            && was != now
        {
            let at = self.at(device);
            let thread = self.numbers().thread;
            self.devices[at].renew_thread(usize::from(queue), thread, by);
        }
        let Home::Nic(device, value) = slot.home() else { return };
        let at = self.at(device);
        let numbers = self.numbers_of(at);
        let found = &mut self.devices[at];
        match value {
            NicValue::Channels if was != now => self.make_queues(device, by),
            NicValue::Ring if was != now => {
                let values = [&[QueueValue::Irq, QueueValue::Xps][..], &QueueValue::NAPI].concat();
                found.renew(&values, &numbers, by);
            }
            NicValue::Gro if was != now => found.renew(&QueueValue::NAPI, &numbers, by),
            NicValue::Defer => found.spread(QueueValue::Defer, by),
            NicValue::Flush => found.spread(QueueValue::Flush, by),
            NicValue::Threaded => self.spread_threaded(at, &numbers, by),
            _ => {}
        }
    }

    /// `threaded` of a device is that of all its NAPIs: threads end and start (`netif_set_threaded`).
    fn spread_threaded(&mut self, at: usize, numbers: &[Numbers], by: &Writer) {
        let device = &mut self.devices[at];
        let switch = |queue: &Queue| queue.value(QueueValue::Threaded).now;
        let before: Vec<u64> = device.queues.iter().map(switch).collect();
        device.spread(QueueValue::Threaded, by);
        for (queue, (before, numbers)) in before.into_iter().zip(numbers).enumerate() {
            if switch(&device.queues[queue]) != before {
                device.renew_thread(queue, numbers.thread, by);
            }
        }
    }

    /// Queues are torn down and recreated, as by virtio_net.
    fn make_queues(&mut self, device: u8, by: &Writer) {
        let at = self.at(device);
        let numbers = self.numbers_of(at);
        let device = &mut self.devices[at];
        let table = device.nic_value_mut(NicValue::Rss);
        match by {
            Writer::Other => table.reset(0),
            Writer::Rxlab { began, .. } => table.discard(0, *began),
        }
        device.renew(&QueueValue::ALL, &numbers, by);
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
    pub(crate) fn lose_threads(&mut self, device: u8, by: &Writer) {
        let Writer::Rxlab { began, .. } = by else { return };
        let at = self.at(device);
        let numbers = self.numbers_of(at);
        let device = &mut self.devices[at];
        if device.nic_value(NicValue::Threaded).now == 1 && device.has_napis() {
            device.nic_value_mut(NicValue::Threaded).discard(0, *began);
            self.spread_threaded(at, &numbers, by);
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
        let numbers = self.numbers_of(at);
        let device = &mut self.devices[at];
        device.netns = 0;
        for value in [NicValue::Defer, NicValue::Flush, NicValue::Rss, NicValue::Gro, NicValue::Threaded] {
            device.nic_value_mut(value).reset(0);
        }
        device.nic_value_mut(NicValue::Ring).reset(256);
        device.renew(&QueueValue::ALL, &numbers, &Writer::Other);
        let count = device.queues.len().min(2) as u64;
        device.nic_value_mut(NicValue::Channels).reset(count);
    }

    /// A device is recreated. Hardware comes back to the initial namespace.
    pub(crate) fn remake(&mut self, device: u8) {
        let at = self.at(device);
        let (name, netns) = (self.devices[at].name.clone(), self.devices[at].netns);
        self.delete(device);
        let home = self.namespaces[0].cookie;
        let netns = if self.devices[at].pci.is_some() || netns == 0 { home } else { netns };
        let name = if self.find(netns, &name).is_some() { self.name() } else { name };
        if self.devices[at].pci.is_none() {
            // Another interface, which no transaction has touched.
            let count = u8::try_from(self.devices[at].queues.len()).unwrap_or(0);
            let mut made = self.make(&name, None, count);
            (made.netns, made.made_again) = (netns, true);
            self.devices[at] = made;
            return;
        }
        let inode = self.inode();
        let device = &mut self.devices[at];
        (device.inode, device.netns, device.name) = (inode, netns, name);
        device.ifindex = u32::try_from(inode).unwrap_or(0);
        device.carrier_downs = 1;
    }

    /// The link goes down and up; interrupts are requested again, and NAPIs are made again.
    pub(crate) fn reset_link(&mut self, device: u8) {
        let at = self.at(device);
        let numbers = self.numbers_of(at);
        let device = &mut self.devices[at];
        device.carrier_downs += 1;
        let values = [&[QueueValue::Irq][..], &QueueValue::NAPI].concat();
        device.renew(&values, &numbers, &Writer::Other);
    }

    pub(crate) fn set_online(&mut self, cpu: u8, online: bool) {
        let bit = 1 << (u32::from(cpu) % CPUS);
        // CPU 0 stays.
        self.online = if online { self.online | bit } else { self.online & !bit | 1 };
        let online = self.online;
        // A thread that loses its last CPU may run on all.
        let threads = self.processes.iter_mut().flat_map(|process| process.threads.iter_mut().flatten());
        threads.filter(|thread| thread.cpus.now & online == 0).for_each(|thread| thread.cpus.reset(ALL_CPUS));
        // An interrupt that loses its last CPU moves to all others, a thread of a NAPI may run on all.
        for queue in self.devices.iter_mut().flat_map(|device| &mut device.queues) {
            for (value, all) in [(QueueValue::Irq, online), (QueueValue::NapiCpus, ALL_CPUS)] {
                let value = queue.value_mut(value);
                if value.now & online == 0 {
                    value.reset(all);
                }
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
            Foreign::First | Foreign::Fresh => match slot.home() {
                Home::Queue(_, _, QueueValue::Irq) if what == Foreign::Fresh => self.online,
                Home::Queue(device, _, value) if what == Foreign::Fresh => self.device(device).fresh(value),
                Home::Queue(_, _, QueueValue::Irq | QueueValue::NapiCpus) | Home::Thread(..) => ALL_CPUS,
                Home::Queue(_, _, QueueValue::NapiPriority) | Home::Cpu(_) => OTHER,
                Home::Nic(_, NicValue::Channels) => 2,
                Home::Nic(_, NicValue::Ring) => 256,
                Home::Host if slot == Slot::Budget => 300,
                Home::Host | Home::Group(_) | Home::Nic(..) | Home::Queue(..) => 0,
            },
        }
    }

    pub(crate) fn write_foreign(&mut self, slot: Slot, value: u64, at: u32) {
        let Some(kept) = self.kept(slot, value) else { return };
        let Some(found) = self.value_mut(slot) else { return };
        let was = found.now;
        found.foreign(kept);
        found.set_at = at;
        self.follow(slot, was, &Writer::Other);
    }
}
