//! Interrupts of a device and of its receive queues, from up to three sources; the strongest is believed.

use std::collections::{BTreeMap, BTreeSet};

use super::irq_names::{self, Device, Serves};
use super::topology::{Contradiction, Nic, NicKind};
use crate::drivers::{self, Bare};
use crate::sample::{Inventory, Irq, Napi, RawNic, RxQueue, Source, address, kernel_version, pci_function};
use rxlab_base::parse::{Holder, NetdevNapi, NetdevQueue};
use rxlab_base::units::{Direction, IrqId, QueueId};

/// The kernel's report on receive queues: (interface index, queue index) -> NAPI.
pub(super) struct Polls<'a> {
    queues: BTreeMap<(u32, u32), u32>,
    napis: BTreeMap<u32, &'a NetdevNapi>,
    holders: BTreeMap<(u32, u32), Holder>,
}

impl<'a> Polls<'a> {
    pub(super) fn new(inventory: &'a Inventory) -> Self {
        let queues = inventory.queues.known().into_iter().flatten();
        let queues = queues.filter(|found| found.queue.direction == Direction::Rx);
        let napis = inventory.napis.known().into_iter().flatten();
        let links = inventory.links.known().into_iter().flatten();
        let veths =
            links.filter(|link| link.kind.as_deref() == Some("veth")).map(|link| link.index).collect();
        let napis: BTreeMap<u32, &NetdevNapi> = napis.map(|napi| (napi.id, napi)).collect();
        let mut queues: BTreeMap<(u32, u32), u32> =
            queues.filter_map(|found| Some(((found.ifindex, found.queue.index), found.napi?))).collect();
        queues.extend(of_veths(
            inventory.queues.known().map(Vec::as_slice).unwrap_or_default(),
            &napis,
            &veths,
        ));
        let held = |found: &NetdevQueue| Some(((found.ifindex, found.queue.index), found.held_by?));
        let holders = inventory.queues.known().into_iter().flatten().filter_map(held).collect();
        Self { queues, napis, holders }
    }

    /// Recipient of the packets of receive queue `index` of the interface `ifindex`, if not the network stack.
    pub(super) fn holder(&self, ifindex: u32, index: u32) -> Option<Holder> {
        self.holders.get(&(ifindex, index)).copied()
    }

    /// The NAPI that polls receive queue `index` of the interface `ifindex`.
    pub(super) fn napi(&self, ifindex: u32, index: u32) -> Option<Napi> {
        let id = *self.queues.get(&(ifindex, index))?;
        let told = self.napis.get(&id);
        Some(Napi { id, irq: told.and_then(|napi| napi.irq), thread: told.and_then(|napi| napi.pid) })
    }
}

/// NAPIs of the veths with these indices. Their driver creates one for each receive queue, in the order of the queues
/// (`veth_enable_napi_range`), and the kernel numbers them upwards, but reports no queue with them.
fn of_veths(
    queues: &[NetdevQueue],
    napis: &BTreeMap<u32, &NetdevNapi>,
    veths: &BTreeSet<u32>,
) -> BTreeMap<(u32, u32), u32> {
    let mut ids: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for napi in napis.values().filter(|napi| veths.contains(&napi.ifindex)) {
        ids.entry(napi.ifindex).or_default().push(napi.id);
    }
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for queue in queues.iter().filter(|queue| queue.queue.direction == Direction::Rx) {
        *counts.entry(queue.ifindex).or_default() += 1;
    }
    ids.retain(|ifindex, ids| counts.get(ifindex) == Some(&ids.len()));
    ids.into_iter().flat_map(|(ifindex, ids)| (0..).map(move |queue| (ifindex, queue)).zip(ids)).collect()
}

/// An interrupt of the device.
struct Own<'a> {
    raw: &'a Irq,
    source: Source,
    /// The receive queues that it is known to serve.
    queues: Vec<u32>,
}

impl Own<'_> {
    fn attached(&self) -> Irq {
        Irq { source: self.source, ..self.raw.clone() }
    }
}

/// What the machine's other devices say about interrupts.
#[derive(Debug)]
pub(super) struct Others<'a> {
    /// Those of all MSI lists.
    pub(super) listed: &'a BTreeSet<IrqId>,
    /// All interfaces of its PCI function, if it is not the only one.
    pub(super) neighbours: Option<&'a BTreeSet<&'a str>>,
    /// True if the interface may have queues on a function without an interface ([`spans_functions`]).
    pub(super) may_span: bool,
}

/// The drivers whose interfaces may have queues on a second function: on a kernel that can do so, a function that has no
/// interface here has such interrupts. It may as well be in another network namespace.
pub(super) fn spanning<'a>(inventory: &'a Inventory, functions: &BTreeSet<&str>) -> BTreeSet<&'a str> {
    let is_old = kernel_version(&inventory.identity.kernel).is_some_and(|version| version < (6, 9));
    let spans = |driver: &str| {
        let irqs = inventory.irqs.known().into_iter().flatten();
        let mut names = irqs.flat_map(Irq::actions).filter(|name| irq_names::may_receive(name, driver));
        names.any(|name| address(name).is_some_and(|address| !functions.contains(address)))
    };
    let nics = inventory.nics.known().into_iter().flatten();
    let drivers: BTreeSet<&str> = nics.filter_map(|nic| nic.driver.known()).map(String::as_str).collect();
    let may_span = |driver: &&str| !is_old && drivers::facts(Some(driver)).spans_functions && spans(driver);
    drivers.into_iter().filter(may_span).collect()
}

