//! The tracker host.

use crate::require;

#[test]
fn the_hotspot_is_found() {
    if require::vm() {
        super::holds("a");
    }
}

#[test]
fn without_traffic_there_is_none() {
    if require::vm() {
        super::rests_on_its_factor("a", &["hotspot"]);
    }
}
