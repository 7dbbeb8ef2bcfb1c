//! `ring_rx` and `ring_tx`: the number of packets that wait in each queue of the device.
//!
//! Kernel: `Documentation/networking/ethtool-netlink.rst`, `RINGS_SET`.

use rustix::io::Errno;

use super::ethtool::{EthtoolKnob, Value};
use rxlab_base::parse::ethtool::RingKind;

/// The size of the rings of one kind.
const fn ring(name: &'static str, kind: RingKind) -> EthtoolKnob {
    EthtoolKnob {
        name,
        value: Value::Ring(kind),
        absent: "the device has no such rings",
        fixed: "the driver does not let its ring sizes be set, or not while the interface is up",
        meanings: &[
            (Errno::INVAL, "the driver does not support this ring size, or not with these settings"),
            (Errno::NETDOWN, "the interface is down"),
        ],
    }
}

pub(super) static RING_RX: EthtoolKnob = ring("ring_rx", RingKind::Rx);
pub(super) static RING_TX: EthtoolKnob = ring("ring_tx", RingKind::Tx);

#[cfg(test)]
mod tests {
    use super::{RING_RX, RING_TX};
    use crate::knob::Knob;
    use crate::knob::testbed::{answer, check, list, path, read, refusal, refusing, write};
    use rxlab_sys::{Cause, EthtoolGet, RecordedHost};

    /// 256 of 4096 receive descriptors, and no transmit ring that ethtool knows of.
    fn host() -> RecordedHost {
        let answer = answer(&[(2, &4096u32.to_ne_bytes()), (6, &256u32.to_ne_bytes())]);
        RecordedHost::new().with(&path(EthtoolGet::Rings), answer)
    }

    #[test]
    fn a_size_within_the_limits_is_set() {
        let (host, eth0) = (host(), "eth0");
        assert_eq!(check(&RING_RX, &host, eth0, "01024").as_deref(), Ok("1024"));
        write(&RING_RX, &host, "eth0", "1024").expect("written");
        assert_eq!(read(&RING_RX, &host, eth0).as_deref(), Ok("1024"));
        let says = |value: &str| refusal(&RING_RX, &host, eth0, value);
        assert_eq!(says("4097"), "invalid value `4097` for ring_rx: must be from 1 to 4096 for eth0");
        assert_eq!(says("0"), "invalid value `0` for ring_rx: must be from 1 to 4096 for eth0");
        assert_eq!(says("1k"), "invalid value `1k` for ring_rx: expected a number of packets, such as 1024");
        let error = refusal(&RING_TX, &host, eth0, "1");
        assert_eq!(error, "eth0 has no ring_tx: the device has no such rings");
    }

    #[test]
    fn a_driver_that_only_shows_them_is_no_missing_file() {
        let says = |cause| {
            let host = refusing(host(), "rings-get/eth0", cause);
            write(&RING_RX, &host, "eth0", "64").expect_err("refused").to_string()
        };
        assert!(says(Cause::Missing).starts_with("eth0 has no ring_rx: the driver does not let"));
        assert!(says(Cause::Errno(22)).contains("the driver does not support this ring size"));
    }

    #[test]
    fn a_write_cut_short_may_have_been_rounded() {
        let (ours, unsettled) = (list(&["256", "1000"]), list(&["1000"]));
        for (live, left) in [("1024", true), ("512", true), ("256", true), ("4096", false), ("128", false)] {
            assert_eq!(RING_RX.left_by(&ours, &unsettled, live), left, "{live}");
        }
        assert!(!RING_RX.left_by(&ours, &[], "1024"));
        assert!(RING_RX.left_by(&[], &list(&["10"]), "64"), "a minimum");
    }
}
