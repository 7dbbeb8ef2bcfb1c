//! Common code of the knobs that are one number in one file. The knobs themselves are in `napi` and `sysctl`.

use std::ops::RangeInclusive;

use super::{Doc, Knob, KnobError, value};
use crate::host::{Cause, Host, HostError};
use crate::journal::Armed;
use crate::model::{Fact, Model, Nic, Settings};
use crate::plan::Target;

/// A number in a file.
pub(super) struct Number {
    pub(super) name: &'static str,
    pub(super) doc: &'static Doc,
    pub(super) place: Place,
    /// Allowed values.
    pub(super) range: RangeInclusive<u64>,
    /// Reason to refuse a number outside the range.
    pub(super) outside: &'static str,
    /// Meaning of knob-specific errnos.
    pub(super) meaning: fn(i32) -> Option<&'static str>,
}

/// Location of the file, and whether it exists by the model.
pub(super) enum Place {
    /// In the directory of an interface.
    Nic { file: &'static str, there: fn(&Nic) -> bool },
    /// `net.core.FILE`, which exists only in the initial network namespace.
    Core { file: &'static str, there: fn(&Settings) -> bool },
}

/// True if a source exists: one that was denied or is broken may become readable.
pub(super) fn exists<T>(fact: &Fact<T>) -> bool {
    !matches!(fact, Fact::NotAsked | Fact::Unsupported)
}

impl Number {
    fn path(&self, model: &Model, target: &Target) -> Result<String, KnobError> {
        match &self.place {
            Place::Nic { file, .. } => {
                Ok(format!("sys/class/net/{}/{file}", value::nic(self.name, model, target)?.name))
            }
            Place::Core { file, .. } => {
                value::only_host(self.name, target)?;
                Ok(format!("proc/sys/net/core/{file}"))
            }
        }
    }

    fn error(&self, target: &Target, value: Option<&str>, error: &HostError) -> KnobError {
        let (denied, missing) = match self.place {
            Place::Nic { .. } => (" (needs CAP_NET_ADMIN)", None),
            Place::Core { .. } => (
                " (needs root)",
                Some("this kernel does not have it, or this is not the initial network namespace"),
            ),
        };
        match (error.cause, missing) {
            (Cause::Missing, Some(why)) => KnobError::Lacks { knob: self.name, target: target.clone(), why },
            _ => KnobError::from_host(self.name, target, value, error, denied, self.meaning),
        }
    }
}

/// A whole number as the kernel prints it. Some of these files are signed and hold whatever was written.
fn canonical(text: &str) -> Option<String> {
    text.trim().parse::<i128>().ok().map(|number| number.to_string())
}

impl Knob for Number {
    fn name(&self) -> &'static str {
        self.name
    }

    fn doc(&self) -> &'static Doc {
        self.doc
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        match self.place {
            Place::Nic { there, .. } => value::nic_targets(model, there),
            Place::Core { there, .. } if there(&model.settings) => vec![Target::Host],
            Place::Core { .. } => Vec::new(),
        }
    }

    fn check(
        &self,
        _host: &dyn Host,
        model: &Model,
        target: &Target,
        value: &str,
    ) -> Result<String, KnobError> {
        self.path(model, target)?;
        let bad = |why: String| KnobError::BadValue { knob: self.name, value: value.to_owned(), why };
        let (first, last) = (*self.range.start(), *self.range.end());
        if value == "off" && first == 0 {
            return Ok("0".to_owned());
        }
        if value.is_empty() || !value.bytes().all(|b| b.is_ascii_digit()) {
            let off = if first == 0 { ", or off" } else { "" };
            return Err(bad(format!("expected a whole number from {first} to {last}{off}")));
        }
        // A number with too many digits is above any range.
        match value.parse::<u64>() {
            Ok(number) if self.range.contains(&number) => Ok(number.to_string()),
            _ => Err(bad(format!("must be from {first} to {last}: {}", self.outside))),
        }
    }

    fn locate(&self, model: &Model, target: &Target) -> Result<Vec<String>, KnobError> {
        Ok(vec![self.path(model, target)?])
    }

    fn read(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<String, KnobError> {
        let path = self.path(model, target)?;
        let text = host.read_text(&path).map_err(|error| self.error(target, None, &error))?;
        let broken = || KnobError::Broken { path, text: text.trim().to_owned(), expected: "a number" };
        canonical(&text).ok_or_else(broken)
    }

    fn write(
        &self,
        host: &dyn Host,
        model: &Model,
        target: &Target,
        value: &str,
        _armed: &Armed,
    ) -> Result<(), KnobError> {
        let path = self.path(model, target)?;
        host.write(&path, value.as_bytes()).map_err(|error| self.error(target, Some(value), &error))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::canonical;
    use crate::host::{Cause, Host, RecordedHost};
    use crate::knob::find;
    use crate::knob::testbed::{model, target};

    const BUDGET: &str = "proc/sys/net/core/netdev_budget";

    #[test]
    fn whatever_the_file_holds_can_be_gone_back_to() {
        let budget = find("netdev_budget").expect("registered");
        for (text, value) in
            [("300\n", "300"), ("-1\n", "-1"), ("18446744073709551615\n", "18446744073709551615")]
        {
            let host = RecordedHost::new().with(BUDGET, text);
            assert_eq!(budget.read(&host, &model(), &target("host")).as_deref(), Ok(value));
        }
        let host = RecordedHost::new().with(BUDGET, "many\n");
        let error = budget.read(&host, &model(), &target("host")).expect_err("no number");
        assert_eq!(error.to_string(), "/proc/sys/net/core/netdev_budget contains `many`, expected a number");
    }

    #[test]
    fn a_value_out_of_range_says_why() {
        let says = |knob: &str, at: &str, value: &str| {
            let knob = find(knob).expect("registered");
            knob.check(&RecordedHost::new(), &model(), &target(at), value).map_err(|error| error.to_string())
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
            ("napi_defer_hard_irqs", "eth7", "1", "there is no interface eth7 (there are: eth0, veth0)"),
        ] {
            let said = says(knob, at, value).expect_err(value);
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn refusals_are_explained() {
        let refused = |knob: &str, at: &str, path: &str, cause| {
            let host = RecordedHost::new().with_failure(path, cause);
            let error = find(knob).expect("registered").read(&host, &model(), &target(at));
            error.expect_err("it fails").to_string()
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
        model.settings.busy_poll = crate::model::Fact::Unsupported;
        model.nics[1].napi = crate::model::NapiSettings::default();
        assert!(find("busy_poll").expect("registered").targets(&model).is_empty());
        let listed = find("gro_flush_timeout").expect("registered").targets(&model);
        assert_eq!(listed, [target("eth0")]);
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
            for (knob, at, range) in [("netdev_budget", "host", 1..=2_147_483_647), ("busy_poll", "host", 0..=2_147_483_647)] {
                if let Ok(value) = find(knob).expect("registered").check(&RecordedHost::new(), &model(), &target(at), &text) {
                    prop_assert!(range.contains(&value.parse::<u64>().expect("a number")));
                }
            }
        }
    }
}
