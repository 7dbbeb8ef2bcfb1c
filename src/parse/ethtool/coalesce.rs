//! `ETHTOOL_MSG_COALESCE_GET`: interrupt moderation.

use super::{Coalesce, only};
use crate::parse::{Attributes, WireError};

const A_RX_USECS: u16 = 2;
const A_RX_MAX_FRAMES: u16 = 3;
const A_TX_USECS: u16 = 6;
const A_TX_MAX_FRAMES: u16 = 7;
const A_USE_ADAPTIVE_RX: u16 = 11;
const A_USE_ADAPTIVE_TX: u16 = 12;

/// The moderation of one interface; what its driver does not support is `None`.
pub fn coalesce(answer: &[u8]) -> Result<Coalesce, WireError> {
    let message = Attributes::parse(only(answer)?)?;
    let flag = |kind| Ok(message.number(kind)?.map(|value| value != 0));
    Ok(Coalesce {
        rx_usecs: message.number32(A_RX_USECS)?,
        rx_frames: message.number32(A_RX_MAX_FRAMES)?,
        tx_usecs: message.number32(A_TX_USECS)?,
        tx_frames: message.number32(A_TX_MAX_FRAMES)?,
        adaptive_rx: flag(A_USE_ADAPTIVE_RX)?,
        adaptive_tx: flag(A_USE_ADAPTIVE_TX)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::coalesce;
    use crate::parse::ethtool::Coalesce;
    use crate::parse::wire::testing::answer;

    const ETH0: &str = "1800018008000100040000000900020065746830000000000800020000000000080003000100000008000600\
                        00000000080007000100000005000b0000000000";

    #[test]
    fn a_captured_answer() {
        let expected = Coalesce {
            rx_usecs: Some(0),
            rx_frames: Some(1),
            tx_usecs: Some(0),
            tx_frames: Some(1),
            adaptive_rx: Some(false),
            adaptive_tx: None,
        };
        assert_eq!(coalesce(&answer(&[ETH0])), Ok(expected));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = coalesce(&bytes);
        }
    }
}
