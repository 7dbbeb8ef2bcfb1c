//! Everything that runs the program or touches the kernel, in one binary: one link step.

#![allow(clippy::disallowed_methods)] // Tests make files and processes of their own.

mod answers;
mod apply;
mod bench;
mod cli;
mod crash;
mod crash_live;
mod demo;
mod docs;
mod doctor;
mod drift;
mod drift_irqbalance;
mod driver;
mod ethtool;
mod export;
mod fixtures;
mod flood;
mod fuzz;
mod guard;
mod https;
mod irqbalance;
mod knobs;
mod lab;
mod load;
mod nginx;
mod persist;
mod plan;
mod process;
mod programs;
mod queues;
mod quiet;
mod rehearsal;
mod require;
mod settings;
mod setup;
mod snapshot;
mod stack;
mod steal;
mod threads;
mod trace;
mod tree;
mod trial;
mod vm;
mod world;
