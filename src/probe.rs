//! Who pays for the packets.
