//! `/proc/interrupts`: number of interrupts, by line and CPU, with the action names.
//!
//! The largest file that is read: with a thousand CPUs a line has eleven thousand bytes, nearly all of
//! them zeros and spaces. So it is parsed as bytes, and only nonzero counts are kept.

use std::collections::BTreeMap;

use super::{ParseError, header};
use crate::units::{CpuId, CpuMask, IrqId};

/// One numbered line of `/proc/interrupts`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InterruptLine {
    /// Count by CPU; CPUs of [`Interrupts::cpus`] that are missing have 0.
    pub counts: BTreeMap<CpuId, u64>,
    /// Everything after the counts: chip, hardware number and trigger, then the actions.
    pub text: String,
}

impl InterruptLine {
    /// The action names (`virtio0-input.0`): shared interrupts have several. Empty if no driver
    /// requested the interrupt.
    pub fn actions(&self) -> Vec<&str> {
        actions(&self.text)
    }
}

/// The action names in the text after the counts. `show_interrupts` (kernel/irq/proc.c) prints the chip, which may be
/// several words or one, the hardware number if the interrupt has a domain, the trigger on some architectures, and the
/// name of its flow behind a `-`, and pads these columns. Two spaces and the names follow, separated by `, `; a name may have
/// spaces, but not two in a row.
fn actions(text: &str) -> Vec<&str> {
    let text = text.trim();
    let names = match text.rfind("  ").map(|at| text.split_at(at)) {
        // The last columns, padded, and no names.
        Some((_, end)) if is_trigger(end.trim_start()) => "",
        Some((_, end)) => end,
        // Not padded: the names begin after the trigger, or after chip and number.
        None => after_words(
            text,
            text.split(' ').collect::<Vec<_>>().into_iter().rposition(is_trigger).map_or(2, |at| at + 1),
        ),
    };
    names.split(", ").map(|name| name.trim().trim_end_matches(',')).filter(|name| !name.is_empty()).collect()
}

fn after_words(text: &str, count: usize) -> &str {
    text.splitn(count + 1, ' ').nth(count).unwrap_or_default()
}

/// True for the last columns before the names: a hardware number, a trigger or flow, or both: `1-edge`, `30 Level`, `-msi-x`.
fn is_trigger(text: &str) -> bool {
    let rest = text.trim_end().trim_start_matches(|c: char| c.is_ascii_digit());
    let has_number = rest.len() < text.trim_end().len();
    match rest.trim_start() {
        "" => has_number && text.len() > 1,
        "edge" | "level" | "fasteoi" | "Edge" | "Level" | "None" | "-msi-x" => true,
        rest => {
            ["-edge", "-level", "-fasteoi", "-event", "-percpu"].iter().any(|flow| rest.ends_with(flow))
                && !rest.contains(' ')
        }
    }
}

/// `/proc/interrupts`, numbered lines only (NMI, LOC and the like are left out).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interrupts {
    /// The counted CPUs: those that are online.
    pub cpus: CpuMask,
    /// By Linux IRQ number.
    pub irqs: BTreeMap<IrqId, InterruptLine>,
}

/// Parses `/proc/interrupts`. Lines without an interrupt number, such as `LOC:`, are left out.
pub fn interrupts(text: &str) -> Result<Interrupts, ParseError> {
    let cpus = header(text.lines().next())?;
    let mut irqs = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()).skip(1) {
        let Some((irq, rest)) = numbered(number, line)? else { continue };
        let mut counts = BTreeMap::new();
        let text = columns(number, rest, cpus.len(), |column, count| {
            counts.insert(cpus[column], count);
        })?;
        irqs.insert(irq, InterruptLine { counts, text: text.trim().to_owned() });
    }
    Ok(Interrupts { cpus: cpus.into_iter().collect(), irqs })
}

/// A numbered interrupt of `/proc/interrupts` without its counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedIrq {
    /// The Linux IRQ number.
    pub number: IrqId,
    /// The action names; empty if no driver requested it.
    pub actions: Vec<String>,
    /// True if it is an event channel of Xen.
    pub is_of_xen: bool,
    /// True if its chip is the RP1 of a Raspberry Pi 5.
    pub is_of_rp1: bool,
    /// True if its chip cannot send it to other CPUs.
    pub is_fixed: bool,
    /// The PCI function whose vector it is, by its chip: `0000:00:03.0` of `PCI-MSIX-0000:00:03.0`, as since Linux 6.2
    /// (`msi_create_device_irq_domain` in kernel/irq/msi.c).
    pub function: Option<String>,
}

