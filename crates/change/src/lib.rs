//! Changes of a machine that can be undone.
//!
//! [`journal`] has the old value on disk before it changes; [`knob`] knows how to read, check, write and compare one
//! value; [`apply`] is the only caller of `Knob::write`; [`persist`] keeps values over a reboot.
//!
//! Never: decides a value, or writes one without an intent in the journal: a write takes an `Armed`, which only the
//! journal creates.
//!
//! ```
//! let rps = rxlab_change::knob::find("rps").expect("a knob");
//! assert_eq!(rps.name(), "rps");
//! ```

pub mod apply;
pub mod journal;
pub mod knob;
pub mod persist;
