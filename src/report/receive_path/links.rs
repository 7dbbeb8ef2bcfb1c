//! Sources that link queues to interrupts: a mark where a link is weaker than the others.

use crate::model::{Irq, Nic, Source};
use crate::report::text::paragraph;

/// Name of a source, after `known by`.
pub(super) fn words(source: Source) -> &'static str {
    match source {
        Source::Netlink => "the kernel (netdev netlink)",
        Source::MsiName => "the device's MSI list and the interrupt's name",
        Source::Name => "the interrupt's name alone",
    }
}

/// Marks for links that are weaker than the strongest one shown.
pub(super) struct Marks {
    strongest: Source,
    weaker: Vec<Source>,
}

impl Marks {
    /// Marks for the interrupts of the queues of `nics`.
    pub(super) fn of<'a>(nics: impl IntoIterator<Item = &'a Nic>) -> Self {
        let irqs = nics.into_iter().flat_map(|nic| &nic.rx).flat_map(|queue| &queue.irqs);
        let mut sources: Vec<Source> = irqs.map(|irq| irq.source).collect();
        sources.sort_unstable();
        sources.dedup();
        let mut sources = sources.into_iter();
        Self { strongest: sources.next().unwrap_or_default(), weaker: sources.collect() }
    }

    /// The number of an interrupt, with its mark in front.
    pub(super) fn number(&self, irq: &Irq) -> String {
        format!("{}{}", self.mark(irq.source), irq.number)
    }

    fn mark(&self, source: Source) -> &'static str {
        match source {
            source if source == self.strongest => "",
            Source::Name => "?",
            _ => "~",
        }
    }

    /// Meaning of the marks; empty if there are none.
    pub(super) fn legend(&self) -> String {
        let line = |source: &Source| {
            let text = format!("queue known by {}; unmarked: by {}", words(*source), words(self.strongest));
            paragraph(&format!("{} ", self.mark(*source)), &text)
        };
        self.weaker.iter().map(line).collect()
    }
}