/// Assigns interrupts to every receive queue. Returns those of the device that belong to no queue, or to an unknown one, and
/// contradictions between the kernel and a name.
///
/// An interrupt is a queue's if the kernel says so, or if two facts agree: it is the device's own (its MSI list, or its
/// name or address in the action), and the driver's row says which queue has such a name or such a place in the order; or
/// the device has no other interrupt, and would be seen to have it. If two interrupts with one form of name seem to be one queue's, neither is.
pub(super) fn attach(
    rx: &mut [RxQueue],
    nic: &RawNic,
    device_path: Option<&str>,
    irqs: &[Irq],
    others: &Others<'_>,
) -> (Vec<Irq>, Vec<Contradiction>) {
    let own = own(rx, nic, device_path, irqs, others);
    let mut contradictions = Vec::new();
    for queue in &mut *rx {
        let known: Vec<&Own<'_>> = own.iter().filter(|own| own.queues.contains(&queue.index)).collect();
        let told = queue.napi.as_ref().and_then(|napi| napi.irq);
        // The kernel may know the number of an interrupt that no driver uses any more.
        let found = told.and_then(|number| irqs.iter().find(|raw| raw.number == number));
        let Some(found) = found else {
            queue.irqs.clear();
            if have_different_forms(&known) {
                queue.irqs.extend(known.iter().map(|own| own.attached()));
            }
            continue;
        };
        if known.iter().all(|own| own.raw.number != found.number)
            && let Some(other) = known.first()
        {
            contradictions.push(Contradiction {
                queue: QueueId::rx(queue.index),
                what: "IRQ".to_owned(),
                believed: format!("netlink: {}", found.number),
                other: format!("name {}: {}", other.raw.action, other.raw.number),
            });
        }
        queue.irqs = vec![Irq { source: Source::Netlink, ..found.clone() }];
    }
    let taken = |number: IrqId| rx.iter().flat_map(|queue| &queue.irqs).any(|irq| irq.number == number);
    let others = own.iter().filter(|own| !taken(own.raw.number));
    (others.map(Own::attached).collect(), contradictions)
}

/// True if no two names differ only in their numbers: a driver may give a queue one interrupt of each kind.
fn have_different_forms(all: &[&Own<'_>]) -> bool {
    let forms: BTreeSet<String> = all
        .iter()
        .map(|own| own.raw.action.chars().filter(|letter| !letter.is_ascii_digit()).collect())
        .collect();
    forms.len() == all.len()
}

/// The interrupts of a device: those of its MSI list that really exist; without any, those that carry its name or address and
/// are in no other device's list: an interface may have the former name of another one.
fn own<'a>(
    rx: &[RxQueue],
    nic: &RawNic,
    path: Option<&str>,
    irqs: &'a [Irq],
    others: &Others<'_>,
) -> Vec<Own<'a>> {
    let driver = nic.driver.known().map(String::as_str);
    let device = Device { nic: nic.name.as_str(), driver, path };
    // Sorted: a host with many virtual functions asks for each interrupt of each.
    let is_listed =
        |raw: &Irq| nic.msi_irqs.known().is_some_and(|list| list.binary_search(&raw.number).is_ok());
    let has_list = irqs.iter().any(is_listed);
    let is_neighbour_s = |action: &str| {
        others
            .neighbours
            .is_some_and(|all| irq_names::words(action).any(|word| word != device.nic && all.contains(word)))
    };
    let found = irqs.iter().filter_map(|raw| {
        let named = || {
            !has_list
                && !others.listed.contains(&raw.number)
                && raw.actions().any(|action| irq_names::names_device(action, &device))
        };
        if !is_listed(raw) && !named() || raw.actions().any(is_neighbour_s) {
            return None;
        }
        let serves = raw.actions().find_map(|action| irq_names::serves(action, &device));
        Some((raw, if has_list { Source::MsiName } else { Source::Name }, serves))
    });
    let mut found: Vec<(&Irq, Source, Option<Serves>)> = found.collect();
    // Sub-functions share the interrupts of their function, whose names do not mean their queues.
    if is_sub_function(path) {
        found.iter_mut().for_each(|(.., serves)| *serves = Some(Serves::Other));
    }
    let facts = drivers::facts(driver);
    if facts.bare == Bare::MayBeOfErrors {
        let bare = found.iter_mut().filter(|(.., serves)| *serves == Some(Serves::Device));
        bare.for_each(|(.., serves)| *serves = Some(Serves::Other));
    }
    let is_shared = others.neighbours.is_some() && !facts.shares_irqs;
    for (raw, _, serves) in &mut found {
        let says_whose = || raw.actions().any(|action| irq_names::has_word(action, device.nic));
        let is_queue_s = !matches!(serves, None | Some(Serves::Other | Serves::Device));
        if is_queue_s && (others.may_span || is_shared && !says_whose()) {
            *serves = None;
        }
    }
    let by_name = ByName::new(rx, driver, &found);
    // A PCI function without a list has one interrupt, if its directory can be seen at all.
    let is_seen = has_list || path.and_then(pci_function).is_none() || nic.numa_node.known().is_some();
    // An interrupt whose purpose is unknown may be that of any queue; while the interface is down, that of no queue.
    let is_up = nic.operstate.known().is_none_or(|state| state != "down");
    // Of a function with several interfaces it may be that of the others: representors of virtual functions have none.
    let is_ours =
        |raw: &Irq| !is_shared || raw.actions().any(|action| irq_names::has_word(action, device.nic));
    let only = match found.iter().filter(|(.., serves)| *serves != Some(Serves::Other)).collect::<Vec<_>>()[..]
    {
        [(raw, _, serves)]
            if is_seen && is_ours(raw) && (*serves == Some(Serves::Device) || rx.len() == 1 && is_up) =>
        {
            Some(raw.number)
        }
        _ => None,
    };
    let one = |(raw, source, serves): &(&'a Irq, Source, Option<Serves>)| {
        let queues = by_name.queues(raw, *serves);
        if queues.is_empty() && only == Some(raw.number) {
            return Own { raw, source: Source::Only, queues: rx.iter().map(|queue| queue.index).collect() };
        }
        let in_order = *serves == Some(Serves::Device) && !queues.is_empty();
        Own { raw, source: if in_order { Source::Order } else { *source }, queues }
    };
    found.iter().map(one).collect()
}

