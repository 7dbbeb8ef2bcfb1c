//! The tracker host.

use crate::require;

#[test]
fn the_hotspot_is_found() {
    if require::vm() {
        super::holds("a");
    }
}
