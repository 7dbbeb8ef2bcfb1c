//! Answers of the kernel to netlink and ioctls.

use rxlab_base::parse::{attribute, one_message, words};
use rxlab_sys::{Cause, EthtoolGet, Query, RecordedHost};

use super::super::drivers::Pairs;
use super::super::losses;
use super::super::truth::{Counted, Damage, Kernel, Nic, Truth};

pub(super) fn render(host: RecordedHost, truth: &Truth) -> RecordedHost {
    let mut host = host;
    let answers = [(Query::Links, links(truth))].into_iter();
    let told = [(Query::Queues, queues(truth)), (Query::Napis, napis(truth))];
    let told = told.into_iter().filter(|_| truth.kernel >= Kernel::V6_8);
    for (query, answer) in answers.chain(told) {
        host = match truth.damage {
            Damage::NetlinkDenied => host.with_failure(&query.path(), Cause::Denied),
            _ => host.with(&query.path(), answer),
        };
    }
    truth.nics.iter().fold(host, |host, nic| ethtool(host, truth, nic))
}

/// One message of attributes.
pub(super) fn message(attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let bytes = attributes.iter().flat_map(|(kind, value)| attribute(*kind, value));
    one_message(&bytes.collect::<Vec<_>>())
}

fn numbers(attributes: &[(u16, u32)]) -> Vec<u8> {
    let bytes = attributes.iter().flat_map(|(kind, value)| attribute(*kind, value.to_ne_bytes()));
    one_message(&bytes.collect::<Vec<_>>())
}

/// Number of the NAPI of a queue.
fn napi(nic: &Nic, queue: usize) -> u32 {
    8193 + nic.number * 256 + u32::try_from(queue).expect("few")
}

/// netdev `queue-get`: index, interface, type, NAPI.
fn queues(truth: &Truth) -> Vec<u8> {
    let mut answer = numbers(&[(1, 0), (3, 0), (2, 1)]);
    for (nic, queue) in truth.nics.iter().flat_map(|nic| (0..nic.rx.len()).map(move |queue| (nic, queue))) {
        for direction in [0, 1] {
            let index = u32::try_from(queue).expect("few");
            let queue = [(1, index), (3, direction), (2, nic.ifindex), (4, napi(nic, queue))];
            answer.extend(numbers(&queue[..if nic.is_told { 4 } else { 3 }]));
        }
    }
    answer
}

/// netdev `napi-get`: NAPI, interface, interrupt.
fn napis(truth: &Truth) -> Vec<u8> {
    let mut answer = Vec::new();
    for nic in truth.nics.iter().filter(|nic| nic.is_told) {
        for (at, queue) in nic.rx.iter().enumerate() {
            let irq = queue.irq.map(|irq| (3, nic.irqs[irq].number));
            let own = [(2, napi(nic, at)), (1, nic.ifindex)];
            answer.extend(numbers(&own.into_iter().chain(irq).collect::<Vec<_>>()));
        }
    }
    answer
}

fn links(truth: &Truth) -> Vec<u8> {
    let index = |name: &str| {
        let device = truth.nic(name).map(|nic| nic.ifindex);
        device.or_else(|| truth.uppers.iter().find(|upper| upper.name == name).map(|upper| upper.ifindex))
    };
    let master = |name: &str| {
        let of = truth
            .uppers
            .iter()
            .find(|upper| upper.kind != "vlan" && upper.lower.iter().any(|lower| lower == name));
        of.map(|upper| upper.ifindex)
    };
    let under = |master: u32| (10, master);
    let mut answer = link(1, "lo", None, [], false);
    for nic in &truth.nics {
        let master = nic.master.as_deref().and_then(index).or_else(|| master(&nic.name));
        answer.extend(link(nic.ifindex, &nic.name, None, master.map(under), nic.has_xdp));
    }
    for upper in &truth.uppers {
        let parent =
            (upper.kind == "vlan").then(|| index(&upper.lower[0])).flatten().map(|parent| (5, parent));
        let ties = parent.into_iter().chain(master(&upper.name).map(under));
        answer.extend(link(upper.ifindex, &upper.name, Some(upper.kind), ties, false));
    }
    for (name, ifindex) in &truth.veths {
        // The other end is number 2 of another namespace.
        let ties = [(5, 2), (37, 0)].into_iter().chain(master(name).map(under));
        answer.extend(link(*ifindex, name, Some("veth"), ties, false));
    }
    answer
}

