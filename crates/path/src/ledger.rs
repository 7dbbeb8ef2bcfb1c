//! The ledger of lost packets: each counter that the kernel has for them, from the wire to the program, and what was not
//! read of it.
//!
//! "No drops" is true of a machine only if every stage was read: [`Ledger::verdict`] decides that, and nothing else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::drivers::{LossKind, loss_kind};
use crate::drop_reasons::DropReasons;
use crate::model::{Fact, Model, Nic, NicKind, NicRates, Rates};
use crate::sample::{COUNTERS, DEVICE_LOSSES, Meaning, VIRTUAL_LOSSES, reason};
pub use crate::sample::{FILTERS, Stage, Unread};
use rxlab_base::number::count;
use rxlab_base::units::NicName;

/// Losses of a machine between two samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ledger {
    /// Counters that grew, from the wire to the program.
    pub lines: Vec<Line>,
    /// Statistics of drivers that grew and are losses by their name, if it is not known what they count; no losses here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unclear: Vec<Line>,
    /// Sources that were not read.
    pub unread: Vec<Unread>,
    /// Lost packets and connections per second, each counted once: a lower bound, because several counters may have the
    /// same packet.
    pub per_second: f64,
    /// The kernel's reasons for the packets that it freed after the sample.
    #[serde(default)]
    pub reasons: Fact<DropReasons>,
}

/// A counter that grew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Line {
    /// Place of the loss.
    pub stage: Stage,
    /// The interface that counts it, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<NicName>,
    /// Name of the counter.
    pub counter: String,
    /// Its growth per second.
    pub per_second: f64,
    /// False for an event that precedes a loss, and for packets that another counter has as well.
    pub is_loss: bool,
}

/// Losses in a word or two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// Packets or connections per second.
    Lost(f64),
    /// Every source was read, and none grew.
    None,
    /// What was read and is understood did not grow.
    Unknown,
}

/// Kinds of virtual interfaces that hand what they send to a receiver on this machine: the other end, a virtual
/// machine, or, of an ifb, the stack. What others send and drop is not received by anyone here.
const HANDING_OVER: [&str; 4] = ["veth", "netkit", "tun", "ifb"];

/// Reasons in text.
const REASONS: usize = 5;

/// The counters of an interface's queues, added up.
const QUEUES: &str = "drops of its queues";

impl Ledger {
    /// The ledger of the interfaces in `model`, which must be of the same machine as the rates.
    pub fn new(model: &Model, rates: &Rates) -> Self {
        let mut ledger = Self::default();
        let backlog = backlog(rates);
        let (mut device, mut received, mut sent) = (0.0, 0.0, 0.0);
        let mut missing: BTreeMap<(Stage, &str), Vec<&NicName>> = BTreeMap::new();
        for nic in &model.nics {
            let Some(counted) = rates.nic(&nic.name) else {
                missing.entry((Stage::Interface, "counters")).or_default().push(&nic.name);
                continue;
            };
            for counter in expected(nic).filter(|counter| !counted.losses.contains_key(*counter)) {
                missing.entry((stage(nic, counter), counter)).or_default().push(&nic.name);
            }
            device += by_device(nic, counted);
            let own = by_interface(nic, counted, rates);
            (received, sent) = (received + own.received, sent + own.sent);
            ledger.add_interface(nic, counted);
        }
        ledger.unread.extend(missing.into_iter().map(|((stage, counter), nics)| Unread {
            stage,
            source: format!("{counter} of {}", named(&nics)),
            why: "missing".to_owned(),
        }));
        let statistics = model.nics.iter().filter_map(|nic| {
            let why = rates.nic(&nic.name)?.unread.clone()?;
            Some(Unread { stage: Stage::Device, source: format!("ethtool -S of {}", nic.name), why })
        });
        ledger.unread.extend(statistics);
        ledger.line(Stage::Backlog, None, "softnet_stat dropped", backlog, true);
        let gap = rates.gaps.iter().find_map(|gap| gap.strip_prefix("packets by CPU: "));
        if let Some(why) = gap.or(rates.cpus.is_empty().then_some("no CPU was counted")) {
            let source = "/proc/net/softnet_stat".to_owned();
            ledger.unread.push(Unread { stage: Stage::Backlog, source, why: why.to_owned() });
        }
        let behind = ledger.add_behind(model, rates);
        ledger.lines.sort_by_key(|line| line.stage);
        ledger.unread.sort_by(|a, b| (a.stage, &a.source).cmp(&(b.stage, &b.source)));
        // What a full backlog drops is also `rx_dropped` of the interface that it came by, of any namespace, and
        // `tx_dropped` of the other end of a veth.
        ledger.per_second = device + received.max(sent).max(backlog) + behind;
        ledger.reasons = rates.drop_reasons.clone();
        ledger
    }

