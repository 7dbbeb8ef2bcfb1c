//! One million requests a second: masks from topology, and the best one by search.

use crate::require;

fn can_run() -> bool {
    require::vm()
        && require::netns()
        && require::root()
        && require::bpf()
        && require::nginx()
        && require::nft()
}

#[test]
fn masks_are_planned_and_the_best_is_found() {
    if can_run() {
        super::holds("c");
    }
}

#[test]
fn masks_of_an_idle_interface_are_not_confirmed() {
    if can_run() {
        let changed = [
            "mask by search",
            "guest, one queue",
            "guest, two queues",
            "guest, two NICs",
            "moderation, e1000e",
            "clocksource",
        ];
        super::rests_on_its_factor("c", &changed);
    }
}
