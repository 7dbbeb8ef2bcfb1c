//! Everything that runs the program or touches the kernel, in one binary: one link step.

#![allow(clippy::disallowed_methods)] // Tests make files and processes of their own.

mod apply;
mod crash;
mod guard;
mod tree;
