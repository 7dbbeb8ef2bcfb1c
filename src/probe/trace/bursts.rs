//! Runs of NET_RX of one CPU that follow each other closely.

use super::spread::Lengths;
use super::summary::{Burst, Spread};
use crate::units::CpuId;

/// The burst under way, and the lengths of those before.
#[derive(Debug, Default)]
pub(super) struct Bursts {
    open: Option<Burst>,
    lengths: Lengths,
}

impl Bursts {
    /// Longer than the pause that interrupt moderation makes between two runs of one stream of packets (some
    /// tens of microseconds), shorter than the pauses between the answers of a client.
    pub(super) const GAP: u64 = 100_000;

    /// Adds a run of NET_RX. Returns the burst that was over before, without its `cpu` and with the time of
    /// the runs.
    pub(super) fn run(&mut self, began: u64, ended: u64, packets: u64) -> Option<Burst> {
        if let Some(open) = &mut self.open
            && began.saturating_sub(open.at_ns.saturating_add(open.ns)) < Self::GAP
        {
            open.ns = ended.saturating_sub(open.at_ns);
            open.runs += 1;
            open.packets += packets;
            return None;
        }
        let over = self.end();
        let ns = ended.saturating_sub(began);
        self.open = Some(Burst { cpu: CpuId(0), at_ns: began, ns, runs: 1, packets });
        over
    }

    /// Ends the burst under way.
    pub(super) fn end(&mut self) -> Option<Burst> {
        let over = self.open.take()?;
        self.lengths.add(over.ns);
        Some(over)
    }

    /// Lengths of all bursts that are over.
    pub(super) fn lengths(&self) -> Spread {
        self.lengths.spread()
    }
}

#[cfg(test)]
mod tests {
    use super::Bursts;

    #[test]
    fn a_burst_ends_where_the_gap_is_as_long_as_the_bound() {
        let mut bursts = Bursts::default();
        assert_eq!(bursts.run(1_000, 3_000, 5), None);
        assert_eq!(bursts.run(3_000 + Bursts::GAP - 1, 110_000, 2), None);
        let over = bursts.run(110_000 + Bursts::GAP, 300_000, 1).expect("the gap was long enough");
        assert_eq!((over.at_ns, over.ns, over.runs, over.packets), (1_000, 109_000, 2, 7));
        assert_eq!(bursts.end().expect("one was under way").runs, 1);
        assert_eq!((bursts.end(), bursts.lengths().count), (None, 2));
    }
}
