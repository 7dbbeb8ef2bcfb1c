//! Findings name the CPUs that are hot in truth, and no others.

use rxlab_advise::diagnose::{Finding, Severity};

use super::losses;
use super::map::hotspot;
use super::truth::{Damage, Truth};

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
