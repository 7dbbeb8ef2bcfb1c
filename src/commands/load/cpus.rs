//! The CPUs of `--cpus` and the number of `--threads`: as given, or a choice by topology.

use std::num::ParseIntError;
use std::str::FromStr;

use crate::commands::load::placement::quiet_cpus;
use crate::commands::{Global, machine};
use crate::error::Result;
use rxlab_base::units::{CpuMask, MaskError};
use rxlab_load::MAX_THREADS;
use rxlab_sys::allowed_cpus;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cpus {
    /// These CPUs; an empty list leaves placement to the scheduler.
    List(CpuMask),
    /// CPUs without interrupts of interfaces, one per core.
    Auto,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Threads {
    Number(usize),
    /// One for each CPU.
    Auto,
}

impl FromStr for Threads {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::Number) }
    }
}

impl FromStr for Cpus {
    type Err = MaskError;

    fn from_str(text: &str) -> Result<Self, MaskError> {
        if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::List) }
    }
}

impl Cpus {
    /// Returns the CPUs to pin to and the number of threads, which defaults to one per CPU with `auto`, else to 1. At most
    /// one thread per connection.
    pub(super) fn place(
        &self,
        global: &Global,
        threads: Option<Threads>,
        connections: usize,
    ) -> Result<(CpuMask, usize)> {
        let quiet = || machine::open(global).map(|machine| quiet_cpus(&machine.model, &allowed_cpus()));
        let pins = match self {
            Self::List(cpus) => cpus.clone(),
            Self::Auto => quiet()?,
        };
        let threads = match threads {
            Some(Threads::Number(threads)) => threads,
            None if *self != Self::Auto => 1,
            _ => {
                let cpus = if pins.is_empty() { quiet()?.len() } else { pins.len() };
                cpus.min(connections).clamp(1, MAX_THREADS)
            }
        };
        Ok((pins, threads))
    }
}

#[cfg(test)]
mod tests {
    use super::{Cpus, Threads};

    #[test]
    fn a_list_or_auto() {
        assert_eq!("auto".parse(), Ok(Cpus::Auto));
        assert_eq!("0-1".parse::<Cpus>(), Ok(Cpus::List("0-1".parse().expect("a list"))));
        assert_eq!("".parse::<Cpus>(), Ok(Cpus::List(Default::default())));
        assert!("car".parse::<Cpus>().is_err());
        assert_eq!(("auto".parse(), "3".parse()), (Ok(Threads::Auto), Ok(Threads::Number(3))));
        assert!("all".parse::<Threads>().is_err());
    }
}
