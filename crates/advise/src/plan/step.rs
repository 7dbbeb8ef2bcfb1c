//! The steps that policies are made of, one variable per file: its value, given the previous values.

mod back;
pub(super) mod channels;
pub(super) mod clocksource;
pub(super) mod irqs;
pub(super) mod moderation;
mod placement;
pub(super) mod rfs;
pub(super) mod rps;
pub(super) mod rss;
pub(super) mod xps;

pub(super) use back::SLACK;
