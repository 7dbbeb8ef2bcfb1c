//! The tracker host: a remedy that cannot help, one that spreads, and a hotspot behind an interrupt.

use crate::require;

fn can_run() -> bool {
    require::vm()
        && require::bpf()
        && require::nginx()
        && require::prometheus()
        && require::opentracker()
        && require::nft()
}

#[test]
fn rps_spreads_and_the_effect_holds() {
    if can_run() {
        super::holds("a");
    }
}

#[test]
fn a_factor_that_does_nothing_spreads_nothing() {
    if can_run() {
        let changed = ["RPS", "RPS, CPUs in a guest", "rebooted, restored"];
        super::rests_on_its_factor("a", &changed);
    }
}