    fn line(&mut self, stage: Stage, nic: Option<&NicName>, counter: &str, per_second: f64, is_loss: bool) {
        if per_second > 0.0 {
            let (nic, counter) = (nic.cloned(), counter.to_owned());
            self.lines.push(Line { stage, nic, counter, per_second, is_loss });
        }
    }

    fn add_interface(&mut self, nic: &Nic, counted: &NicRates) {
        for (counter, rate) in counted.losses.iter().filter(|(_, rate)| **rate > 0.0) {
            if counter == "tx_dropped" && !hands_over(nic) || loss_kind(counter) == Some(LossKind::Paused) {
                continue;
            }
            let stage = stage(nic, counter);
            if stage == Stage::Device && loss_kind(counter) == Some(LossKind::Unclear) {
                let (nic, counter) = (Some(nic.name.clone()), counter.clone());
                let line = Line { stage, nic, counter, per_second: *rate, is_loss: false };
                self.unclear.push(line);
                continue;
            }
            self.line(stage, Some(&nic.name), counter, *rate, stage != Stage::Device || is_lost(counter));
        }
        let queues = counted.queue_drops.values().sum();
        self.line(Stage::Device, Some(&nic.name), QUEUES, queues, true);
    }

    /// Adds what is lost behind the backlogs, and returns its sum.
    fn add_behind(&mut self, model: &Model, rates: &Rates) -> f64 {
        let Fact::Known(losses) = &rates.losses else {
            let why = reason(&rates.losses);
            let sources = [
                (Stage::Tc, "queueing disciplines"),
                (Stage::Conntrack, "/proc/net/stat/nf_conntrack"),
                (Stage::Socket, "/proc/net/snmp"),
            ];
            for (stage, source) in sources {
                self.unread.push(Unread { stage, source: source.to_owned(), why: why.clone() });
            }
            return 0.0;
        };
        self.unread.extend(losses.unread.iter().cloned());
        if let Some(nic) = model.nics.iter().find(|nic| leads_away(nic) && rates.rx_packets(&nic.name) > 0.0)
        {
            self.unread.push(Unread {
                stage: Stage::Socket,
                source: "sockets of other network namespaces".to_owned(),
                why: format!("{} leads to one; sample it with --netns", nic.name),
            });
        }
        let mut sum = 0.0;
        for (name, place, rate) in &losses.tc {
            if is_lost_here(model.nic(name), place) {
                self.line(Stage::Tc, Some(name), place, *rate, true);
                sum += rate;
            }
        }
        for counter in &COUNTERS {
            let rate = losses.rate(counter.name);
            match counter.meaning {
                Meaning::Lost => sum += rate,
                Meaning::Sign => {}
                Meaning::Arrived | Meaning::Level => continue,
            }
            self.line(counter.stage, None, counter.name, rate, counter.meaning == Meaning::Lost);
        }
        sum
    }

    /// The ledger of a report that has none: those of earlier versions.
    pub fn unasked() -> Self {
        let unread = Unread {
            stage: Stage::Device,
            source: "the ledger".to_owned(),
            why: "an earlier version of rxlab wrote this report".to_owned(),
        };
        Self { unread: vec![unread], ..Self::default() }
    }

    /// The decision that no packet was lost, or that this is not known.
    pub fn verdict(&self) -> Verdict {
        if self.per_second > 0.0 {
            Verdict::Lost(self.per_second)
        } else if self.unread.is_empty() && self.unclear.is_empty() {
            Verdict::None
        } else {
            Verdict::Unknown
        }
    }

