//! The 2x2 of steering and process affinity.

use crate::require;

fn can_run() -> bool {
    require::vm() && require::netns() && require::fiber()
}

#[test]
fn process_affinity_is_told_from_steering() {
    if can_run() {
        super::holds("b");
    }
}

#[test]
fn a_process_without_work_shows_no_effect() {
    if can_run() {
        let changed =
            ["of process affinity", "both in one step", "blamed by one step", "packets, IRQs on 6-7"];
        super::rests_on_its_factor("b", &changed);
    }
}
