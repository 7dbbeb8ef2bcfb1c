//! `rfs_entries`: the number of flows whose application CPU the whole machine remembers.

use super::{Doc, Knob, KnobError, value};
use crate::host::Host;
use crate::journal::Armed;
use crate::model::{Fact, Model};
use crate::plan::Target;

const PATH: &str = "proc/sys/net/core/rps_sock_flow_entries";

/// The global table of receive flow steering.
///
/// Kernel: `Documentation/networking/scaling.rst`, since 2.6.35. Only in the initial network namespace; the
/// kernel rounds up to a power of two and refuses more than 2^29.
pub(super) struct RfsEntries;

static DOC: Doc = Doc {
    summary: "Size of the table in which the kernel records on which CPU each flow was last read. Enables \
              receive flow steering for the machine; each queue also needs `rfs`.",
    target: "`host`",
    values: "a number of flows up to 536870912, 0 or `off` for none; a good value is the number of \
             connections active at one time",
    example: "rfs_entries host = 32768",
    source: "Documentation/networking/scaling.rst, \"RFS: Receive Flow Steering\"",
    since: "2.6.35",
    lost: "Nothing.",
    beware: "Rounded up to a power of two. One table for all network namespaces, visible only in the \
             initial one.",
};

fn meaning(errno: i32) -> Option<&'static str> {
    (errno == rustix::io::Errno::INVAL.raw_os_error()).then_some("the largest table has 536870912 entries")
}

impl Knob for RfsEntries {
    fn name(&self) -> &'static str {
        "rfs_entries"
    }

    fn doc(&self) -> &'static Doc {
        &DOC
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        match model.rps_sock_flow_entries {
            Fact::NotAsked | Fact::Unsupported => Vec::new(),
            _ => vec![Target::Host],
        }
    }

    fn check(
        &self,
        _host: &dyn Host,
        _model: &Model,
        target: &Target,
        value: &str,
    ) -> Result<String, KnobError> {
        value::only_host(self.name(), target)?;
        value::flows(self.name(), value)
    }

    fn locate(&self, _model: &Model, target: &Target) -> Result<Vec<String>, KnobError> {
        value::only_host(self.name(), target)?;
        Ok(vec![PATH.to_owned()])
    }

    fn read(&self, host: &dyn Host, _model: &Model, target: &Target) -> Result<String, KnobError> {
        value::only_host(self.name(), target)?;
        value::number(PATH, &value::read_plain(self.name(), host, target, PATH)?)
    }

    fn write(
        &self,
        host: &dyn Host,
        _model: &Model,
        target: &Target,
        value: &str,
        _armed: &Armed,
    ) -> Result<(), KnobError> {
        value::only_host(self.name(), target)?;
        host.write(PATH, value.as_bytes()).map_err(|error| {
            let denied = " (needs root)";
            KnobError::from_host(self.name(), target, Some(value), &error, denied, meaning)
        })
    }

    fn same(&self, want: &str, got: &str) -> bool {
        value::same_flows(want, got)
    }
}

#[cfg(test)]
mod tests {
    use super::{Knob, PATH, RfsEntries};
    use crate::host::RecordedHost;
    use crate::knob::testbed::{model, target};

    #[test]
    fn is_one_value_for_the_machine() {
        let host = RecordedHost::new().with(PATH, "32768\n");
        assert_eq!(RfsEntries.read(&host, &model(), &target("host")).as_deref(), Ok("32768"));
        let error =
            RfsEntries.check(&RecordedHost::new(), &model(), &target("eth0/rx-0"), "1").expect_err("a queue");
        assert_eq!(error.to_string(), "rfs_entries acts on the whole machine (host), not on eth0/rx-0");
        assert!(RfsEntries.check(&RecordedHost::new(), &model(), &target("host"), "536870913").is_err());
    }
}
