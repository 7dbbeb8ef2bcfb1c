//! Settings of single NAPIs, by the receive queue that they poll: the number of a NAPI is no identity, as a driver that
//! re-creates its queues gets others.
//!
//! Kernel: `Documentation/netlink/specs/netdev.yaml`, `napi-set`.

use rustix::io::Errno;

use super::error::Meanings;
use super::site::release;
use super::{Knob, KnobError, Result, Site, value};
use crate::journal::Armed;
use rxlab_base::parse::{self, NapiSetting, NetdevNapi};
use rxlab_base::units::Fact;
use rxlab_path::model::{Model, Napi, Nic, NicKind};
use rxlab_setting::Target;
use rxlab_sys::{Action, Cause, Host, Query};

pub(super) struct QueueNapiKnob {
    name: &'static str,
    setting: NapiSetting,
    /// The largest number; `None` for a mode.
    max: Option<u64>,
    /// Error on a kernel that does not report the value.
    absent: &'static str,
}

const OLD: &str = "this kernel does not set single NAPIs (6.13 and later do)";
const MEANINGS: Meanings = &[(Errno::RANGE, "the kernel does not accept this number")];
const MODE: Meanings = &[(Errno::RANGE, "this kernel has no such mode (`busy-poll` since 6.19)")];
/// The first kernel with the mode `busy-poll` (`NETDEV_NAPI_THREADED_BUSY_POLL`).
const BUSY_POLL: (u32, u32) = (6, 19);
const SECOND: u64 = 1_000_000_000;

pub(super) static QUEUE_DEFER_HARD_IRQS: QueueNapiKnob = QueueNapiKnob {
    name: "queue_defer_hard_irqs",
    setting: NapiSetting::DeferHardIrqs,
    max: Some(i32::MAX as u64),
    absent: OLD,
};

pub(super) static QUEUE_GRO_FLUSH_TIMEOUT: QueueNapiKnob = QueueNapiKnob {
    name: "queue_gro_flush_timeout",
    setting: NapiSetting::GroFlushTimeout,
    max: Some(SECOND),
    absent: OLD,
};

/// Time for which an interrupt stays off for an application that polls.
pub(super) static IRQ_SUSPEND_TIMEOUT: QueueNapiKnob = QueueNapiKnob {
    name: "irq_suspend_timeout",
    setting: NapiSetting::IrqSuspendTimeout,
    max: Some(SECOND),
    absent: OLD,
};

pub(super) static QUEUE_THREADED: QueueNapiKnob = QueueNapiKnob {
    name: "queue_threaded",
    setting: NapiSetting::Threaded,
    max: None,
    absent: "this kernel does not thread single NAPIs (6.17 and later do)",
};

/// The NAPI that polls the queue of a site.
///
/// The model may be older than a rename, a move or a link that went down and up. So a NAPI counts as that of the queue only if
/// its interface has the name now, and as missing only if the kernel lists none of that interface.
pub(super) fn napi(site: Site<'_>) -> Result<NetdevNapi> {
    let (nic, queue) = site.rx_queue()?;
    let known = queue.napi.as_ref().map(|napi| napi.id);
    if let (None, Some(error)) = (known, unknown(site)) {
        return Err(error);
    }
    let mut napis = site.query(&Query::Napis, parse::netdev_napis, "a list of NAPIs")?;
    let index = index_now(site, nic)?;
    // A recording without indices has only the number.
    napis.retain(|napi| index.map_or(Some(napi.id) == known, |index| napi.ifindex == index));
    if let Some(found) = napis.iter().find(|napi| Some(napi.id) == known) {
        return Ok(*found);
    }
    // The kernel lists none (`netdev_nl_napi_dump_one`), and some drivers keep the values.
    if is_down(site, nic) {
        return Err(KnobError::Down { target: site.target.clone(), nic: nic.name.clone() });
    }
    Err(match (known, nic.kind) {
        (Some(_), _) => site.unknown("NAPIs", CHANGED),
        (None, NicKind::Device) if napis.is_empty() => {
            site.not_there("its driver does not report which NAPI polls it")
        }
        (None, NicKind::Device) => site.unknown("NAPIs", "its driver does not report which NAPI polls it"),
        (None, _) if napis.is_empty() => site
            .not_there(format!("it has no NAPI; a veth has them while GRO is on: `gro {} = on`", nic.name)),
        (None, _) => site.unknown("NAPIs", CHANGED),
    })
}