/// True for the interface of a device that is part of a PCI function, such as `mlx5_core.sf.4`.
fn is_sub_function(path: Option<&str>) -> bool {
    let device = path.and_then(|path| path.rsplit_once("/net/")).map(|(device, _)| device);
    let last = device.and_then(|device| device.rsplit('/').next());
    last.is_some_and(|last| last.contains(".sf."))
}

/// What the names of a device's interrupts mean together.
struct ByName {
    /// Receive queues in use.
    rx: Vec<u32>,
    /// Numbers of those that are counted, if there are as many as queues.
    order: Vec<u32>,
    /// Those of queues that are counted from the lowest number.
    lowest: Option<u32>,
    /// How many the queues take in turn; `None` if one is missing.
    cycle: Option<u32>,
    first_block: Option<u32>,
    /// Those with the bare name of the device that belong to the queues, in their order.
    bare: Vec<IrqId>,
    /// The only one with a name of that of every queue, or the first of those with the bare name.
    for_all: Option<IrqId>,
}

impl ByName {
    fn new(rx: &[RxQueue], driver: Option<&str>, found: &[(&Irq, Source, Option<Serves>)]) -> Self {
        let serves = || found.iter().filter_map(|(.., serves)| *serves);
        let counted: Vec<u32> = serves()
            .filter_map(|serves| match serves {
                Serves::Order(number) => Some(number),
                _ => None,
            })
            .collect();
        // Where two have one number, the rest of it was cut off, or they are counted apart.
        let order: BTreeSet<u32> = counted.iter().copied().collect();
        let is_ordered = order.len() == rx.len() && counted.len() == rx.len();
        let lowest: Vec<u32> = serves()
            .filter_map(|serves| match serves {
                Serves::FromLowest(number) => Some(number),
                _ => None,
            })
            .collect();
        let cyclic: BTreeSet<u32> = serves()
            .filter_map(|serves| match serves {
                Serves::Cyclic(number) => Some(number),
                _ => None,
            })
            .collect();
        let bare = found.iter().filter(|(.., serves)| *serves == Some(Serves::Device));
        let mut bare: Vec<IrqId> = bare.map(|(raw, ..)| raw.number).collect();
        // If others name their queue, one with the bare name is that of the link.
        let is_named = serves().any(|serves| !matches!(serves, Serves::Device | Serves::Other));
        let mut for_all = found.iter().filter(|(.., serves)| *serves == Some(Serves::All));
        let mut for_all = for_all.next().filter(|_| for_all.next().is_none()).map(|(raw, ..)| raw.number);
        match drivers::facts(driver).bare {
            _ if is_named => bare.clear(),
            Bare::QueuesFirst if bare.len() >= rx.len() => bare.truncate(rx.len()),
            Bare::QueueLast if rx.len() == 1 && bare.len() <= 2 => {
                drop(bare.drain(..bare.len().saturating_sub(1)))
            }
            Bare::FirstForAll if bare.len() > 1 => for_all = bare.drain(..).min(),
            _ => bare.clear(),
        }
        Self {
            rx: rx.iter().map(|queue| queue.index).collect(),
            order: if is_ordered { order.into_iter().collect() } else { Vec::new() },
            // Fewer than queues: the others are elsewhere.
            lowest: lowest.iter().copied().min().filter(|_| lowest.len() >= rx.len()),
            cycle: u32::try_from(cyclic.len()).ok().filter(|count| cyclic.iter().copied().eq(0..*count)),
            first_block: first_receiving(serves(), rx.len()),
            bare,
            for_all,
        }
    }

