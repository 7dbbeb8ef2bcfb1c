//! The kernel's report on who polls a receive queue.

use std::collections::{BTreeMap, BTreeSet};

use crate::sample::{Inventory, Napi};
use rxlab_base::parse::{Holder, NetdevNapi, NetdevQueue};
use rxlab_base::units::Direction;

/// The kernel's report on receive queues: (interface index, queue index) -> NAPI.
pub(in crate::model) struct Polls<'a> {
    queues: BTreeMap<(u32, u32), u32>,
    napis: BTreeMap<u32, &'a NetdevNapi>,
    holders: BTreeMap<(u32, u32), Holder>,
}

impl<'a> Polls<'a> {
    pub(in crate::model) fn new(inventory: &'a Inventory) -> Self {
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
    pub(in crate::model) fn holder(&self, ifindex: u32, index: u32) -> Option<Holder> {
        self.holders.get(&(ifindex, index)).copied()
    }

    /// The NAPI that polls receive queue `index` of the interface `ifindex`.
    pub(in crate::model) fn napi(&self, ifindex: u32, index: u32) -> Option<Napi> {
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
