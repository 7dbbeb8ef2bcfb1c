//! `rfs`: the number of flows whose application CPU a receive queue remembers.

use super::{Doc, Knob, KnobError, value};
use crate::host::Host;
use crate::journal::Armed;
use crate::model::Model;
use crate::plan::Target;

/// Receive flow steering of one queue: the size of its flow table.
///
/// Kernel: `Documentation/networking/scaling.rst`, since 2.6.35. Without the global table (`rfs_entries`) it
/// has no effect. The kernel rounds up to a power of two.
pub(super) struct Rfs;

static DOC: Doc = Doc {
    summary: "Size of a receive queue's flow table, which steers each flow to the CPU where the application \
              last read it. Works only together with `rfs_entries`, the table of the whole machine.",
    target: "`NIC/rx-N`",
    values: "a number of flows up to 536870912, 0 or `off` for none; a good value is `rfs_entries` divided \
             by the number of queues",
    example: "rfs eth0/rx-0 = 4096",
    source: "Documentation/networking/scaling.rst, \"RFS: Receive Flow Steering\"",
    since: "2.6.35",
    lost: "Removing the queue, even if it comes back later. A link that goes down and up does not lose it.",
    beware: "Rounded up to a power of two. The CPU it picks is not limited by the `rps` list. Follows only \
             connected sockets (sock_rps_record_flow in include/net/sock.h): TCP, and UDP after connect().",
};

impl Rfs {
    fn path(&self, model: &Model, target: &Target) -> Result<String, KnobError> {
        let (nic, queue) = value::rx_queue(self.name(), model, target)?;
        Ok(format!("sys/class/net/{}/queues/rx-{}/rps_flow_cnt", nic.name, queue.index))
    }
}

impl Knob for Rfs {
    fn name(&self) -> &'static str {
        "rfs"
    }

    fn doc(&self) -> &'static Doc {
        &DOC
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        value::rx_targets(model)
    }

    fn check(
        &self,
        _host: &dyn Host,
        model: &Model,
        target: &Target,
        value: &str,
    ) -> Result<String, KnobError> {
        self.path(model, target)?;
        value::flows(self.name(), value)
    }

    fn locate(&self, model: &Model, target: &Target) -> Result<Vec<String>, KnobError> {
        Ok(vec![self.path(model, target)?])
    }

    fn read(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<String, KnobError> {
        let path = self.path(model, target)?;
        value::number(&path, &value::read_plain(self.name(), host, target, &path)?)
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
        host.write(&path, value.as_bytes()).map_err(|error| {
            let denied = " (needs CAP_NET_ADMIN)";
            KnobError::from_host(self.name(), target, Some(value), &error, denied, |_| None)
        })
    }

    fn is_fresh(&self, _host: &dyn Host, value: &str) -> bool {
        value == "0"
    }

    fn same(&self, want: &str, got: &str) -> bool {
        value::same_flows(want, got)
    }
}

#[cfg(test)]
mod tests {
    use super::{Knob, Rfs};
    use crate::host::RecordedHost;
    use crate::knob::testbed::{model, target};

    #[test]
    fn reads_the_table_size_of_its_queue() {
        let host = RecordedHost::new()
            .with("sys/class/net/eth0/queues/rx-0/rps_flow_cnt", "0\n")
            .with("sys/class/net/eth0/queues/rx-1/rps_flow_cnt", "4096\n");
        assert_eq!(Rfs.read(&host, &model(), &target("eth0/rx-1")).as_deref(), Ok("4096"));
        let error = Rfs.read(&host, &model(), &target("veth0/rx-0")).expect_err("no such file");
        assert_eq!(
            error.to_string(),
            "this kernel or device does not support rfs on veth0/rx-0: \
             /sys/class/net/veth0/queues/rx-0/rps_flow_cnt does not exist"
        );
    }

    #[test]
    fn a_rounded_value_is_the_one_asked_for() {
        assert!(Rfs.same("3000", "4096"));
        assert!(!Rfs.same("4096", "2048"));
        assert_eq!(
            Rfs.check(&RecordedHost::new(), &model(), &target("eth0/rx-0"), "off").as_deref(),
            Ok("0")
        );
    }
}