    /// The receive queues of an interrupt.
    fn queues(&self, raw: &Irq, serves: Option<Serves>) -> Vec<u32> {
        let at =
            |position: Option<usize>| position.and_then(|at| self.rx.get(at)).copied().into_iter().collect();
        match serves {
            _ if self.for_all == Some(raw.number) => self.rx.clone(),
            Some(Serves::Queues(first, last)) => {
                self.rx.iter().copied().filter(|rx| (first..=last).contains(rx)).collect()
            }
            Some(Serves::FromLowest(number)) => {
                self.lowest.and_then(|lowest| number.checked_sub(lowest)).into_iter().collect()
            }
            Some(Serves::Cyclic(number)) => {
                let cycle = self.cycle.filter(|cycle| *cycle > 0);
                self.rx.iter().copied().filter(|rx| cycle.is_some_and(|cycle| rx % cycle == number)).collect()
            }
            Some(Serves::Order(number)) => at(self.order.iter().position(|other| *other == number)),
            Some(Serves::Block(block)) => {
                self.first_block.and_then(|first| block.checked_sub(first)).into_iter().collect()
            }
            Some(Serves::Device) => at(self.bare.iter().position(|number| *number == raw.number)),
            Some(Serves::All | Serves::Other) | None => Vec::new(),
        }
    }
}

/// The first block that receives: the driver keeps an even number of blocks, of which the second half receive. `None` if
/// some are missing or there are fewer than the queues need: nothing says then where the second half begins.
fn first_receiving(serves: impl Iterator<Item = Serves>, queues: usize) -> Option<u32> {
    let blocks: BTreeSet<u32> = serves
        .filter_map(|serves| match serves {
            Serves::Block(block) => Some(block),
            _ => None,
        })
        .collect();
    let count = u32::try_from(blocks.len()).ok()?;
    let is_whole = blocks.last().is_some_and(|last| last + 1 == count) && count.is_multiple_of(2);
    (is_whole && blocks.len() / 2 >= queues).then_some(count / 2)
}

impl Nic {
    /// True if a receive queue of this device has an interrupt that is not known: none is assigned to it, and no
    /// channel of VMBus.
    pub fn hides_interrupt(&self, queue: &RxQueue) -> bool {
        self.kind == NicKind::Device && queue.irqs.is_empty() && queue.channel_cpu.is_none()
    }

    /// The interrupts that, by their names, belong only to transmit queue `index`.
    pub fn tx_irqs(&self, index: u32) -> impl Iterator<Item = &Irq> {
        self.other_irqs.iter().filter(move |irq| self.sends(irq) == Some(index))
    }

    /// The interrupts of no queue: of the link, of the configuration, and those whose names contain no queue.
    /// Not the interrupts of unused queues, which drivers keep for when the queues come back.
    pub fn queueless_irqs(&self) -> impl Iterator<Item = &Irq> {
        self.other_irqs.iter().filter(|irq| self.sends(irq).is_none() && !self.is_of_idle_queue(irq))
    }

    fn sends(&self, irq: &Irq) -> Option<u32> {
        irq_names::sends(&irq.action, self.driver.as_deref())
    }

    fn is_of_idle_queue(&self, irq: &Irq) -> bool {
        let queue = irq_names::receives(&irq.action, self.driver.as_deref());
        queue.is_some_and(|index| self.rx.iter().all(|rx| rx.index != index))
    }
}

#[cfg(test)]
mod tests {
    use super::{Others, Polls, attach};
    use crate::model::{Contradiction, DeviceAddress, Irq, Model, Nic, NicKind, RxQueue, Source};
    use crate::sample::{Inventory, Scope};
    use rxlab_base::parse::{Link, NetdevNapi, NetdevQueue};
    use rxlab_base::units::{Fact, IrqId, QueueId};
    use rxlab_sys::RecordedHost;

    /// The same interface with another driver.
    fn of_driver(driver: &str, mut inventory: Inventory) -> Inventory {
        let Fact::Known(nics) = &mut inventory.nics else { panic!("read") };
        nics[0].driver = Fact::Known(driver.to_owned());
        inventory
    }

    /// An interface of igb with this many receive queues, its MSI list 30-39, and these interrupts.
    fn inventory(queues: u32, interrupts: &[(u32, &str)]) -> Inventory {
        let mut host = RecordedHost::new()
            .with_link("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/net/eth0")
            .with_link("sys/class/net/eth0/device/driver", "../../../bus/pci/drivers/igb")
            .with("sys/class/net/eth0/ifindex", "4\n");
        for queue in 0..queues {
            host = host.with(&format!("sys/class/net/eth0/queues/rx-{queue}/rps_cpus"), "0\n");
        }
        for irq in 30..40 {
            host = host.with(&format!("sys/bus/pci/devices/0000:00:03.0/msi_irqs/{irq}"), "msix\n");
        }
        let mut table = "  CPU0\n".to_owned();
        for (irq, action) in interrupts {
            table += &format!(" {irq}: 0 PCI-MSIX 0-edge {action}\n");
        }
        Inventory::take(&host.with("proc/interrupts", table), Scope::All)
    }

