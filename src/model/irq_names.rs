//! Which receive queue an interrupt's action name speaks of: the drivers' naming shapes.
//!
//! A name is the weakest of the sources: it is only asked about interrupts that are known to belong
//! to the device, or that carry the device's own name.

/// A shape: what stands before the queue number, and what after.
const SHAPES: [(&str, &str); 9] = [
    ("-input.", ""),   // virtio_net: virtio0-input.0
    ("-TxRx-", ""),    // ixgbe, ixgbevf, igb, i40e, ice, bnxt, qede: eth0-TxRx-0, i40e-eth0-TxRx-0
    ("-Tx-Rx-", ""),   // ena: ens5-Tx-Rx-0
    ("-rxtx-", ""),    // vmxnet3: eth0-rxtx-0
    ("-rx-", ""),      // e1000e, igb and mainline xen variants: eth0-rx-0, enP1s1-rx-0
    ("-fp-", ""),      // bnx2x: eth0-fp-0
    ("-q", "-rx"),     // xen-netfront with split channels: eth0-q0-rx
    ("mlx5_comp", ""), // mlx5_core: mlx5_comp2@pci:0000:d8:00.0
    ("mlx4-", ""),     // mlx4_core: mlx4-3@0000:04:00.0
];

/// The receive queue of an action name, or `None` for names that speak of no receive queue (config,
/// transmit, events) and for shapes that are not known.
pub(super) fn rx_queue(action: &str, nic: &str) -> Option<u32> {
    // mlx names carry the PCI address behind an @.
    let name = action.split('@').next().unwrap_or(action);
    if name == nic {
        // e1000, r8169, tg3 with one vector: the interrupt is the interface's only one.
        return Some(0);
    }
    SHAPES.iter().find_map(|(before, after)| {
        let (_, rest) = name.rsplit_once(before)?;
        let digits = rest.strip_suffix(after)?;
        let number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        number.then(|| digits.parse().ok()).flatten()
    })
}

/// Whether an action name carries the device's own name: the interface's, or `virtioN`.
pub(super) fn names_device(action: &str, nic: &str, device_path: Option<&str>) -> bool {
    let virtio = device_path.and_then(|path| path.split('/').find(|part| is_virtio(part)));
    action == nic
        || action.split('-').any(|part| part == nic)
        || virtio.is_some_and(|device| action.strip_prefix(device).is_some_and(|rest| rest.starts_with('-')))
}

fn is_virtio(part: &str) -> bool {
    part.strip_prefix("virtio").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::{names_device, rx_queue};

    #[test]
    fn published_shapes() {
        for (action, nic, queue) in [
            ("virtio3-input.0", "eth0", Some(0)),
            ("virtio3-input.12", "eth0", Some(12)),
            ("virtio3-output.0", "eth0", None),
            ("virtio3-config", "eth0", None),
            ("eth0-TxRx-0", "eth0", Some(0)),
            ("i40e-eth0-TxRx-7", "eth0", Some(7)),
            ("ens5-Tx-Rx-3", "ens5", Some(3)),
            ("ena-mgmnt@pci:0000:00:05.0", "ens5", None),
            ("eth0-rxtx-1", "eth0", Some(1)),
            ("eth0-event-4", "eth0", None),
            ("enP1s1-rx-0", "enP1s1", Some(0)),
            ("eth0-tx-0", "eth0", None),
            ("eth0", "eth0", Some(0)),
            ("eth0-q2-rx", "eth0", Some(2)),
            ("eth0-q2-tx", "eth0", None),
            ("mlx5_comp2@pci:0000:d8:00.0", "ens1f0np0", Some(2)),
            ("mlx5_async0@pci:0000:d8:00.0", "ens1f0np0", None),
            ("mlx4-3@0000:04:00.0", "ens2", Some(3)),
            ("eth0-fp-5", "eth0", Some(5)),
        ] {
            assert_eq!(rx_queue(action, nic), queue, "{action}");
        }
    }

    #[test]
    fn devices_are_told_apart() {
        let path = Some("../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0");
        assert!(names_device("virtio2-input.0", "eth0", path));
        assert!(!names_device("virtio21-input.0", "eth0", path));
        assert!(names_device("i40e-eth0-TxRx-7", "eth0", None));
        assert!(!names_device("eth01-TxRx-7", "eth0", None));
    }
}