/// The numbered interrupts of `/proc/interrupts` with their action names, without any counts.
pub fn interrupt_actions(text: &str) -> Result<Vec<RequestedIrq>, ParseError> {
    let cpus = header(text.lines().next())?.len();
    let mut irqs = Vec::new();
    for (number, line) in (1..).zip(text.lines()).skip(1) {
        let Some((irq, rest)) = numbered(number, line)? else { continue };
        let text = columns(number, rest, cpus, |_, _| {})?;
        irqs.push(RequestedIrq {
            number: irq,
            actions: actions(text).into_iter().map(str::to_owned).collect(),
            is_of_xen: text.trim_start().starts_with("xen-"),
            is_of_rp1: text.trim_start().starts_with("rp1_irq_chip "),
            is_fixed: is_fixed(text),
            function: function(text).map(str::to_owned),
        });
    }
    Ok(irqs)
}

/// True for chips without `irq_set_affinity` (drivers/irqchip/irq-bcm2835.c, irq-mips-cpu.c, irq-loongson-liointc.c) and for
/// the per-CPU interrupts of Marvell's MPIC (irq-armada-370-xp.c: `is_percpu_irq`), which mvneta has.
fn is_fixed(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let chip = words.next();
    match (chip, words.next().and_then(|word| word.parse::<u32>().ok())) {
        (Some("ARMCTRL-level" | "LIOINTC"), _) => true,
        (Some("MIPS"), Some(number)) => number < 8,
        (Some("MPIC"), Some(number)) => number <= 28,
        _ => false,
    }
}

/// The PCI function in the chip's name, before which an interrupt controller may have put its own: `IR-PCI-MSIX-0000:00:03.0`.
fn function(text: &str) -> Option<&str> {
    let (_, chip) = text.split_whitespace().next()?.split_once("PCI-MSI")?;
    chip.trim_start_matches('X').strip_prefix('-').filter(|address| address.contains(':'))
}

/// The number of a line and the text after it; `None` for lines with a name.
fn numbered(number: usize, line: &str) -> Result<Option<(IrqId, &str)>, ParseError> {
    let (label, rest) =
        line.split_once(':').ok_or_else(|| ParseError::at(number, "no `:` after the interrupt's name"))?;
    Ok(label.trim().parse().ok().map(|irq| (IrqId(irq), rest)))
}

/// A count of 0 as the kernel prints it, ten wide after a space: nearly all of the file.
const ZERO: &[u8] = b"          0";

