//! Answers of the kernel's `netdev` generic netlink family, one command per file.
//!
//! Documentation/netlink/specs/netdev.yaml; the family exists since 6.3. Numbers are those of
//! include/uapi/linux/netdev.h.

mod napis;
mod qstats;
mod queues;

pub use napis::{NapiSetting, NetdevNapi, netdev_napis};
pub use napis::{napi_request, with_napi_settings};
pub use qstats::{QueueCounters, QueueStats, queue_stats};
pub use queues::{Holder, NetdevQueue, netdev_queues};

use super::{Attributes, WireError};
use crate::units::QueueId;

const QUEUE_TYPE_RX: u32 = 0;
const QUEUE_TYPE_TX: u32 = 1;

/// The queue that a message names by its type and number; `None` if it names none.
fn queue_id(
    message: &Attributes<'_>,
    type_attribute: u16,
    id_attribute: u16,
) -> Result<Option<QueueId>, WireError> {
    let (kind, index) = (message.number32(type_attribute)?, message.number32(id_attribute)?);
    let (Some(kind), Some(index)) = (kind, index) else { return Ok(None) };
    match kind {
        QUEUE_TYPE_RX => Ok(Some(QueueId::rx(index))),
        QUEUE_TYPE_TX => Ok(Some(QueueId::tx(index))),
        other => Err(WireError::new(format!("queue type {other} is neither rx nor tx"))),
    }
}
