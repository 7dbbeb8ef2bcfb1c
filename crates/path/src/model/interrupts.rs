//! Interrupts of a device and of its receive queues, from up to three sources; the strongest is believed.

mod by_name;
mod polls;
mod refuted;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use self::by_name::ByName;
pub(super) use self::polls::Polls;
use super::irq_names::{self, Device, Serves};
use super::topology::{Contradiction, Nic, NicKind};
use crate::drivers::{self, Bare};
use crate::sample::{Inventory, Irq, RawNic, RxQueue, Source, address, kernel_version, pci_function};
use rxlab_base::units::{IrqId, QueueId};

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
    /// True if a name may be that of another interface of the driver ([`misnamed`]).
    pub(super) are_misnamed: bool,
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

/// The drivers whose interrupts have the names that interfaces had when they were found, and may have been renamed since. Then the
/// kernel numbered them in their order: names in another order, of no interface, or missing for one that is up, are old.
pub(super) fn misnamed(inventory: &Inventory) -> BTreeSet<&str> {
    let nics = || inventory.nics.known().into_iter().flatten();
    let actions = || inventory.irqs.known().into_iter().flatten().flat_map(Irq::actions);
    let are_old = |driver: &&str| {
        let own = nics().filter(|nic| nic.driver.known().is_some_and(|name| name == driver));
        let mut own: Vec<&RawNic> = own.collect();
        own.sort_by_key(|nic| nic.ifindex.known());
        let has_name = |action: &str, nic: &RawNic| irq_names::has_word(action, nic.name.as_str());
        let mut named = actions().filter(|action| irq_names::may_receive(action, driver));
        let is_named = |nic: &&RawNic| is_down(nic) || actions().any(|action| has_name(action, nic));
        !own.iter().all(|nic| nic.ifindex.known().is_some())
            || !own.is_sorted_by_key(|nic| by_number(nic.name.as_str()))
            || !own.iter().all(is_named)
            || named.any(|action| !own.iter().any(|nic| has_name(action, nic)))
    };
    let drivers: BTreeSet<&str> = nics().filter_map(|nic| nic.driver.known()).map(String::as_str).collect();
    let keep = |driver: &&str| drivers::facts(Some(driver)).is_named_at_probe && are_old(driver);
    drivers.into_iter().filter(keep).collect()
}

/// A name without its last number, and that.
fn by_number(name: &str) -> (&str, Option<u32>) {
    let (start, digits) = drivers::split_number(name);
    (start, digits.parse().ok())
}

fn is_down(nic: &RawNic) -> bool {
    nic.operstate.known().is_some_and(|state| state == "down")
}

/// Assigns interrupts to every receive queue. Returns those of the device that belong to no queue, or to an unknown one, and
/// contradictions between the kernel and a name.
///
/// An interrupt is a queue's if the kernel says so, or if two facts agree: it is the device's own (its MSI list, or its
/// name or address in the action or the chip), and the driver's row says which queue has such a name or such a place in the
/// order; or the device has no other interrupt, and would be seen to have it. If two interrupts with one form of name seem to be one queue's, neither is.
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

/// The interrupts of a device: those of its MSI list that really exist; without any, those whose chip has its address; without
/// these, those that carry its name or address and are in no other device's list, nor another's vectors: an interface may have the
/// former name of another one.
fn own<'a>(
    rx: &[RxQueue],
    nic: &RawNic,
    path: Option<&str>,
    irqs: &'a [Irq],
    others: &Others<'_>,
) -> Vec<Own<'a>> {
    let driver = nic.driver.known().map(String::as_str);
    let device = Device { nic: nic.name.as_str(), driver, path, usb_buses: &nic.usb_buses };
    // Sorted: a host with many virtual functions asks for each interrupt of each.
    let is_listed =
        |raw: &Irq| nic.msi_irqs.known().is_some_and(|list| list.binary_search(&raw.number).is_ok());
    let function = path.and_then(pci_function);
    let is_vector = |raw: &Irq| raw.vector_of.is_some() && raw.vector_of.as_deref() == function;
    let is_in_list: &dyn Fn(&Irq) -> bool = if irqs.iter().any(is_listed) { &is_listed } else { &is_vector };
    let has_list = irqs.iter().any(is_in_list);
    let is_neighbour_s = |action: &str| {
        others
            .neighbours
            .is_some_and(|all| irq_names::words(action).any(|word| word != device.nic && all.contains(word)))
    };
    let found = irqs.iter().filter_map(|raw| {
        let named = || {
            !has_list
                && !others.are_misnamed
                && !others.listed.contains(&raw.number)
                && raw.vector_of.is_none()
                && raw.actions().any(|action| irq_names::names_device(action, &device))
        };
        if !is_in_list(raw) && !named() || raw.actions().any(is_neighbour_s) {
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
    let is_seen = has_list || function.is_none() || nic.numa_node.known().is_some();
    // An interrupt whose purpose is unknown may be that of any queue; while the interface is down, that of no queue.
    // Of a function with several interfaces it may be that of the others: representors of virtual functions have none.
    let is_ours =
        |raw: &Irq| !is_shared || raw.actions().any(|action| irq_names::has_word(action, device.nic));
    let only = match found.iter().filter(|(.., serves)| *serves != Some(Serves::Other)).collect::<Vec<_>>()[..]
    {
        [(raw, _, serves)]
            if is_seen
                && is_ours(raw)
                && (*serves == Some(Serves::Device) || rx.len() == 1 && !is_down(nic)) =>
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

impl Nic {
    /// True if a receive queue of this device has an interrupt that is not known: none is assigned to it, and no
    /// channel of VMBus.
    pub fn hides_interrupt(&self, queue: &RxQueue) -> bool {
        self.kind == NicKind::Device && queue.irqs.is_empty() && queue.channel_cpu.is_none()
    }

    /// The interrupts one of which is that of any queue whose own is hidden; empty if it may be another one: those that only share
    /// a part of their name with the device need not be all that it has.
    pub fn hidden_irqs(&self) -> Vec<&Irq> {
        let (driver, facts) = (self.driver.as_deref(), self.driver_facts());
        let is_bare =
            |action: &str| action == self.name.as_str() || self.address.0.rsplit('/').next() == Some(action);
        let is_all = |irq: &Irq| irq.source == Source::MsiName || irq.actions().any(is_bare);
        let is_elsewhere = facts.spans_functions || facts.bare == Bare::MayBeOfErrors;
        let own = self.rx.iter().flat_map(|queue| &queue.irqs).chain(&self.other_irqs);
        let own = own.filter(|irq| !irq.actions().any(|action| irq_names::is_of_no_queue(action, driver)));
        let own: Vec<&Irq> = own.collect();
        if is_elsewhere || !own.iter().any(|irq| is_all(irq)) { Vec::new() } else { own }
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
