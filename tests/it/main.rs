//! Everything that runs the program or touches the kernel, in one binary: one link step.

#![allow(clippy::disallowed_methods)] // Tests make files and processes of their own.

mod answers;
mod apply;
mod cli;
mod crash;
mod demo;
mod docs;
mod doctor;
mod driver;
mod ethtool;
mod fixtures;
mod fuzz;
mod guard;
mod irqbalance;
mod lab;
mod load;
mod nginx;
mod process;
mod queues;
mod quiet;
mod rehearsal;
mod require;
mod settings;
mod setup;
mod snapshot;
mod stack;
mod tree;
mod trial;
mod vm;
