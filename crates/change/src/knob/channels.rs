//! `channels`: the numbers of queues of an interface.

use rustix::io::Errno;

use super::error::Meanings;
use super::ntuple_rule::{Before, keep_all_of_driver};
use super::{Knob, KnobError, Result, Site, rss_context, value};
use crate::journal::{Armed, Displaced};
use rxlab_base::parse::ethtool::{ChannelKind, Channels, channels};
use rxlab_base::units::Fact;
use rxlab_path::model::{Model, RxQueue};
use rxlab_setting::{Target, set_queues};
use rxlab_sys::{Action, EthtoolGet};

/// Queues of one interface, by kind.
///
/// Kernel: `Documentation/networking/ethtool-netlink.rst`, `CHANNELS_SET`. The driver tears down its queues
/// and creates new ones: their settings are lost, and the applier replays them.
pub(super) struct NicChannels;

/// The kinds that a setting names. The others carry events of the device and are left alone.
const KINDS: [ChannelKind; 3] = [ChannelKind::Rx, ChannelKind::Tx, ChannelKind::Combined];

fn shown(site: Site<'_>) -> Result<Channels> {
    site.ethtool(EthtoolGet::Channels, site.nic()?, channels)
}

/// The canonical form: every kind that the device has, as `rx 2 tx 2`.
fn text(counts: &[(ChannelKind, u32)]) -> String {
    counts.iter().map(|(kind, count)| format!("{} {count}", kind.word())).collect::<Vec<_>>().join(" ")
}

fn now(channels: &Channels) -> Vec<(ChannelKind, u32)> {
    KINDS.iter().filter_map(|kind| Some((*kind, channels.count(*kind)?.now))).collect()
}

/// Words of `ethtool -L` as counts; `None` for anything else.
fn counts(value: &str) -> Option<Vec<(ChannelKind, u32)>> {
    let words: Vec<&str> = value.split_whitespace().collect();
    let pair = |pair: &[&str]| {
        let [kind, count] = pair else { return None };
        Some((KINDS.into_iter().find(|known| known.word() == *kind)?, value::plain_number(count)?))
    };
    let counts: Vec<_> = words.chunks(2).map(pair).collect::<Option<_>>()?;
    (!counts.is_empty()
        && counts.iter().enumerate().all(|(at, (kind, _))| counts[..at].iter().all(|(k, _)| k != kind)))
    .then_some(counts)
}

fn count(counts: &[(ChannelKind, u32)], kind: ChannelKind) -> u32 {
    counts.iter().find(|(k, _)| *k == kind).map_or(0, |(_, count)| *count)
}

/// Refuses to go on if the driver would delete rules or contexts with its queues, and names both: `undo --force` loses them.
fn keep_all(site: Site<'_>, before: Before) -> Result {
    let rules = keep_all_of_driver(site, |deletes| deletes.channels, before);
    let contexts = rss_context::keep_all_of_driver(site);
    match (rules, contexts) {
        (Err(KnobError::UnrestorableValue { why: rules, .. }), Err(error)) => Err(match error {
            KnobError::UnrestorableValue { why, .. } => site.unrestorable(format!("{rules}; nor {why}")),
            error => error,
        }),
        (rules, contexts) => rules.and(contexts),
    }
}

const MEANINGS: Meanings = &[
    (
        Errno::INVAL,
        "the driver does not support these counts, or the RSS table, flow rules or AF_XDP use a queue \
             that would be removed; check with `ethtool -x` and `ethtool -n`",
    ),
    (Errno::NETDOWN, "the interface is down"),
];