const CHANGED: &str = "the interface was renamed, moved or brought up again in the meantime; try again";

/// Index of the interface that has the name now; `None` in a recording without it.
fn index_now(site: Site<'_>, nic: &Nic) -> Result<Option<u32>> {
    let path = format!("sys/class/net/{}/ifindex", nic.name);
    match site.host.read_text(&path) {
        Ok(text) => match text.trim().parse() {
            Ok(index) => Ok(Some(index)),
            Err(error) => Err(KnobError::broken(&path, error, "an index")),
        },
        Err(error) if error.cause == Cause::Missing && site.host.namespace().is_none() => Ok(None),
        Err(error) if error.cause == Cause::Missing => Err(site.unknown("NAPIs", CHANGED)),
        Err(error) => Err(site.unreadable(&error)),
    }
}

/// The reason why no NAPI is known, if that does not mean that there is none.
fn unknown(site: Site<'_>) -> Option<KnobError> {
    match site.model.unknown_napis()? {
        Fact::Denied(_) => Some(KnobError::Denied {
            verb: "read",
            path: Query::Napis.path(),
            meaning: " (needs CAP_NET_ADMIN)",
        }),
        Fact::Broken(why) => Some(site.unknown("NAPIs", why)),
        Fact::Known(()) | Fact::NotAsked | Fact::Unsupported => None,
    }
}

/// The receive queues with a NAPI for which `wanted` is true, and those that may have one.
pub(super) fn targets(model: &Model, wanted: impl Fn(&Napi) -> bool) -> Vec<Target> {
    value::rx_targets(model, |queue| {
        model.unknown_napis().is_some() || queue.napi.as_ref().is_some_and(&wanted)
    })
}

/// True if an interface is not brought up (`IFF_UP`); by its state if the flags are not known.
pub(super) fn is_down(site: Site<'_>, nic: &Nic) -> bool {
    const IFF_UP: u32 = 1;
    let flags = site.host.read_text(&format!("sys/class/net/{}/flags", nic.name)).ok();
    let flags = flags.and_then(|text| u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok());
    flags.map_or(!nic.up, |flags| flags & IFF_UP == 0)
}

impl QueueNapiKnob {
    fn text(&self, number: u64) -> String {
        match (self.max, number) {
            (None, 0) => "off".to_owned(),
            (None, 1) => "on".to_owned(),
            (None, 2) => "busy-poll".to_owned(),
            // A mode unknown to this version is kept, so that undo can restore it.
            _ => number.to_string(),
        }
    }

    fn number(&self, value: &str) -> Option<u64> {
        match (self.max, value) {
            (_, "off") => Some(0),
            (None, "on") => Some(1),
            (None, "busy-poll") => Some(2),
            _ if value.bytes().all(|byte| byte.is_ascii_digit()) => value.parse().ok(),
            _ => None,
        }
    }
}

/// Checks a mode of threaded NAPI.
fn mode(site: Site<'_>, value: &str) -> Result<String> {
    let kernel = &site.model.identity.kernel;
    match value {
        "busy-poll" if release(kernel).is_some_and(|release| release < BUSY_POLL) => {
            Err(site.bad(value, format!("Linux 6.19 and later have it, this is {kernel}")))
        }
        "on" | "off" | "busy-poll" => Ok(value.to_owned()),
        _ => Err(site.bad(value, "expected on, busy-poll or off")),
    }
}

