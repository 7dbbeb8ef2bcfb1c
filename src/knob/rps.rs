//! `rps`: the CPUs that receive packet steering hands the packets of a queue to.

use super::{Doc, Knob, KnobError, value};
use crate::host::Host;
use crate::journal::Armed;
use crate::model::Model;
use crate::plan::Target;
use crate::units::CpuMask;

/// Receive packet steering of one queue.
///
/// Kernel: `Documentation/networking/scaling.rst`, since 2.6.35. The kernel silently drops offline and
/// isolated CPUs; a mask of only offline CPUs switches RPS off.
pub(super) struct Rps;

static DOC: Doc = Doc {
    summary: "Hands packets of a receive queue to other CPUs, by a hash of the flow, right after the \
              driver. For a NIC with fewer queues than CPUs: it moves protocol work off the CPU that takes \
              the interrupt.",
    target: "`NIC/rx-N`",
    values: "a list of CPUs, or `off`",
    example: "rps eth0/rx-0 = 2-7",
    source: "Documentation/networking/scaling.rst, \"RPS: Receive Packet Steering\"",
    since: "2.6.35",
    lost: "Removing the queue, even if it comes back later. A link that goes down and up does not lose it.",
    beware: "The kernel silently drops offline and isolated CPUs; rxlab refuses them by name and reads back \
             every write.",
};

impl Rps {
    fn path(&self, model: &Model, target: &Target) -> Result<String, KnobError> {
        let (nic, queue) = value::rx_queue(self.name(), model, target)?;
        Ok(format!("sys/class/net/{}/queues/rx-{}/rps_cpus", nic.name, queue.index))
    }
}

fn meaning(errno: i32) -> Option<&'static str> {
    match rustix::io::Errno::from_raw_os_error(errno) {
        rustix::io::Errno::INVAL => Some("all of these CPUs are isolated at boot"),
        rustix::io::Errno::OVERFLOW => Some("this kernel has no such CPU"),
        _ => None,
    }
}

impl Knob for Rps {
    fn name(&self) -> &'static str {
        "rps"
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
        if value == "off" {
            return Ok("off".to_owned());
        }
        let mask = value::online_cpus(self.name(), model, target, value)?;
        let isolated = mask.intersection(&model.isolated());
        if !isolated.is_empty() {
            let is = if isolated.len() == 1 { "is" } else { "are" };
            return Err(KnobError::UnusableCpus {
                knob: self.name(),
                target: target.clone(),
                cpus: isolated,
                why: format!(
                    "{is} isolated at boot and would be dropped silently by the kernel; leave it out"
                ),
            });
        }
        if mask.is_empty() {
            let why = "expected a list of CPUs such as 2-7, or off".to_owned();
            return Err(KnobError::BadValue { knob: self.name(), value: value.to_owned(), why });
        }
        Ok(value::mask_text(&mask))
    }

    fn locate(&self, model: &Model, target: &Target) -> Result<Vec<String>, KnobError> {
        Ok(vec![self.path(model, target)?])
    }

    fn read(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<String, KnobError> {
        let path = self.path(model, target)?;
        let content = value::read_plain(self.name(), host, target, &path)?;
        Ok(value::mask_text(&value::mask(&path, &content)?))
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
        host.write(&path, value::hex(self.name(), value)?.as_bytes()).map_err(|error| {
            KnobError::from_host(self.name(), target, Some(value), &error, " (needs CAP_NET_ADMIN)", meaning)
        })
    }

    fn difference(&self, want: &str, got: &str) -> String {
        let dropped = value::dropped(want, got);
        if dropped.is_empty() {
            return format!("asked for {want}, the kernel kept {got}");
        }
        format!("asked for {want}, the kernel kept {got}: it dropped CPU {dropped} (offline or isolated)")
    }

    fn cpus(&self, value: &str) -> Option<CpuMask> {
        value::set(value)
    }

    fn is_fresh(&self, host: &dyn Host, value: &str) -> bool {
        let default = host.read_text("proc/sys/net/core/rps_default_mask").ok();
        let default = default.and_then(|mask| CpuMask::from_hex(&mask).ok());
        value == "off" || default.is_some_and(|mask| value::mask_text(&mask) == value)
    }

    // A write that was not read back may have lost any of its CPUs.
    fn left_by(&self, ours: &[String], unsettled: &[String], live: &str) -> bool {
        let subset = |value: &String| value::is_part(live, value);
        ours.iter().any(|value| self.same(value, live)) || unsettled.iter().any(subset)
    }
}

