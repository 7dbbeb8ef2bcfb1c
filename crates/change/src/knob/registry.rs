//! The driver of each knob.

use super::Knob;
use super::affinity::Affinity;
use super::channels::NicChannels;
use super::clocksource::CLOCKSOURCE;
use super::coalesce::{
    ADAPTIVE_RX, ADAPTIVE_TX, QUEUE_ADAPTIVE_RX, QUEUE_RX_FRAMES, QUEUE_RX_USECS, RX_FRAMES, RX_USECS,
    TX_FRAMES, TX_USECS,
};
use super::gro_size::{GRO_IPV4_MAX_SIZE, GRO_MAX_SIZE};
use super::irq_affinity::IrqAffinity;
use super::irqbalance::IrqbalanceKnob;
use super::napi::{GRO_FLUSH_TIMEOUT, NAPI_DEFER_HARD_IRQS, THREADED};
use super::napi_affinity::NapiAffinity;
use super::ntuple_rule::NtupleRule;
use super::offload::{GRO, GRO_HW, LRO, NTUPLE, RX_CHECKSUM, UDP_GRO_FORWARDING};
use super::priority::{KSOFTIRQD_PRIORITY, NAPI_PRIORITY};
use super::queue_napi::{
    IRQ_SUSPEND_TIMEOUT, QUEUE_DEFER_HARD_IRQS, QUEUE_GRO_FLUSH_TIMEOUT, QUEUE_THREADED,
};
use super::rfs::{RFS, RFS_ENTRIES};
use super::ring::{RING_RX, RING_TX};
use super::rps::RPS;
use super::rss::RssTable;
use super::rss_context::RssContext;
use super::rss_hash::{
    RSS_FIELDS_TCP4, RSS_FIELDS_TCP6, RSS_FIELDS_UDP4, RSS_FIELDS_UDP6, RSS_KEY, RSS_SYMMETRIC,
};
use super::socket::{NF_CONNTRACK_MAX, RMEM_DEFAULT, RMEM_MAX, SOMAXCONN, TCP_MAX_SYN_BACKLOG};
use super::sysctl::{
    BUSY_POLL, BUSY_READ, DEFAULT_SMP_AFFINITY, DEV_WEIGHT, FLOW_LIMIT_CPUS, GRO_NORMAL_BATCH, NETDEV_BUDGET,
    NETDEV_BUDGET_USECS, NETDEV_MAX_BACKLOG, RPS_DEFAULT_MASK, SKB_DEFER_MAX,
};
use super::xps::{XPS_CPUS, XPS_RXQS};

/// The driver of each row of [`rxlab_setting::TUNABLES`], in the same order.
pub static KNOBS: &[&dyn Knob] = &[
    &IrqbalanceKnob,
    &RING_RX,
    &RING_TX,
    &NicChannels,
    &RSS_KEY,
    &RSS_FIELDS_TCP4,
    &RSS_FIELDS_UDP4,
    &RSS_FIELDS_TCP6,
    &RSS_FIELDS_UDP6,
    &RSS_SYMMETRIC,
    &RssTable,
    &RssContext,
    &NTUPLE,
    &NtupleRule,
    &ADAPTIVE_RX,
    &ADAPTIVE_TX,
    &RX_USECS,
    &RX_FRAMES,
    &TX_USECS,
    &TX_FRAMES,
    &QUEUE_ADAPTIVE_RX,
    &QUEUE_RX_USECS,
    &QUEUE_RX_FRAMES,
    &GRO,
    &GRO_HW,
    &LRO,
    &RX_CHECKSUM,
    &UDP_GRO_FORWARDING,
    &GRO_MAX_SIZE,
    &GRO_IPV4_MAX_SIZE,
    &THREADED,
    &QUEUE_THREADED,
    &NAPI_DEFER_HARD_IRQS,
    &QUEUE_DEFER_HARD_IRQS,
    &GRO_FLUSH_TIMEOUT,
    &QUEUE_GRO_FLUSH_TIMEOUT,
    &IRQ_SUSPEND_TIMEOUT,
    &DEFAULT_SMP_AFFINITY,
    &IrqAffinity,
    &XPS_CPUS,
    &XPS_RXQS,
    &RPS_DEFAULT_MASK,
    &RPS,
    &RFS_ENTRIES,
    &RFS,
    &NETDEV_BUDGET,
    &NETDEV_BUDGET_USECS,
    &NETDEV_MAX_BACKLOG,
    &DEV_WEIGHT,
    &FLOW_LIMIT_CPUS,
    &GRO_NORMAL_BATCH,
    &SKB_DEFER_MAX,
    &BUSY_POLL,
    &BUSY_READ,
    &RMEM_DEFAULT,
    &RMEM_MAX,
    &SOMAXCONN,
    &TCP_MAX_SYN_BACKLOG,
    &NF_CONNTRACK_MAX,
    &CLOCKSOURCE,
    &Affinity,
    &KSOFTIRQD_PRIORITY,
    &NapiAffinity,
    &NAPI_PRIORITY,
];

