//! `queue-get` (since 6.8): the NAPI that polls a queue.

use serde::{Deserialize, Serialize};

use super::queue_id;
use crate::display_as;
use crate::parse::{Attributes, WireError, messages};
use crate::units::{Direction, QueueId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetdevQueue {
    /// The interface's index (`/sys/class/net/NAME/ifindex`).
    pub ifindex: u32,
    pub queue: QueueId,
    /// The NAPI that polls it; `None` if not reported by the driver, or absent (`lo`).
    pub napi: Option<u32>,
    /// Recipient of its packets other than the network stack, if the kernel reports one.
    pub held_by: Option<Holder>,
}

/// Recipient of a receive queue's packets other than the network stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// An AF_XDP socket, reported since 6.15: the packets go to its program.
    AfXdp,
    /// A queue of another interface, as a rule that of a container.
    Lease,
    /// A ring of io_uring: the headers go through the stack, the payloads to its program.
    IoUring,
    /// Memory of a device, such as a GPU: the headers go through the stack, the payloads there.
    DeviceMemory,
}

impl Holder {
    /// True if the packets do not reach the network stack.
    pub fn bypasses_stack(self) -> bool {
        matches!(self, Holder::AfXdp | Holder::Lease)
    }
}

display_as! { Holder:
    AfXdp => "AF_XDP",
    Lease => "leased",
    IoUring => "io_uring",
    DeviceMemory => "device memory",
}

const A_ID: u16 = 1;
const A_IFINDEX: u16 = 2;
const A_TYPE: u16 = 3;
const A_NAPI_ID: u16 = 4;
/// Attributes that name a holder; those that bypass the stack first.
const HOLDERS: [(u16, Holder); 4] =
    [(7, Holder::AfXdp), (8, Holder::Lease), (6, Holder::IoUring), (5, Holder::DeviceMemory)];

/// The queues of every interface that is up, in the kernel's order.
pub fn netdev_queues(answer: &[u8]) -> Result<Vec<NetdevQueue>, WireError> {
    messages(answer)?.into_iter().map(one).collect()
}

fn one(message: &[u8]) -> Result<NetdevQueue, WireError> {
    let message = Attributes::parse(message)?;
    let ifindex = message.number32(A_IFINDEX)?;
    let (Some(ifindex), Some(queue)) = (ifindex, queue_id(&message, A_TYPE, A_ID)?) else {
        return Err(WireError::new("a queue without interface, type or number"));
    };
    let holder = HOLDERS.iter().find(|(kind, _)| message.get(*kind).is_some()).map(|(_, holder)| *holder);
    // An AF_XDP socket or a lease of a transmit queue says nothing about received packets.
    let held_by = holder.filter(|_| queue.direction == Direction::Rx);
    Ok(NetdevQueue { ifindex, queue, napi: message.number32(A_NAPI_ID)?, held_by })
}

#[cfg(test)]
mod tests {
    use super::{Holder, NetdevQueue, netdev_queues};
    use crate::parse::wire::testing::answer;
    use crate::units::QueueId;

    /// Linux 6.18, virtio_net with one queue: the answer for `lo` and `eth0`, receive queues.
    const LO: &str = "080001000000000008000300000000000800020001000000";
    const ETH0: &str = "0800010000000000080003000000000008000200040000000800040001010000";

    #[test]
    fn a_captured_answer() {
        let queue = |ifindex, napi| NetdevQueue { ifindex, queue: QueueId::rx(0), napi, held_by: None };
        assert_eq!(netdev_queues(&answer(&[LO, ETH0])), Ok(vec![queue(1, None), queue(4, Some(257))]));
        assert!(netdev_queues(&answer(&[&ETH0[16..]])).is_err(), "no number");
    }

    /// Composed: an empty nest, as the kernel puts it for a queue with an AF_XDP pool, and a number for a ring of
    /// io_uring.
    #[test]
    fn holders() {
        let held = |attribute: &str| {
            netdev_queues(&answer(&[&format!("{ETH0}{attribute}")])).expect("valid")[0].held_by
        };
        assert_eq!(held("04000700"), Some(Holder::AfXdp));
        assert_eq!(held("04000800"), Some(Holder::Lease));
        assert_eq!(held("04000600"), Some(Holder::IoUring));
        assert_eq!(held("0800050001000000"), Some(Holder::DeviceMemory));
        assert!(Holder::AfXdp.bypasses_stack() && !Holder::IoUring.bypasses_stack());
        let transmit = ETH0.replace("0800030000000000", "0800030001000000");
        let sent = netdev_queues(&answer(&[&format!("{transmit}04000700")])).expect("valid");
        assert_eq!(sent[0].held_by, None, "a transmit queue");
    }
}