    /// The kernel reports that these NAPIs poll these queues, with these interrupts.
    fn told(inventory: &mut Inventory, queues: &[(u32, u32)], napis: &[(u32, Option<u32>)]) {
        let queue = |(queue, napi): &(u32, u32)| NetdevQueue {
            ifindex: 4,
            queue: QueueId::rx(*queue),
            napi: Some(*napi),
            held_by: None,
        };
        inventory.queues = Fact::Known(queues.iter().map(queue).collect());
        let napi = |(id, irq): &(u32, Option<u32>)| NetdevNapi {
            id: *id,
            ifindex: 4,
            irq: irq.map(IrqId),
            ..NetdevNapi::default()
        };
        inventory.napis = Fact::Known(napis.iter().map(napi).collect());
    }

    /// Interrupts of each queue with their source, those of no queue, and contradictions.
    type Attached = (Vec<Vec<(u32, Source)>>, Vec<u32>, Vec<Contradiction>);

    fn attached(inventory: &Inventory) -> Attached {
        let nic = &inventory.nics.known().expect("read")[0];
        let polls = Polls::new(inventory);
        let count = nic.rx.len();
        let mut rx: Vec<RxQueue> = (0..)
            .take(count)
            .map(|index| RxQueue { index, napi: polls.napi(4, index), ..RxQueue::default() })
            .collect();
        let path = nic.device_path.known().map(String::as_str);
        let irqs = inventory.irqs.known().expect("read");
        let listed = (30..40).chain([50]).map(IrqId).collect();
        let others = Others { listed: &listed, neighbours: None, may_span: false };
        let (others, contradictions) = attach(&mut rx, nic, path, irqs, &others);
        let pair = |irq: &Irq| (irq.number.0, irq.source);
        let by_queue = rx.iter().map(|queue| queue.irqs.iter().map(pair).collect()).collect();
        (by_queue, others.iter().map(|irq| irq.number.0).collect(), contradictions)
    }

    /// As on Linux 6.18, where the kernel lists NAPIs from the last to the first.
    #[test]
    fn napis_of_a_veth_are_in_the_order_of_its_queues() {
        let mut inventory = inventory(2, &[]);
        let link = |kind: &str| {
            let eth0 = Link::new(4, "eth0".parse().expect("a name"));
            Fact::Known(vec![Link { kind: Some(kind.to_owned()), ..eth0 }])
        };
        told(&mut inventory, &[], &[(259, None), (258, None)]);
        let queue = |index| NetdevQueue { ifindex: 4, queue: QueueId::rx(index), napi: None, held_by: None };
        inventory.queues = Fact::Known([0, 1].map(queue).to_vec());
        let ids = |inventory: &Inventory| {
            let polls = Polls::new(inventory);
            [0, 1, 2].map(|queue| polls.napi(4, queue).map(|napi| napi.id))
        };
        inventory.links = link("veth");
        assert_eq!(ids(&inventory), [Some(258), Some(259), None]);
        let one = Inventory {
            napis: inventory.napis.clone().map(|napis| napis[..1].to_vec()),
            ..inventory.clone()
        };
        assert_eq!(ids(&one), [None; 3], "one of them is missing");
        inventory.links = link("bond");
        assert_eq!(ids(&inventory), [None; 3]);
    }

    #[test]
    fn a_name_counts_only_without_an_msi_list() {
        let interrupts = [(30, "eth0-TxRx-0"), (41, "eth0-TxRx-1"), (42, "eth1-TxRx-0")];
        assert_eq!(
            attached(&inventory(2, &interrupts)),
            (vec![vec![(30, Source::MsiName)], vec![]], vec![], vec![])
        );
        // In no list: the name of the interface in a form of its driver, once for each queue.
        let named = |more: &[(u32, &str)]| {
            attached(&inventory(2, &[&[(40, "eth0-TxRx-0"), (41, "eth0-TxRx-1")], more].concat()))
        };
        assert_eq!(named(&[]).0, [[(40, Source::Name)], [(41, Source::Name)]]);
        assert_eq!(named(&[(43, "eth0-TxRx-1")]).0, [vec![(40, Source::Name)], vec![]], "which of the two");
    }

    #[test]
    fn the_kernel_is_believed_and_the_name_reported() {
        let mut inventory = inventory(2, &[(30, "eth0-TxRx-0"), (31, "eth0-TxRx-1"), (32, "eth0-TxRx-2")]);
        told(&mut inventory, &[(0, 7), (1, 8)], &[(7, Some(30)), (8, Some(32))]);
        let (queues, others, contradictions) = attached(&inventory);
        assert_eq!(queues, [[(30, Source::Netlink)], [(32, Source::Netlink)]]);
        assert_eq!(others, [31]);
        let expected = Contradiction {
            queue: QueueId::rx(1),
            what: "IRQ".to_owned(),
            believed: "netlink: 32".to_owned(),
            other: "name eth0-TxRx-1: 31".to_owned(),
        };
        assert_eq!(contradictions, [expected]);
    }

