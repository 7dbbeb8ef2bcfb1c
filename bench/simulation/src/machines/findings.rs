//! Findings name the CPUs that are hot in truth, and no others; a hotspot names an interface that brings packets there.

use rxlab_advise::diagnose::{Finding, Severity};
use rxlab_base::units::CpuId;

use super::losses;
use super::map::hotspot;
use super::truth::{Damage, Nic, Truth};

/// Receive time below which no CPU is hot.
const COOL: f64 = 0.2;

pub(crate) fn check(truth: &Truth, findings: &[Finding]) -> Result<(), String> {
    let work = truth.work();
    for finding in findings.iter().filter(|finding| finding.severity > Severity::Note) {
        let Some(cpu) = finding.cpu else { continue };
        // About where interrupts arrive, however few.
        if finding.id == "irq-on-isolated-cpu" {
            if !truth.keeps_free(cpu) {
                return Err(format!("{} names CPU {cpu}, which is not isolated", finding.id));
            }
            continue;
        }
        // About where packets are lost, hot or not.
        if losses::RULES.contains(&finding.id.as_str()) {
            continue;
        }
        // Where an interrupt or a mask cannot be seen, that is said.
        let is_hotspot = finding.id == "one-core-hotspot" && truth.damage != Damage::MaskDenied;
        if let Some(nic) = finding.nic.as_ref().filter(|_| is_hotspot)
            && truth.nic(nic.as_str()).is_some()
            && !comes(truth, nic.as_str(), cpu)
            && !finding.why.contains("inferred")
        {
            return Err(format!("CPU {cpu} is hot, and {nic} brings it nothing: {}", finding.why));
        }
        let time = work.get(&cpu).map_or(0.0, |work| work.time);
        if time < COOL {
            return Err(format!("{} names CPU {cpu}, which receives {time:.2} of its time", finding.id));
        }
    }
    let is_whole = truth.damage == Damage::Nothing;
    if let Some(cpu) = hotspot(truth).filter(|_| is_whole)
        && !findings.iter().any(|finding| finding.cpu == Some(cpu))
    {
        let ids: Vec<&str> = findings.iter().map(|finding| finding.id.as_str()).collect();
        return Err(format!("CPU {cpu} is hot, and no finding names it: {ids:?}"));
    }
    Ok(())
}

/// True if packets of a device, or of the virtual function below it, come to a CPU.
fn comes(truth: &Truth, name: &str, cpu: CpuId) -> bool {
    let own = |nic: &&Nic| nic.name == name || nic.master.as_deref() == Some(name);
    truth.nics.iter().filter(own).any(|nic| {
        let mut queues = nic.rx.iter().filter(|queue| queue.packets > 0.0);
        queues.any(|queue| nic.home(queue) == Some(cpu) || queue.rps.contains(cpu))
    })
}
