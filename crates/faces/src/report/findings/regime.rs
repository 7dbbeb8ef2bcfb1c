//! Possible gain, as a table: the CPUs that receive, and the settings worth a trial.

use crate::report::measured::more;
use crate::report::text::{Cell, FAINT, STRONG, Table, left, right, wrapping};
use rxlab_advise::diagnose::regime::{CpuRegime, FamilyGain, Regime};
use rxlab_base::number::{count, percent, precise_percent, times as factor};
use rxlab_path::evidence::tier_words;

/// CPUs in the table; JSON has all.
const CPUS: usize = 16;

/// All CPUs that receive, and all settings.
pub(super) fn whole(regime: &Regime) -> String {
    let numbers = ["packets/s", "IRQs/s", "ns/packet", "receives", "busy", "other work at most"].map(right);
    let mut table = Table::new([right("CPU"), left("IRQ")].into_iter().chain(numbers)).indented(2);
    for cpu in regime.cpus.iter().take(CPUS) {
        table.row(row(cpu).map(Into::into));
    }
    let more = more(regime.cpus.len(), CPUS);
    let knobs = knobs(&regime.knobs.iter().collect::<Vec<_>>());
    format!("{}{more}  {}\n{knobs}", table.render(), tier_words(&regime.tier))
}

fn row(cpu: &CpuRegime) -> [String; 8] {
    // Gain of the CPU's other work, not of the host's capacity.
    let gain = match cpu.ceiling {
        times if times >= 1.0 => factor(1.0 + times),
        part => format!("+{}", precise_percent(part)),
    };
    [
        cpu.cpu.to_string(),
        if cpu.takes_interrupts { "yes".to_owned() } else { "-".to_owned() },
        count(cpu.packets.round()),
        cpu.interrupts.map_or("-".to_owned(), |rate| count(rate.round())),
        cpu.ns_per_packet.map_or("-".to_owned(), |ns| count(ns.round())),
        percent(cpu.receive),
        percent(cpu.busy),
        gain,
    ]
}

fn knobs(knobs: &[&FamilyGain]) -> String {
    let mut table = Table::new([left("setting"), left("trial"), wrapping("because")]).indented(8);
    let mut above = None;
    for worth in knobs {
        let (style, word) = match (worth.trial, worth.by_hand) {
            (true, true) => (STRONG, "by hand"),
            (true, false) => (STRONG, "yes"),
            (false, _) => (FAINT, "no"),
        };
        let why = if above == Some(&worth.why) { "the same" } else { worth.why.as_str() };
        table.row([worth.knob.name().into(), Cell::styled(style, word), why.into()]);
        above = Some(&worth.why);
    }
    table.render()
}