    #[test]
    fn one_interrupt_of_several_queues() {
        let mut shared = inventory(2, &[(30, "driver-vector-0")]);
        told(&mut shared, &[(0, 7), (1, 7)], &[(7, Some(30))]);
        assert_eq!(attached(&shared), (vec![vec![(30, Source::Netlink)]; 2], vec![], vec![]));
        // A device with one vector: it serves all of its queues.
        let legacy = inventory(2, &[(30, "eth0")]);
        assert_eq!(attached(&legacy), (vec![vec![(30, Source::Only)]; 2], vec![], vec![]));
    }

    /// The numbers of mlx4 are those of no queue: the other interrupt was taken for the only one.
    #[test]
    fn a_name_that_says_nothing_may_be_that_of_a_queue() {
        let actions = [(30, "mlx4-1@0000:00:03.0"), (31, "mlx4-async@pci:0000:00:03.0")];
        let (queues, others, _) = attached(&of_driver("mlx4_core", inventory(1, &actions)));
        assert_eq!((queues, others), (vec![vec![]], vec![30, 31]));
    }

    /// Numbers in the names mean nothing, the order means nothing: 24 queues, no link.
    #[test]
    fn a_driver_without_a_row_is_unknown() {
        let actions = [(30, "eth0-TxRx-0"), (31, "eth0-TxRx-1")];
        let unknown = attached(&of_driver("no-such-driver", inventory(2, &actions)));
        assert_eq!(unknown, (vec![vec![]; 2], vec![30, 31], vec![]));
    }

    #[test]
    fn numbers_that_count_vectors() {
        let numbers = |driver: &str, queues, interrupts: &[(u32, &str)]| {
            let (queues, ..) = attached(&of_driver(driver, inventory(queues, interrupts)));
            queues.iter().flatten().map(|(number, _)| *number).collect::<Vec<_>>()
        };
        let by_two = [(30, "hns3-0000:00:03.0-TxRx-0"), (31, "hns3-0000:00:03.0-TxRx-2")];
        assert_eq!(numbers("hns3", 2, &by_two), [30, 31]);
        let behind = [(30, "eth0-tx-0"), (31, "eth0-tx-1"), (32, "eth0-rx-2"), (33, "eth0-rx-3")];
        assert_eq!(numbers("vmxnet3", 2, &behind), [32, 33]);
        let from_one = [
            (30, "mlx5_async0@pci:0000:00:03.0"),
            (31, "mlx5_comp1@pci:0000:00:03.0"),
            (32, "mlx5_comp2@pci:0000:00:03.0"),
        ];
        assert_eq!(numbers("mlx5_core", 2, &from_one), [31, 32]);
        assert_eq!(
            numbers("ice", 4, &[(30, "ice-eth0-TxRx-0-1"), (31, "ice-eth0-TxRx-2-3")]),
            [30, 30, 31, 31]
        );
    }

    #[test]
    fn one_interrupt_for_every_queue() {
        let of = |driver: &str, interrupts: &[(u32, &str)]| {
            let (queues, ..) = attached(&of_driver(driver, inventory(2, interrupts)));
            queues.iter().map(|irqs| irqs.iter().map(|irq| irq.0).collect()).collect::<Vec<Vec<u32>>>()
        };
        let virtio = [(30, "virtio0-config"), (31, "virtio0-virtqueues")];
        assert_eq!(of("virtio_net", &virtio), [[31], [31]]);
        let gianfar = [(30, "eth0_g0_tx"), (31, "eth0_g0_rx"), (32, "eth0_g0_er"), (33, "eth0_g1_rx")];
        assert_eq!(of("fsl-gianfar", &gianfar[..3]), [[31], [31]]);
        // Two groups: the name does not say which queue is in which.
        assert_eq!(of("fsl-gianfar", &gianfar), [[0; 0]; 2]);
    }

    /// hns has room for 15 characters: that of queue 10 ends like that of queue 1.
    #[test]
    fn numbers_that_were_cut_off_mean_nothing() {
        let names: Vec<String> =
            (0..12).map(|rx| format!("enahisic2i0-rx{rx}").chars().take(15).collect()).collect();
        let interrupts: Vec<(u32, &str)> = (28..).zip(names.iter().map(String::as_str)).collect();
        let (queues, ..) = attached(&of_driver("hns-nic", inventory(12, &interrupts[2..])));
        let linked: Vec<usize> = (0..12).filter(|at| !queues[*at].is_empty()).collect();
        assert_eq!(linked, (2..10).collect::<Vec<usize>>());
        let cut = [(30, "eth0-TxRx-1"), (31, "eth0-TxRx-2"), (32, "eth0-TxRx-1")];
        let (queues, ..) = attached(&of_driver("ixgbe", inventory(2, &cut)));
        assert_eq!(queues, [vec![], vec![]]);
    }