    /// `12 drops/s`, `no drops`, `no drops counted`: the last if a source was not read. `maybe drops: eth0 rx_new_drops 12/s` of
    /// one that grew and is not understood.
    pub fn in_words(&self) -> String {
        match (self.verdict(), self.maybe()) {
            (Verdict::Lost(rate), _) => format!("{} drops/s", count(rate)),
            (Verdict::None, _) => "no drops".to_owned(),
            (Verdict::Unknown, Some(maybe)) => format!("maybe drops: {maybe}"),
            (Verdict::Unknown, None) => "no drops counted".to_owned(),
        }
    }

    /// The statistic that grew most of those that are not understood: `eth0 rx_new_drops 12/s`.
    pub fn maybe(&self) -> Option<String> {
        let most = self.unclear.iter().max_by(|a, b| a.per_second.total_cmp(&b.per_second))?;
        let nic = most.nic.as_ref().map_or("", |nic| nic.as_str());
        Some(format!("{nic} {} {}/s", most.counter, count(most.per_second)))
    }

    /// Sources that were not read, one line for each stage: `drops at sockets: /proc/net/snmp (missing)`; and what is not
    /// understood of the others.
    pub fn gaps(&self) -> Vec<String> {
        let mut stages: BTreeMap<Stage, Vec<String>> = BTreeMap::new();
        for Unread { stage, source, why } in &self.unread {
            stages.entry(*stage).or_default().push(format!("{source} ({why})"));
        }
        let line = |(stage, sources): (Stage, Vec<String>)| {
            format!("drops, {stage}: not read: {}", sources.join(", "))
        };
        let reasons = match &self.reasons {
            Fact::Known(_) | Fact::NotAsked => None,
            absent => Some(format!("drops: reasons of the kernel not counted: {}", reason(absent))),
        };
        let unclear = self.unclear.iter().map(|line| {
            let nic = line.nic.as_ref().map_or("", |nic| nic.as_str());
            let rate = count(line.per_second);
            format!(
                "drops, {}: {nic} {} rises by {rate}/s, its meaning is not known",
                line.stage, line.counter
            )
        });
        stages.into_iter().map(line).chain(unclear).chain(reasons).collect()
    }

    /// [`Ledger::counters`], and the kernel's reasons.
    pub fn in_lines(&self) -> Vec<String> {
        let mut lines = self.counters();
        lines.extend(self.reasons.known().map(|reasons| format!("reasons: {}", reasons.in_words(REASONS))));
        lines
    }

    /// Counters that grew, one line for each stage: `socket: UdpRcvbufErrors 900/s`.
    pub fn counters(&self) -> Vec<String> {
        let mut stages: BTreeMap<Stage, Vec<String>> = BTreeMap::new();
        for line in &self.lines {
            let of = line.nic.as_ref().map_or(String::new(), |nic| format!("{nic} "));
            let text = format!("{of}{} {}/s", line.counter, count(line.per_second));
            stages.entry(line.stage).or_default().push(text);
        }
        stages.into_iter().map(|(stage, lines)| format!("{stage}: {}", lines.join(", "))).collect()
    }
}

/// True for a counter of a device each of which is a lost packet.
fn is_lost(counter: &str) -> bool {
    loss_kind(counter).is_some_and(LossKind::is_lost)
}

/// What a device lost, by counter: those that grew, most first.
pub fn counted_by_device<'a>(nic: &Nic, counted: &'a NicRates) -> Vec<(&'a str, f64)> {
    let own = counted.losses.iter().map(|(counter, rate)| (counter.as_str(), *rate));
    let own = own.filter(|(name, rate)| *rate > 0.0 && stage(nic, name) == Stage::Device && is_lost(name));
    let queues = (QUEUES, counted.queue_drops.values().sum());
    let mut grew: Vec<(&str, f64)> = own.chain(Some(queues).filter(|(_, rate)| *rate > 0.0)).collect();
    grew.sort_by(|a, b| b.1.total_cmp(&a.1));
    grew
}

/// Packets/s that a device lost: the largest of its counters, as several may have the same packet.
fn by_device(nic: &Nic, counted: &NicRates) -> f64 {
    counted_by_device(nic, counted).first().map_or(0.0, |(_, rate)| *rate)
}

/// Packets/s that an interface dropped, and nothing else accounts for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Dropped {
    /// Of those that it received.
    pub received: f64,
    /// Of those that it sent to its other end on this machine.
    pub sent: f64,
}

