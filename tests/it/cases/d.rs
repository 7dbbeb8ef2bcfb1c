//! The client wall.

use crate::require;

#[test]
fn a_client_without_its_cpu_is_called_the_limit_and_no_other() {
    if require::netns() && require::fiber() {
        super::holds("d");
    }
}
