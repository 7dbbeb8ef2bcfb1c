//! `/proc/interrupts`: interrupts taken, by line and CPU, with the action names.

use std::collections::BTreeMap;

use super::{ParseError, counter, header};
use crate::units::{CpuId, IrqId};

/// One numbered interrupt.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct InterruptLine {
    /// Count by CPU; every CPU of the header is in.
    pub counts: BTreeMap<CpuId, u64>,
    /// Chip, hardware number and trigger, then the actions: everything after the counts, by word.
    pub words: Vec<String>,
}

impl InterruptLine {
    /// The action names (`virtio0-input.0`): shared interrupts have several. Empty when no driver
    /// has asked for the interrupt.
    ///
    /// The columns before are `chip hwirq-trigger` on x86 (`PCI-MSI-0000:00:03.0 1-edge`, or
    /// `PCI-MSI 524289-edge` before 6.5), with the trigger apart on other architectures.
    pub fn actions(&self) -> Vec<&str> {
        let is_trigger = |word: &str| {
            ["edge", "level", "fasteoi", "Edge", "Level", "None"]
                .iter()
                .any(|t| word == *t || word.ends_with(&format!("-{t}")))
        };
        let start = self.words.iter().position(|word| is_trigger(word)).map_or(2, |at| at + 1);
        let names = self.words.get(start..).unwrap_or_default();
        names.iter().map(|name| name.trim_end_matches(',')).filter(|name| !name.is_empty()).collect()
    }
}

/// `/proc/interrupts`, numbered lines only (NMI, LOC and the like are left out).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interrupts {
    /// By Linux IRQ number.
    pub irqs: BTreeMap<IrqId, InterruptLine>,
}

/// Parses `/proc/interrupts`.
pub fn interrupts(text: &str) -> Result<Interrupts, ParseError> {
    let cpus = header(text.lines().next())?;
    let mut irqs = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()).skip(1) {
        let Some((label, rest)) = line.split_once(':') else {
            return Err(ParseError::at(number, "no `:` after the interrupt's name"));
        };
        let Ok(irq) = label.trim().parse::<u32>() else { continue };
        let mut words = rest.split_whitespace();
        let mut counts = BTreeMap::new();
        for cpu in &cpus {
            let word = words.next().unwrap_or_default();
            counts.insert(*cpu, counter(number, word)?);
        }
        irqs.insert(IrqId(irq), InterruptLine { counts, words: words.map(str::to_owned).collect() });
    }
    Ok(Interrupts { irqs })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::interrupts;
    use crate::units::{CpuId, IrqId};

    const CAPTURED: &str = "           CPU0       CPU1       
 26:          0         10  IO-APIC   4-edge      ttyS0
 38:          7        360 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 40:          0          0 PCI-MSI 524289-edge      eth0-TxRx-0, eth0-TxRx-1
 41:          0          0  GICv3  27 Level     arch_timer
 42:          0          0 PCI-MSIX-0000:00:04.0   2-edge
NMI:          0          0   Non-maskable interrupts
ERR:          0
";

    #[test]
    fn captured_text() {
        let table = interrupts(CAPTURED).expect("valid");
        assert_eq!(table.irqs.len(), 5);
        assert_eq!(table.irqs[&IrqId(38)].counts[&CpuId(1)], 360);
        assert_eq!(table.irqs[&IrqId(38)].actions(), ["virtio2-input.0"]);
        assert_eq!(table.irqs[&IrqId(26)].actions(), ["ttyS0"]);
        assert_eq!(table.irqs[&IrqId(40)].actions(), ["eth0-TxRx-0", "eth0-TxRx-1"]);
        assert_eq!(table.irqs[&IrqId(41)].actions(), ["arch_timer"]);
        assert_eq!(table.irqs[&IrqId(42)].actions(), Vec::<&str>::new());
    }

    #[test]
    fn a_missing_column_is_an_error() {
        assert_eq!(interrupts("CPU0 CPU1\n 1: 5\n").expect_err("short").line, 2);
        assert!(interrupts("CPU0\nnonsense\n").is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "( *CPU[0-9]{1,3}){0,4}\n( ?[0-9A-Z]{1,4}:( [0-9]{1,22}){0,5} [a-zA-Z0-9 ,.:-]{0,30}\n){0,3}|.{0,60}") {
            if let Ok(table) = interrupts(&text) {
                for line in table.irqs.values() {
                    let _ = line.actions();
                }
            }
        }
    }
}