    /// mlx5_core with one interface over two functions, of which the other one has no interface. Kernels that can do so say
    /// which interrupt is whose; this one is not asked.
    #[test]
    fn an_interface_over_two_functions() {
        let linked = |kernel: &str, queues, interrupts: &[(u32, &str)]| {
            let mut inventory = of_driver("mlx5_core", inventory(queues, interrupts));
            inventory.identity.kernel = kernel.to_owned();
            let model = Model::new(&inventory);
            model.nics[0].rx.iter().flat_map(|rx| &rx.irqs).map(|irq| irq.number.0).collect::<Vec<_>>()
        };
        let own = [(30, "mlx5_comp0@pci:0000:00:03.0"), (31, "mlx5_comp1@pci:0000:00:03.0")];
        let other = [(40, "mlx5_comp0@pci:0000:41:00.0"), (41, "mlx5_comp1@pci:0000:41:00.0")];
        let both = [own, other].concat();
        assert_eq!(linked("6.12.0", 2, &own), [30, 31]);
        assert_eq!(linked("6.12.0", 2, &both), [0; 0], "comp1 may be that of queue 2");
        assert_eq!(linked("6.8.0-45-generic", 2, &both), [30, 31], "no kernel of the time could");
        assert_eq!(linked("6.8.0-45-generic", 4, &both), [0; 0], "a driver of the vendor: two are elsewhere");
    }

    /// Two interfaces of one function, whose interrupts have the names of neither.
    #[test]
    fn interrupts_of_a_function_with_several_interfaces() {
        let of = |driver: &str, actions: [(u32, &str); 2]| {
            let inventory = of_driver(driver, inventory(2, &actions));
            let nic = &inventory.nics.known().expect("read")[0];
            let (listed, ports) = (Default::default(), ["eth0", "eth1"].into());
            let others = Others { listed: &listed, neighbours: Some(&ports), may_span: false };
            let path = nic.device_path.known().map(String::as_str);
            let mut rx = nic.rx.clone();
            attach(&mut rx, nic, path, inventory.irqs.known().expect("read"), &others);
            rx.iter().map(|queue| queue.irqs.len()).collect::<Vec<_>>()
        };
        let of_ports = [(30, "LiquidIO0-pf0-rxtx-0"), (31, "LiquidIO0-pf0-rxtx-1")];
        assert_eq!(of("LiquidIO", of_ports), [0, 0]);
        assert_eq!(of("mana", [(30, "mana_q0@pci:0000:00:03.0"), (31, "mana_q1@pci:0000:00:03.0")]), [1, 1]);
        assert_eq!(of("cxgb3", [(30, "eth0-4"), (31, "eth0-5")]), [1, 1]);
    }

    /// On the host, a guest's interface receives what the guest sends.
    #[test]
    fn the_two_ends_of_xen() {
        let linked = |device: &str, nic: &str| {
            let base = format!("sys/class/net/{nic}");
            let table =
                format!("  CPU0\n 30: 0 xen-dyn -event {nic}-q0-tx\n 31: 0 xen-dyn -event {nic}-q0-rx\n");
            let host = RecordedHost::new()
                .with_link(&base, &format!("../../devices/{device}/net/{nic}"))
                .with_link(&format!("{base}/device/driver"), "../../../bus/xen/drivers/vif")
                .with(&format!("{base}/queues/rx-0/rps_cpus"), "0\n")
                .with("proc/interrupts", table);
            let nic = Model::new(&Inventory::take(&host, Scope::All)).nics.remove(0);
            (nic.driver.clone(), nic.rx[0].irqs[0].number.0, nic.tx_irqs(0).next().map(|irq| irq.number.0))
        };
        assert_eq!(linked("vif-0", "eth0"), (Some("vif".to_owned()), 31, Some(30)));
        assert_eq!(linked("vif-1-0", "vif1.0"), (Some("xen-netback".to_owned()), 30, Some(31)));
    }

    /// Two ports of one function: each has the interrupts of its name.
    #[test]
    fn interrupts_of_a_neighbour_are_not_its_own() {
        let inventory = of_driver("cxgb4", inventory(1, &[(30, "eth0-Rx0"), (31, "eth1-Rx0")]));
        let nic = &inventory.nics.known().expect("read")[0];
        let (listed, ports) = (Default::default(), ["eth0", "eth1"].into());
        let mut rx = nic.rx.clone();
        let others = Others { listed: &listed, neighbours: Some(&ports), may_span: false };
        let (others, _) = attach(
            &mut rx,
            nic,
            nic.device_path.known().map(String::as_str),
            inventory.irqs.known().expect("read"),
            &others,
        );
        assert_eq!((rx[0].irqs[0].number, others.len()), (IrqId(30), 0));
    }

