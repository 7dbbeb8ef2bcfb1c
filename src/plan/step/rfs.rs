//! Whether flows follow their readers, and how many of them.

use crate::model::NicKind;
use crate::plan::draft::{Draft, What};
use crate::plan::rfs;
use crate::units::QueueId;

/// Tables for every interface that has fewer queues than there are CPUs.
pub(in crate::plan) fn complete(draft: &mut Draft<'_>) {
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name) else { continue };
        if draft.has_queue_for_each_cpu(nic) && nic.kind == NicKind::Device {
            continue;
        }
        let readable = draft.model.rps_sock_flow_entries.known().is_some()
            && nic.rx.iter().all(|queue| queue.rps_flow_cnt.known().is_some());
        if !readable {
            draft.leave(format!(
                "rfs: a table of {name} cannot be read (the global one is seen from the initial network namespace only)"
            ));
            continue;
        }
        let settings = rfs::settings(&draft.model, nic);
        draft.take(settings);
    }
}

/// No tables: RFS hands packets to the CPU of their reader, whatever the masks say.
pub(in crate::plan) fn off(draft: &mut Draft<'_>) {
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name) else { continue };
        let on = nic.rx.iter().filter(|queue| queue.rps_flow_cnt.known().is_some_and(|flows| *flows > 0));
        let on: Vec<u32> = on.map(|queue| queue.index).collect();
        for queue in on {
            let why = "RFS hands packets to the CPU of their reader, which is to be kept clean".to_owned();
            draft.set("rfs", &name, What::Queue(QueueId::rx(queue)), "0".to_owned(), why);
        }
    }
}
