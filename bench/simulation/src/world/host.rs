//! The simulated kernel as a host. Every operation is a moment at which the adversary may move.

use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno as Os;
use rxlab_base::parse::{Scheduling, attribute, ethtool, one_message};
use rxlab_base::units::{CpuId, CpuMask, NicName};
use rxlab_sys::{
    Action, Cause, Entry, EthtoolChange, EthtoolGet, Hidden, Host, HostError, Namespace, Namespaces,
    OpenError, Operation, OtherView, Query,
};

use super::answers::{GRO, SETTINGS, channels, links, napis, number32, offloads, rings};
use super::contents::{NO_INTERRUPTS, interrupts, link_of, number, poller_stat, value_text};
use super::kernel::{CPUS, Device, scheduling, scheduling_of, table};
use super::nodes::{GROUPS, KSOFTIRQD, Node, View, prevented};
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
    /// Of the files.
    view: View,
}

/// An escaped name that is not UTF-8.
const ODD: &str = "\\xff\\xfe";

/// Stands for all values of all NAPIs and their threads, in the rule about checks and writes.
const NAPIS: Slot = Slot::QueueDefer(0, 0);

/// Stands for the values that are seen in one look: all of NAPIs and their threads, the threads of a process, or one.
fn seen_with(slot: Slot) -> Slot {
    match slot {
        Slot::Thread(process, _) => Slot::Thread(process, 0),
        slot if slot.is_of_napi() => NAPIS,
        slot => slot,
    }
}

