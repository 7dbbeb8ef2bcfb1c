//! `isolate`: receive work on few CPUs, and none on those of the application.
//!
//! Published: field cases B and D gave the last CPUs to the interrupts and the others to the server. It costs what these
//! CPUs would have done: 8.6 % of computing with 16 of 128 (published, case D).

use super::Variable;
use crate::plan::draft::Draft;
use crate::plan::step;
use crate::units::{CpuId, CpuMask};

/// Where nobody says which CPUs to keep clean: at most one CPU in so many takes receive work.
const ONE_OF: usize = 4;

pub(super) fn draft(draft: &mut Draft<'_>, keep_clean: &CpuMask) {
    if draft.nics.is_empty() {
        return;
    }
    let some_taken = draft.ground.usable.len() < draft.ground.online.len();
    if keep_clean.is_empty() && !some_taken {
        let chosen = last_cores(draft);
        draft.use_only(&chosen);
    }
    let usable = draft.ground.usable.clone();
    let clean = draft.ground.online.difference(&usable);
    draft.notes.push(format!("receive work on CPU {usable}, none on CPU {clean}"));
    draft.notes.push(format!(
        "processes go where they like: an affinity keeps them on CPU {clean}, which is a variable of its own"
    ));
    draft.step(Variable::Irq, |draft| {
        step::irqs::near(draft);
        step::irqs::queueless(draft, &usable, "not on a CPU that is to be kept clean");
    });
    draft.step(Variable::Rps, step::rps::near);
    draft.step(Variable::Rfs, step::rfs::off);
}

/// A CPU for each queue and whole cores, from the end: of the node of the devices where they have one together.
fn last_cores(draft: &Draft<'_>) -> CpuMask {
    let ground = &draft.ground;
    let queues = draft.planned().map(|nic| nic.rx.len()).sum::<usize>();
    let wanted = queues.clamp(1, (ground.usable.len() / ONE_OF).max(1));
    let mut nodes: Vec<Option<u32>> = draft.planned().map(|nic| nic.node).collect();
    nodes.dedup();
    let of_node = match nodes[..] {
        [Some(node)] => ground.domains.iter().find(|domain| domain.node == Some(node)),
        _ => None,
    };
    let near: Vec<CpuId> = match of_node.filter(|domain| domain.usable.len() > wanted) {
        Some(domain) => domain.usable.clone(),
        None => ground.in_order().collect(),
    };
    let last: CpuMask = near.iter().rev().take(wanted).copied().collect();
    ground.siblings(&last).union(&last).intersection(&ground.usable)
}
