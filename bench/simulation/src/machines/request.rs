//! A request for a plan.

use rxlab_advise::plan::{Options, Policy};
use rxlab_base::units::CpuMask;

use super::truth::Truth;
use crate::random::Random;

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) policy: Policy,
    pub(crate) options: Options,
}

/// The request of a seed: mostly one without options.
pub(crate) fn request(seed: u64, truth: &Truth) -> Request {
    let random = &mut Random::new(!seed);
    let policy = random.pick(&Policy::ALL).1;
    let names = truth.nics.iter().map(|nic| &nic.name).chain(truth.uppers.iter().map(|upper| &upper.name));
    let nics = if random.percent(20) {
        names.filter(|_| random.percent(50)).map(|name| name.parse().expect("a name")).collect()
    } else {
        Vec::new()
    };
    let cpus_per_queue = random.percent(10).then(|| 1 + random.below(4) as usize);
    let isolated: CpuMask = if random.percent(15) {
        truth.cpus.iter().map(|cpu| cpu.id).filter(|_| random.percent(40)).collect()
    } else {
        CpuMask::new()
    };
    Request { policy, options: Options { nics, cpus_per_queue, isolated } }
}
