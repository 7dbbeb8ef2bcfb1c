//! NAPIs: their settings, their threads, and what a write to the interface does to both.

mod threads;
mod values;

use rxlab::lab::Range;

use super::Bench;
use crate::lab::{host_in, inside, range};
use crate::process::Ended;
use crate::require;

/// The server's end of a range with two queues, which have NAPIs: a veth has one for each queue while GRO is on. `None` if
/// skipped.
fn with_napis() -> Option<(Range, Bench)> {
    let range = range(2).filter(|_| require::ethtool())?;
    inside(&range.server, "ethtool").args(["-K", "srv0", "gro", "on"]).exits(0);
    let bench = Bench::new(host_in(&range.server));
    Some((range, bench))
}

/// Since Linux 6.13, a single NAPI since 6.17 also for its thread.
fn sets_single_napis(bench: &Bench) -> bool {
    let napis = bench.napis();
    let settable = napis.iter().all(|napi| napi.threaded.is_some()) && !napis.is_empty();
    if !settable {
        println!("skipped: Linux sets single NAPIs since 6.17");
    }
    settable
}
