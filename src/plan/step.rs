//! The steps that policies are made of, one variable a file: which value it should have, given the values before it.

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