impl SimHost {
    /// Seen from the namespace of all commands.
    pub(crate) fn own(world: &Arc<World>) -> Self {
        let mut state = world.state();
        let is_other = state.fault(|area| area == Area::View).is_some();
        let [own, other] = [0, 1].map(|at| state.machine.namespaces[at].clone());
        drop(state);
        let netns = Namespace { path: OWN.into(), inode: own.inode, cookie: Some(own.cookie) };
        let files = if is_other { other.cookie } else { own.cookie };
        Self { world: Arc::clone(world), netns, view: View { files, pin: None } }
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
        let mut node = self.view.node(&state.machine, path);
        if known.iter().any(|known| path.starts_with(known)) {
            let link = match (&node, operation) {
                (Node::Value(slot), Operation::Write) => Link::Write(seen_with(*slot)),
                (Node::Value(slot), _) => Link::Read(seen_with(*slot)),
                (Node::Tasks(process), _) => Link::Read(Slot::Thread(u8::try_from(*process).unwrap_or(0), 0)),
                (Node::Stat(pid, _), _) => Link::Read(Slot::Thread(u8::from(*pid >= 900), 0)),
                // A value of a NAPI is read from several files.
                (Node::Poller(_) | Node::Index(_), _) => Link::Read(NAPIS),
                _ => Link::Other,
            };
            if !matches!(node, Node::Absent | Node::Fixed(_)) || path.starts_with("sys/devices/system/cpu") {
                drop(state);
                let is_moved = self.world.step(Counted::Any, link);
                state = self.world.state();
                if is_moved {
                    node = self.view.node(&state.machine, path);
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

impl SimHost {
    fn in_one_view(&self, operation: Operation, path: &str) -> Result<(), HostError> {
        self.check_view().map_err(|_| HostError::new(operation, path, Cause::OtherView))
    }

    /// The device of a name, on a bus or virtual.
    fn find(&self, state: &State, nic: &NicName, is_virtual: bool) -> Option<u8> {
        let machine = &state.machine;
        let at = match self.pinned_interface(nic) {
            Some(pin) => machine.in_netns(self.cookie()).find(|(_, device)| device.inode == pin)?.0,
            None => machine.find(self.cookie(), nic.as_str())?,
        };
        (machine.devices[at].pci.is_none() == is_virtual).then(|| u8::try_from(at).ok())?
    }

    /// The inode of the interface whose directory is held open, if it had this name then: its index stands for it.
    fn pinned_interface(&self, nic: &NicName) -> Option<u64> {
        let (path, inode) = self.view.pin.as_ref()?;
        (path.strip_prefix("sys/class/net/") == Some(nic.as_str())).then_some(*inode)
    }

    /// Carries out an action that sets one value, which `found` looks for and gives a number.
    fn set(&self, path: &str, found: impl Fn(&State) -> Option<(Slot, u64)>) -> Result<(), HostError> {
        let failed = |cause: Cause| HostError::new(Operation::Act, path, cause);
        self.in_one_view(Operation::Act, path)?;
        let slot = found(&self.world.state()).map(|(slot, _)| seen_with(slot));
        self.world.step(Counted::Any, slot.map_or(Link::Other, Link::Write));
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

/// sched_setattr(2) of a thread of the kernel.
fn scheduled(state: &State, pid: u32, wanted: &Scheduling) -> Option<(Slot, u64)> {
    let cpu = pid.checked_sub(KSOFTIRQD).filter(|cpu| *cpu < CPUS);
    let slot = match cpu {
        Some(cpu) => Slot::Ksoftirqd(u8::try_from(cpu).ok()?),
        None => state.machine.of_thread(pid, QueueValue::NapiPriority)?,
    };
    let nice = if wanted.policy == 5 && state.has(Mutation::OneStep) { 0 } else { wanted.nice };
    let wanted = Scheduling { nice, ..*wanted };
    let (policy, priority, nice) = scheduling_of(state.machine.value(slot)?.now);
    let [policy, priority] = [policy, priority].map(|number| u32::try_from(number).unwrap_or(0));
    let now = Scheduling { policy, priority, nice: i32::try_from(nice).unwrap_or(0) };
    // There are two calls.
    let kept = if state.dies_in_call() { now.halfway(wanted) } else { wanted };
    Some((slot, scheduling(kept.policy.into(), kept.priority.into(), kept.nice.into())))
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
        let cookie = self.view.files;
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
                let prevented = prevented(&mut state, &Node::Napis, Operation::Ask, &path);
                if state.has(Mutation::NoNapis) {
                    // Nor does the process ask again: a second look would show them.
                    let running = state.running();
                    state.blind = prevented.as_ref().map_or(running, |()| state.blind);
                    if state.blind.is_some() && state.blind == running {
                        return Ok(Vec::new());
                    }
                }
                return prevented.map(|()| napis(&state.machine, self.cookie(), query));
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
        self.world.state().machine.clock
    }

    fn inode(&self, path: &str) -> Result<u64, HostError> {
        self.world.step(Counted::Any, Link::Other);
        let mut state = self.world.state();
        let node = self.view.node(&state.machine, path);
        prevented(&mut state, &node, Operation::List, path)?;
        let by_path = state.has(Mutation::GroupsByPath) && matches!(node, Node::Group(_));
        if state.knows_names_only() || by_path {
            // Above those of the simulated machine.
            return Ok(path.bytes().fold(1 << 40, |sum, byte| 31 * (sum % (1 << 50)) + u64::from(byte)));
        }
        match node {
            // Each namespace has its own.
            Node::Loopback => Ok(self.view.files),
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
                    let mut devices = state.machine.in_netns(self.view.files).map(|(_, device)| device);
                    let of = devices.find(|device| device.is_odd && name == format!("{}{ODD}", device.name));
                    Some(of.map_or(u64::MAX - self.view.files, |device| device.inode))
                }
                Ok(inode) => Some(inode),
                Err(error) if error.cause == Cause::Missing => None,
                Err(error) => return Err(error),
            };
            entries.push(Entry { name, is_text, inode });
        }
        Ok(entries)
    }

    fn pinned(&self, path: &str, inode: u64) -> Result<Option<Box<dyn Host + '_>>, HostError> {
        {
            let state = self.world.state();
            if state.knows_names_only() || state.has(Mutation::GroupsByPath) {
                return Ok(None);
            }
        }
        if self.inode(path)? != inode {
            return Err(HostError::new(Operation::List, path, Os::STALE));
        }
        let view = View { pin: Some((path.to_owned(), inode)), ..self.view.clone() };
        Ok(Some(Box::new(SimHost { world: Arc::clone(&self.world), netns: self.netns.clone(), view })))
    }

    fn check_view(&self) -> Result<(), OtherView> {
        let is_one = self.view.files == self.cookie();
        if is_one { Ok(()) } else { Err(OtherView::Namespace("simulated".to_owned())) }
    }

    fn namespace(&self) -> Option<&Namespace> {
        Some(&self.netns)
    }

    fn namespaces(&self) -> Namespaces {
        self.world.step(Counted::Any, Link::Other);
        let mut state = self.world.state();
        let hides = state.fault(|area| area == Area::Namespaces).is_some();
        let all = &state.machine.namespaces;
        let one = |n: &super::kernel::Netns| Namespace {
            path: n.path.into(),
            inode: n.inode,
            cookie: Some(n.cookie),
        };
        let shown = if hides || state.knows_names_only() { 1 } else { all.len() };
        Namespaces {
            seen: all.iter().take(shown).map(one).collect(),
            hidden: hides.then(|| Hidden("cannot look for namespaces in /proc: simulated".to_owned())),
        }
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
        Ok(Box::new(SimHost { world: Arc::clone(&self.world), netns, view: View { files, pin: None } }))
    }
}
