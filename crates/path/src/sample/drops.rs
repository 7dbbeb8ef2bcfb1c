//! Dropped packets so far: counters that are cheap enough to be read several times a second.

use std::collections::BTreeMap;

use super::counters::VirtualNics;
use super::{Inventory, read};
use rxlab_base::parse;
use rxlab_base::units::NicName;
use rxlab_sys::Host;

/// Packets dropped since boot by the backlogs and the interfaces. Sources that cannot be read are missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Drops {
    /// By CPU, or by row where the kernel does not name it. 32 bits wide; they wrap.
    backlogs: BTreeMap<usize, u32>,
    /// Sum of `rx_dropped` and `rx_missed_errors` by interface.
    nics: BTreeMap<NicName, u64>,
}

impl Drops {
    /// Reads the counters of all backlogs and of the interfaces in `inventory`.
    pub fn take(host: &dyn Host, inventory: &Inventory) -> Self {
        let rows = read::parsed(host, "proc/net/softnet_stat", parse::softnet);
        let backlogs = rows.known().into_iter().flatten().enumerate();
        let virtuals = VirtualNics::take(host);
        let nics = inventory.nics.known().into_iter().flatten();
        let nics = nics.filter_map(|raw| Some((raw.name.clone(), virtuals.dropped(host, raw)?)));
        Self {
            backlogs: backlogs
                .map(|(row, columns)| (columns.cpu.map_or(row, |cpu| cpu.0 as usize), columns.dropped))
                .collect(),
            nics: nics.collect(),
        }
    }

    /// Packets dropped since `earlier`. Counters that only one of the two has do not count, and neither do
    /// those of an interface that started over.
    pub fn since(&self, earlier: &Self) -> u64 {
        let backlogs = self.backlogs.iter().filter_map(|(cpu, now)| {
            let before = earlier.backlogs.get(cpu)?;
            Some(u64::from(now.wrapping_sub(*before)))
        });
        let nics = self.nics.iter().filter_map(|(nic, now)| {
            let before = earlier.nics.get(nic)?;
            Some(now.saturating_sub(*before))
        });
        backlogs.chain(nics).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Drops;

    fn drops(backlogs: &[u32], nics: &[(&str, u64)]) -> Drops {
        Drops {
            backlogs: backlogs.iter().copied().enumerate().collect(),
            nics: nics.iter().map(|(name, count)| (name.parse().expect("a name"), *count)).collect(),
        }
    }

    #[test]
    fn backlogs_wrap_and_interfaces_come_and_go() {
        let before = drops(&[u32::MAX - 1, 5], &[("eth0", 100), ("eth1", 50), ("gone", 9)]);
        let after = drops(&[3, 5, 70], &[("eth0", 107), ("eth1", 2), ("new", 800)]);
        assert_eq!(after.since(&before), 5 + 7);
        assert_eq!(before.since(&before), 0);
    }
}
