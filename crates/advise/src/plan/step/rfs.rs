//! Flows that follow their readers: the sizes of the global table, and of each queue's part of it.
//!
//! RFS needs both and no RPS mask: it sends a flow to the CPU that last read its socket.

use crate::diagnose::without_reader;
use crate::plan::draft::Draft;
use crate::plan::policy::Variable;
use crate::plan::reason::Reason;
use crate::plan::spread::unsteerable;
use rxlab_base::number::{cpus_text, plural};
use rxlab_base::units::{CpuMask, QueueId};
use rxlab_path::model::{Model, Nic, NicKind, RxQueue};
use rxlab_setting::{PlannedSetting, Setting, Target};

/// Default entries of the global table: the kernel document's suggestion for a moderately loaded server, and
/// that of field cases A, B and D.
const ENTRIES: u32 = 32_768;

/// Tables for every interface whose packets stay on too few CPUs. Not in addition to RPS unless requested by
/// name: RFS sends packets to the CPU of their reader, regardless of the mask.
pub(in crate::plan) fn complete(draft: &mut Draft<'_>) {
    let unread =
        || without_reader(&draft.rates).filter(|_| !draft.is_asked(Variable::Rfs)).map(str::to_owned);
    if let Some(why) = refusal(&draft.model).or_else(unread) {
        return draft.leave(Variable::Rfs.because(why));
    }
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name) else { continue };
        if nic.kind == NicKind::Device && draft.machine().is_covered_by(nic) {
            continue;
        }
        if let Some(why) = unsteerable(&draft.model, &draft.rates, nic) {
            draft.leave(Variable::Rfs.because(why.to_string()));
            continue;
        }
        if !are_readable(&draft.model, nic) {
            draft.leave(Variable::Rfs.because(format!(
                "a table of {name} cannot be read (the global one is visible only in the initial \
                 network namespace)"
            )));
            continue;
        }
        if is_handed_on(nic) && !draft.is_asked(Variable::Rfs) {
            draft.leave(next_to_rps(draft, nic));
            continue;
        }
        let settings = settings(&draft.model, nic);
        draft.take(settings);
    }
}

/// Reason for no RFS on this machine: it follows programs to whatever CPU they run on.
pub(in crate::plan) fn refusal(model: &Model) -> Option<String> {
    if model.usable().len() < 2 {
        return Some("no second CPU to give work to".to_owned());
    }
    let tickless = model.settings.nohz_full.known()?.intersection(&model.online());
    (!tickless.is_empty()).then(|| {
        format!(
            "packets would follow programs to {}, which nohz_full keeps free for them",
            cpus_text(&tickless)
        )
    })
}

/// True if the sizes of all tables are known.
pub(in crate::plan) fn are_readable(model: &Model, nic: &Nic) -> bool {
    model.rps_sock_flow_entries.known().is_some()
        && nic.rx.iter().all(|queue| queue.rps_flow_cnt.known().is_some())
}

/// True if RPS is on.
pub(in crate::plan) fn is_handed_on(nic: &Nic) -> bool {
    nic.rx.iter().any(|queue| queue.rps_cpus.known().is_some_and(|mask| !CpuMask::is_empty(mask)))
}

/// True if there is a global table, and one of some queue.
pub(in crate::plan) fn is_on(model: &Model, nic: &Nic) -> bool {
    model.rps_sock_flow_entries.known().is_some_and(|entries| *entries > 0) && nic.rx.iter().any(has_flows)
}

/// True if the queue has a table.
pub(in crate::plan) fn has_flows(queue: &RxQueue) -> bool {
    queue.rps_flow_cnt.known().is_some_and(|entries| *entries > 0)
}

/// Reason to leave RFS as it is while RPS is on.
pub(in crate::plan) fn next_to_rps(draft: &Draft<'_>, nic: &Nic) -> Reason {
    let name = &nic.name;
    if is_on(&draft.model, nic) {
        Variable::Rfs.because(format!(
            "already on for {name} and takes precedence over the masks: they apply only to packets \
             whose reader is unknown"
        ))
    } else {
        Variable::Rfs.because(format!(
            "left off for {name}, because RPS hands the packets on and RFS would choose other CPUs; \
             plan rfs separately"
        ))
    }
}

/// No tables: RFS hands packets to the CPU of their reader, regardless of the masks.
pub(in crate::plan) fn off(draft: &mut Draft<'_>) {
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name) else { continue };
        let on: Vec<u32> =
            nic.steering_queues().iter().filter(|queue| has_flows(queue)).map(|queue| queue.index).collect();
        for queue in on {
            let why = "RFS hands packets to the CPU of their reader, which is to be isolated";
            draft.set("rfs", Target::queue(&name, QueueId::rx(queue)), "0", why);
        }
    }
}

