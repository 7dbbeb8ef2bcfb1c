//! Capabilities and settings of device and driver, each in a line of text.

use super::cells::ranges;
use rxlab_base::parse::ethtool::{
    Channels, Coalesce, Count, DriverInfo, Feature, FlowAction, FlowRule, Rings, Rss,
};
use rxlab_path::model::Function;

/// Offloads that change the work of the receiving CPU, by the kernel's names.
const RECEIVE: [&str; 10] = [
    "rx-gro",
    "rx-gro-hw",
    "rx-gro-list",
    "rx-udp-gro-forwarding",
    "rx-lro",
    "rx-checksum",
    "rx-hashing",
    "rx-ntuple-filter",
    "rx-vlan-hw-parse",
    "hw-tc-offload",
];

pub(super) fn driver(info: &DriverInfo) -> String {
    let mut text = info.driver.clone();
    if !info.version.is_empty() {
        text += &format!(" {}", info.version);
    }
    if !info.firmware.is_empty() {
        text += &format!(", firmware {}", info.firmware);
    }
    text
}

/// PCI function; `None` if not reported.
pub(super) fn function(function: &Function) -> Option<String> {
    Some(match function {
        Function::Plain => return None,
        Function::Physical { vfs, max } => format!("physical, with {vfs} of {max} virtual functions"),
        Function::Virtual { physical: Some(physical) } => format!("virtual function of {physical}"),
        Function::Virtual { physical: None } => "virtual function, physical function not visible".to_owned(),
        Function::Paravirtual => "paravirtual: made by the hypervisor".to_owned(),
    })
}

pub(super) fn channels(channels: &Channels) -> String {
    counts([
        ("combined", channels.combined),
        ("rx", channels.rx),
        ("tx", channels.tx),
        ("other", channels.other),
    ])
}

pub(super) fn rings(rings: &Rings) -> String {
    counts([("rx", rings.rx), ("rx mini", rings.rx_mini), ("rx jumbo", rings.rx_jumbo), ("tx", rings.tx)])
}

/// `rx 256 of 1024, tx 256 of 1024`.
fn counts<const N: usize>(counts: [(&str, Option<Count>); N]) -> String {
    let told = counts.into_iter().filter_map(|(name, count)| {
        let Count { now, max } = count?;
        Some(format!("{name} {now} of {max}"))
    });
    or_nothing(told.collect(), ", ")
}

pub(super) fn coalesce(coalesce: &Coalesce) -> String {
    let side = |name: &str, adaptive: Option<bool>, usecs: Option<u32>, frames: Option<u32>| {
        let adaptive = adaptive.map(|on| format!("adaptive {}", if on { "on" } else { "off" }));
        let usecs = usecs.map(|usecs| format!("{usecs} us"));
        let frames = frames.map(|frames| format!("{frames} frames"));
        let parts: Vec<String> = [adaptive, usecs, frames].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("{name} {}", parts.join(", ")))
    };
    let sides = [
        side("rx", coalesce.adaptive_rx, coalesce.rx_usecs, coalesce.rx_frames),
        side("tx", coalesce.adaptive_tx, coalesce.tx_usecs, coalesce.tx_frames),
    ];
    or_nothing(sides.into_iter().flatten().collect(), "; ")
}

/// Hash function, key, and the number of table entries per queue; queues with the same number are one range.
pub(super) fn rss(rss: &Rss) -> String {
    let function = rss.function.clone().unwrap_or_else(|| "no hash function shown".to_owned());
    let key = match &rss.key {
        Some(key) => format!("key of {} bytes", key.len() / 2),
        None => "no key shown".to_owned(),
    };
    let mut by_weight = std::collections::BTreeMap::<usize, Vec<u32>>::new();
    for (queue, weight) in rss.weights() {
        by_weight.entry(weight).or_default().push(queue);
    }
    let parts = by_weight.into_iter().rev().map(|(weight, queues)| {
        let each = if queues.len() > 1 { " each" } else { "" };
        format!("rx {}: {weight}{each}", ranges(queues))
    });
    let table = or_nothing(parts.collect(), ", ");
    format!("{function}, {key}, table of {}: {table}", rss.table.len())
}