#[cfg(test)]
mod tests {
    use super::{Knob, Rps};
    use crate::host::{Host, RecordedHost};
    use crate::knob::testbed::{self, model, target};

    #[test]
    fn reads_the_mask_as_a_list() {
        let host = RecordedHost::new().with("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000,000000fe\n");
        assert_eq!(Rps.read(&host, &model(), &target("eth0/rx-0")).as_deref(), Ok("1-7"));
        let host = RecordedHost::new().with("sys/class/net/eth0/queues/rx-0/rps_cpus", "00\n");
        assert_eq!(Rps.read(&host, &model(), &target("eth0/rx-0")).as_deref(), Ok("off"));
        let host = RecordedHost::new().with("sys/class/net/eth0/queues/rx-0/rps_cpus", "zz\n");
        let error = Rps.read(&host, &model(), &target("eth0/rx-0")).expect_err("no mask");
        assert_eq!(
            error.to_string(),
            "/sys/class/net/eth0/queues/rx-0/rps_cpus contains `zz`, expected a CPU mask"
        );
    }

    /// CPU 3 of the test machine is isolated, CPU 7 is offline, CPU 8 does not exist.
    #[test]
    fn refuses_what_the_kernel_would_drop() {
        let check = |value: &str| Rps.check(&RecordedHost::new(), &model(), &target("eth0/rx-0"), value);
        assert_eq!(check("2,1").as_deref(), Ok("1-2"));
        assert_eq!(check("off").as_deref(), Ok("off"));
        let says = |value: &str| check(value).expect_err(value).to_string();
        assert_eq!(says("2,7"), "rps eth0/rx-0: CPU 7 is offline (online: 0-6)");
        assert_eq!(says("2,8-9"), "rps eth0/rx-0: CPUs 8-9 do not exist on this machine (online: 0-6)");
        assert!(says("2-4").starts_with("rps eth0/rx-0: CPU 3 is isolated at boot"));
        assert!(says("2-x").starts_with("invalid value `2-x` for rps"));
    }

    #[test]
    fn unknown_targets_are_answered_with_the_known_ones() {
        let says =
            |t: &str| Rps.check(&RecordedHost::new(), &model(), &target(t), "1").expect_err(t).to_string();
        assert_eq!(says("eth7/rx-0"), "there is no interface eth7 (there are: eth0, veth0)");
        assert_eq!(says("eth0/rx-9"), "eth0 has no queue rx-9 (it has rx-0, rx-1)");
        assert_eq!(says("host"), "rps acts on a receive queue (NIC/rx-N), not on host");
        assert_eq!(says("eth0/tx-0"), "rps acts on a receive queue (NIC/rx-N), not on eth0/tx-0");
    }

    #[test]
    fn a_new_queue_has_no_mask_or_the_default_one() {
        let host = RecordedHost::new().with("proc/sys/net/core/rps_default_mask", "0c\n");
        assert!(Rps.is_fresh(&host, "off") && Rps.is_fresh(&host, "2-3") && !Rps.is_fresh(&host, "2"));
        assert!(Rps.is_fresh(&RecordedHost::new(), "off") && !Rps.is_fresh(&RecordedHost::new(), "2-3"));
    }

    #[test]
    fn a_value_that_does_not_parse_is_not_the_empty_mask() {
        let path = "sys/class/net/eth0/queues/rx-0/rps_cpus";
        let host = RecordedHost::new().with(path, "0c\n");
        let error = testbed::write(&Rps, &host, "eth0/rx-0", "x").expect_err("not a list");
        assert!(error.to_string().contains("`x`"), "{error}");
        assert_eq!(host.read_text(path).as_deref(), Ok("0c\n"), "nothing was written");
        assert!(!Rps.left_by(&[], &["2-3".to_owned()], "x") && !Rps.left_by(&[], &["x".to_owned()], "2-3"));
    }

    #[test]
    fn a_write_cut_short_may_have_lost_cpus() {
        let list = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>();
        assert!(Rps.left_by(&list(&["off", "1-4"]), &list(&["1-4"]), "1-2"));
        assert!(!Rps.left_by(&list(&["off", "1-4"]), &list(&[]), "1-2"));
        assert!(!Rps.left_by(&list(&["off", "1-4"]), &list(&["1-4"]), "1-5"));
        assert_eq!(
            Rps.difference("1-4", "1-2"),
            "asked for 1-4, the kernel kept 1-2: it dropped CPU 3-4 (offline or isolated)"
        );
    }
}
