//! The client wall.

use crate::require;

#[test]
fn a_client_without_its_cpu_is_called_the_limit_and_no_other() {
    if require::netns() && require::fiber() {
        super::holds("d");
    }
}

#[test]
fn with_sleeping_neighbours_the_client_is_not_the_limit() {
    if require::netns() && require::fiber() {
        let changed = ["client-limited, shared", "the curve bends at"];
        super::rests_on_its_factor("d", &changed);
    }
}
