//! `ETHTOOL_PERQUEUE` with `ETHTOOL_GCOALESCE` and `ETHTOOL_SCOALESCE`: interrupt moderation of single queues.
//!
//! An answer has a message for each queue: a `struct ethtool_per_queue_op` whose mask names the queue, and its
//! `struct ethtool_coalesce`. Netlink has no such message.

use super::field32;
use crate::parse::wire::{with_bytes, with_message};
use crate::parse::{WireError, messages};

/// The mask of queues, in numbers of 32 bits.
pub const QUEUE_MASK: usize = 8;
const QUEUE_MASK_LENGTH: usize = 512;
/// Offset of the `struct ethtool_coalesce` in the message.
pub const COALESCE: usize = QUEUE_MASK + QUEUE_MASK_LENGTH;
/// Length of a message.
pub const QUEUE_COALESCE: usize = COALESCE + 92;
/// Queues that the mask has room for.
pub const MOST_QUEUES: u32 = 4096;

/// Interrupt moderation of one queue. The driver reports 0 for what it does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueCoalesce {
    /// The queue, receive and transmit.
    pub queue: u32,
    /// Microseconds that a receive interrupt is held back.
    pub rx_usecs: u32,
    /// Packets after which it is raised at the latest.
    pub rx_frames: u32,
    /// 1 if the driver adapts these to the load.
    pub adaptive_rx: u32,
}

/// A value of [`QueueCoalesce`], by its offset in the `struct ethtool_coalesce`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueDelay {
    RxUsecs = 4,
    RxFrames = 8,
    AdaptiveRx = 40,
}

impl QueueDelay {
    /// Its place in a message.
    pub fn offset(self) -> usize {
        COALESCE + self as usize
    }
}

impl QueueCoalesce {
    pub fn value(&self, which: QueueDelay) -> u32 {
        match which {
            QueueDelay::RxUsecs => self.rx_usecs,
            QueueDelay::RxFrames => self.rx_frames,
            QueueDelay::AdaptiveRx => self.adaptive_rx,
        }
    }
}

/// The moderation of each queue of an interface.
pub fn queue_coalesce(answer: &[u8]) -> Result<Vec<QueueCoalesce>, WireError> {
    messages(answer)?.into_iter().map(one).collect()
}

fn one(message: &[u8]) -> Result<QueueCoalesce, WireError> {
    if message.len() != QUEUE_COALESCE {
        return Err(WireError::new(format!("moderation of a queue in {} bytes", message.len())));
    }
    let mut queues = Vec::new();
    for word in 0..QUEUE_MASK_LENGTH / 4 {
        // The mask has thousands of bits, of which one is set.
        let mut bits = field32(message, QUEUE_MASK + 4 * word)?;
        while bits != 0 {
            queues.push(word as u32 * u32::BITS + bits.trailing_zeros());
            bits &= bits - 1;
        }
    }
    let [queue] = queues[..] else {
        return Err(WireError::new(format!("moderation of {} queues in one message", queues.len())));
    };
    let value = |which: QueueDelay| field32(message, which.offset());
    Ok(QueueCoalesce {
        queue,
        rx_usecs: value(QueueDelay::RxUsecs)?,
        rx_frames: value(QueueDelay::RxFrames)?,
        adaptive_rx: value(QueueDelay::AdaptiveRx)?,
    })
}

/// The answer with another value for one queue.
pub fn with_queue_delay(
    answer: &[u8],
    queue: u32,
    which: QueueDelay,
    value: u32,
) -> Result<Vec<u8>, WireError> {
    with_message(answer, |message| {
        if one(message)?.queue == queue {
            with_bytes(message, which.offset(), &value.to_ne_bytes()).map(Some)
        } else {
            Ok(None)
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{
        COALESCE, QUEUE_COALESCE, QUEUE_MASK, QueueCoalesce, QueueDelay, queue_coalesce, with_queue_delay,
    };
    use crate::parse::one_message;

    /// Composed by include/uapi/linux/ethtool.h: no available machine has such a driver.
    fn answer(queues: &[u32]) -> Vec<u8> {
        let message = |queue: &u32| {
            let mut message = vec![0; QUEUE_COALESCE];
            message[QUEUE_MASK + *queue as usize / 8] = 1 << (queue % 8);
            (message[COALESCE + 4], message[COALESCE + 8], message[COALESCE + 40]) = (50, 32, 1);
            one_message(&message)
        };
        queues.iter().flat_map(message).collect()
    }

    #[test]
    fn values_by_queue() {
        let all = answer(&[0, 1, 40]);
        let queue = |queue| QueueCoalesce { queue, rx_usecs: 50, rx_frames: 32, adaptive_rx: 1 };
        assert_eq!(queue_coalesce(&all), Ok(vec![queue(0), queue(1), queue(40)]));
        let changed = with_queue_delay(&all, 40, QueueDelay::RxUsecs, 100).expect("it is there");
        let changed = with_queue_delay(&changed, 1, QueueDelay::AdaptiveRx, 0).expect("it is there");
        let found = queue_coalesce(&changed).expect("valid");
        assert_eq!(found[0], queue(0));
        assert_eq!(found[1], QueueCoalesce { adaptive_rx: 0, ..queue(1) });
        assert_eq!(found[2], QueueCoalesce { rx_usecs: 100, ..queue(40) });
        assert!(with_queue_delay(&all, 2, QueueDelay::RxFrames, 1).is_err(), "no such queue");
    }

    #[test]
    fn what_is_no_queue_is_an_error() {
        assert!(queue_coalesce(&one_message(&[0; QUEUE_COALESCE])).is_err(), "no queue");
        let short = one_message(&[0; COALESCE]);
        assert!(queue_coalesce(&short).is_err(), "cut short");
    }

    proptest! {
        #[test]
        fn what_is_set_is_read(queue in 0u32..4096, rest in proptest::collection::vec(any::<u8>(), 90..94), usecs in any::<u32>()) {
            let mut message = vec![0; QUEUE_MASK];
            let mut mask = vec![0; COALESCE - QUEUE_MASK];
            mask[queue as usize / 8] = 1 << (queue % 8);
            message.extend(mask);
            message.extend(&rest);
            let framed = one_message(&message);
            let read = queue_coalesce(&framed);
            prop_assert_eq!(read.is_ok(), message.len() == QUEUE_COALESCE);
            if let Ok(before) = read {
                let after = with_queue_delay(&framed, queue, QueueDelay::RxUsecs, usecs).expect("it is there");
                prop_assert_eq!(queue_coalesce(&after), Ok(vec![QueueCoalesce { rx_usecs: usecs, ..before[0] }]));
            }
        }
    }
}