    #[test]
    fn a_kernel_that_knows_no_interrupt_leaves_it_to_the_name() {
        let interrupts = [(30, "eth0-TxRx-0"), (31, "eth0")];
        for irq in [None, Some(39)] {
            let mut inventory = inventory(1, &interrupts);
            told(&mut inventory, &[(0, 7)], &[(7, irq)]);
            assert_eq!(attached(&inventory), (vec![vec![(30, Source::MsiName)]], vec![31], vec![]));
        }
    }

    #[test]
    fn the_second_half_of_the_blocks_receives() {
        let names: Vec<String> =
            (0..8).map(|block| format!("gve-ntfy-blk{block}@pci:0000:00:03.0")).collect();
        let mut interrupts: Vec<(u32, &str)> = (30..).zip(names.iter().map(String::as_str)).collect();
        interrupts.push((38, "gve-mgmnt@pci:0000:00:03.0"));
        // Four blocks each way, of which two are in use.
        let (queues, others, _) = attached(&of_driver("gve", inventory(2, &interrupts)));
        assert_eq!(queues, [[(34, Source::MsiName)], [(35, Source::MsiName)]]);
        assert_eq!(others, [30, 31, 32, 33, 36, 37, 38]);
        // A table that ends early, or lacks a block in the middle.
        for rest in [&interrupts[..2], &interrupts[..5], &[&interrupts[..3], &interrupts[4..]].concat()] {
            let (queues, ..) = attached(&of_driver("gve", inventory(2, rest)));
            assert_eq!(queues, [vec![], vec![]], "{rest:?}");
        }
    }

    #[test]
    fn interrupts_of_one_name_are_in_the_order_of_the_queues() {
        let bare = [(32, "eth0"), (33, "eth0"), (35, "eth0")];
        let of = |driver: &str, queues, interrupts: &[(u32, &str)]| {
            let (queues, others, _) = attached(&of_driver(driver, inventory(queues, interrupts)));
            let numbers = |irqs: &Vec<(u32, Source)>| irqs.iter().map(|(number, _)| *number).collect();
            (queues.iter().map(numbers).collect::<Vec<Vec<u32>>>(), others)
        };
        // The last is the link's.
        assert_eq!(of("atlantic", 2, &bare), (vec![vec![32], vec![33]], vec![35]));
        assert_eq!(of("atlantic", 4, &bare), (vec![vec![]; 4], vec![32, 33, 35]));
        assert_eq!(of("atlantic", 1, &bare[..1]), (vec![vec![32]], vec![]));
        assert_eq!(of("mtk_soc_eth", 1, &bare[..2]), (vec![vec![33]], vec![32]));
        assert_eq!(of("mtk_soc_eth", 1, &bare), (vec![vec![]], vec![32, 33, 35]));
        // Of other drivers, each interrupt may be that of any queue.
        assert_eq!(of("bcmgenet", 2, &bare[..2]), (vec![vec![]; 2], vec![32, 33]));
    }

    /// The former eth0 has another name: its interrupts still carry the old one.
    #[test]
    fn an_interrupt_in_another_device_s_list_is_that_one_s() {
        let (queues, others, _) = attached(&inventory(1, &[(50, "eth0-TxRx-0"), (31, "x-TxRx-0")]));
        assert_eq!((queues, others), (vec![vec![(31, Source::MsiName)]], vec![]));
    }

    /// i40e with two vectors for four queues: the number is the vector's.
    #[test]
    fn fewer_vectors_than_queues_are_linked_to_none() {
        let actions = [(31, "i40e-eth0-TxRx-0"), (32, "i40e-eth0-TxRx-1")];
        let with = |queues| attached(&of_driver("i40e", inventory(queues, &actions)));
        let (queues, others, contradictions) = with(4);
        assert!(queues.iter().all(Vec::is_empty), "{queues:?}");
        assert_eq!((others, contradictions.len()), (vec![31, 32], 0));
        assert_eq!(with(2).0[1], [(32, Source::MsiName)]);
    }

    /// A virtio device with four pairs of queues, of which two are in use.
    #[test]
    fn each_interrupt_has_one_place() {
        let mut nic =
            Nic::new("eth0".parse().expect("a name"), DeviceAddress("pci:0".into()), NicKind::Device);
        nic.driver = Some("virtio_net".to_owned());
        nic.rx = (0..2).map(|index| RxQueue { index, ..RxQueue::default() }).collect();
        let actions = [
            "virtio0-config",
            "virtio0-output.0",
            "virtio0-output.1",
            "virtio0-input.2",
            "virtio0-output.2",
            "virtio0-input.3",
            "virtio0-output.3",
        ];
        let irq = |action: &str| Irq { action: action.to_owned(), ..Irq::default() };
        nic.other_irqs = actions.map(irq).into();
        let names = |irqs: Vec<&Irq>| irqs.iter().map(|irq| irq.action.clone()).collect::<Vec<_>>();
        assert_eq!(names(nic.tx_irqs(1).collect()), ["virtio0-output.1"]);
        assert_eq!(names(nic.queueless_irqs().collect()), ["virtio0-config"]);
    }
}
