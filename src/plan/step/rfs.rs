//! Flows that follow their readers, and the table sizes.

use crate::model::{Nic, NicKind};
use crate::plan::draft::{Draft, What};
use crate::plan::policy::Variable;
use crate::plan::rfs;
use crate::plan::spread::threaded;
use crate::units::{CpuMask, QueueId};

/// Tables for every interface whose packets stay on too few CPUs. Not in addition to RPS unless requested by
/// name: RFS sends packets to the CPU of their reader, regardless of the mask.
pub(in crate::plan) fn complete(draft: &mut Draft<'_>) {
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name) else { continue };
        if nic.kind == NicKind::Device && draft.machine().is_covered_by(nic) {
            continue;
        }
        if nic.napi.threaded.known() == Some(&true) {
            draft.leave(format!("rfs: {}", threaded(&name)));
            continue;
        }
        let readable = draft.model.rps_sock_flow_entries.known().is_some()
            && nic.rx.iter().all(|queue| queue.rps_flow_cnt.known().is_some());
        if !readable {
            draft.leave(format!(
                "rfs: a table of {name} cannot be read (the global one is visible only in the initial \
                 network namespace)"
            ));
            continue;
        }
        if is_handed_on(nic) && !draft.is_asked(Variable::Rfs) {
            draft.leave(next_to_rps(draft, nic));
            continue;
        }
        let settings = rfs::settings(&draft.model, nic);
        draft.take(settings);
    }
}

/// True if RPS is on.
pub(in crate::plan) fn is_handed_on(nic: &Nic) -> bool {
    nic.rx.iter().any(|queue| queue.rps_cpus.known().is_some_and(|mask| !CpuMask::is_empty(mask)))
}

/// Reason to leave RFS as it is while RPS is on.
pub(in crate::plan) fn next_to_rps(draft: &Draft<'_>, nic: &Nic) -> String {
    let global = draft.model.rps_sock_flow_entries.known().is_some_and(|entries| *entries > 0);
    let tables = nic.rx.iter().any(|queue| queue.rps_flow_cnt.known().is_some_and(|entries| *entries > 0));
    let name = &nic.name;
    match global && tables {
        true => format!(
            "rfs: already on for {name} and takes precedence over the masks: they apply only to packets \
             whose reader is not known"
        ),
        false => format!(
            "rfs: left off for {name}, because RPS hands the packets on and RFS would choose other CPUs; \
             plan rfs separately"
        ),
    }
}

/// No tables: RFS hands packets to the CPU of their reader, regardless of the masks.
pub(in crate::plan) fn off(draft: &mut Draft<'_>) {
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name) else { continue };
        let on = nic.rx.iter().filter(|queue| queue.rps_flow_cnt.known().is_some_and(|flows| *flows > 0));
        let on: Vec<u32> = on.map(|queue| queue.index).collect();
        for queue in on {
            let why = "RFS hands packets to the CPU of their reader, which should be kept clean".to_owned();
            draft.set("rfs", &name, What::Queue(QueueId::rx(queue)), "0".to_owned(), why);
        }
    }
}
