//! Processes that a process has started since it was set. Each began with the CPUs of the thread that started it, and is none
//! that the journal has an original value of: undo names those that still have ours.

use std::collections::BTreeMap;

use super::lists::Lists;
use super::threads;
use crate::journal::Part;
use crate::knob::{KnobError, Result, Site};
use rxlab_base::parse;
use rxlab_sys::Cause;

struct Relative {
    parent: u32,
    /// Nanoseconds since boot.
    start_ns: u64,
}

/// Processes with a list of `ours` that descend from `pid` and started at `since_ns` or later. One whose parent has ended is
/// not known to descend from it, and one that a thread with an `original` list of that value may have started is not counted. Nor
/// are those that a shell which was set has started, and that end now: this process, and a program that its output is piped to and
/// that started with it.
pub(super) fn find(
    site: Site<'_>,
    pid: u32,
    (original, ours): (&Lists, &[Lists]),
    since_ns: u64,
) -> Result<Vec<Part>> {
    let lists: Vec<&str> = ours.iter().flat_map(Lists::texts).filter(|list| !original.has(list)).collect();
    if lists.is_empty() {
        return Ok(Vec::new());
    }
    let all = relatives(site)?;
    let own = all.get(&std::process::id()).map_or(0, |own| own.start_ns);
    let mut heirs = Vec::new();
    for (heir, relative) in &all {
        let is_left = *heir != pid && *heir != std::process::id();
        if !is_left || relative.start_ns < since_ns || !descends(&all, *heir, pid) {
            continue;
        }
        let now = match threads::read(site, *heir) {
            Err(KnobError::NotThere { .. } | KnobError::Denied { .. }) => continue,
            now => now?,
        };
        let ends_with_us = || relative.start_ns + parse::TICK_NS >= own && reads_our_output(site, *heir);
        if let Some(list) = lists.iter().find(|list| now.has(list) && !ends_with_us()) {
            heirs.push(Part { part: format!("process {heir}"), value: (*list).to_owned() });
        }
    }
    Ok(heirs)
}

/// True for `less` in `rxlab undo | less`.
fn reads_our_output(site: Site<'_>, pid: u32) -> bool {
    let pipe = |process: &str, file: u32| {
        let to = site.host.link(&format!("proc/{process}/fd/{file}"));
        to.ok().filter(|to| to.starts_with("pipe:"))
    };
    let input = pipe(&pid.to_string(), 0);
    input.is_some() && [1, 2].into_iter().any(|output| pipe("self", output) == input)
}

/// Every process that is shown.
fn relatives(site: Site<'_>) -> Result<BTreeMap<u32, Relative>> {
    let names = site.host.list("proc").map_err(|error| site.unreadable(&error))?;
    let mut all = BTreeMap::new();
    for pid in names.iter().filter_map(|name| name.parse::<u32>().ok()) {
        let path = format!("proc/{pid}/stat");
        let stat = match site.host.read_text(&path) {
            Ok(stat) => stat,
            // It has ended, or is one of those that `hidepid=1` lists without showing them.
            Err(error) if [Cause::Missing, Cause::Denied].contains(&error.cause) => continue,
            Err(error) => return Err(site.unreadable(&error)),
        };
        if parse::has_ended(&stat) {
            continue;
        }
        let broken = |error| KnobError::broken(&path, error, "a stat file");
        let parent = parse::parent(&stat).map_err(broken)?;
        // The end of its tick: it may have started at any time within.
        all.insert(pid, Relative { parent, start_ns: site.began_ns(pid, &stat)? });
    }
    Ok(all)
}

fn descends(all: &BTreeMap<u32, Relative>, heir: u32, from: u32) -> bool {
    let parent = |pid: &u32| all.get(pid).map(|relative| relative.parent).filter(|parent| parent != pid);
    // A list that was not read at one moment may have a circle.
    std::iter::successors(parent(&heir), parent).take(all.len()).any(|ancestor| ancestor == from)
}