pub(super) fn rule(rule: &FlowRule) -> String {
    let action = match rule.action {
        FlowAction::Drop => "dropped".to_owned(),
        FlowAction::Queue(queue) => format!("rx-{queue}"),
        FlowAction::Context { context, queue: 0 } => format!("RSS context {context}"),
        FlowAction::Context { context, queue } => format!("RSS context {context}, {queue} added"),
        FlowAction::VirtualFunction { vf, queue } => format!("virtual function {vf}, rx-{queue}"),
        FlowAction::WakeOnLan => "wake-on-LAN".to_owned(),
    };
    let fields = rule.spec.fields.iter().map(|field| format!(" {field}")).collect::<String>();
    format!("[{}] {}{fields} -> {action}", rule.location, rule.spec.kind)
}

/// Receive offloads by name, the number of others.
pub(super) fn features(features: &[Feature]) -> String {
    let matters = |feature: &&Feature| RECEIVE.contains(&feature.name.as_str());
    let mut parts: Vec<String> = features
        .iter()
        .filter(matters)
        .map(|feature| {
            let fixed = if feature.changeable { "" } else { " (fixed)" };
            format!("{} {}{fixed}", feature.name, if feature.on { "on" } else { "off" })
        })
        .collect();
    let others = features.iter().filter(|feature| !matters(feature)).count();
    let on = features.iter().filter(|feature| !matters(feature) && feature.on).count();
    if others > 0 {
        parts.push(format!("{on} of {others} others on"));
    }
    or_nothing(parts, ", ")
}

fn or_nothing(parts: Vec<String>, between: &str) -> String {
    if parts.is_empty() { "not reported".to_owned() } else { parts.join(between) }
}

#[cfg(test)]
mod tests {
    use super::{channels, coalesce, function, rss, rule};
    use rxlab_base::parse::ethtool::{Channels, Coalesce, FlowAction, FlowRule, FlowSpec, Rss};
    use rxlab_path::model::Function;

    #[test]
    fn functions_in_words() {
        let text = |of: Function| function(&of).unwrap_or_default();
        assert_eq!(text(Function::Plain), "");
        assert_eq!(text(Function::Physical { vfs: 2, max: 64 }), "physical, with 2 of 64 virtual functions");
        assert_eq!(
            text(Function::Virtual { physical: None }),
            "virtual function, physical function not visible"
        );
    }

    #[test]
    fn unreported_values_are_not_zero() {
        assert_eq!(channels(&Channels::default()), "not reported");
        assert_eq!(coalesce(&Coalesce { rx_usecs: Some(0), ..Coalesce::default() }), "rx 0 us");
    }

    #[test]
    fn tables_are_weights_by_queue() {
        let text = |table: Vec<u32>| rss(&Rss { table, ..Rss::default() });
        let unknown = "no hash function shown, no key shown, table of";
        assert_eq!(text((0..128).map(|n| n % 8).collect()), format!("{unknown} 128: rx 0-7: 16 each"));
        assert_eq!(text(vec![5, 5, 5, 2]), format!("{unknown} 4: rx 5: 3, rx 2: 1"));
        assert_eq!(text(Vec::new()), format!("{unknown} 0: not reported"));
    }

    #[test]
    fn rules_show_their_action() {
        let text = |action| {
            let spec = FlowSpec { kind: "udp6".into(), fields: vec!["dst-port 53".into()] };
            rule(&FlowRule { location: 3, spec, action })
        };
        assert_eq!(text(FlowAction::Drop), "[3] udp6 dst-port 53 -> dropped");
        assert_eq!(
            text(FlowAction::Context { context: 1, queue: 2 }),
            "[3] udp6 dst-port 53 -> RSS context 1, 2 added"
        );
        let vf = FlowAction::VirtualFunction { vf: 0, queue: 4 };
        assert_eq!(text(vf), "[3] udp6 dst-port 53 -> virtual function 0, rx-4");
    }
}
