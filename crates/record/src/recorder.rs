//! A ring of files with everything that `sample` reads, every second: the machine at an earlier time (docs/record.md).
//!
//! A recording holds files and answers, not figures, so every command that reads a machine works on it by replay. A
//! [`Recorder`] samples a host and appends the changes; a [`Ring`] reads them back.
//!
//! The ring is a sequence of segments. The newest is a log with one checksummed record for each sample, so that a
//! crash loses at most the sample being written. A log that is complete is packed: the same samples, by file and number
//! instead of by time, which takes a fraction of the space.

mod bytes;
mod intervals;
mod numbers;
mod observer;
mod pack;
mod reader;
mod segment;
mod state;
mod storage;
mod tick;
mod writer;

#[cfg(test)]
mod tests;

pub use intervals::Intervals;
pub use reader::{Gap, Replay, Replayed, Ring, Span, WindowError};
pub use segment::SegmentError;
pub use storage::{Disk, Locked, Storage};
pub use writer::{Limits, Recorder};