/// Passes each nonzero count to `keep`, by column, and returns the text after the counts.
fn columns(
    line: usize,
    text: &str,
    wanted: usize,
    mut keep: impl FnMut(usize, u64),
) -> Result<&str, ParseError> {
    let bytes = text.as_bytes();
    let mut at = 0;
    for column in 0..wanted {
        let next = bytes.get(at..).unwrap_or_default();
        if next.starts_with(ZERO) && next.get(ZERO.len()).is_none_or(|byte| *byte == b' ') {
            at += ZERO.len();
            continue;
        }
        while bytes.get(at) == Some(&b' ') {
            at += 1;
        }
        let start = at;
        let mut count: Option<u64> = Some(0);
        while let Some(digit) = bytes.get(at).filter(|byte| byte.is_ascii_digit()) {
            count = count.and_then(|count| count.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
            at += 1;
        }
        let ends = bytes.get(at).is_none_or(|byte| *byte == b' ');
        let count = count.filter(|_| at > start && ends).ok_or_else(|| {
            let word = text.get(start..).unwrap_or_default().split_whitespace().next().unwrap_or_default();
            ParseError::at(line, format!("`{word}` is not a counter"))
        })?;
        if count > 0 {
            keep(column, count);
        }
    }
    // Only ASCII precedes this position.
    Ok(text.get(at..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::{interrupt_actions, interrupts};
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
        assert_eq!((table.irqs.len(), table.cpus.to_string().as_str()), (5, "0-1"));
        assert_eq!(table.irqs[&IrqId(26)].counts.len(), 1, "0 is not kept");
        assert_eq!(table.irqs[&IrqId(38)].counts[&CpuId(1)], 360);
        assert_eq!(table.irqs[&IrqId(38)].actions(), ["virtio2-input.0"]);
        assert_eq!(table.irqs[&IrqId(26)].actions(), ["ttyS0"]);
        assert_eq!(table.irqs[&IrqId(40)].actions(), ["eth0-TxRx-0", "eth0-TxRx-1"]);
        assert_eq!(table.irqs[&IrqId(41)].actions(), ["arch_timer"]);
        assert_eq!(table.irqs[&IrqId(42)].actions(), Vec::<&str>::new());
    }

    /// The text after the counts as kernels of several architectures print it, and the names in it.
    #[test]
    fn names_by_the_structure_of_a_line() {
        const LINES: &[(&str, &[&str])] = &[
            ("IO-APIC    2-edge      timer", &["timer"]),
            ("IR-PCI-MSI 2629636-edge      enp5s0f4 (queue 17)", &["enp5s0f4 (queue 17)"]),
            ("IR-PCI-MSIX-0000:17:00.0   0-edge      ice-0000:17:00.0:misc", &["ice-0000:17:00.0:misc"]),
            (
                "IO-APIC   16-fasteoi   ehci_hcd:usb1, eth0, i801_smbus",
                &["ehci_hcd:usb1", "eth0", "i801_smbus"],
            ),
            ("IO-APIC   9-fasteoi   PCIe PME, aerdrv", &["PCIe PME", "aerdrv"]),
            (
                "Hyper-V PCIe MSI 2684354560-edge      mlx5_comp0@pci:a1b2:00:02.0",
                &["mlx5_comp0@pci:a1b2:00:02.0"],
            ),
            ("xen-pirq-msi-x     eth0-TxRx-0", &["eth0-TxRx-0"]),
            ("xen-pirq    -msi-x     eth0-TxRx-0", &["eth0-TxRx-0"]),
            ("xen-dyn    -event     vif0-q0-rx", &["vif0-q0-rx"]),
            ("xen-dyn    -event   ", &[]),
            ("GICv3  30 Level     arch_timer", &["arch_timer"]),
            ("GICv2 189 Level     eth0", &["eth0"]),
            ("ITS-MSI 524288 Edge      nvme0q0", &["nvme0q0"]),
            ("ITS-MSI 524289 Edge    ", &[]),
            (
                "ITS-PCI-MSIX-0000:01:00.0   1 Edge      hns3-0000:7d:00.0-TxRx-0",
                &["hns3-0000:7d:00.0-TxRx-0"],
            ),
            ("INTA  16 Level     46000000.ethernet", &["46000000.ethernet"]),
            ("MT_SYSIRQ 224 Level     1b100000.ethernet", &["1b100000.ethernet"]),
            ("SiFive PLIC 131 Edge      eth0", &["eth0"]),
            ("SiFive PLIC   3  eth0", &["eth0"]),
            ("RISC-V INTC   5 Edge      riscv-timer", &["riscv-timer"]),
            ("APLIC-MSI   8 Level     ttyS0", &["ttyS0"]),
            ("MIPS GIC  10  1e100000.ethernet", &["1e100000.ethernet"]),
            ("MIPS   4  19000000.eth", &["19000000.eth"]),
            ("AR71XX PCI   1  ath9k", &["ath9k"]),
            ("armada_370_xp_irq  10  mvneta", &["mvneta"]),
            ("MPIC   8 Level     eth0", &["eth0"]),
            ("GIC  40  eth0", &["eth0"]),
            (
                "pinctrl-rp1  37 Level     1f00100000.ethernet-ffffffff:00",
                &["1f00100000.ethernet-ffffffff:00"],
            ),
            ("mt7530   1  mt7530-0:01", &["mt7530-0:01"]),
            ("xen-pirq -msi-x ena-mgmnt@pci:0000:00:03.0", &["ena-mgmnt@pci:0000:00:03.0"]),
            ("xen-percpu-virq      timer0", &["timer0"]),
            ("PCI-MSI 134463489-edge      i40e-enP1s15-TxRx-0", &["i40e-enP1s15-TxRx-0"]),
            // Kernels with out-of-band interrupts (Dovetail) print one more column.
            ("IR-PCI-MSI-0000:00:19.0      0 oob-edge      eno1", &["eno1"]),
            ("IR-PCI-MSI-0000:00:14.0      0    -edge      xhci_hcd", &["xhci_hcd"]),
            ("IR-PCI-MSI-0000:00:19.0      0 oob-edge    ", &[]),
            ("IR-IO-APIC     18    -fasteoi ", &[]),
            ("SIPIC      0 oob  EVL timer IPI", &["EVL timer IPI"]),
            ("SIRQC     24      in-band irq work", &["in-band irq work"]),
            ("XIVE-IRQ 4194312 Edge      eth0-TxRx-0", &["eth0-TxRx-0"]),
            ("XICS  16 Edge      ipr", &["ipr"]),
            // s390 prints the chip and the first name only; a line without a name ends after the chip.
            ("PCI-MSI  mlx5_comp0@pci:0001:00:00.0", &["mlx5_comp0@pci:0001:00:00.0"]),
            ("PCI-MSI", &[]),
            ("None", &[]),
        ];
        for (line, names) in LINES {
            let table =
                interrupts(&format!("  CPU0 CPU1\n  8:          0          7   {line}\n")).expect("valid");
            assert_eq!(table.irqs[&IrqId(8)].actions(), *names, "{line}");
        }
    }

    /// Lines of the architecture, and fewer columns than CPUs that may come online.
    #[test]
    fn lines_without_a_number_are_left_out() {
        let table = interrupts(
            "  CPU3 CPU8\nIPI0: 1 2 Rescheduling interrupts\nAIR: 3 4 [I/O] PCI\n  7: 5 6 chip 1-edge eth0\n",
        );
        let table = table.expect("valid");
        assert_eq!((table.cpus.to_string().as_str(), table.irqs.len()), ("3,8", 1));
    }

    #[test]
    fn a_missing_column_is_an_error() {
        assert_eq!(interrupts("CPU0 CPU1\n 1: 5\n").expect_err("short").line, 2);
        assert!(interrupts("CPU0\nnonsense\n").is_err());
        assert!(interrupts("CPU0\n 1:          01x\n").is_err(), "more than a 0");
        for bad in ["-1", "1x", "x", "99999999999999999999", "\u{e9}"] {
            let text = format!("CPU0 CPU1\n 1: 5 {bad} chip 1-edge eth0\n");
            let error = interrupts(&text).expect_err(bad).to_string();
            assert_eq!(error, format!("line 2: `{bad}` is not a counter"));
            assert_eq!(interrupt_actions(&text).expect_err(bad).to_string(), error);
        }
        assert!(interrupts("CPU65536\n").is_err(), "no kernel has it");
    }

    #[test]
    fn the_function_of_a_vector() {
        let function = |chip: &str| {
            let found = interrupt_actions(&format!("  CPU0\n 8: 0 {chip} 1-edge eth0\n")).expect("valid");
            found[0].function.clone()
        };
        for chip in ["PCI-MSIX-0000:00:03.0", "IR-PCI-MSI-0000:00:03.0", "ITS-PCI-MSIX-0000:00:03.0"] {
            assert_eq!(function(chip).as_deref(), Some("0000:00:03.0"), "{chip}");
        }
        for chip in ["PCI-MSI", "IR-PCI-MSIX", "DMAR-MSI", "GICv3"] {
            assert_eq!(function(chip), None, "{chip}");
        }
    }

    #[test]
    fn interrupts_that_no_cpu_but_their_own_takes() {
        for (chip, is_fixed) in [
            ("ARMCTRL-level  65 Level", true),
            ("MPIC   8 Level", true),
            ("MPIC  28 Level", true),
            ("MPIC  29 Level", false),
            ("MPIC MSI 1048576 Edge", false),
            ("MIPS   4", true),
            ("MIPS GIC  10", false),
            ("LIOINTC  12 Level", true),
            ("GICv3  27 Level", false),
        ] {
            let found =
                interrupt_actions(&format!("  CPU0 CPU1\n 8: 1 0  {chip}     eth0\n")).expect("valid");
            assert_eq!(found[0].is_fixed, is_fixed, "{chip}");
        }
    }

    #[test]
    fn actions_alone_are_those_of_the_table() {
        let table = interrupts(CAPTURED).expect("valid");
        for irq in interrupt_actions(CAPTURED).expect("valid") {
            assert_eq!(table.irqs[&irq.number].actions(), irq.actions);
            assert!(!irq.is_of_xen);
        }
        let of_xen = interrupt_actions(" CPU0\n 76: 0   xen-dyn    -event     eth0\n").expect("valid");
        assert!(of_xen[0].is_of_xen && of_xen[0].actions == ["eth0"]);
    }

    proptest! {
        /// In the kernel's own columns and in any others.
        #[test]
        fn counts_are_those_printed(
            counts in proptest::collection::vec(proptest::option::of(proptest::prelude::any::<u64>()), 1..6),
            width in proptest::sample::select(vec![1usize, 10]),
        ) {
            let counts: Vec<u64> = counts.into_iter().map(Option::unwrap_or_default).collect();
            let head: String = (0..counts.len()).map(|cpu| format!("CPU{cpu} ")).collect();
            let row: String = counts.iter().map(|count| format!(" {count:>width$}")).collect();
            let table = interrupts(&format!("{head}\n 7:{row}  chip 1-edge eth0\n")).expect("valid");
            let line = &table.irqs[&IrqId(7)];
            let read: Vec<u64> = table.cpus.iter().map(|cpu| line.counts.get(&cpu).copied().unwrap_or(0)).collect();
            assert_eq!((read, line.actions()), (counts, vec!["eth0"]));
        }

        #[test]
        fn both_readings_accept_the_same(text in "( *CPU[0-9]{1,3}){0,4}\n( ?[0-9A-Z]{1,4}:( [0-9]{1,22}){0,5} [a-zA-Z0-9 ,.:-]{0,30}\n){0,3}|.{0,60}") {
            assert_eq!(interrupt_actions(&text).is_ok(), interrupts(&text).is_ok());
            if let Ok(table) = interrupts(&text) {
                for action in table.irqs.values().flat_map(|line| line.actions()) {
                    assert!(text.contains(action), "{action}");
                }
            }
        }
    }
}
