//! The CPUs of `--cpus`: a list, or a choice by topology.

use std::str::FromStr;

use crate::commands::load::placement::quiet_cpus;
use crate::commands::{Global, machine};
use crate::error::Result;
use rxlab_base::units::{CpuMask, MaskError};
use rxlab_sys::allowed_cpus;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cpus {
    /// These CPUs; an empty list leaves placement to the scheduler.
    List(CpuMask),
    /// CPUs without interrupts of interfaces, one per core.
    Auto,
}

impl FromStr for Cpus {
    type Err = MaskError;

    fn from_str(text: &str) -> Result<Self, MaskError> {
        if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::List) }
    }
}

impl Cpus {
    /// Returns the CPUs to pin to and the number of threads, which defaults to one per CPU with `auto`, else to 1.
    pub(super) fn place(
        &self,
        global: &Global,
        threads: Option<usize>,
        connections: usize,
    ) -> Result<(CpuMask, usize)> {
        match self {
            Self::List(cpus) => Ok((cpus.clone(), threads.unwrap_or(1))),
            Self::Auto => {
                let cpus = quiet_cpus(&machine::open(global)?.model, &allowed_cpus());
                let threads = threads.unwrap_or_else(|| cpus.len().min(connections).max(1));
                Ok((cpus, threads))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cpus;

    #[test]
    fn a_list_or_auto() {
        assert_eq!("auto".parse(), Ok(Cpus::Auto));
        assert_eq!("0-1".parse::<Cpus>(), Ok(Cpus::List("0-1".parse().expect("a list"))));
        assert_eq!("".parse::<Cpus>(), Ok(Cpus::List(Default::default())));
        assert!("car".parse::<Cpus>().is_err());
    }
}
