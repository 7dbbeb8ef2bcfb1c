//! Receive interference.

use crate::require;

fn can_run() -> bool {
    require::netns() && require::bpf() && require::program("openssl", "openssl", "version")
}

#[test]
fn openssl_loses_time_to_steered_packets() {
    if can_run() {
        super::holds("e");
    }
}

#[test]
fn it_loses_none_to_packets_of_another_cpu() {
    if can_run() {
        let changed = [
            "time lost, RPS to CPU 0",
            "the same, inferred, RPS",
            "disturbs less",
            "cause of the runs, traced",
            "drawn on CPU 0",
            "flow rule, recorded",
        ];
        super::rests_on_its_factor("e", &changed);
    }
}
