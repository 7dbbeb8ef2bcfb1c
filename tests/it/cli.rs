//! The program as people and scripts meet it: wrong input, missing rights, the form of its output.

mod bad_input;
mod fixture_show;
mod output;
mod poisoned;
mod show;
mod unprivileged;
