//! The 2x2 of steering and process affinity.

use crate::require;

#[test]
fn process_affinity_is_told_from_steering() {
    if require::netns() && require::fiber() {
        super::holds("b");
    }
}

#[test]
fn a_process_without_work_shows_no_effect() {
    if require::netns() && require::fiber() {
        super::rests_on_its_factor("b", &["of process affinity", "both in one step"]);
    }
}
