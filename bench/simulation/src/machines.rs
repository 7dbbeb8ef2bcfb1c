//! Random machines together with the truth about them, rendered as the files and answers of their kernels, and
//! the properties that what rxlab shows, says and plans must have on each of them.
//!
//! `generate` makes a [`truth::Truth`] from a seed, `render` its files, `look` takes two samples of them as a
//! command does, and `map`, `findings`, `losses`, `plans` and `agrees` compare. Traffic goes to unconnected UDP sockets, so RFS
//! moves nothing.

mod agrees;
mod drivers;
mod findings;
mod follow;
mod generate;
mod look;
mod losses;
mod map;
mod plans;
mod render;
mod request;
mod shrink;
mod truth;

use std::fmt;

use rxlab_advise::doctor::doctor;

use request::Request;
pub use shrink::explain;
use truth::Truth;

/// Properties that are checked, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// The map is the truth, or says that it does not know.
    Map,
    /// Findings name the CPUs that are hot, and no others.
    Findings,
    /// Losses have findings, and what is not lost has none.
    Losses,
    /// A plan keeps to usable CPUs, nodes and one mask for each CPU.
    Values,
    /// A plan does nothing that may not be done.
    Constraints,
    /// A plan can be applied and undone, unless the kernel refuses.
    Applies,
    /// A plan makes the hottest CPU no hotter.
    Load,
    /// A plan that spreads helps.
    Helps,
    /// Planning again gives no settings.
    Settles,
    /// A plan leads to no more findings about what plans set.
    Avoids,
    /// The finding, the gain, the plan and the next command say the same.
    Agrees,
}

/// A property that does not hold.
#[derive(Debug, Clone)]
pub struct Violation {
    pub property: Property,
    pub why: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.property, self.why)
    }
}

/// Checks every property on the machine of a seed.
pub fn run(seed: u64) -> Result<(), Violation> {
    let truth = generate::generate(seed);
    check(&truth, &request::request(seed, &truth))
}

/// Checks every property on a machine.
pub(crate) fn check(truth: &Truth, request: &Request) -> Result<(), Violation> {
    let of = |property: Property| move |why: String| Violation { property, why };
    let seen = look::look(truth).map_err(of(Property::Map))?;
    map::check(truth, &seen).map_err(of(Property::Map))?;
    let report = doctor(&seen.model, &seen.rates, "rxlab");
    findings::check(truth, &report.findings).map_err(of(Property::Findings))?;
    losses::check(truth, &report).map_err(of(Property::Losses))?;
    plans::check(truth, &seen, request, &report.findings)?;
    agrees::check(&seen, &report).map_err(of(Property::Agrees))
}
