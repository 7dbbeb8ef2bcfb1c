//! Lines of scripts that mention a knob: as a file, a sysctl, or in a command of ethtool(8).

use rxlab_base::parse::has_word;
use rxlab_setting::{Owner, tunable};

/// Words of which a line has one.
type OneOf = Vec<String>;

/// Other forms of the options of ethtool(8) that set something.
const OPTIONS: [(&str, &[&str]); 7] = [
    ("-G", &["--set-ring"]),
    ("-C", &["--coalesce"]),
    ("-L", &["--set-channels"]),
    ("-K", &["--features", "--offload"]),
    ("-X", &["--set-rxfh-indir", "--rxfh"]),
    ("-N", &["-U", "--config-nfc", "--config-ntuple"]),
    ("-Q", &["--per-queue"]),
];

/// The program, or the variables of ifcfg files that have its arguments.
const ETHTOOL: [&str; 3] = ["ethtool", "ETHTOOL_OPTS", "ETHTOOL_OPTIONS"];

/// Prefixes of the options that Debian's ethtool adds to interfaces(5), by the option of ethtool(8) that they lead to.
const STANZA: [(&str, &str); 3] =
    [("-G", "hardware-dma-ring-"), ("-C", "hardware-irq-coalesce-"), ("-K", "offload-")];

/// True if a line of a script mentions a knob; `smp_affinity_list` is as good as `smp_affinity`.
pub(super) fn is_mentioned(line: &str, knob: &str) -> bool {
    let has = |word: &String| has_word(line, word) || has_word(line, &format!("{word}_list"));
    let words = words(knob);
    let in_command = !words.is_empty() && words.iter().all(|one_of| one_of.iter().any(has));
    in_command || stanza(knob).is_some_and(|option| line.split_whitespace().next() == Some(&option))
}

/// Words that a line has if it sets a knob: one of each list.
fn words(knob: &str) -> Vec<OneOf> {
    let last = |path: &str| vec![vec![path.rsplit('/').next().unwrap_or(path).to_owned()]];
    match tunable(knob).map(|row| row.owner) {
        Some(Owner::HostFile(path, _) | Owner::NicFile(path, _) | Owner::QueueFile(_, path, _)) => last(path),
        Some(Owner::Ethtool(group, word, _)) => ethtool(&[group.set, word]),
        Some(Owner::Words(group, _)) => ethtool(&[group.set]),
        Some(Owner::IrqAffinity) => last("smp_affinity"),
        Some(Owner::Sysctl(key, _)) => last(&key.replace('.', "/")),
        _ => match knob {
            "rss" | "rss_context" | "rss_key" | "rss_symmetric" => ethtool(&["-X"]),
            "ntuple_rule" => ethtool(&["-N", "action"]),
            "gro_max_size" | "gro_ipv4_max_size" => last(knob),
            "queue_adaptive_rx" => ethtool(&["-Q", "adaptive-rx"]),
            "queue_rx_usecs" => ethtool(&["-Q", "rx-usecs"]),
            "queue_rx_frames" => ethtool(&["-Q", "rx-frames"]),
            _ => match knob.strip_prefix("rss_fields_") {
                Some(kind) => ethtool(&["rx-flow-hash", kind]),
                None => Vec::new(),
            },
        },
    }
}

/// A command of ethtool(8) with these words, options in each of their forms.
fn ethtool(words: &[&str]) -> Vec<OneOf> {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<OneOf>();
    let forms = |word: &str| {
        let others = OPTIONS.iter().find(|(short, _)| *short == word).map_or(&[][..], |(_, others)| others);
        owned(&[&[word], others].concat())
    };
    [owned(&ETHTOOL)].into_iter().chain(words.iter().map(|word| forms(word))).collect()
}

/// The option of interfaces(5) that sets a knob.
fn stanza(knob: &str) -> Option<String> {
    let Some(Owner::Ethtool(group, word, _)) = tunable(knob).map(|row| row.owner) else { return None };
    let (_, prefix) = STANZA.iter().find(|(set, _)| *set == group.set)?;
    Some(format!("{prefix}{word}"))
}

#[cfg(test)]
mod tests {
    use super::is_mentioned;

    #[test]
    fn options_of_ethtool_have_several_forms() {
        for (line, knob) in [
            ("up ethtool --set-ring eth0 rx 99", "ring_rx"),
            ("up ethtool -G eth0 rx 99", "ring_rx"),
            ("ethtool --coalesce eth0 rx-usecs 9", "rx_usecs"),
            ("ethtool --offload eth0 gro off", "gro"),
            ("/usr/sbin/ethtool --features eth0 ntuple on", "ntuple"),
            ("ethtool --set-channels eth0 combined 4", "channels"),
            ("ethtool --set-rxfh-indir eth0 equal 4", "rss"),
            ("ethtool --rxfh eth0 hkey 6d:5a", "rss_key"),
            ("ethtool -U eth0 flow-type tcp4 action 2", "ntuple_rule"),
            ("ethtool --config-nfc eth0 rx-flow-hash udp4 sdfn", "rss_fields_udp4"),
            ("ethtool --per-queue eth0 queue_mask 1 --coalesce rx-usecs 9", "queue_rx_usecs"),
            ("ETHTOOL_OPTS=\"-G ${DEVICE} rx 4096\"", "ring_rx"),
            ("ETHTOOL_OPTIONS='-K iface gro off'", "gro"),
            ("hardware-dma-ring-rx 4096", "ring_rx"),
            ("hardware-irq-coalesce-adaptive-rx off", "adaptive_rx"),
            ("offload-gro off", "gro"),
            ("echo 2 > /proc/irq/24/smp_affinity_list", "irq_affinity"),
            ("sysctl -w net.core.netdev_budget=600", "netdev_budget"),
        ] {
            assert!(is_mentioned(line, knob), "{knob}: {line}");
        }
    }

    #[test]
    fn near_misses() {
        for (line, knob) in [
            ("up ethtool --set-ring eth0 tx 99", "ring_rx"),
            ("up ethtool --show-ring eth0 rx", "ring_rx"),
            ("ethtool --set-ring eth0 rx 99", "rx_checksum"),
            ("offload-gso off", "gro"),
            ("hardware-dma-ring-rx-mini 9", "ring_rx"),
            ("iptables -G rx", "ring_rx"),
            ("ethtool -X eth0 equal 4", "affinity"),
        ] {
            assert!(!is_mentioned(line, knob), "{knob}: {line}");
        }
    }
}
