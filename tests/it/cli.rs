//! The command line: wrong input, missing privileges, output format.

mod bad_input;
mod fingers;
mod fixture_show;
mod flow;
mod output;
mod poisoned;
pub(crate) mod show;
mod unprivileged;
