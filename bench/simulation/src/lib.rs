//! Machines that do not exist, for tests and measurements of what rxlab says and does.
//!
//! [`machines`] makes random machines together with the truth about them, and checks what is shown, said and planned on each.
//! [`world`] is one machine on which the real code applies, guards and undoes, while an adversary moves between any two of its
//! operations.
//!
//! Never: touches this machine, or depends on anything but a seed.
//!
//! ```
//! use rxlab_simulation::world::{Mutation, generate, run};
//!
//! let report = run(&generate(7), Mutation::Nothing, false);
//! assert_eq!(report.violation, None);
//! ```

pub mod machines;
mod random;
pub mod world;

pub use random::Random;
