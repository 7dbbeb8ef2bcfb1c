//! `rps`: the CPUs that receive packet steering hands the packets of a queue to.

use rustix::io::Errno;

use super::error::Meanings;
use super::file::{At, FileKnob, Members, Value};

/// Receive packet steering of one queue.
///
/// Kernel: `Documentation/networking/scaling.rst`, since 2.6.35. The kernel silently drops offline and
/// isolated CPUs; a mask of only offline CPUs switches RPS off.
pub(super) static RPS: FileKnob =
    FileKnob::new("rps", At::RxQueue, Value::Mask(Members::HousekeepingCpus)).meanings(MEANINGS);

const MEANINGS: Meanings = &[
    (Errno::INVAL, "all of these CPUs are isolated at boot"),
    (Errno::OVERFLOW, "this kernel has no such CPU"),
];

#[cfg(test)]
mod tests {
    use super::RPS;
    use crate::knob::Knob;
    use crate::knob::testbed::{self, check, list, read, refusal};
    use rxlab_sys::{Host, RecordedHost};

    #[test]
    fn reads_the_mask_as_a_list() {
        let host = RecordedHost::new().with("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000,000000fe\n");
        assert_eq!(read(&RPS, &host, "eth0/rx-0").as_deref(), Ok("1-7"));
        let host = RecordedHost::new().with("sys/class/net/eth0/queues/rx-0/rps_cpus", "00\n");
        assert_eq!(read(&RPS, &host, "eth0/rx-0").as_deref(), Ok("off"));
        let host = RecordedHost::new().with("sys/class/net/eth0/queues/rx-0/rps_cpus", "zz\n");
        let error = read(&RPS, &host, "eth0/rx-0").expect_err("no mask");
        assert_eq!(
            error.to_string(),
            "/sys/class/net/eth0/queues/rx-0/rps_cpus contains `zz`, expected a CPU mask"
        );
    }

    /// CPU 7 of the test machine is offline, CPU 8 does not exist.
    #[test]
    fn refuses_what_the_kernel_would_drop() {
        let check = |value: &str| check(&RPS, &RecordedHost::new(), "eth0/rx-0", value);
        assert_eq!(check("2,1").as_deref(), Ok("1-2"));
        assert_eq!(check("off").as_deref(), Ok("off"));
        let says = |value: &str| check(value).expect_err(value).to_string();
        assert_eq!(says("2,7"), "rps eth0/rx-0: CPU 7 is offline (online: 0-6)");
        assert_eq!(says("2,8-9"), "rps eth0/rx-0: CPUs 8-9 do not exist on this machine (online: 0-6)");
        assert!(says("2-x").starts_with("invalid value `2-x` for rps"));
    }

    #[test]
    fn unknown_targets_are_answered_with_the_known_ones() {
        let says = |t: &str| refusal(&RPS, &RecordedHost::new(), t, "1");
        assert_eq!(says("eth7/rx-0"), "no interface eth7 (found: eth0, veth0)");
        assert_eq!(says("eth0/rx-9"), "eth0 has no queue rx-9 (it has rx-0, rx-1)");
        assert_eq!(says("host"), "rps acts on a receive queue (NIC/rx-N), not on host");
        assert_eq!(says("eth0/tx-0"), "rps acts on a receive queue (NIC/rx-N), not on eth0/tx-0");
    }

    #[test]
    fn a_new_queue_has_no_mask_or_the_default_one() {
        let host = RecordedHost::new().with("proc/sys/net/core/rps_default_mask", "0c\n");
        assert!(RPS.is_fresh(&host, "off") && RPS.is_fresh(&host, "2-3") && !RPS.is_fresh(&host, "2"));
        assert!(RPS.is_fresh(&RecordedHost::new(), "off") && !RPS.is_fresh(&RecordedHost::new(), "2-3"));
    }

    #[test]
    fn a_value_that_does_not_parse_is_not_the_empty_mask() {
        let path = "sys/class/net/eth0/queues/rx-0/rps_cpus";
        let host = RecordedHost::new().with(path, "0c\n");
        let error = testbed::write(&RPS, &host, "eth0/rx-0", "x").expect_err("not a list");
        assert!(error.to_string().contains("`x`"), "{error}");
        assert_eq!(host.read_text(path).as_deref(), Ok("0c\n"), "nothing was written");
        assert!(!RPS.left_by(&[], &["2-3".to_owned()], "x") && !RPS.left_by(&[], &["x".to_owned()], "2-3"));
    }

    #[test]
    fn a_write_cut_short_may_have_lost_cpus() {
        assert!(RPS.left_by(&list(&["off", "1-4"]), &list(&["1-4"]), "1-2"));
        assert!(!RPS.left_by(&list(&["off", "1-4"]), &list(&[]), "1-2"));
        assert!(!RPS.left_by(&list(&["off", "1-4"]), &list(&["1-4"]), "1-5"));
        assert_eq!(
            RPS.difference("1-4", "1-2"),
            "asked for 1-4, the kernel kept 1-2: it dropped CPUs 3-4 (offline or isolated)"
        );
    }
}
