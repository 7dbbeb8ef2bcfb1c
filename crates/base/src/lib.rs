//! Types of the receive path, and parsers of the kernel's formats.
//!
//! [`units`] has CPU sets, interrupts, queues and interface names; [`parse`] turns the text of procfs and sysfs and the
//! answers of netlink and ioctls into values, one format per file; [`number`] turns figures into text. Parsers take
//! text or bytes, never paths, and never guess: what they do not understand is an error. [`grammar`] writes text that others
//! chose for the programs that read it.
//!
//! Never: reads a machine. Only [`atomic`] and [`private`] touch files, the program's own.
//!
//! ```
//! use rxlab_base::units::CpuMask;
//!
//! let mask: CpuMask = "0-3,8".parse()?;
//! assert_eq!(mask.len(), 5);
//! assert_eq!(mask.to_hex(), "10f");
//! # Ok::<(), rxlab_base::units::MaskError>(())
//! ```

pub mod atomic;
pub mod compute;
pub mod error;
pub mod grammar;
pub mod number;
pub mod parse;
pub mod private;
pub mod units;
