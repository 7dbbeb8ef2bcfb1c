//! `irqbalance`: whether irqbalance may move the interrupts of an interface.

use std::collections::BTreeSet;

use rustix::io::Errno;

use super::error::Meanings;
use super::{Knob, KnobError, Parts, Result, Site, value};
use crate::journal::{Armed, Part};
use rxlab_base::parse;
use rxlab_base::units::IrqId;
use rxlab_path::model::{Fact, Model, Nic};
use rxlab_setting::Target;
use rxlab_sys::{Action, Cause, HostError, Query};

/// The part of a running irqbalance's ban list that concerns one interface.
///
/// Uses its socket: irqbalance(1), "settings ban irqs", which replaces the whole list; other bans are kept.
/// Interrupt numbers are not identities: if some are banned and others not, the value names them by their
/// place among the interface's interrupts, `banned:0,2`.
pub(super) struct IrqbalanceKnob;

const MANAGED: &str = "managed";
const BANNED: &str = "banned";
const SOME: &str = "banned:";

/// All interrupts of an interface that irqbalance could move, by number.
fn irqs(site: Site<'_>) -> Result<Vec<IrqId>> {
    match irqs_of(site.nic()?) {
        irqs if irqs.is_empty() => Err(site.lacks("the interface has no interrupts of its own")),
        irqs => Ok(irqs),
    }
}

fn irqs_of(nic: &Nic) -> Vec<IrqId> {
    let all = nic.rx.iter().flat_map(|queue| &queue.irqs).chain(&nic.other_irqs);
    all.map(|irq| irq.number).collect::<BTreeSet<_>>().into_iter().collect()
}

fn pid(site: Site<'_>) -> Result<u32> {
    match &site.model.irqbalance {
        Fact::Known(Some(irqbalance)) => Ok(irqbalance.pid),
        Fact::Known(None) => Err(not_running(site)),
        _ => Err(site.lacks("cannot tell from here if irqbalance is running")),
    }
}

fn not_running(site: Site<'_>) -> KnobError {
    site.not_there("irqbalance is not running: nothing moves its interrupts")
}

/// All interrupts that irqbalance leaves alone by number.
fn banned(site: Site<'_>, pid: u32) -> Result<BTreeSet<IrqId>> {
    let query = Query::IrqbalanceSetup { pid };
    let answer = site.host.query(&query).map_err(|error| failed(site, None, pid, &error))?;
    let setup = parse::irqbalance_setup(&answer)
        .map_err(|error| KnobError::broken(&query.path(), error, "an answer of irqbalance"))?;
    Ok(setup.banned_irqs.into_iter().collect())
}

fn failed(site: Site<'_>, value: Option<&str>, pid: u32, error: &HostError) -> KnobError {
    match error.cause {
        Cause::Missing if site.host.read(&format!("proc/{pid}/comm")).is_err() => not_running(site),
        Cause::Missing => site.lacks(
            "irqbalance runs but has no socket here; stop the service, or ban interrupts in its \
             configuration",
        ),
        Cause::Denied => {
            let meaning = "; irqbalance accepts requests only from root: be root, or stop the service";
            site.failed(value, error, meaning, &[])
        }
        _ => site.failed(value, error, "", MEANINGS),
    }
}

const MEANINGS: Meanings = &[
    (Errno::MSGSIZE, "the list is longer than the 255 bytes that irqbalance accepts; stop the service"),
    (Errno::TIMEDOUT, "irqbalance does not answer; try again, or stop the service"),
];

/// The banned ones of `all`, in words.
fn text(all: &[IrqId], banned: &BTreeSet<IrqId>) -> String {
    let places = (0..).zip(all).filter(|(_, irq)| banned.contains(irq)).map(|(place, _): (usize, _)| place);
    let places: Vec<String> = places.map(|place| place.to_string()).collect();
    match places.len() {
        0 => MANAGED.to_owned(),
        some if some == all.len() => BANNED.to_owned(),
        _ => format!("{SOME}{}", places.join(",")),
    }
}

/// The ones of `all` to ban; `None` for an invalid value.
fn wanted(all: &[IrqId], value: &str) -> Option<BTreeSet<IrqId>> {
    match value {
        MANAGED => Some(BTreeSet::new()),
        BANNED => Some(all.iter().copied().collect()),
        _ => {
            let place = |text: &str| text.parse::<usize>().ok();
            let places = value.strip_prefix(SOME)?.split(',').map(place).collect::<Option<Vec<_>>>()?;
            // Places that no longer exist took their interrupts along.
            Some(places.into_iter().filter_map(|place| all.get(place).copied()).collect())
        }
    }
}

