//! Ethtool settings on real drivers: queues of virtio-net with their own RSS table, rings and interrupt moderation of
//! e1000e.

use rxlab_base::parse::ethtool::Feature;
use rxlab_path::model::{Fact, Hardware, Model};

use super::guest::{self, Answer};
use crate::process::Ended;

/// Each new value, and the original one.
const VALUES: [(&str, &str); 9] = [
    ("ring_rx eth0 = 128", "256"),
    ("ring_tx eth0 = 128", "256"),
    ("rss eth0 = weights 1,2,1", "default"),
    ("gro eth0 = off", "on"),
    ("ring_rx eth1 = 512", "256"),
    ("ring_tx eth1 = 1000", "256"),
    ("rx_usecs eth1 = 50", "3"),
    ("gro eth1 = off", "on"),
    ("rx_checksum eth1 = off", "on"),
];

/// Settings that these drivers refuse, and a word of the reason.
const REFUSED: [(&str, &str); 6] = [
    ("channels eth0 = 2", "or the RSS table"),
    ("ring_rx eth1 = 1001", "asked for 1001, the driver rounded it to 1008"),
    ("rx_usecs eth1 = 20000", "the driver does not accept this value"),
    ("rx_usecs eth0 = 10", "the driver reports it but does not let it be set"),
    ("adaptive_rx eth1 = on", "the driver has no such setting"),
    ("rss_context eth0/context-1 = equal 1", "Linux can since 6.12"),
];

fn job() -> String {
    let settings: String = VALUES.iter().map(|(setting, _)| format!(" --setting '{setting}'")).collect();
    let refused = REFUSED.iter().enumerate();
    let refused =
        refused.map(|(at, (setting, _))| format!("ran 'refused {at}' rxlab apply --setting '{setting}'\n"));
    [
        "ran before rxlab show --json\n",
        &format!("ran apply rxlab apply{settings}\n"),
        "ran applied rxlab show --json\n",
        &refused.collect::<String>(),
        "ran status rxlab status\n",
        "ran undo rxlab undo\n",
        "ran undone rxlab show --json\n",
        "ran fewer rxlab apply --setting 'channels eth0 = 2'\n",
        "ran back rxlab undo\n",
        "ran last rxlab show --json\n",
    ]
    .concat()
}

fn hardware(model: &Model, nic: usize) -> &Hardware {
    &model.nics[nic].hardware
}

fn is_on(model: &Model, nic: usize, name: &str) -> bool {
    let named = |feature: &&Feature| feature.name == name;
    hardware(model, nic).features.known().expect("listed").iter().find(named).expect("known").on
}

#[test]
fn ethtool_settings_are_applied_and_restored() {
    let Some(answer) = guest::run("4cpu-knobs", &job(), None) else { return };
    let before = answer.model("before");
    let names: Vec<_> = before.nics.iter().map(|nic| nic.driver.as_deref()).collect();
    assert_eq!(names[..2], [Some("virtio_net"), Some("e1000e")]);

    let text = answer.ran("apply").exits(0);
    for (setting, was) in VALUES {
        assert!(text.contains(&format!("{setting}  (was {was})\n")), "{setting}: {text}");
    }
    values_are_in_force(&answer.model("applied"));
    for (at, (setting, why)) in REFUSED.iter().enumerate() {
        let (code, text) = answer.ran(&format!("refused {at}"));
        assert!(matches!(code, 3 | 5) && text.contains(why), "{setting}: {code}: {text}");
    }
    let (code, text) = answer.ran("status");
    assert!(code == 0 && text.matches("  kept\n").count() == VALUES.len(), "{code}: {text}");
    goes_back(&answer, "undo", "undone", &before);

    // The table was not rewritten but is the kernel's default again: it rules out no number of queues.
    answer.ran("fewer").exits(0);
    goes_back(&answer, "back", "last", &before);
}

fn values_are_in_force(model: &Model) {
    let weights = hardware(model, 0).rss.known().expect("a table").weights();
    assert_eq!(weights, [(0, 32), (1, 64), (2, 32)].into());
    let rings = |nic: usize| {
        let rings = hardware(model, nic).rings.known().expect("both have rings");
        (rings.rx.map(|ring| ring.now), rings.tx.map(|ring| ring.now))
    };
    assert_eq!((rings(0), rings(1)), ((Some(128), Some(128)), (Some(512), Some(1000))));
    assert_eq!(hardware(model, 1).coalesce.known().and_then(|coalesce| coalesce.rx_usecs), Some(50));
    assert!(!is_on(model, 0, "rx-gro") && !is_on(model, 1, "rx-gro") && !is_on(model, 1, "rx-checksum"));
}

/// Without the link speed: after a link reset it is unknown until the link is up again.
fn settings(model: &Model, nic: usize) -> Hardware {
    Hardware { speed_mbits: Fact::NotAsked, ..hardware(model, nic).clone() }
}

fn goes_back(answer: &Answer, undo: &str, shown: &str, before: &Model) {
    answer.ran(undo).exits(0);
    let after = answer.model(shown);
    for nic in 0..2 {
        assert_eq!(settings(&after, nic), settings(before, nic), "{shown}: eth{nic}");
    }
}
