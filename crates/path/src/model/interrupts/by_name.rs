//! What the names of a device's interrupts mean together.

use std::collections::BTreeSet;

use crate::drivers::{self, Bare};
use crate::model::irq_names::Serves;
use crate::sample::{Irq, RxQueue, Source};
use rxlab_base::units::IrqId;

/// What the names of a device's interrupts mean together.
pub(super) struct ByName {
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
    pub(super) fn new(
        rx: &[RxQueue],
        driver: Option<&str>,
        found: &[(&Irq, Source, Option<Serves>)],
    ) -> Self {
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
    pub(super) fn queues(&self, raw: &Irq, serves: Option<Serves>) -> Vec<u32> {
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