/// A link with these numbers among its attributes, and perhaps an XDP program in its driver.
fn link(
    ifindex: u32,
    name: &str,
    kind: Option<&str>,
    ties: impl IntoIterator<Item = (u16, u32)>,
    has_xdp: bool,
) -> Vec<u8> {
    let mut message = vec![0; 16];
    message[4..8].copy_from_slice(&ifindex.to_ne_bytes());
    message.extend(attribute(3, format!("{name}\0")));
    message.extend(ties.into_iter().flat_map(|(tie, value)| attribute(tie, value.to_ne_bytes())));
    message.extend(kind.into_iter().flat_map(|kind| attribute(18, attribute(1, format!("{kind}\0")))));
    message.extend(has_xdp.then(|| attribute(43, attribute(2, [1]))).into_iter().flatten());
    one_message(&message)
}

fn ethtool(host: RecordedHost, truth: &Truth, nic: &Nic) -> RecordedHost {
    let path = |get: EthtoolGet| Query::Ethtool(get, nic.name.parse().expect("a name")).path();
    let mut answers = vec![(EthtoolGet::Driver, driver(nic)), (EthtoolGet::Channels, channels(nic))];
    if let Some((usecs, adaptive)) = nic.delay {
        let adaptive = [u8::from(adaptive)];
        answers.push((EthtoolGet::Coalesce, message(&[(2, &usecs.to_ne_bytes()), (11, &adaptive)])));
    }
    if !nic.table.is_empty() {
        let get = if truth.kernel >= Kernel::V6_8 { EthtoolGet::Rss } else { EthtoolGet::RssIoctl };
        answers.push((get, rss(nic, get)));
    }
    let others: Vec<&str> = losses::statistics(truth, nic).into_iter().map(|(name, _)| name).collect();
    if nic.counted == Counted::ByDriver || !others.is_empty() {
        answers.push((EthtoolGet::StatNames, statistic_names(nic, &others)));
    }
    answers.into_iter().fold(host, |host, (get, answer)| match truth.damage {
        Damage::EthtoolDenied => host.with_failure(&path(get), Cause::Denied),
        _ => host.with(&path(get), answer),
    })
}

fn channels(nic: &Nic) -> Vec<u8> {
    let (now, max) = (u32::try_from(nic.rx.len()).expect("few"), nic.max_queues);
    match nic.driver.pairs {
        Pairs::Combined if nic.is_split => {
            numbers(&[(2, max), (6, now), (3, max), (7, now), (5, max), (9, 0)])
        }
        Pairs::Combined => numbers(&[(5, max), (9, now)]),
        Pairs::Apart => numbers(&[(2, max), (6, now), (3, max), (7, now)]),
    }
}

fn driver(nic: &Nic) -> Vec<u8> {
    let mut info = vec![0; 196];
    info[4..4 + nic.driver.name.len()].copy_from_slice(nic.driver.name.as_bytes());
    info[100..100 + nic.function.len()].copy_from_slice(nic.function.as_bytes());
    one_message(&info)
}

fn rss(nic: &Nic, get: EthtoolGet) -> Vec<u8> {
    match get {
        EthtoolGet::Rss => message(&[(3, &1u32.to_ne_bytes()), (4, &words(&nic.table))]),
        // struct ethtool_rxfh: the command, the context, sizes, Toeplitz, the table, no key.
        _ => {
            let size = u32::try_from(nic.table.len()).expect("few");
            one_message(&[words(&[0x46, 0, size, 0, 1, 0]), words(&nic.table)].concat())
        }
    }
}

/// Names of statistics: one of the device, those that count packets by queue, and the others.
fn statistic_names(nic: &Nic, others: &[&str]) -> Vec<u8> {
    let mut names = Vec::new();
    let mut name = |text: String| {
        let mut name = [0; 32];
        name[..text.len()].copy_from_slice(text.as_bytes());
        names.extend(name);
    };
    name("rx_bytes_nic".to_owned());
    let counted = nic.driver.statistic.filter(|_| nic.counted == Counted::ByDriver);
    let queues: Vec<String> = counted
        .into_iter()
        .flat_map(|(before, after)| (0..nic.rx.len()).map(move |queue| format!("{before}{queue}{after}")))
        .collect();
    let count = u32::try_from(1 + queues.len() + others.len()).expect("few");
    queues.into_iter().for_each(&mut name);
    others.iter().for_each(|other| name((*other).to_owned()));
    let head: Vec<u8> = [0x1b, 1, count].iter().flat_map(|number: &u32| number.to_ne_bytes()).collect();
    one_message(&[head, names].concat())
}
