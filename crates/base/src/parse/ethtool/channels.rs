//! `ETHTOOL_MSG_CHANNELS_GET`: numbers of queues.

use super::{ChannelKind, Channels, count, only};
use crate::parse::{Attributes, WireError, attribute};

const A_RX_MAX: u16 = 2;
const A_TX_MAX: u16 = 3;
const A_OTHER_MAX: u16 = 4;
const A_COMBINED_MAX: u16 = 5;
const A_RX_COUNT: u16 = 6;
const A_TX_COUNT: u16 = 7;
const A_OTHER_COUNT: u16 = 8;
const A_COMBINED_COUNT: u16 = 9;

/// The queues of one interface; kinds whose maximum is 0 are `None`.
pub fn channels(answer: &[u8]) -> Result<Channels, WireError> {
    let message = Attributes::parse(only(answer)?)?;
    Ok(Channels {
        rx: count(&message, A_RX_COUNT, A_RX_MAX)?,
        tx: count(&message, A_TX_COUNT, A_TX_MAX)?,
        other: count(&message, A_OTHER_COUNT, A_OTHER_MAX)?,
        combined: count(&message, A_COMBINED_COUNT, A_COMBINED_MAX)?,
    })
}

impl ChannelKind {
    /// The attribute of `ETHTOOL_MSG_CHANNELS_SET` that requests this number of queues of this kind.
    pub fn attribute(self, count: u32) -> Vec<u8> {
        let kind = match self {
            ChannelKind::Rx => A_RX_COUNT,
            ChannelKind::Tx => A_TX_COUNT,
            ChannelKind::Combined => A_COMBINED_COUNT,
        };
        attribute(kind, count.to_ne_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::channels;
    use crate::parse::ethtool::{Channels, Count};
    use crate::parse::wire::testing::answer;

    const ETH0: &str = "18000180080001000400000009000200657468300000000008000500010000000800090001000000";

    #[test]
    fn a_captured_answer() {
        let combined = Some(Count { now: 1, max: 1 });
        assert_eq!(channels(&answer(&[ETH0])), Ok(Channels { combined, ..Channels::default() }));
        assert!(channels(&answer(&[&ETH0[..64]])).is_err(), "a maximum without a number");
        assert!(channels(&answer(&[ETH0, ETH0])).is_err(), "two answers to one question");
        assert!(channels(&[]).is_err(), "none");
    }
}