/// Packets/s that an interface dropped, less those that its device or a full backlog may have: a lower bound.
pub fn dropped(nic: &Nic, rates: &Rates) -> Dropped {
    let Some(counted) = rates.nic(&nic.name) else { return Dropped::default() };
    let own = by_interface(nic, counted, rates);
    let rest = |dropped: f64| (dropped - backlog(rates)).max(0.0);
    Dropped { received: rest(own.received), sent: rest(own.sent) }
}

fn backlog(rates: &Rates) -> f64 {
    rates.cpus.iter().map(|cpu| cpu.dropped).sum()
}

fn by_interface(nic: &Nic, counted: &NicRates, rates: &Rates) -> Dropped {
    let rate = |counter| counted.losses.get(counter).copied().unwrap_or_default();
    let sent = if hands_over(nic) { rate("tx_dropped") } else { 0.0 };
    // A bond adds its members' counters to its own (bond_get_stats). Where netlink is denied, it is not known to be one. Devices
    // above others are none: paravirtual ones above virtual functions.
    let kind = nic.stack.kind.as_deref();
    let may_be_bond = nic.kind == NicKind::Virtual && kind.is_none_or(|kind| kind == "bond");
    let members = nic.stack.lower.iter().filter(|_| may_be_bond);
    let of_members = members.filter_map(|member| rates.nic(member)?.losses.get("rx_dropped"));
    // Damaged frames are no packets that anything could drop.
    let of_device = counted_by_device(nic, counted).into_iter();
    let of_device = of_device.filter(|(counter, _)| loss_kind(counter) != Some(LossKind::Damaged));
    let of_device = of_device.map(|(_, rate)| rate).fold(0.0, f64::max);
    let counted_elsewhere = of_device + of_members.sum::<f64>();
    Dropped { received: (rate("rx_dropped") - counted_elsewhere).max(0.0), sent }
}

/// What traffic control of an interface drops of what a receiver here would get, by place, in packets/s.
pub fn by_traffic_control<'a>(nic: &'a Nic, rates: &'a Rates) -> impl Iterator<Item = (&'a str, f64)> {
    let all = rates.losses.known().into_iter().flat_map(|losses| &losses.tc);
    let own = all.filter(|(of, place, _)| *of == nic.name && is_lost_here(Some(nic), place));
    own.map(|(_, place, rate)| (place.as_str(), *rate))
}

/// True if this machine misses what traffic control drops there: what most interfaces send is received elsewhere.
fn is_lost_here(nic: Option<&Nic>, place: &str) -> bool {
    place == FILTERS || nic.is_some_and(hands_over)
}

fn expected(nic: &Nic) -> impl Iterator<Item = &'static str> {
    let counters: &'static [&'static str] =
        if nic.kind == NicKind::Device { &DEVICE_LOSSES } else { &VIRTUAL_LOSSES };
    let hands_over = hands_over(nic);
    counters.iter().copied().filter(move |counter| *counter != "tx_dropped" || hands_over)
}

fn stage(nic: &Nic, counter: &str) -> Stage {
    let is_of_interface = matches!(counter, "rx_dropped" | "tx_dropped") || nic.kind != NicKind::Device;
    if is_of_interface { Stage::Interface } else { Stage::Device }
}

fn hands_over(nic: &Nic) -> bool {
    nic.stack.kind.as_deref().is_some_and(|kind| HANDING_OVER.contains(&kind))
}

/// True for a veth whose other end is in another network namespace, whose sockets were not read.
fn leads_away(nic: &Nic) -> bool {
    nic.stack.peer.as_ref().is_some_and(|peer| peer.nic.is_none())
}

