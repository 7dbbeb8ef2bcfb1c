//! The driver of knobs that are one value in one file. The knobs themselves are in `clocksource`, `napi`, `rfs`,
//! `rps`, `sysctl` and `xps`; their files are in [`rxlab_setting::TUNABLES`].

use std::ops::RangeInclusive;

use super::error::Meanings;
use super::{Knob, KnobError, Result, Site, value};
use crate::journal::Armed;
use rxlab_base::number::cpus_text;
use rxlab_base::units::{CpuId, CpuMask, QueueId};
use rxlab_path::model::{Fact, Model, Nic};
use rxlab_setting::{Target, set_of, set_text, tunable};
use rxlab_sys::{Cause, Host, HostError, is_namespaced_sysctl};

/// A knob that is a file.
pub(super) struct FileKnob {
    name: &'static str,
    at: At,
    value: Value,
    meanings: Meanings,
    /// Meaning of a file that does not exist, other than that the kernel or device does not support the knob.
    missing: Missing,
}

/// Targets, and whether they have the file by the model.
pub(super) enum At {
    Host(fn(&Model) -> bool),
    Nic(fn(&Nic) -> bool),
    RxQueue,
    /// Transmit queues, except the only one of an interface: for this reason.
    TxQueue(&'static str),
}

pub(super) enum Value {
    /// A whole number in a range, and the reason to refuse one outside it.
    Number(RangeInclusive<u64>, &'static str),
    /// A number of flows, which the kernel rounds up to a power of two.
    Flows,
    /// `on` or `off`, in the file 1 or 0. A number unknown to this version is kept, so that undo can restore it.
    Switch,
    /// A list of these, or `off`; in the file a mask.
    Mask(Members),
    /// The name of a clock.
    Clock,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Members {
    /// CPUs that are online, of which the kernel drops the isolated ones: `apply` refuses these.
    HousekeepingCpus,
    OnlineCpus,
    /// At least one: `off` is refused.
    SomeOnlineCpus,
    RxQueues,
}

pub(super) enum Missing {
    Unsupported,
    /// The knob is unsupported, for this reason.
    Because(&'static str),
    /// The kernel is older than the first one with the knob, for this reason.
    Old(&'static str, &'static str),
    /// For this reason if it could be read before.
    OnWrite(&'static str),
}

/// Form of a mask.
const LIST: &str = "expected a list such as 2-7, or off";
const SOME: &str = "expected a list of CPUs such as 0-3";

/// True if a source exists: one that was denied or is broken may become readable.
pub(super) fn exists<T>(fact: &Fact<T>) -> bool {
    !matches!(fact, Fact::NotAsked | Fact::Unsupported)
}

impl FileKnob {
    /// A knob without special errnos.
    pub(super) const fn new(name: &'static str, at: At, value: Value) -> Self {
        Self { name, at, value, meanings: &[], missing: Missing::Unsupported }
    }

    pub(super) const fn meanings(self, meanings: Meanings) -> Self {
        Self { meanings, ..self }
    }

    pub(super) const fn missing(self, missing: Missing) -> Self {
        Self { missing, ..self }
    }

    fn path(&self, site: Site<'_>) -> Result<String> {
        match self.at {
            At::Host(_) => site.only_host()?,
            At::Nic(_) => site.nic().map(drop)?,
            At::RxQueue => site.rx_queue().map(drop)?,
            At::TxQueue(only_one) => {
                let (_, queue) = site.tx_queue()?;
                // The kernel has no `xps_cpus` there, and an `xps_rxqs` without effect.
                if queue.xps_cpus == Fact::Unsupported {
                    return Err(site.lacks(only_one));
                }
            }
        }
        let file = tunable(self.name).and_then(|row| row.owner.file(site.target));
        Ok(file.expect("the row of the knob names a file for such targets")[1..].to_owned())
    }

    /// The meaning of a missing file.
    fn absent(&self, site: Site<'_>, path: String) -> KnobError {
        match self.missing {
            Missing::Because(why) | Missing::OnWrite(why) => site.lacks(why),
            Missing::Old(since, why) => site.lacks_since(since, why),
            Missing::Unsupported => {
                KnobError::Unsupported { knob: site.knob, target: site.target.clone(), path }
            }
        }
    }

    fn error(&self, site: Site<'_>, value: Option<&str>, error: &HostError) -> KnobError {
        match (error.cause, &self.missing, value) {
            (Cause::Missing, Missing::Because(_) | Missing::Old(..), _)
            | (Cause::Missing, Missing::OnWrite(_), Some(_)) => self.absent(site, error.path.clone()),
            _ => {
                let denied = match self.at {
                    At::Host(_) if !is_namespaced_sysctl(&error.path) => {
                        " (needs root in the initial namespaces)"
                    }
                    _ => " (needs CAP_NET_ADMIN)",
                };
                site.failed(value, error, denied, self.meanings)
            }
        }
    }
}

fn check_number(site: Site<'_>, range: &RangeInclusive<u64>, outside: &str, value: &str) -> Result<String> {
    let (first, last) = (*range.start(), *range.end());
    if value == "off" && first == 0 {
        return Ok("0".to_owned());
    }
    if !value::is_digits(value) {
        let off = if first == 0 { ", or off" } else { "" };
        return Err(site.bad(value, format!("expected a whole number from {first} to {last}{off}")));
    }
    // A number with too many digits is above any range.
    match value.parse::<u64>() {
        Ok(number) if range.contains(&number) => Ok(number.to_string()),
        _ => Err(site.bad(value, format!("must be from {first} to {last}: {outside}"))),
    }
}

fn check_mask(site: Site<'_>, members: Members, value: &str) -> Result<String> {
    if value == "off" {
        return match members {
            Members::SomeOnlineCpus => Err(site.bad(value, SOME)),
            _ => Ok("off".to_owned()),
        };
    }
    let mask = match members {
        Members::RxQueues => rx_queues(site, value)?,
        _ => site.online_cpus(value)?,
    };
    if mask.is_empty() {
        return Err(site.bad(value, if members == Members::SomeOnlineCpus { SOME } else { LIST }));
    }
    Ok(set_text(&mask))
}

/// Parses `value` as a list of receive queues of the interface.
fn rx_queues(site: Site<'_>, value: &str) -> Result<CpuMask> {
    let (nic, _) = site.tx_queue()?;
    let why = "expected a list of receive queues such as 0-3, or off";
    let mask: CpuMask = value.parse().map_err(|_| site.bad(value, why))?;
    let known: CpuMask = nic.rx.iter().map(|queue| CpuId(queue.index)).collect();
    match mask.difference(&known).first() {
        None => Ok(mask),
        Some(CpuId(missing)) => Err(KnobError::UnknownQueue {
            nic: nic.name.clone(),
            queue: QueueId::rx(missing),
            known: nic.rx.iter().map(|queue| QueueId::rx(queue.index)).collect(),
        }),
    }
}

fn check_clock(site: Site<'_>, value: &str) -> Result<String> {
    let known = site.model.settings.clocksource.known().map(|clock| clock.available.as_slice());
    match known.unwrap_or_default() {
        [] => Err(site.bad(value, "the available clocks cannot be read here")),
        known if known.iter().any(|name| name == value) => Ok(value.to_owned()),
        known => Err(site.bad(value, format!("available: {}", known.join(", ")))),
    }
}

/// A whole number as the kernel prints it. Some of these files are signed and hold whatever was written.
fn canonical(text: &str) -> Option<String> {
    text.trim().parse::<i128>().ok().map(|number| number.to_string())
}

fn word(number: &str) -> &str {
    match number {
        "0" => "off",
        "1" => "on",
        _ => number,
    }
}

fn digits(word: &str) -> &str {
    match word {
        "off" => "0",
        "on" => "1",
        number => number,
    }
}

impl Knob for FileKnob {
    fn name(&self) -> &'static str {
        self.name
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        match self.at {
            At::Nic(exists) => value::nic_targets(model, exists),
            At::RxQueue => value::rx_targets(model, |_| true),
            At::TxQueue(_) => value::tx_targets(model, |queue| queue.xps_cpus != Fact::Unsupported),
            At::Host(exists) if exists(model) => vec![Target::Host],
            At::Host(_) => Vec::new(),
        }
    }

    fn check(&self, site: Site<'_>, value: &str) -> Result<String> {
        let path = self.path(site)?;
        if let At::Host(exists) = self.at
            && !exists(site.model)
        {
            return Err(self.absent(site, path));
        }
        match &self.value {
            Value::Number(range, outside) => check_number(site, range, outside, value),
            Value::Flows => value::flows(value).map_err(|why| site.bad(value, why)),
            Value::Switch => site.switch(value).map(value::on_off),
            Value::Mask(members) => check_mask(site, *members, value),
            Value::Clock => check_clock(site, value),
        }
    }

    fn read(&self, site: Site<'_>) -> Result<String> {
        let path = self.path(site)?;
        let text = site.host.read_text(&path).map_err(|error| self.error(site, None, &error))?;
        let (value, expected) = match self.value {
            Value::Number(..) | Value::Flows => (canonical(&text), "a number"),
            Value::Switch => (canonical(&text).map(|number| word(&number).to_owned()), "a number"),
            Value::Mask(_) => (CpuMask::from_hex(&text).ok().map(|mask| set_text(&mask)), "a CPU mask"),
            Value::Clock => (Some(text.trim().to_owned()).filter(|name| !name.is_empty()), "a clock name"),
        };
        value.ok_or_else(|| KnobError::broken(&path, &text, expected))
    }

    fn write(&self, site: Site<'_>, value: &str, _armed: &Armed) -> Result {
        let path = self.path(site)?;
        let text = match self.value {
            Value::Switch => digits(value).to_owned(),
            Value::Mask(_) => set_of(value).ok_or_else(|| site.bad(value, LIST))?.to_hex(),
            _ => value.to_owned(),
        };
        site.host.write(&path, text.as_bytes()).map_err(|error| self.error(site, Some(value), &error))
    }

    // Some drivers spread the CPUs of XPS over their queues, each in its own way.
    fn is_fresh(&self, host: &dyn Host, value: &str) -> bool {
        match self.value {
            Value::Flows => matches!(self.at, At::RxQueue) && value == "0",
            Value::Mask(Members::HousekeepingCpus) => {
                let default = host.read_text("proc/sys/net/core/rps_default_mask").ok();
                let default = default.and_then(|mask| CpuMask::from_hex(&mask).ok());
                value == "off" || default.is_some_and(|mask| set_text(&mask) == value)
            }
            Value::Mask(_) => value == "off",
            // The kernel switches `threaded` off if it gets no thread.
            Value::Switch => value == "off",
            _ => false,
        }
    }

    fn cpus(&self, value: &str) -> Option<CpuMask> {
        matches!(self.value, Value::Mask(Members::HousekeepingCpus)).then(|| set_of(value)).flatten()
    }

    fn same(&self, want: &str, got: &str) -> bool {
        match self.value {
            Value::Flows => value::same_flows(want, got),
            _ => want == got,
        }
    }

    fn difference(&self, want: &str, got: &str) -> String {
        let dropped = value::dropped(want, got);
        let kept = format!("asked for {want}, the kernel kept {got}");
        match self.value {
            Value::Clock => {
                format!("asked for {want}, the kernel chose {got}: it does not accept {want} as its clock")
            }
            Value::Mask(Members::HousekeepingCpus) if !dropped.is_empty() => {
                format!("{kept}: it dropped {} (offline or isolated)", cpus_text(&dropped))
            }
            Value::Mask(Members::OnlineCpus | Members::SomeOnlineCpus) if !dropped.is_empty() => {
                format!("{kept}: it dropped {} (offline)", cpus_text(&dropped))
            }
            _ => kept,
        }
    }

    // A mask that was not read back may have lost any of its members.
    fn left_by(&self, ours: &[String], unsettled: &[String], live: &str) -> bool {
        ours.iter().any(|value| self.same(value, live))
            || unsettled.iter().any(|value| match self.value {
                Value::Mask(_) => value::is_part(live, value),
                _ => self.same(value, live),
            })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};
    use rustix::io::Errno;

    use super::{canonical, digits, word};
    use crate::knob::testbed::{check, model, read, refusing, target, write};
    use crate::knob::{Knob, find};
    use rxlab_path::model::Fact;
    use rxlab_sys::{Cause, Host, RecordedHost};

    const BUDGET: &str = "proc/sys/net/core/netdev_budget";
    const THREADED: &str = "sys/class/net/veth0/threaded";

    fn knob(name: &str) -> &'static dyn Knob {
        find(name).expect("registered")
    }

    #[test]
    fn words_stand_for_numbers_and_unknown_modes_stay() {
        for (text, value) in [("0\n", "off"), ("1\n", "on"), ("2\n", "2")] {
            let host = RecordedHost::new().with(THREADED, text);
            assert_eq!(read(knob("threaded"), &host, "veth0").as_deref(), Ok(value));
            assert_eq!(word(digits(value)), value);
        }
        for value in ["1", "2"] {
            let refused = check(knob("threaded"), &RecordedHost::new(), "veth0", value);
            assert!(refused.is_err(), "{value}");
        }
    }

    #[test]
    fn an_interface_without_napi_is_told_apart_from_one_without_the_file() {
        let refusing = |cause| {
            let host = refusing(RecordedHost::new().with(THREADED, "0\n"), "threaded", cause);
            write(knob("threaded"), &host, "veth0", "on").expect_err("refused").to_string()
        };
        let none = refusing(Cause::from(rustix::io::Errno::OPNOTSUPP));
        assert!(none.starts_with("veth0 has no threaded: it has no NAPI now"), "{none}");
        let mode = refusing(Cause::Errno(22));
        assert_eq!(mode, "threaded veth0 = on: the kernel rejected it: this kernel has no such mode");
    }

    #[test]
    fn a_read_only_file_system_is_no_missing_permission() {
        let error = |errno: Errno| {
            let host = refusing(RecordedHost::new().with(THREADED, "0\n"), "threaded", Cause::from(errno));
            write(knob("threaded"), &host, "veth0", "on").expect_err("refused")
        };
        let read_only = error(Errno::ROFS);
        assert_eq!(read_only.kind(), rxlab_base::error::Kind::Denied);
        let expected = "cannot write /sys/class/net/veth0/threaded: read-only file system (EROFS): run rxlab where it \
                        is mounted read-write";
        assert_eq!(read_only.to_string(), expected);
        assert!(error(Errno::PERM).to_string().ends_with("permission denied (needs CAP_NET_ADMIN)"));
    }

    /// A snapshot of an earlier version lacks values of later ones.
    #[test]
    fn what_was_not_recorded_is_not_missing_in_the_kernel() {
        let says = |name: &str, kernel: &str| {
            let mut model = model();
            model.identity.kernel = kernel.to_owned();
            model.settings.rps_default_mask = Fact::Unsupported;
            model.settings.default_smp_affinity = Fact::Unsupported;
            let (host, whole, knob) = (RecordedHost::new(), target("host"), knob(name));
            let site = knob.site(&host, &model, &whole);
            let errors = [knob.check(site, "0"), knob.read(site)];
            let [check, read] = errors.map(|result| result.expect_err("missing").to_string());
            assert_eq!(check, read);
            check
        };
        let old = says("rps_default_mask", "6.1.0");
        assert_eq!(old, "host has no rps_default_mask: this kernel does not have it (6.3 and later do)");
        for name in ["rps_default_mask", "default_smp_affinity"] {
            let expected = format!("host has no {name} in this recording, though Linux 6.18.44-fc has it");
            assert_eq!(says(name, "6.18.44-fc"), expected);
        }
    }

    #[test]
    fn new_interrupts_need_a_cpu() {
        let check = |value: &str| {
            let checked = check(knob("default_smp_affinity"), &RecordedHost::new(), "host", value);
            checked.map_err(|error| error.to_string())
        };
        assert_eq!(check("0-1").as_deref(), Ok("0-1"));
        for none in ["off", ""] {
            let expected = format!(
                "invalid value `{none}` for default_smp_affinity: expected a list of CPUs such as 0-3"
            );
            assert_eq!(check(none), Err(expected));
        }
    }

    #[test]
    fn tables_of_flows_are_rounded_up_by_the_kernel() {
        let file = |queue: u32| format!("sys/class/net/eth0/queues/rx-{queue}/rps_flow_cnt");
        let host = RecordedHost::new().with(&file(0), "0\n").with(&file(1), "4096\n");
        assert_eq!(read(knob("rfs"), &host, "eth0/rx-1").as_deref(), Ok("4096"));
        assert!(knob("rfs").same("3000", "4096") && !knob("rfs").same("4096", "2048"));
        let error = read(knob("rfs"), &host, "veth0/rx-0").expect_err("no such file");
        assert_eq!(
            error.to_string(),
            "this kernel or device does not support rfs on veth0/rx-0: \
             /sys/class/net/veth0/queues/rx-0/rps_flow_cnt does not exist"
        );
        let global = RecordedHost::new().with("proc/sys/net/core/rps_sock_flow_entries", "32768\n");
        assert_eq!(read(knob("rfs_entries"), &global, "host").as_deref(), Ok("32768"));
        let check = |name: &str, at: &str, value: &str| {
            check(knob(name), &RecordedHost::new(), at, value).map_err(|error| error.to_string())
        };
        assert_eq!(check("rfs", "eth0/rx-0", "off").as_deref(), Ok("0"));
        assert_eq!(
            check("rfs_entries", "eth0/rx-0", "1").expect_err("a queue"),
            "rfs_entries acts on the whole machine (host), not on eth0/rx-0"
        );
        assert!(check("rfs_entries", "host", "536870913").is_err());
    }

    #[test]
    fn whatever_the_file_holds_can_be_gone_back_to() {
        let budget = knob("netdev_budget");
        for (text, value) in
            [("300\n", "300"), ("-1\n", "-1"), ("18446744073709551615\n", "18446744073709551615")]
        {
            let host = RecordedHost::new().with(BUDGET, text);
            assert_eq!(read(budget, &host, "host").as_deref(), Ok(value));
        }
        let host = RecordedHost::new().with(BUDGET, "many\n");
        let error = read(budget, &host, "host").expect_err("no number");
        assert_eq!(error.to_string(), "/proc/sys/net/core/netdev_budget contains `many`, expected a number");
    }

    #[test]
    fn a_value_out_of_range_says_why() {
        let says = |name: &str, at: &str, value: &str| {
            check(knob(name), &RecordedHost::new(), at, value).map_err(|error| error.to_string())
        };
        assert_eq!(says("napi_defer_hard_irqs", "eth0", "02").as_deref(), Ok("2"));
        assert_eq!(says("busy_poll", "host", "off").as_deref(), Ok("0"));
        for (knob, at, value, why) in [
            ("netdev_budget", "host", "0", "must be from 1 to 2147483647: "),
            ("netdev_budget", "host", "off", "expected a whole number from 1 to 2147483647"),
            ("busy_read", "host", "-5", "expected a whole number from 0 to 2147483647, or off"),
            (
                "gro_flush_timeout",
                "eth0",
                "99999999999999999999999",
                "packets would wait longer than a second",
            ),
            (
                "gro_flush_timeout",
                "eth0/rx-0",
                "1",
                "gro_flush_timeout acts on an interface (NIC), not on eth0/rx-0",
            ),
            ("busy_poll", "eth0", "1", "busy_poll acts on the whole machine (host), not on eth0"),
            ("napi_defer_hard_irqs", "eth7", "1", "no interface eth7 (found: eth0, veth0)"),
        ] {
            let said = says(knob, at, value).expect_err(value);
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn refusals_are_explained() {
        let refused = |name: &str, at: &str, path: &str, cause| {
            let host = RecordedHost::new().with_failure(path, cause);
            read(knob(name), &host, at).expect_err("it fails").to_string()
        };
        assert_eq!(
            refused("netdev_budget", "host", BUDGET, Cause::Missing),
            "host has no netdev_budget: this kernel does not have it, or this is not the initial network namespace"
        );
        let usecs = "proc/sys/net/core/netdev_budget_usecs";
        let text = refused("netdev_budget_usecs", "host", usecs, Cause::Errno(22));
        assert!(text.contains("two timer ticks"), "{text}");
        let file = "sys/class/net/eth0/napi_defer_hard_irqs";
        let text = refused("napi_defer_hard_irqs", "eth0", file, Cause::Missing);
        assert_eq!(
            text,
            format!(
                "this kernel or device does not support napi_defer_hard_irqs on eth0: /{file} does not exist"
            )
        );
    }

    #[test]
    fn nothing_is_listed_that_the_kernel_does_not_have() {
        let mut model = model();
        model.settings.busy_poll = rxlab_path::model::Fact::Unsupported;
        model.nics[1].napi = rxlab_path::model::NapiSettings::default();
        assert!(knob("busy_poll").targets(&model).is_empty());
        let listed = knob("gro_flush_timeout").targets(&model);
        assert_eq!(listed, [target("eth0")]);
        let (host, whole) = (RecordedHost::new(), target("host"));
        let site = knob("busy_poll").site(&host, &model, &whole);
        let refused = knob("busy_poll").check(site, "50").expect_err("no such file");
        assert!(refused.to_string().starts_with("host has no busy_poll: this kernel does not"), "{refused}");
        // Another namespace has no such files, and neither does the recorded host.
        assert!(RecordedHost::new().read(BUDGET).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_number_or_none(text in "[ \\n+-]{0,2}[0-9]{0,45}|.{0,20}") {
            if let Some(number) = canonical(&text) {
                prop_assert!(number.parse::<i128>().is_ok());
            }
        }

        #[test]
        fn any_value_is_in_range_or_refused(text in "off|[0-9]{0,30}|.{0,20}") {
            for (name, at, range) in [("netdev_budget", "host", 1..=2_147_483_647), ("busy_poll", "host", 0..=2_147_483_647)] {
                if let Ok(value) = check(knob(name), &RecordedHost::new(), at, &text) {
                    prop_assert!(range.contains(&value.parse::<u64>().expect("a number")));
                }
            }
        }
    }
}