pub fn find(name: &str) -> Option<&'static dyn Knob> {
    KNOBS.iter().copied().find(|knob| knob.name() == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::KNOBS;
    use crate::knob::{KnobError, testbed};
    use rxlab_base::error::Kind;
    use rxlab_setting::{Risk, Setting, tunable};
    use rxlab_sys::RecordedHost;

    /// What the section of a knob in `docs/knobs.md` lists.
    const LABELS: [&str; 9] = [
        "- Target",
        "- Value",
        "- Example",
        "- Kernel interface",
        "- Kernel documentation",
        "- Since Linux",
        "- Risk",
        "- Lost by",
        "- Beware",
    ];

    /// Files of this directory that are shared by knobs and define none.
    const OTHERS: [&str; 8] =
        ["napi_threads", "error", "ethtool", "file", "registry", "site", "testbed", "value"];

    #[test]
    #[allow(clippy::disallowed_methods)] // The test compares the folder with the slice.
    fn every_file_is_used_and_every_name_is_unique() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/knob");
        let text = std::fs::read_to_string(folder.join("registry.rs")).expect("readable");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .expect("the folder can be listed")
            .map(|entry| entry.expect("listed").file_name().to_string_lossy().replace(".rs", ""))
            .filter(|name| !OTHERS.contains(&name.as_str()))
            .collect();
        for file in &files {
            assert!(text.contains(&format!("use super::{file}::")), "{file}.rs has no knob in KNOBS");
        }
        let names: BTreeSet<&str> = KNOBS.iter().map(|knob| knob.name()).collect();
        assert_eq!(names.len(), KNOBS.len(), "names are unique");
        assert!(files.len() <= names.len(), "a file has no knob");
    }

    /// `docs/knobs.md` has a section for each knob, in the order of applying.
    #[test]
    fn every_knob_is_documented() {
        let mut sections = include_str!("../../../../docs/knobs.md").split("\n## ").skip(1);
        for knob in KNOBS {
            let name = knob.name();
            let section: Vec<&str> = sections.next().unwrap_or(name).split_terminator('\n').collect();
            let [title, "", summary, "", ref list @ ..] = section[..] else { panic!("{name}: {section:?}") };
            assert_eq!(title, name);
            assert!(!summary.is_empty(), "{name}");
            let labels: Vec<&str> = list.iter().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
            assert_eq!(labels, LABELS, "{name}");
            assert!(!section.iter().any(|line| line.contains("  ") || line.ends_with(' ')), "{name}");
            let row = tunable(name).expect("each knob has a row");
            let risk = match row.risk {
                Risk::Safe => "safe: packets keep flowing, a flow may be reordered once",
                Risk::BriefStall => "brief stall: traffic stops for milliseconds",
                Risk::LinkReset => "link reset: the link goes down and up",
            };
            assert_eq!(list[6], format!("- Risk: {risk}"), "{name}");
            assert_eq!(list[3], format!("- Kernel interface: `{}`", row.owner.place()), "{name}");
            let example = list[2].strip_prefix("- Example: `").and_then(|text| text.strip_suffix('`'));
            let example: Setting = example.expect(name).parse().expect("the example is a setting");
            assert_eq!(example.knob, name);
        }
        assert_eq!(sections.next(), None, "a section of no knob");
    }

    #[test]
    fn every_row_has_a_driver() {
        let rows: Vec<&str> = rxlab_setting::TUNABLES.iter().map(|row| row.name).collect();
        let drivers: Vec<&str> = KNOBS.iter().map(|knob| knob.name()).collect();
        assert_eq!(rows, drivers);
    }

    #[test]
    fn every_target_listed_is_one_of_the_knob() {
        let (host, model) = (RecordedHost::new(), testbed::balanced());
        for knob in KNOBS {
            let targets = knob.targets(&model);
            assert!(!targets.is_empty(), "{}", knob.name());
            for target in targets {
                let error = knob.read(knob.site(&host, &model, &target)).expect_err("there is no file");
                assert!(
                    error.kind() != Kind::Usage || matches!(error, KnobError::NotThere { .. }),
                    "{error}"
                );
            }
        }
    }
}