fn named(nics: &[&NicName]) -> String {
    match nics {
        [one] => one.to_string(),
        [one, two] => format!("{one} and {two}"),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Ledger, Stage, Verdict};
    use crate::model::{Fact, Peer};
    use crate::sketch::Sketch;

    fn ledger(sketch: Sketch) -> Ledger {
        let (model, rates) = sketch.build();
        Ledger::new(&model, &rates)
    }

    fn host() -> Sketch {
        Sketch::new(4).device("eth0", &[0]).traffic("eth0", 6e4)
    }

    fn counters(ledger: &Ledger) -> Vec<&str> {
        ledger.lines.iter().map(|line| line.counter.as_str()).collect()
    }

    #[test]
    fn no_drops_is_said_of_a_machine_that_was_read_whole() {
        let whole = ledger(host());
        assert_eq!((whole.verdict(), whole.in_words().as_str()), (Verdict::None, "no drops"));
        let without = |sketch: Sketch| {
            let ledger = ledger(sketch);
            assert_eq!(
                (ledger.verdict(), ledger.in_words().as_str()),
                (Verdict::Unknown, "no drops counted")
            );
            ledger.gaps()
        };
        let lacking =
            host().nic_rates("eth0", |rates| rates.losses.retain(|name, _| name != "rx_over_errors"));
        assert_eq!(without(lacking), ["drops, device: not read: rx_over_errors of eth0 (missing)"]);
        let unasked = without(host().measured(|rates| rates.losses = Fact::NotAsked));
        assert_eq!(unasked.len(), 3, "{unasked:?}");
        let gap = "packets by CPU: /proc/net/softnet_stat: cut";
        let backlog = without(host().measured(|rates| rates.gaps.push(gap.to_owned())));
        assert!(
            backlog[0].starts_with("drops, backlog: not read: /proc/net/softnet_stat (/proc"),
            "{backlog:?}"
        );
        let vanished = host().measured(|rates| rates.nics.clear());
        assert_eq!(without(vanished), ["drops, interface: not read: counters of eth0 (missing)"]);
    }

    /// A container's sockets are not those of the sampled namespace.
    #[test]
    fn packets_that_leave_for_another_namespace_are_followed_no_further() {
        let away = |packets| {
            let sketch = host().veth("veth0").traffic("veth0", packets);
            let peer = Peer { ifindex: 2, nic: None, namespace: None };
            ledger(sketch.edit("veth0", |nic| nic.stack.peer = Some(peer))).in_words()
        };
        assert_eq!((away(500.0).as_str(), away(0.0).as_str()), ("no drops counted", "no drops"));
    }

    #[test]
    fn a_packet_is_counted_once() {
        let lost = |sketch: Sketch| ledger(sketch).per_second;
        assert_eq!(lost(host().missed("eth0", 300.0)), 300.0);
        let both = host().missed("eth0", 300.0).dropped("eth0", 300.0);
        assert_eq!(lost(both), 300.0, "ena adds them to rx_dropped");
        let backlog = host().drops(1, 40.0).dropped("eth0", 45.0);
        assert_eq!(lost(backlog), 45.0, "the interface counts those of the backlog too");
        let other = host().drops(1, 40.0);
        assert_eq!(lost(other), 40.0, "of an interface in another namespace");
        let socket = host().lost("TcpExtListenOverflows", 9.0).lost("TcpExtListenDrops", 9.0);
        assert_eq!(lost(socket), 9.0);
        let sign = ledger(host().lost("early_drop", 9.0));
        assert_eq!((sign.verdict(), counters(&sign)), (Verdict::None, vec!["early_drop"]));
        assert_eq!(counters(&ledger(host().counted("eth0", "tx_flow_control_xoff", 9.0))), [""; 0]);
        let alloc = ledger(host().counted("eth0", "alloc_rx_page_failed", 9.0));
        assert_eq!((alloc.verdict(), counters(&alloc)), (Verdict::None, vec!["alloc_rx_page_failed"]));
    }

    /// Drivers have more names for losses than any table.
    #[test]
    fn a_statistic_that_sounds_like_a_loss_is_one_or_not_known() {
        let counted = |counter, rate| ledger(host().counted("eth0", counter, rate));
        for counter in
            ["rxq#: rx_drops_no_frags", "[hw] rx nobuffer discards", "rx_discard", "mmc_rx_fifo_overflow"]
        {
            let lost = counted(counter, 700.0);
            assert_eq!((lost.in_words().as_str(), counters(&lost)), ("700 drops/s", vec![counter]));
        }
        let unclear = counted("rx_new_word_drops", 700.0);
        assert_eq!((unclear.verdict(), counters(&unclear)), (Verdict::Unknown, vec![]));
        assert_eq!(unclear.in_words(), "maybe drops: eth0 rx_new_word_drops 700/s");
        assert_eq!(
            unclear.gaps(),
            ["drops, device: eth0 rx_new_word_drops rises by 700/s, its meaning is not known"]
        );
        assert_eq!(counted("rx_new_word_drops", 0.0).verdict(), Verdict::None, "it does not move");
        let both = host().counted("eth0", "rx_discard", 700.0).dropped("eth0", 700.0);
        assert_eq!(ledger(both).per_second, 700.0, "in rx_dropped as well");
        let unread =
            host().nic_rates("eth0", |rates| rates.unread = Some("2 statistics, expected 1".to_owned()));
        assert_eq!(
            ledger(unread).gaps(),
            ["drops, device: not read: ethtool -S of eth0 (2 statistics, expected 1)"]
        );
    }

    /// 2.4 % of the frames were damaged, and nothing was said.
    #[test]
    fn damaged_frames_are_lost() {
        let damaged = |sketch: Sketch| {
            ledger(sketch.counted("eth0", "rx_crc_errors", 500.0).counted("eth0", "rx_errors", 500.0))
        };
        let lost = damaged(host());
        assert_eq!((lost.in_words().as_str(), lost.lines[0].stage), ("500 drops/s", Stage::Device));
        assert_eq!(damaged(host().dropped("eth0", 300.0)).per_second, 800.0, "rx_dropped has others");
        let repeated = ledger(host().counted("eth0", "ethtool -S rx_errors", 500.0));
        assert_eq!(repeated.in_words(), "500 drops/s", "a recording without the interface's");
    }

    #[test]
    fn traffic_control_drops_what_comes_and_what_goes_to_a_receiver_here() {
        let tc = |kind: &str, place: &str| {
            let kind = Some(kind.to_owned());
            let sketch = host().veth("one0").edit("one0", |nic| nic.stack.kind = kind);
            let dropped = ("one0".parse().expect("a name"), place.to_owned(), 70.0);
            let sketch = sketch.measured(|rates| match &mut rates.losses {
                Fact::Known(losses) => losses.tc.push(dropped),
                absent => panic!("{absent:?}"),
            });
            ledger(sketch).in_words()
        };
        assert_eq!(tc("wireguard", "tc filters"), "70 drops/s");
        assert_eq!(tc("veth", "tc queues"), "70 drops/s");
        assert_eq!(tc("wireguard", "tc queues"), "no drops", "on the way out");
    }

    /// A bond repeats the counters of its members.
    #[test]
    fn a_frame_that_a_member_of_a_bond_drops_is_one() {
        let above = |kind: Option<&str>, dropped| {
            let sketch = host().dropped("eth0", 30.0).veth("bond0").dropped("bond0", dropped);
            let sketch = sketch.edit("bond0", |nic| {
                nic.stack.kind = kind.map(str::to_owned);
                nic.stack.lower = vec!["eth0".parse().expect("a name")];
            });
            ledger(sketch).per_second
        };
        assert_eq!((above(Some("bond"), 30.0), above(Some("bond"), 70.0)), (30.0, 70.0));
        assert_eq!(above(None, 30.0), 30.0, "without netlink it may be one");
        assert_eq!(above(Some("bridge"), 30.0), 60.0);
        let sketch = host().dropped("eth0", 30.0).device("eth1", &[1]).dropped("eth1", 70.0);
        let function = sketch.edit("eth1", |nic| nic.stack.lower = vec!["eth0".parse().expect("a name")]);
        assert_eq!(ledger(function).per_second, 100.0, "a paravirtual device above a virtual function");
    }

    #[test]
    fn every_interface_on_the_way_counts() {
        let tunnel = |kind: &str, counter| {
            let kind = Some(kind.to_owned());
            let sketch = host().veth("wg0").edit("wg0", |nic| nic.stack.kind = kind);
            ledger(sketch.counted("wg0", counter, 900.0))
        };
        let found = tunnel("wireguard", "rx_dropped");
        assert_eq!((found.in_words().as_str(), found.lines[0].stage), ("900 drops/s", Stage::Interface));
        assert_eq!(found.in_lines(), ["interface: wg0 rx_dropped 900/s"]);
        assert_eq!(tunnel("wireguard", "tx_dropped").verdict(), Verdict::None, "sent, not received");
        assert_eq!(tunnel("veth", "tx_dropped").verdict(), Verdict::Lost(900.0), "its other end lacks them");
    }
}
