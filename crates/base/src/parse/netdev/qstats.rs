//! `qstats-get` with the scope "queue" (since 6.9).

use super::queue_id;
use crate::parse::{Attributes, WireError, messages};
use crate::units::{Direction, QueueId};

/// Counters of one queue since the interface was created or its driver reset, from any source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueCounters {
    pub packets: u64,
    /// `None` if neither the kernel nor the driver counts bytes.
    pub bytes: Option<u64>,
    /// Packets that the device or the driver dropped, if counted.
    pub drops: Option<u64>,
    /// Packets that the device dropped because they exceeded its rate limit, if counted.
    pub limited: Option<u64>,
}

/// Packets of one queue since the interface was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueStats {
    /// The interface's index (`/sys/class/net/NAME/ifindex`).
    pub ifindex: u32,
    pub queue: QueueId,
    pub counters: QueueCounters,
}

const A_IFINDEX: u16 = 1;
const A_QUEUE_TYPE: u16 = 2;
const A_QUEUE_ID: u16 = 3;
const A_RX_PACKETS: u16 = 8;
const A_RX_BYTES: u16 = 9;
const A_TX_PACKETS: u16 = 10;
const A_TX_BYTES: u16 = 11;
const A_RX_HW_DROPS: u16 = 13;
/// Part of the former where a driver reports both.
const A_RX_HW_DROP_OVERRUNS: u16 = 14;
const A_RX_HW_DROP_RATELIMITS: u16 = 23;
const A_TX_HW_DROPS: u16 = 24;
const A_TX_HW_DROP_RATELIMITS: u16 = 32;

/// The queues that are counted. Messages without a packet count are left out: they have no
/// statistics, which is not the same as 0.
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
    let (packets, bytes, drops, limited) = match queue.direction {
        Direction::Rx => (A_RX_PACKETS, A_RX_BYTES, A_RX_HW_DROPS, A_RX_HW_DROP_RATELIMITS),
        Direction::Tx => (A_TX_PACKETS, A_TX_BYTES, A_TX_HW_DROPS, A_TX_HW_DROP_RATELIMITS),
    };
    let Some(packets) = message.number(packets)? else { return Ok(None) };
    let drops = match (message.number(drops)?, queue.direction) {
        (None, Direction::Rx) => message.number(A_RX_HW_DROP_OVERRUNS)?,
        (drops, _) => drops,
    };
    let (bytes, limited) = (message.number(bytes)?, message.number(limited)?);
    let counters = QueueCounters { packets, bytes, drops, limited };
    Ok(Some(QueueStats { ifindex, queue, counters }))
}

#[cfg(test)]
mod tests {
    use super::{A_IFINDEX, A_QUEUE_ID, A_QUEUE_TYPE, A_RX_PACKETS, QueueStats, queue_stats};
    use crate::parse::wire::testing;
    use crate::parse::{QueueCounters, attribute, one_message};
    use crate::units::QueueId;

    fn answer(counted: bool) -> Vec<u8> {
        let queue = [(A_IFINDEX, 3u32), (A_QUEUE_TYPE, 0), (A_QUEUE_ID, 7)];
        let queue = queue.map(|(kind, number)| attribute(kind, number.to_ne_bytes())).concat();
        let count = counted.then(|| attribute(A_RX_PACKETS, (1u64 << 40).to_ne_bytes()));
        one_message(&[queue, count.unwrap_or_default()].concat())
    }

    #[test]
    fn an_answer_with_a_wide_count() {
        let counters = QueueCounters { packets: 1 << 40, ..QueueCounters::default() };
        let stats = QueueStats { ifindex: 3, queue: QueueId::rx(7), counters };
        assert_eq!(queue_stats(&answer(true)), Ok(vec![stats]));
        assert_eq!(queue_stats(&answer(false)), Ok(vec![]), "no count is no statistics, not 0");
        assert!(queue_stats(&answer(true)[..20]).is_err());
    }

    #[test]
    fn packets_over_the_rate_limit() {
        let limited = |direction: u32, packets: u16, over: u16| {
            let queue = [(A_IFINDEX, 3u32), (A_QUEUE_TYPE, direction), (A_QUEUE_ID, 0)];
            let queue = queue.map(|(kind, number)| attribute(kind, number.to_ne_bytes())).concat();
            let counts =
                [(packets, 9u64), (over, 70)].map(|(kind, count)| attribute(kind, count.to_ne_bytes()));
            queue_stats(&one_message(&[queue, counts.concat()].concat())).expect("valid")[0].counters.limited
        };
        assert_eq!((limited(0, 8, 23), limited(1, 10, 32)), (Some(70), Some(70)));
        assert_eq!(limited(0, 8, 32), None, "of the other direction");
    }

    /// Linux 6.18, virtio_net: it counts no drops in the device, which lacks the feature.
    #[test]
    fn a_captured_answer() {
        let rx = "08000100040000000800020000000000080003000000000008000800051d00000800090086204510";
        let counters = QueueCounters { packets: 7429, bytes: Some(0x1045_2086), ..QueueCounters::default() };
        let stats = QueueStats { ifindex: 4, queue: QueueId::rx(0), counters };
        assert_eq!(queue_stats(&testing::answer(&[rx])), Ok(vec![stats]));
    }
}
