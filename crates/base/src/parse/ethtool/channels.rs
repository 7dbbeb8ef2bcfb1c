//! `ETHTOOL_MSG_CHANNELS_GET`: numbers of queues.

use super::{ChannelKind, Channels, count, only};
use crate::parse::{Attributes, WireError, attribute};

const A_OTHER_COUNT: u16 = 8;

/// The queues of one interface; kinds whose maximum is 0 are `None`.
pub fn channels(answer: &[u8]) -> Result<Channels, WireError> {
    let message = Attributes::parse(only(answer)?)?;
    Ok(Channels {
        rx: count(&message, ChannelKind::Rx as u16)?,
        tx: count(&message, ChannelKind::Tx as u16)?,
        other: count(&message, A_OTHER_COUNT)?,
        combined: count(&message, ChannelKind::Combined as u16)?,
    })
}

impl ChannelKind {
    /// The attribute of `ETHTOOL_MSG_CHANNELS_SET` that requests this number of queues of this kind.
    pub fn attribute(self, count: u32) -> Vec<u8> {
        attribute(self as u16, count.to_ne_bytes())
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