impl Knob for IrqbalanceKnob {
    fn name(&self) -> &'static str {
        "irqbalance"
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        if !matches!(model.irqbalance, Fact::Known(Some(_))) {
            return Vec::new();
        }
        value::nic_targets(model, |nic| !irqs_of(nic).is_empty())
    }

    fn check(&self, site: Site<'_>, value: &str) -> Result<String> {
        irqs(site)?;
        pid(site)?;
        match value {
            MANAGED | BANNED => Ok(value.to_owned()),
            _ => Err(site.bad(value, "expected banned or managed")),
        }
    }

    fn read(&self, site: Site<'_>) -> Result<String> {
        let irqs = irqs(site)?;
        Ok(text(&irqs, &banned(site, pid(site)?)?))
    }

    fn write(&self, site: Site<'_>, value: &str, _armed: &Armed) -> Result {
        let (own, pid) = (irqs(site)?, pid(site)?);
        let wanted = wanted(&own, value).ok_or_else(|| site.bad(value, "no ban"))?;
        let mut list = banned(site, pid)?;
        list.retain(|irq| !own.contains(irq));
        list.extend(wanted);
        let irqs = list.into_iter().collect();
        let done = site.host.act(&Action::IrqbalanceBan { pid, irqs });
        done.map_err(|error| failed(site, Some(value), pid, &error))
    }

    // irqbalance loses its list when it exits.
    fn is_fleeting(&self) -> bool {
        true
    }

    fn parts(&self, site: Site<'_>, original: &str, ours: &[String], live: &str) -> Option<Parts> {
        let all = irqs(site).ok()?;
        let (original, now) = (wanted(&all, original)?, wanted(&all, live)?);
        let ours: Vec<BTreeSet<IrqId>> = ours.iter().filter_map(|value| wanted(&all, value)).collect();
        let mut judged = Parts::default();
        let mut list = now.clone();
        for irq in &all {
            let part = |list: &BTreeSet<IrqId>| {
                let value = if list.contains(irq) { BANNED } else { MANAGED };
                Part { part: format!("interrupt {irq}"), value: value.to_owned() }
            };
            if now.contains(irq) == original.contains(irq) {
                judged.back.push(part(&now));
            } else if ours.iter().any(|ours| ours.contains(irq) == now.contains(irq)) {
                judged.ours.push(part(&original));
                if !list.remove(irq) {
                    list.insert(*irq);
                }
            } else {
                judged.foreign.push(part(&now));
            }
        }
        judged.value = text(&all, &list);
        Some(judged)
    }

    fn difference(&self, want: &str, got: &str) -> String {
        format!("asked for {want}, irqbalance has {got}: it ignored the request")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{IrqbalanceKnob, Knob, text, wanted};
    use crate::knob::KnobError;
    use crate::knob::testbed::{balanced, read, target, write};
    use rxlab_base::units::IrqId;
    use rxlab_path::model::{Fact, Model};
    use rxlab_sys::{Cause, Host, RecordedHost};

    const SETUP: &str = "socket/irqbalance/70/setup";

    /// Interrupt 3 belongs to another device; `eth0` has 24 to 27.
    fn host(own: &[u32]) -> RecordedHost {
        let parts: String =
            [3].iter().chain(own).map(|irq| format!("IRQ {irq} LOAD 7 DIFF 0 CLASS 5 ")).collect();
        RecordedHost::new()
            .with(SETUP, format!("SLEEP 10 {parts}BANNED 00000001"))
            .with("proc/70/comm", "irqbalance\n")
    }

    fn list(host: &RecordedHost) -> Vec<u32> {
        let answer = host.read(SETUP).expect("there");
        let setup = rxlab_base::parse::irqbalance_setup(&answer).expect("valid");
        assert_eq!(setup.banned_cpus.to_string(), "0", "left alone");
        setup.banned_irqs.into_iter().map(|irq| irq.0).collect()
    }

    #[test]
    fn the_bans_of_others_stay() {
        for (own, value) in [(&[][..], "managed"), (&[25, 27], "banned:1,3"), (&[24, 25, 26, 27], "banned")] {
            let host = host(own);
            let before = list(&host);
            assert_eq!(read(&IrqbalanceKnob, &host, "eth0").as_deref(), Ok(value));
            write(&IrqbalanceKnob, &host, "eth0", "banned").expect("told");
            assert_eq!(list(&host), [3, 24, 25, 26, 27]);
            write(&IrqbalanceKnob, &host, "eth0", "managed").expect("told");
            assert_eq!(list(&host), [3]);
            write(&IrqbalanceKnob, &host, "eth0", value).expect("told");
            assert_eq!(list(&host), before, "exactly as it was");
        }
    }

    #[test]
    fn each_absence_says_what_to_do() {
        let says = |host: &RecordedHost| read(&IrqbalanceKnob, host, "eth0").expect_err("absent");
        let silent = RecordedHost::new().with("proc/70/comm", "irqbalance\n");
        let no_socket = says(&silent);
        assert!(matches!(no_socket, KnobError::Lacks { .. }));
        assert!(no_socket.to_string().contains("has no socket here; stop the service"), "{no_socket}");
        assert!(matches!(says(&RecordedHost::new()), KnobError::NotThere { .. }), "it has ended");
        let denied = says(&host(&[]).with_failure(SETUP, Cause::Denied)).to_string();
        assert!(denied.ends_with("be root, or stop the service"), "{denied}");
        let late = says(&host(&[]).with_failure(SETUP, Cause::Errno(110))).to_string();
        assert!(late.contains("does not answer; try again"), "{late}");
        assert!(matches!(says(&host(&[]).with(SETUP, "SLEEP")), KnobError::Broken { .. }));
        let mut model = balanced();
        let check = |model: &Model, at: &str, value: &str| {
            let (host, target) = (RecordedHost::new(), target(at));
            let checked = IrqbalanceKnob.check(IrqbalanceKnob.site(&host, model, &target), value);
            checked.map_err(|error| error.to_string())
        };
        assert_eq!(check(&model, "eth0", "banned").as_deref(), Ok("banned"));
        assert!(check(&model, "eth0", "banned:1").is_err(), "places cannot be set");
        assert!(check(&model, "veth0", "banned").expect_err("none").contains("has no interrupts of its own"));
        model.irqbalance = Fact::Known(None);
        assert_eq!(
            check(&model, "eth0", "banned").expect_err("none"),
            "eth0: irqbalance is not running: nothing moves its interrupts"
        );
        assert!(IrqbalanceKnob.targets(&model).is_empty());
        model.irqbalance = Fact::Denied(rxlab_base::units::Need::AllProcesses);
        assert!(check(&model, "eth0", "banned").expect_err("hidden").contains("cannot tell from here"));
    }

    #[test]
    fn each_interrupt_is_judged_by_itself() {
        let (host, model, eth0) = (RecordedHost::new(), balanced(), target("eth0"));
        let ours = ["banned:0".to_owned(), "banned".to_owned()];
        let judged =
            IrqbalanceKnob.parts(IrqbalanceKnob.site(&host, &model, &eth0), "banned:0", &ours, "banned:1,2");
        let judged = judged.expect("interrupts");
        let words = [judged.ours, judged.back, judged.foreign]
            .map(|parts| parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
        let expected = [
            "interrupt 25 = managed, interrupt 26 = managed",
            "interrupt 27 = managed",
            "interrupt 24 = managed",
        ];
        assert_eq!(words, expected, "24 was banned before and after");
        assert_eq!(judged.value, "managed");
    }

    proptest! {
        #[test]
        fn reads_as_it_is_written(places in proptest::collection::btree_set(0u32..9, 0..9)) {
            let all: Vec<IrqId> = (20..29).map(IrqId).collect();
            let banned: BTreeSet<IrqId> = places.into_iter().map(|place| IrqId(20 + place)).collect();
            prop_assert_eq!(wanted(&all, &text(&all, &banned)), Some(banned));
        }

        #[test]
        fn what_is_read_is_written(value in "(banned|managed)?:?[0-9,]{0,24}|banned:[0-3](,[0-9]){0,3}|.{0,20}") {
            let all = [4, 5, 7].map(IrqId);
            if let Some(banned) = wanted(&all, &value) {
                prop_assert!(banned.iter().all(|irq| all.contains(irq)));
                prop_assert_eq!(wanted(&all, &text(&all, &banned)), Some(banned));
            }
        }
    }
}
