//! `qstats-get` with the scope "queue" (since 6.9).

use super::queue_id;
use crate::parse::{Attributes, WireError, messages};
use crate::units::{Direction, QueueId};

/// Packets of one queue since the interface was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueStats {
    /// The interface's index (`/sys/class/net/NAME/ifindex`).
    pub ifindex: u32,
    /// Which queue.
    pub queue: QueueId,
    /// Packets received or sent.
    pub packets: u64,
}

const A_IFINDEX: u16 = 1;
const A_QUEUE_TYPE: u16 = 2;
const A_QUEUE_ID: u16 = 3;
const A_RX_PACKETS: u16 = 8;
const A_TX_PACKETS: u16 = 10;

/// The queues that are counted; messages without a packet count are left out: no count is no
/// statistics, not 0.
pub fn queue_stats(answer: &[u8]) -> Result<Vec<QueueStats>, WireError> {
    let stats = messages(answer)?.into_iter().map(one);
    stats.filter_map(Result::transpose).collect()
}

fn one(message: &[u8]) -> Result<Option<QueueStats>, WireError> {
    let message = Attributes::parse(message)?;
    let ifindex = message.number32(A_IFINDEX)?;
    let (Some(ifindex), Some(queue)) = (ifindex, queue_id(&message, A_QUEUE_TYPE, A_QUEUE_ID)?) else {
        return Ok(None);
    };
    let packets = message.number(match queue.direction {
        Direction::Rx => A_RX_PACKETS,
        Direction::Tx => A_TX_PACKETS,
    })?;
    Ok(packets.map(|packets| QueueStats { ifindex, queue, packets }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{A_IFINDEX, A_QUEUE_ID, A_QUEUE_TYPE, A_RX_PACKETS, QueueStats, queue_stats};
    use crate::parse::{push_attribute, push_message};
    use crate::units::QueueId;

    fn answer(counted: bool) -> Vec<u8> {
        let mut message = Vec::new();
        push_attribute(&mut message, A_IFINDEX, &3u32.to_ne_bytes());
        push_attribute(&mut message, A_QUEUE_TYPE, &0u32.to_ne_bytes());
        push_attribute(&mut message, A_QUEUE_ID, &7u32.to_ne_bytes());
        if counted {
            push_attribute(&mut message, A_RX_PACKETS, &(1u64 << 40).to_ne_bytes());
        }
        let mut answer = Vec::new();
        push_message(&mut answer, &message);
        answer
    }

    #[test]
    fn an_answer_with_a_wide_count() {
        let stats = QueueStats { ifindex: 3, queue: QueueId::rx(7), packets: 1 << 40 };
        assert_eq!(queue_stats(&answer(true)), Ok(vec![stats]));
        assert_eq!(queue_stats(&answer(false)), Ok(vec![]), "no count is no statistics, not 0");
        assert!(queue_stats(&answer(true)[..20]).is_err());
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = queue_stats(&bytes);
        }
    }
}
