//! Effect of setting a knob on traffic, and the upkeep it needs: a row for each knob.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Effect of a write on traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Packets keep flowing; their order within a flow may change once.
    Safe,
    /// Traffic stops for milliseconds.
    BriefStall,
    /// The link goes down and up.
    LinkReset,
}

/// Effort to keep a value right once it is set. A reboot loses them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Upkeep {
    /// It stays as long as the interface does.
    Low,
    /// It disappears with queues that are removed, and has to follow interrupts that move.
    Medium,
    /// Others change it by themselves, or it is right only for what runs on the machine today.
    High,
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Risk::Safe => "safe",
            Risk::BriefStall => "brief stall",
            Risk::LinkReset => "link reset",
        })
    }
}

impl fmt::Display for Upkeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Upkeep::Low => "low",
            Upkeep::Medium => "medium",
            Upkeep::High => "high",
        })
    }
}

use Risk::{BriefStall, LinkReset, Safe};
use Upkeep::{High, Low, Medium};

/// Every knob, in the order of applying. The test that this agrees with the registry of knobs is in the
/// registry.
const ROWS: [(&str, Risk, Upkeep); 35] = [
    ("irqbalance", Safe, High),
    ("ring_rx", LinkReset, Low),
    ("ring_tx", LinkReset, Low),
    ("channels", LinkReset, Low),
    ("rss", Safe, Medium),
    ("rss_context", Safe, High),
    ("ntuple", LinkReset, Low),
    ("ntuple_rule", Safe, High),
    ("adaptive_rx", BriefStall, Low),
    ("adaptive_tx", BriefStall, Low),
    ("rx_usecs", Safe, Low),
    ("rx_frames", Safe, Low),
    ("tx_usecs", Safe, Low),
    ("tx_frames", Safe, Low),
    ("gro", Safe, Low),
    ("lro", LinkReset, Low),
    ("rx_checksum", LinkReset, Low),
    ("threaded", Safe, High),
    ("napi_defer_hard_irqs", Safe, Low),
    ("gro_flush_timeout", Safe, Low),
    ("irq_affinity", Safe, High),
    ("xps_cpus", Safe, Medium),
    ("xps_rxqs", Safe, Medium),
    ("rps", Safe, Medium),
    ("rfs_entries", Safe, Low),
    ("rfs", Safe, Medium),
    ("netdev_budget", Safe, Low),
    ("netdev_budget_usecs", Safe, Low),
    ("netdev_max_backlog", Safe, Low),
    ("busy_poll", Safe, Low),
    ("busy_read", Safe, Low),
    ("clocksource", BriefStall, Low),
    ("affinity", Safe, High),
    ("ksoftirqd_priority", Safe, High),
    ("napi_priority", Safe, High),
];

/// Risk and upkeep of a knob's settings; `None` if there is no such knob.
pub fn care(knob: &str) -> Option<(Risk, Upkeep)> {
    place(knob).map(|at| (ROWS[at].1, ROWS[at].2))
}

/// The same for an interface of this driver, where the effect is greater or smaller than for most.
pub(super) fn care_with(knob: &str, driver: Option<&str>) -> Option<(Risk, Upkeep)> {
    let (usual, upkeep) = care(knob)?;
    let risk = match (knob, driver?) {
        // Queues come and go while the link stays; igb, ixgbe and i40e close the device and open it again.
        ("channels", "virtio_net" | "ena") => BriefStall,
        // ixgbe_set_coalesce resets the device when the delay crosses 10 us or large receive offload goes with it.
        ("rx_usecs" | "tx_usecs", "ixgbe") => LinkReset,
        _ => usual,
    };
    Some((risk, upkeep))
}

/// The place of a knob in the order of applying.
pub fn place(knob: &str) -> Option<usize> {
    ROWS.iter().position(|(name, ..)| *name == knob)
}
