//! `threaded`: whether dedicated kernel threads poll an interface's NAPIs.

use rustix::io::Errno;

use super::number::exists;
use super::{Doc, Knob, KnobError, value};
use crate::host::{Cause, Host};
use crate::journal::Armed;
use crate::model::Model;
use crate::plan::Target;

/// Threaded NAPI of one interface.
///
/// Kernel: `Documentation/networking/napi.rst`, "Threaded NAPI". A value unknown to this version is kept as a
/// number, so that undo can restore it.
pub(super) struct Threaded;

static DOC: Doc = Doc {
    summary: "Polls the queues of an interface in kernel threads, one for each NAPI, instead of in softirq. \
              The scheduler can move the threads, and they can be pinned and given a priority \
              (`napi_priority`).",
    target: "`NIC`",
    values: "`on` or `off`",
    example: "threaded eth0 = on",
    source: "Documentation/networking/napi.rst, \"Threaded NAPI\"",
    since: "5.12",
    lost: "Re-creating the interface, for example by reloading its driver. A link that goes down and up \
           keeps it, but creates new threads: their priority and affinity are lost.",
    beware: "The threads run wherever the scheduler puts them, not where the interrupt is. Overwrites \
             values set for single NAPIs over netlink (since 6.17), and undo cannot restore those.",
};

impl Threaded {
    fn path(&self, model: &Model, target: &Target) -> Result<String, KnobError> {
        Ok(format!("sys/class/net/{}/threaded", value::nic(self.name(), model, target)?.name))
    }
}

fn word(number: String) -> String {
    match number.as_str() {
        "0" => "off".to_owned(),
        "1" => "on".to_owned(),
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

fn meaning(errno: i32) -> Option<&'static str> {
    (Errno::from_raw_os_error(errno) == Errno::INVAL).then_some("this kernel has no such mode")
}

impl Knob for Threaded {
    fn name(&self) -> &'static str {
        "threaded"
    }

    fn doc(&self) -> &'static Doc {
        &DOC
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        value::nic_targets(model, |nic| exists(&nic.napi.threaded))
    }

    fn check(
        &self,
        _host: &dyn Host,
        model: &Model,
        target: &Target,
        value: &str,
    ) -> Result<String, KnobError> {
        self.path(model, target)?;
        match value {
            "on" | "off" => Ok(value.to_owned()),
            _ => Err(KnobError::BadValue {
                knob: self.name(),
                value: value.to_owned(),
                why: "expected on or off".to_owned(),
            }),
        }
    }

    fn locate(&self, model: &Model, target: &Target) -> Result<Vec<String>, KnobError> {
        Ok(vec![self.path(model, target)?])
    }

    fn read(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<String, KnobError> {
        let path = self.path(model, target)?;
        value::number(&path, &value::read_plain(self.name(), host, target, &path)?).map(word)
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
        host.write(&path, digits(value).as_bytes()).map_err(|error| match error.cause {
            // EOPNOTSUPP, or the file does not exist; but it was just read.
            Cause::Missing => KnobError::Lacks {
                knob: self.name(),
                target: target.clone(),
                why: "it has no NAPI now, or this kernel cannot thread it (a veth has one while GRO is on)",
            },
            _ => KnobError::from_host(
                self.name(),
                target,
                Some(value),
                &error,
                " (needs CAP_NET_ADMIN)",
                meaning,
            ),
        })
    }

    // Its threads are re-created.
    fn disturbs(&self) -> &'static [&'static str] {
        &["napi_priority"]
    }
}

#[cfg(test)]
mod tests {
    use super::{Knob, Threaded, digits, word};
    use crate::host::{Cause, FlakyHost, Fuse, Mishap, RecordedHost, Rule};
    use crate::knob::testbed::{model, target, write};

    const FILE: &str = "sys/class/net/veth0/threaded";

    #[test]
    fn words_stand_for_numbers_and_unknown_modes_stay() {
        for (text, value) in [("0\n", "off"), ("1\n", "on"), ("2\n", "2")] {
            let host = RecordedHost::new().with(FILE, text);
            assert_eq!(Threaded.read(&host, &model(), &target("veth0")).as_deref(), Ok(value));
            assert_eq!(word(digits(value).to_owned()), value);
        }
        assert!(Threaded.check(&RecordedHost::new(), &model(), &target("veth0"), "1").is_err());
        assert!(Threaded.check(&RecordedHost::new(), &model(), &target("veth0"), "2").is_err());
    }

    #[test]
    fn an_interface_without_napi_is_told_apart_from_one_without_the_file() {
        let refusing = |cause| {
            let rule = Rule { suffix: "threaded".into(), mishap: Mishap::Refuse(cause) };
            let host =
                FlakyHost::new(RecordedHost::new().with(FILE, "0\n"), vec![rule], Fuse::new(None, || ()));
            write(&Threaded, &host, "veth0", "on").expect_err("refused").to_string()
        };
        let none = refusing(Cause::from(rustix::io::Errno::OPNOTSUPP));
        assert!(none.starts_with("veth0 has no threaded: it has no NAPI now"), "{none}");
        let mode = refusing(Cause::Errno(22));
        assert_eq!(mode, "threaded veth0 = on: the kernel rejected it: this kernel has no such mode");
    }
}
