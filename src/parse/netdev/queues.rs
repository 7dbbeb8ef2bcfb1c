//! `queue-get` (since 6.8): the NAPI that polls a queue.

use super::queue_id;
use crate::parse::{Attributes, WireError, messages};
use crate::units::QueueId;

/// One queue of one interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetdevQueue {
    /// The interface's index (`/sys/class/net/NAME/ifindex`).
    pub ifindex: u32,
    /// The queue.
    pub queue: QueueId,
    /// The NAPI that polls it; `None` if not reported by the driver, or absent (`lo`).
    pub napi: Option<u32>,
}

const A_ID: u16 = 1;
const A_IFINDEX: u16 = 2;
const A_TYPE: u16 = 3;
const A_NAPI_ID: u16 = 4;

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
    Ok(NetdevQueue { ifindex, queue, napi: message.number32(A_NAPI_ID)? })
}

#[cfg(test)]
mod tests {
    use super::{NetdevQueue, netdev_queues};
    use crate::parse::wire::testing::answer;
    use crate::units::QueueId;

    /// Linux 6.18, virtio_net with one queue: the answer for `lo` and `eth0`, receive queues.
    const LO: &str = "080001000000000008000300000000000800020001000000";
    const ETH0: &str = "0800010000000000080003000000000008000200040000000800040001010000";

    #[test]
    fn a_captured_answer() {
        let queue = |ifindex, napi| NetdevQueue { ifindex, queue: QueueId::rx(0), napi };
        assert_eq!(netdev_queues(&answer(&[LO, ETH0])), Ok(vec![queue(1, None), queue(4, Some(257))]));
        assert!(netdev_queues(&answer(&[&ETH0[16..]])).is_err(), "no number");
    }
}
