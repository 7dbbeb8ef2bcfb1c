//! `xps_cpus` and `xps_rxqs`: the senders that use a transmit queue, by CPU or by the receive queue of their
//! flow.
//!
//! Kernel: `Documentation/networking/scaling.rst`, "XPS: Transmit Packet Steering".

use rustix::io::Errno;

use super::file::{At, FileKnob, Members, Missing, Value};

const ONLY_ONE: &str =
    "the interface has one transmit queue, so there is nothing to choose, or its kernel has no XPS";

/// By the CPU that sends.
pub(super) static XPS_CPUS: FileKnob =
    FileKnob::new("xps_cpus", At::TxQueue(ONLY_ONE), Value::Mask(Members::OnlineCpus))
        .meanings(&[(Errno::OVERFLOW, "this kernel has no such CPU")])
        .missing(Missing::Because(ONLY_ONE));

/// By the receive queue of the flow.
pub(super) static XPS_RXQS: FileKnob =
    FileKnob::new("xps_rxqs", At::TxQueue(ONLY_ONE), Value::Mask(Members::RxQueues))
        .meanings(&[(Errno::OVERFLOW, "the interface has no such receive queue")]);

#[cfg(test)]
mod tests {
    use super::{XPS_CPUS, XPS_RXQS};
    use crate::knob::testbed::{check, model, read, refusal, write};
    use crate::knob::{Knob, KnobError};
    use rxlab_sys::{Cause, Host, RecordedHost};

    const CPUS: &str = "sys/class/net/eth0/queues/tx-1/xps_cpus";
    const RXQS: &str = "sys/class/net/eth0/queues/tx-1/xps_rxqs";

    #[test]
    fn masks_are_lists() {
        let host = RecordedHost::new().with(CPUS, "00000000,00000006\n").with(RXQS, "0\n");
        let tx = "eth0/tx-1";
        assert_eq!(read(&XPS_CPUS, &host, tx).as_deref(), Ok("1-2"));
        assert_eq!(read(&XPS_RXQS, &host, tx).as_deref(), Ok("off"));
        write(&XPS_CPUS, &host, "eth0/tx-1", "4-5").expect("written");
        write(&XPS_RXQS, &host, "eth0/tx-1", "0-1").expect("written");
        assert_eq!((host.read_text(CPUS).as_deref(), host.read_text(RXQS).as_deref()), (Ok("30"), Ok("3")));
        write(&XPS_CPUS, &host, "eth0/tx-1", "off").expect("written");
        assert_eq!(host.read_text(CPUS).as_deref(), Ok("0"));
    }

    /// CPU 3 of the test machine is isolated, which XPS does not mind; CPU 7 is offline.
    #[test]
    fn what_is_not_there_is_refused_by_name() {
        let tx = "eth0/tx-1";
        assert_eq!(check(&XPS_CPUS, &RecordedHost::new(), tx, "3,2").as_deref(), Ok("2-3"));
        let says = |knob: &dyn Knob, at: &str, value: &str| refusal(knob, &RecordedHost::new(), at, value);
        assert_eq!(says(&XPS_CPUS, "eth0/tx-1", "6-7"), "xps_cpus eth0/tx-1: CPU 7 is offline (online: 0-6)");
        assert_eq!(says(&XPS_RXQS, "eth0/tx-1", "1-2"), "eth0 has no queue rx-2 (it has rx-0, rx-1)");
        assert!(says(&XPS_RXQS, "eth0/tx-1", "a").contains("expected a list of receive queues"));
        assert_eq!(says(&XPS_CPUS, "eth0/tx-9", "1"), "eth0 has no queue tx-9 (it has tx-0, tx-1)");
        assert_eq!(
            says(&XPS_CPUS, "eth0/rx-0", "1"),
            "xps_cpus acts on a transmit queue (NIC/tx-N), not on eth0/rx-0"
        );
    }

    /// The kernel's ENOENT, for a file that exists.
    #[test]
    fn an_interface_with_one_transmit_queue_has_none() {
        for knob in [&XPS_CPUS, &XPS_RXQS] {
            assert!(knob.targets(&model()).iter().all(|t| t.to_string().starts_with("eth0/")));
            let error = check(knob, &RecordedHost::new(), "veth0/tx-0", "1").expect_err("one queue");
            assert!(matches!(error, KnobError::Lacks { .. }), "{error}");
            assert!(error.to_string().contains("has one transmit queue"), "{error}");
        }
        let host = RecordedHost::new().with_failure(CPUS, Cause::Missing);
        let error = read(&XPS_CPUS, &host, "eth0/tx-1").expect_err("gone since");
        assert!(matches!(error, KnobError::Lacks { .. }), "{error}");
    }

    #[test]
    fn dropped_cpus_are_named_and_known_as_ours() {
        assert_eq!(
            XPS_CPUS.difference("1-4", "1-2"),
            "asked for 1-4, the kernel kept 1-2: it dropped CPUs 3-4 (offline)"
        );
        let ours = ["off".to_owned(), "1-4".to_owned()];
        assert!(XPS_CPUS.left_by(&ours, &ours[1..], "1-2"));
        assert!(!XPS_CPUS.left_by(&ours, &[], "1-2"));
    }
}
