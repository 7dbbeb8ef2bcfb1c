//! Everything that runs the program or touches the kernel, in one binary: one link step.

#![allow(clippy::disallowed_methods)] // Tests make files and processes of their own.

mod apply;
mod cli;
mod crash;
mod demo;
mod docs;
mod doctor;
mod ethtool;
mod fixtures;
mod fuzz;
mod guard;
mod irqbalance;
mod lab;
mod load;
mod nginx;
mod process;
mod quiet;
mod require;
mod setup;
mod snapshot;
mod stack;
mod tree;
mod trial;
mod vm;