/// The settings that complete RFS on an interface, global table first as they must be applied; empty if it is
/// complete or a table cannot be read.
pub(in crate::plan) fn settings(model: &Model, nic: &Nic) -> Vec<PlannedSetting> {
    let global = model.rps_sock_flow_entries.known().copied();
    let queues = nic.steering_queues();
    let tables: Option<Vec<u32>> = queues.iter().map(|queue| queue.rps_flow_cnt.known().copied()).collect();
    let (Some(global), Some(tables)) = (global, tables) else { return Vec::new() };
    let entries = if global == 0 { ENTRIES } else { global };
    let part = part(entries, queues.len());
    let mut settings = Vec::new();
    if global == 0 {
        let set = Setting::new("rfs_entries", Target::Host, entries.to_string());
        settings.push(PlannedSetting::new(set, "the global table; without it RFS is off", None));
    }
    if !fits(&tables, entries) {
        let wrong = queues.iter().zip(&tables).filter(|(_, table)| **table != part);
        settings.extend(wrong.map(|(queue, _)| {
            let target = Target::queue(&nic.name, QueueId::rx(queue.index));
            let set = Setting::new("rfs", target, part.to_string());
            let over = plural(queues.len(), "RX queue");
            let why = format!("{entries} entries over {over}, rounded up to a power of two");
            PlannedSetting::new(set, why, Some(nic.address.clone()))
        }));
    }
    settings
}

/// One queue's part, rounded up to a power of two as the kernel would do.
fn part(entries: u32, queues: usize) -> u32 {
    let queues = u32::try_from(queues.max(1)).unwrap_or(u32::MAX);
    (entries / queues).max(1).next_power_of_two()
}

/// True if the tables work together as they are: all set, and neither side mostly wasted.
fn fits(tables: &[u32], entries: u32) -> bool {
    let sum: u64 = tables.iter().map(|table| u64::from(*table)).sum();
    let entries = u64::from(entries);
    tables.iter().all(|table| *table > 0) && (entries / 2..=entries * 2).contains(&sum)
}

#[cfg(test)]
mod tests {
    use super::{refusal, settings};
    use rxlab_path::model::Fact;
    use rxlab_path::sketch::{Sketch, cpus};

    fn texts(sketch: Sketch) -> Vec<String> {
        let (model, _) = sketch.build();
        settings(&model, &model.nics[0]).iter().map(|setting| setting.set.to_string()).collect()
    }

    fn queues(count: u32) -> Sketch {
        Sketch::new(128).device("eth0", &(0..count).collect::<Vec<_>>())
    }

    #[test]
    fn published_sizes() {
        assert_eq!(texts(queues(1)), ["rfs_entries host = 32768", "rfs eth0/rx-0 = 32768"]);
        let case_d = texts(queues(16));
        assert_eq!(case_d.len(), 17);
        assert_eq!(case_d[16], "rfs eth0/rx-15 = 2048");
        assert_eq!(texts(queues(8))[1], "rfs eth0/rx-0 = 4096", "field case B");
        assert_eq!(texts(queues(6))[1], "rfs eth0/rx-0 = 8192", "rounded up like the kernel");
    }

    #[test]
    fn only_what_is_missing() {
        assert_eq!(texts(queues(2).rfs(32768, "eth0", 16384)), Vec::<String>::new());
        assert_eq!(texts(queues(1).rfs(0, "eth0", 32768)), ["rfs_entries host = 32768"]);
        assert_eq!(texts(queues(1).rfs(65536, "eth0", 0)), ["rfs eth0/rx-0 = 65536"]);
        assert_eq!(
            texts(queues(2).rfs(32768, "eth0", 32768)),
            Vec::<String>::new(),
            "generous, but it works"
        );
    }

    #[test]
    fn an_unreadable_table_is_not_planned_over() {
        let (mut model, _) = queues(1).build();
        model.rps_sock_flow_entries = Fact::Unsupported;
        assert_eq!(settings(&model, &model.nics[0]), []);
    }

    /// The plan was called safe, and its own prediction moved receive work to CPUs of `nohz_full`.
    #[test]
    fn packets_follow_no_program_to_tickless_cpus() {
        let why = |count: u32, list: &str| {
            let (model, _) =
                Sketch::new(count).set(|settings| settings.nohz_full = Fact::Known(cpus(list))).build();
            refusal(&model)
        };
        assert_eq!(why(4, ""), None);
        let kept = "packets would follow programs to CPUs 2-3, which nohz_full keeps free for them";
        assert_eq!(why(4, "2-3").as_deref(), Some(kept));
        assert_eq!(why(1, "").as_deref(), Some("no second CPU to give work to"));
    }
}