impl Knob for QueueNapiKnob {
    fn name(&self) -> &'static str {
        self.name
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        targets(model, |_| true)
    }

    fn check(&self, site: Site<'_>, value: &str) -> Result<String> {
        self.read(site)?;
        let Some(max) = self.max else { return mode(site, value) };
        match self.number(value) {
            Some(number) if number <= max => Ok(self.text(number)),
            _ => Err(site.bad(value, format!("expected a whole number up to {max}, or off"))),
        }
    }

    fn read(&self, site: Site<'_>) -> Result<String> {
        let napi = napi(site).map_err(|error| error.or_lacks(self.absent))?;
        let number = self.setting.value(&napi).ok_or_else(|| site.lacks(self.absent))?;
        Ok(self.text(number))
    }

    fn write(&self, site: Site<'_>, value: &str, _armed: &Armed) -> Result {
        let id = napi(site)?.id;
        let number = self.number(value).ok_or_else(|| site.bad(value, "expected a number"))?;
        let action = Action::Napi { id, attributes: self.setting.attribute(number) };
        let meanings = if self.max.is_some() { MEANINGS } else { MODE };
        site.act(value, &action, meanings).map_err(|error| error.or_lacks(self.absent))
    }

    // Of an interface without a value of its own for all queues.
    fn is_fresh(&self, _host: &dyn Host, value: &str) -> bool {
        self.number(value) == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{IRQ_SUSPEND_TIMEOUT, QUEUE_DEFER_HARD_IRQS, QUEUE_GRO_FLUSH_TIMEOUT, QUEUE_THREADED};
    use crate::knob::testbed::{self, check, read, refusal, write};
    use crate::knob::{Knob, KnobError};
    use rxlab_base::error::Kind;
    use rxlab_base::parse::{NapiSetting, attribute, one_message};
    use rxlab_sys::{Host, RecordedHost};

    const PATH: &str = "netlink/netdev/napi-get";

    /// Both NAPIs of `eth0`, with these attributes.
    fn host(attributes: &[u8]) -> RecordedHost {
        let napi = |id: u32| {
            let ids = [attribute(1, 4u32.to_ne_bytes()), attribute(2, id.to_ne_bytes())].concat();
            one_message(&[&ids[..], attributes].concat())
        };
        RecordedHost::new().with(PATH, [8194, 8193].map(napi).concat())
    }

    #[test]
    fn each_queue_has_its_own_value() {
        let zero = [
            NapiSetting::DeferHardIrqs,
            NapiSetting::GroFlushTimeout,
            NapiSetting::IrqSuspendTimeout,
            NapiSetting::Threaded,
        ]
        .map(|setting| setting.attribute(0))
        .concat();
        let host = host(&zero);
        let (first, second) = ("eth0/rx-0", "eth0/rx-1");
        let all: [(&dyn Knob, &str, &str); 4] = [
            (&QUEUE_DEFER_HARD_IRQS, "0", "2"),
            (&QUEUE_GRO_FLUSH_TIMEOUT, "0", "20000"),
            (&IRQ_SUSPEND_TIMEOUT, "0", "20000000"),
            (&QUEUE_THREADED, "off", "on"),
        ];
        for (knob, off, on) in all {
            assert_eq!(check(knob, &host, second, "off").as_deref(), Ok(off));
            assert_eq!(check(knob, &host, second, on).as_deref(), Ok(on));
            write(knob, &host, "eth0/rx-1", on).expect("written");
            let values = [first, second].map(|at| read(knob, &host, at).expect("there"));
            assert_eq!(values, [off, on], "{}", knob.name());
        }
        let bad = refusal(&QUEUE_GRO_FLUSH_TIMEOUT, &host, first, "1000000001");
        assert!(bad.ends_with("expected a whole number up to 1000000000, or off"), "{bad}");
    }

    /// No kernel with the mode was at hand: the answer is that of an older one, with its number.
    #[test]
    fn a_thread_that_never_sleeps_is_a_third_mode() {
        let host = host(&NapiSetting::Threaded.attribute(0));
        let target = testbed::target("eth0/rx-0");
        let check = |kernel: &str, value: &str| {
            let mut model = testbed::model();
            model.identity.kernel = kernel.to_owned();
            let checked = QUEUE_THREADED.check(QUEUE_THREADED.site(&host, &model, &target), value);
            checked.map_err(|error| error.to_string())
        };
        assert_eq!(check("6.19.0", "busy-poll").as_deref(), Ok("busy-poll"));
        let old =
            "invalid value `busy-poll` for queue_threaded: Linux 6.19 and later have it, this is 6.18.3";
        assert_eq!(check("6.18.3", "busy-poll").expect_err("older"), old);
        let other = check("6.19.0", "2").expect_err("not a word");
        assert!(other.ends_with("expected on, busy-poll or off"), "{other}");
        write(&QUEUE_THREADED, &host, "eth0/rx-0", "busy-poll").expect("written");
        let modes = ["eth0/rx-0", "eth0/rx-1"].map(|at| read(&QUEUE_THREADED, &host, at).expect("there"));
        assert_eq!(modes, ["busy-poll", "off"]);
        let next = QUEUE_THREADED.text(3);
        assert_eq!((next.as_str(), QUEUE_THREADED.number(&next)), ("3", Some(3)), "a later mode is kept");
    }

    /// Linux 6.1 has no such family, 6.8 shows NAPIs without settings.
    #[test]
    fn older_kernels_are_named() {
        for host in [RecordedHost::new(), host(&[])] {
            let says = |knob: &dyn Knob| refusal(knob, &host, "eth0/rx-0", "off");
            let expected = "eth0/rx-0 has no queue_defer_hard_irqs: this kernel does not set single NAPIs (6.13 and \
                            later do)";
            assert_eq!(says(&QUEUE_DEFER_HARD_IRQS), expected);
            assert!(says(&QUEUE_THREADED).ends_with("(6.17 and later do)"));
        }
    }

    #[test]
    fn a_napi_that_is_gone_takes_its_value_along() {
        let host = RecordedHost::new().with(PATH, Vec::new());
        let error = read(&QUEUE_THREADED, &host, "eth0/rx-0").expect_err("another one by now");
        assert!(matches!(error, KnobError::Unknown { .. }), "it may have kept its settings: {error}");
        let error = read(&QUEUE_THREADED, &host, "veth0/rx-0").expect_err("never there");
        let expected = "veth0/rx-0: it has no NAPI; a veth has them while GRO is on: `gro veth0 = on`";
        assert_eq!(error.to_string(), expected);
        let mut model = testbed::model();
        model.nics[0].rx[0].napi = None;
        let target = testbed::target("eth0/rx-0");
        let error =
            QUEUE_THREADED.read(QUEUE_THREADED.site(&host, &model, &target)).expect_err("not reported");
        assert_eq!(error.to_string(), "eth0/rx-0: its driver does not report which NAPI polls it");
    }

    /// Two veths that swapped their names since the sample once got each other's settings, and one that had moved away counted
    /// as one without NAPIs.
    #[test]
    fn a_napi_of_another_interface_is_not_that_of_the_queue() {
        let index = |nic: &str, index: &str| {
            host(&NapiSetting::DeferHardIrqs.attribute(0))
                .with(&format!("sys/class/net/{nic}/ifindex"), index)
        };
        assert_eq!(read(&QUEUE_DEFER_HARD_IRQS, &index("eth0", "4\n"), "eth0/rx-0").as_deref(), Ok("0"));
        let swapped = index("eth0", "5\n");
        let error = read(&QUEUE_DEFER_HARD_IRQS, &swapped, "eth0/rx-0").expect_err("of index 4");
        assert!(matches!(error, KnobError::Unknown { .. }), "{error}");
        let before = swapped.read(PATH);
        write(&QUEUE_DEFER_HARD_IRQS, &swapped, "eth0/rx-0", "2").expect_err("of index 4");
        assert_eq!(swapped.read(PATH), before);
        // The sample has no NAPI of veth0, the kernel has.
        let error =
            read(&QUEUE_DEFER_HARD_IRQS, &index("veth0", "4\n"), "veth0/rx-0").expect_err("which one?");
        assert!(matches!(error, KnobError::Unknown { .. }), "{error}");
        let error = read(&QUEUE_DEFER_HARD_IRQS, &index("veth0", "5\n"), "veth0/rx-0").expect_err("none");
        assert!(matches!(error, KnobError::NotThere { .. }), "{error}");
    }

    /// `operstate` is also `down` where only the link is.
    #[test]
    fn the_value_of_an_interface_that_is_down_is_not_known() {
        let host = || RecordedHost::new().with(PATH, Vec::new());
        for (flags, is_down) in [("0x1002\n", true), ("0x1003\n", false)] {
            let host = host().with("sys/class/net/eth0/flags", flags);
            let error = read(&QUEUE_DEFER_HARD_IRQS, &host, "eth0/rx-0").expect_err("not listed");
            assert_eq!(matches!(error, KnobError::Down { .. }), is_down, "{error}");
        }
        let mut model = testbed::model();
        model.nics[0].up = false;
        model.nics[0].rx[0].napi = None;
        let (host, target) = (host(), testbed::target("eth0/rx-0"));
        let error = QUEUE_THREADED.read(QUEUE_THREADED.site(&host, &model, &target)).expect_err("down");
        let expected = "eth0/rx-0 cannot be read while eth0 is down: the kernel lists NAPIs only of interfaces \
                        that are up";
        assert_eq!((error.to_string().as_str(), error.kind()), (expected, Kind::Failed));
    }
}
