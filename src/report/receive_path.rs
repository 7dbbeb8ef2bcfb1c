//! The receive path as text: the CPU that each queue interrupts, and where packets go from there.
//!
//! Views of a model: the machine, one interface, CPUs, the tree from interface to process, and one flow. Lines fit 80
//! columns; each kind of absence is a word.

mod cells;
mod cpu;
mod cpu_text;
mod device;
mod flow;
mod links;
mod machine;
mod nic;
mod overview;
mod place;
mod processes;
mod queues;
mod tree;

pub use cpu::{CpuReport, CpuView, NicQueue, QueueIrq};
pub use cpu_text::cpus;
pub use flow::flow;
pub use nic::nic;
pub use overview::overview;
pub use tree::tree;

use crate::model::Nic;
use crate::report::text::paragraph;

/// Contradictions between sources about an interface, one paragraph each.
fn contradictions(nic: &Nic) -> String {
    let line = |found: &crate::model::Contradiction| {
        let text = format!(
            "{}/{} {}: {} (believed), but {}",
            nic.name, found.queue, found.what, found.believed, found.other
        );
        paragraph("! ", &text)
    };
    nic.contradictions.iter().map(line).collect()
}
