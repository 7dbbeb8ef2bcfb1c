//! Ethtool responses for `eth0` of the machine made of plain files, which has everything: two combined channels of
//! four, an RSS table of four and two contexts, two flow rules. Composed by hand: no available machine has the last
//! two.

use rxlab_base::parse::ethtool::flow_bytes;
use rxlab_base::parse::{attribute, one_message, words};
use rxlab_sys::{EthtoolGet, Query};

/// Each response and its path.
pub(crate) fn answers() -> Vec<(String, Vec<u8>)> {
    let on = ["rx-gro", "rx-checksum"];
    let all = [&on[..], &["rx-gro-hw", "rx-lro", "rx-udp-gro-forwarding", "rx-ntuple-filter"]].concat();
    let [eight, size, most] = [8u32, 256, 4096].map(u32::to_ne_bytes);
    let rule = |location, text| flow_bytes(location, text).expect("a rule");
    let table = |context: u32, queues: &[u32]| message(&[(2, &context.to_ne_bytes()), (4, &words(queues))]);
    let answers = [
        (EthtoolGet::Channels, answer(&[message(&[(5, &4u32.to_ne_bytes()), (9, &2u32.to_ne_bytes())])])),
        (
            EthtoolGet::Features,
            answer(&[message(&[(2, &bits(&all)), (3, &bits(&on)), (4, &bits(&on)), (5, &bits(&[]))])]),
        ),
        (EthtoolGet::Rings, answer(&[message(&[(2, &most), (5, &most), (6, &size), (9, &size)])])),
        (
            EthtoolGet::Coalesce,
            answer(&[message(&[(2, &eight), (3, &eight), (6, &eight), (7, &eight), (11, &[1]), (12, &[1])])]),
        ),
        (EthtoolGet::Rss, rss(&[0, 1, 0, 1])),
        (EthtoolGet::HashFields, answer(&[1, 2, 5, 6].map(hash_fields))),
        (EthtoolGet::QueueCoalesce, answer(&[0, 1, 2, 3].map(queue_coalesce))),
        (EthtoolGet::RxRings, rings(2)),
        (EthtoolGet::RssContexts, answer(&[table(1, &[1, 1, 1, 1]), table(3, &[0, 0, 1, 1])])),
        (EthtoolGet::Rules, answer(&[rule(7, "udp4 dst-port 53 action 1"), rule(8, "ip6 action -1")])),
    ];
    let path = |get| Query::Ethtool(get, "eth0".parse().expect("a name")).path();
    let ethtool = answers.into_iter().map(|(get, bytes)| (path(get), bytes));
    ethtool.chain([(Query::Links.path(), answer(&[link(4, "eth0"), link(5, "veth0")]))]).collect()
}

/// An interface as rtnetlink reports it, with the two lengths of merged packets.
fn link(index: u32, name: &str) -> Vec<u8> {
    let mut header = vec![0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    let size = 65_536u32.to_ne_bytes();
    [header, message(&[(3, format!("{name}\0").as_bytes()), (58, &size), (64, &size)])].concat()
}

/// An RSS table, with a key.
pub(crate) fn rss(queues: &[u32]) -> Vec<u8> {
    answer(&[message(&[(4, &words(queues)), (5, &[0x6d, 0x5a, 0x56, 0xda])])])
}

/// `struct ethtool_rxnfc` of a kind of flow that is hashed by its addresses.
fn hash_fields(flow: u32) -> Vec<u8> {
    let mut rxnfc = vec![0; 192];
    rxnfc[4..8].copy_from_slice(&flow.to_ne_bytes());
    rxnfc[8] = 0x30;
    rxnfc
}

/// `struct ethtool_per_queue_op` of one queue: 8 microseconds or 8 packets.
fn queue_coalesce(queue: u32) -> Vec<u8> {
    let mut moderation = vec![0; 612];
    (moderation[8], moderation[524], moderation[528]) = (1 << queue, 8, 8);
    moderation
}

/// Number of queues the default table spreads over: `data` of `struct ethtool_rxnfc`.
pub(crate) fn rings(count: u32) -> Vec<u8> {
    let mut rxnfc = vec![0; 192];
    rxnfc[8..16].copy_from_slice(&u64::from(count).to_ne_bytes());
    answer(&[rxnfc])
}

fn message(attributes: &[(u16, &[u8])]) -> Vec<u8> {
    attributes.iter().flat_map(|(kind, value)| attribute(*kind, value)).collect()
}

fn answer(messages: &[Vec<u8>]) -> Vec<u8> {
    messages.iter().flat_map(|message| one_message(message)).collect()
}

fn bits(names: &[&str]) -> Vec<u8> {
    let bit = |name: &&str| attribute(1, [attribute(2, format!("{name}\0")), attribute(3, [])].concat());
    attribute(3, names.iter().flat_map(bit).collect::<Vec<u8>>())
}