impl Knob for NicChannels {
    fn name(&self) -> &'static str {
        "channels"
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        value::nic_targets(model, |nic| nic.hardware.channels != Fact::Unsupported)
    }

    fn check(&self, site: Site<'_>, value: &str) -> Result<String> {
        let (channels, target) = (shown(site)?, site.target);
        let has = now(&channels);
        let bad = |why: String| site.bad(value, why);
        let asked = match (value::plain_number(value), &has[..]) {
            (Some(count), [(kind, _)]) => vec![(*kind, count)],
            _ => counts(value)
                .ok_or_else(|| bad(format!("expected the same form as the current value, {}", text(&has))))?,
        };
        for (kind, count) in &asked {
            let Some(limit) = channels.count(*kind) else {
                let why = format!("{target} has no {} channels (it has {})", kind.word(), text(&has));
                return Err(bad(why));
            };
            if *count > limit.max {
                return Err(bad(format!("{target} supports at most {} {} channels", limit.max, kind.word())));
            }
        }
        let all: Vec<_> = has
            .iter()
            .map(|(kind, now)| (*kind, asked.iter().find(|(k, _)| k == kind).map_or(*now, |(_, n)| *n)))
            .collect();
        let both = count(&all, ChannelKind::Combined);
        for (kind, what) in [(ChannelKind::Rx, "receive"), (ChannelKind::Tx, "transmit")] {
            if both + count(&all, kind) == 0 {
                return Err(bad(format!("at least one channel must {what}")));
            }
        }
        if all != has {
            keep_all(site, Before::Change)?;
        }
        Ok(text(&all))
    }

    fn check_restore(&self, site: Site<'_>, _value: &str, _kept: &[Displaced]) -> Result {
        keep_all(site, Before::Undo)
    }

    fn read(&self, site: Site<'_>) -> Result<String> {
        Ok(text(&now(&shown(site)?)))
    }

    fn write(&self, site: Site<'_>, value: &str, _armed: &Armed) -> Result {
        let nic = site.nic()?.name.clone();
        let counts = counts(value).unwrap_or_default();
        let attributes = counts.iter().flat_map(|(kind, count)| kind.attribute(*count)).collect();
        site.act(value, &Action::Ethtool { get: EthtoolGet::Channels, nic, attributes }, MEANINGS)
    }

    fn foresee(&self, model: &mut Model, target: &Target, value: &str) {
        let Some(counts) = counts(value) else { return };
        let both = count(&counts, ChannelKind::Combined);
        let Some(nic) = model.nics.iter_mut().find(|nic| Some(&nic.name) == target.nic()) else { return };
        let (rx, tx) = (both + count(&counts, ChannelKind::Rx), both + count(&counts, ChannelKind::Tx));
        set_queues(nic, rx, tx, |index| RxQueue { index, ..RxQueue::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::{ChannelKind, EthtoolGet, Knob, NicChannels};
    use crate::knob::testbed::{self, answer, check, model, path, read, target, with_rules, write};
    use rxlab_base::parse::ethtool::{Channels, Count};
    use rxlab_sys::{Cause, Host, Query, RecordedHost};

    fn host(channels: Channels) -> RecordedHost {
        RecordedHost::new().with(&path(EthtoolGet::Channels), testbed::channels_answer(&channels))
    }

    fn combined() -> Channels {
        Channels { combined: Some(Count { now: 2, max: 8 }), ..Channels::default() }
    }

    fn separate() -> Channels {
        let count = Some(Count { now: 2, max: 4 });
        Channels { rx: count, tx: count, other: Some(Count { now: 1, max: 1 }), combined: None }
    }

    #[test]
    fn values_are_words_of_ethtool() {
        let check = |channels: Channels, value: &str| {
            check(&NicChannels, &host(channels), "eth0", value).map_err(|error| error.to_string())
        };
        assert_eq!(check(combined(), "4").as_deref(), Ok("combined 4"));
        assert_eq!(check(combined(), "combined 8").as_deref(), Ok("combined 8"));
        assert_eq!(check(separate(), "rx 4").as_deref(), Ok("rx 4 tx 2"));
        for (channels, value, why) in [
            (combined(), "9", "eth0 supports at most 8 combined channels"),
            (combined(), "0", "at least one channel must receive"),
            (combined(), "rx 2", "eth0 has no rx channels (it has combined 2)"),
            (combined(), "combined", "expected the same form as the current value, combined 2"),
            (combined(), "combined 2 combined 3", "expected the same form as the current value, combined 2"),
            (separate(), "4", "expected the same form as the current value, rx 2 tx 2"),
            (separate(), "rx 2 tx 0", "at least one channel must transmit"),
            (separate(), "other 1", "expected the same form as the current value, rx 2 tx 2"),
        ] {
            let says = check(channels, value).expect_err(value);
            assert_eq!(says, format!("invalid value `{value}` for channels: {why}"));
        }
    }

    /// Composed: no available machine has such a device. bnxt_en deletes rules and contexts before it changes its queues, mlx4_en and
    /// qede delete rules.
    #[test]
    fn what_the_driver_deletes_with_its_queues_is_not_lost() {
        let checked = |host: RecordedHost, driver: Option<&str>, value: &str| {
            let host = host.with(&path(EthtoolGet::Channels), testbed::channels_answer(&combined()));
            let (mut model, eth0) = (model(), target("eth0"));
            model.nics[0].driver = driver.map(str::to_owned);
            let site = NicChannels.site(&host, &model, &eth0);
            let checked = NicChannels.check(site, value).map_err(|error| error.to_string());
            let restored = NicChannels.check_restore(site, value, &[]).map_err(|error| error.to_string());
            assert!(checked == restored.map(|()| format!("combined {value}")) || value == "2");
            checked
        };
        let bnxt = Some("bnxt_en");
        let lost = |what: &str| Err(format!("channels eth0: undo could not restore {what}"));
        let rule = "a flow rule that eth0 has and would lose: remove first, as with `ntuple_rule eth0/rule-7 = none`";
        assert_eq!(checked(with_rules(true, &[7]), bnxt, "4"), lost(rule));
        assert_eq!(
            checked(with_rules(true, &[7]), bnxt, "2").as_deref(),
            Ok("combined 2"),
            "nothing is written"
        );
        assert_eq!(checked(with_rules(true, &[7]), Some("ice"), "4").as_deref(), Ok("combined 4"));
        for driver in ["mlx4_en", "qede"] {
            assert_eq!(checked(with_rules(true, &[7]), Some(driver), "4"), lost(rule), "{driver}");
        }
        assert_eq!(checked(with_rules(true, &[]), bnxt, "4").as_deref(), Ok("combined 4"));
        let with_contexts = |rules: &[u32], ids: &[u32]| {
            let context = |id: &u32| answer(&[(2, &id.to_ne_bytes()), (4, &[0; 16])]);
            let contexts: Vec<u8> = ids.iter().flat_map(context).collect();
            with_rules(true, rules).with(&path(EthtoolGet::RssContexts), contexts)
        };
        let named = |contexts: &str| {
            let delete = "`ethtool -X eth0 context 1 delete`";
            format!("{contexts}, which eth0 would lose: remove first, as with {delete}")
        };
        assert_eq!(checked(with_contexts(&[], &[1]), bnxt, "4"), lost(&named("RSS context 1")));
        let both = format!("{rule}; nor {}", named("RSS contexts 1, 2"));
        assert_eq!(checked(with_contexts(&[7], &[1, 2]), bnxt, "4"), lost(&both));
        let unread = with_rules(true, &[7]).with_failure(&path(EthtoolGet::RssContexts), Cause::Errno(5));
        let error = checked(unread, bnxt, "4").expect_err("unknown");
        assert!(!error.contains("rule"), "undo --force would lose contexts that it could not name: {error}");
    }

    #[test]
    fn writes_only_the_kinds_that_there_are() {
        let host = host(separate());
        write(&NicChannels, &host, "eth0", "rx 1 tx 4").expect("written");
        assert_eq!(read(&NicChannels, &host, "eth0").as_deref(), Ok("rx 1 tx 4"));
        let query = Query::Ethtool(EthtoolGet::Channels, "eth0".parse().expect("a name"));
        let after =
            rxlab_base::parse::ethtool::channels(&host.query(&query).expect("answered")).expect("whole");
        assert_eq!(after.count(ChannelKind::Rx), Some(Count { now: 1, max: 4 }));
        assert_eq!(after.other, separate().other);
    }

    #[test]
    fn the_queues_to_come_are_foreseen() {
        let mut model = model();
        NicChannels.foresee(&mut model, &target("eth0"), "combined 4");
        let eth0 = model.nic(&"eth0".parse().expect("a name")).expect("there");
        assert_eq!(eth0.rx.iter().map(|queue| queue.index).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(eth0.rx[1].irqs.len(), 2, "those that are there stay as they are");
        NicChannels.foresee(&mut model, &target("eth0"), "rx 1 tx 3");
        let eth0 = model.nic(&"eth0".parse().expect("a name")).expect("there");
        assert_eq!((eth0.rx.len(), eth0.tx.len()), (1, 3));
    }
}
