//! Payload of a datagram: session, number in its flow, send time.
//!
//! The session keeps echoes of an earlier run on the same port out of this run's counts. The rest of
//! the payload is zeros.

use crate::load::clock::Nanos;

/// The first 24 bytes, each number little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) session: u64,
    pub(super) sequence: u64,
    pub(super) sent: Nanos,
}

impl Header {
    /// Writes the header to the front of `payload`, which holds at least 24 bytes.
    pub(super) fn write(&self, payload: &mut [u8]) {
        payload[..8].copy_from_slice(&self.session.to_le_bytes());
        payload[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        payload[16..24].copy_from_slice(&self.sent.to_le_bytes());
    }

    /// The header of `payload`; `None` if it is too short.
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let (words, _) = payload.as_chunks::<8>();
        let [session, sequence, sent, ..] = words else { return None };
        Some(Self {
            session: u64::from_le_bytes(*session),
            sequence: u64::from_le_bytes(*sequence),
            sent: u64::from_le_bytes(*sent),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Header;

    #[test]
    fn what_is_written_is_read() {
        let header = Header { session: 1, sequence: u64::MAX, sent: 3 };
        let mut payload = [9; 30];
        header.write(&mut payload);
        assert_eq!(Header::read(&payload), Some(header));
        assert_eq!(payload[24..], [9; 6]);
        assert_eq!(Header::read(&payload[..23]), None);
    }
}
