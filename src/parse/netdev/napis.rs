//! `napi-get` (since 6.8): the interrupt and the thread of a NAPI.

use crate::parse::{Attributes, WireError, messages};
use crate::units::IrqId;

/// One NAPI instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetdevNapi {
    /// Its number.
    pub id: u32,
    /// Index of its interface.
    pub ifindex: u32,
    /// Its interrupt, if reported by the driver.
    pub irq: Option<IrqId>,
    /// Its kernel thread, if it is polled by one.
    pub pid: Option<u32>,
    /// Empty polls before interrupts are switched on again (since 6.13).
    pub defer_hard_irqs: Option<u32>,
    /// GRO flush timeout in nanoseconds (since 6.13).
    pub gro_flush_timeout_ns: Option<u64>,
    /// Nonzero if a thread polls it (since 6.17).
    pub threaded: Option<u32>,
}

const A_IFINDEX: u16 = 1;
const A_ID: u16 = 2;
const A_IRQ: u16 = 3;
const A_PID: u16 = 4;
const A_DEFER_HARD_IRQS: u16 = 5;
const A_GRO_FLUSH_TIMEOUT: u16 = 6;
const A_THREADED: u16 = 8;

/// The NAPI instances of every interface that is up.
pub fn netdev_napis(answer: &[u8]) -> Result<Vec<NetdevNapi>, WireError> {
    messages(answer)?.into_iter().map(one).collect()
}

fn one(message: &[u8]) -> Result<NetdevNapi, WireError> {
    let message = Attributes::parse(message)?;
    let (Some(id), Some(ifindex)) = (message.number32(A_ID)?, message.number32(A_IFINDEX)?) else {
        return Err(WireError::new("a NAPI without number or interface"));
    };
    Ok(NetdevNapi {
        id,
        ifindex,
        irq: message.number32(A_IRQ)?.map(IrqId),
        pid: message.number32(A_PID)?,
        defer_hard_irqs: message.number32(A_DEFER_HARD_IRQS)?,
        gro_flush_timeout_ns: message.number(A_GRO_FLUSH_TIMEOUT)?,
        threaded: message.number32(A_THREADED)?,
    })
}

#[cfg(test)]
mod tests {
    use super::{A_IRQ, A_PID, NetdevNapi, netdev_napis};
    use crate::parse::wire::testing::{answer, hex};
    use crate::parse::{push_attribute, push_message};
    use crate::units::IrqId;

    /// Linux 6.18, virtio_net, which does not report its interrupt.
    const ETH0: &str = "08000200010100000800010004000000080008000000000008000500000000000800070000000000\
                        0800060000000000";

    #[test]
    fn a_captured_answer() {
        let napi = NetdevNapi {
            id: 257,
            ifindex: 4,
            irq: None,
            pid: None,
            defer_hard_irqs: Some(0),
            gro_flush_timeout_ns: Some(0),
            threaded: Some(0),
        };
        assert_eq!(netdev_napis(&answer(&[ETH0])), Ok(vec![napi]));

        // Composed: no available machine has a driver that reports it.
        let mut message = hex(ETH0);
        push_attribute(&mut message, A_IRQ, &41u32.to_ne_bytes());
        push_attribute(&mut message, A_PID, &733u32.to_ne_bytes());
        let mut told = Vec::new();
        push_message(&mut told, &message);
        let told = netdev_napis(&told).expect("valid");
        assert_eq!(told, [NetdevNapi { irq: Some(IrqId(41)), pid: Some(733), ..napi }]);

        assert!(netdev_napis(&answer(&[&ETH0[..16]])).is_err(), "no interface");
    }
}
