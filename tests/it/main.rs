//! Everything that runs the program or touches the kernel, in one binary: one link step.

#![allow(clippy::disallowed_methods)] // Tests make files and processes of their own.

mod apply;
mod crash;
mod docs;
mod fixtures;
mod guard;
mod lab;
mod load;
mod require;
mod tree;
