//! Time lost to received packets by processes and CPUs, each with a bar and its figures.

use super::markup::{Markup, percent, typeset};
use super::{figure, remarks, tables};
use crate::report::interference::{LEAST, by, losers, ranked, who};
use rxlab_base::number::share;
use rxlab_base::units::Fact;
use rxlab_probe::{Interference, Tier, Victim};

/// Processes with a bar; the table has all.
const BARS: usize = 12;

/// A bar with its words.
struct Bar {
    title: String,
    note: String,
    /// Part of a CPU's time.
    value: f64,
}

/// The article below its heading.
pub(super) fn article(m: &mut Markup, sample: &Interference) {
    let method = match sample.tier {
        Tier::Ebpf => "measured with eBPF",
        Tier::Procfs => "from the counters of /proc",
    };
    m.sentence("p", &[("class", "basis")], &format!("Over {:.1} s, {method}", sample.seconds));
    if let Some(missing) = &sample.missing {
        m.sentence("p", &[("class", "basis")], &format!("No eBPF: {missing}"));
    }
    if let Fact::Known(victims) = &sample.victims {
        processes(m, sample, victims);
    }
    cpus(m, sample);
    remarks(m, "Notes", &sample.notes);
}

fn processes(m: &mut Markup, sample: &Interference, victims: &[Victim]) {
    let bars: Vec<Bar> = losers(sample, victims)
        .into_iter()
        .take(BARS)
        .map(|victim| Bar {
            title: who(victim),
            note: by(sample, victim),
            value: sample.share(victim.lost_ns()),
        })
        .collect();
    let caption =
        "CPU time that each process was charged but that went to receive work, as a part of one CPU.";
    figure(m, "Processes", caption, |m| {
        chart(m, &bars);
        let heads = ["Process", "Charged", "Had", "Lost", "By", "Own receive work"];
        let rows = victims.iter().map(|victim| {
            vec![
                who(victim),
                part(sample, &victim.believed_ns),
                part(sample, &victim.really_ns),
                share(sample.share(victim.lost_ns())),
                by(sample, victim),
                share(sample.share(victim.own_ns())),
            ]
        });
        tables::behind(m, "Processes as a table", |m| tables::figures(m, &heads, rows));
    });
}

fn cpus(m: &mut Markup, sample: &Interference) {
    let bars: Vec<Bar> = sample
        .cpus
        .iter()
        .filter_map(|cpu| {
            let value = sample.share(*cpu.net_rx_ns.known()?);
            let causes = cpu.by_class.iter().filter_map(|(class, ns)| Some((class.name(), *ns.known()?)));
            let note = ranked(sample, causes);
            (value >= LEAST).then(|| Bar { title: format!("CPU {}", cpu.cpu), note, value })
        })
        .collect();
    figure(m, "CPUs", "Receive time of each CPU, by cause, as a part of its time.", |m| {
        chart(m, &bars);
        let heads = ["CPU", "Receive time", "Interrupt handlers", "Packets"];
        let rows = sample.cpus.iter().map(|cpu| {
            let packets = cpu
                .packets
                .known()
                .map_or("-".to_owned(), |packets| rxlab_base::number::rate(*packets as f64 / sample.seconds));
            vec![
                format!("CPU {}", cpu.cpu),
                part(sample, &cpu.net_rx_ns),
                part(sample, &cpu.hard_irq_ns),
                packets,
            ]
        });
        tables::behind(m, "CPUs as a table", |m| tables::figures(m, &heads, rows));
    });
}

/// A time as a part of the sample; `-` if it is not known.
fn part(sample: &Interference, ns: &Fact<u64>) -> String {
    ns.known().map_or("-".to_owned(), |ns| share(sample.share(*ns)))
}

fn chart(m: &mut Markup, bars: &[Bar]) {
    if bars.is_empty() {
        m.leaf("p", &[("class", "absent")], "Nothing above 0.05 % of the time.");
        return;
    }
    let most = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    m.element("div", &[("class", "effects")], |m| {
        for bar in bars {
            m.element("div", &[("class", "effect bar")], |m| {
                m.element("div", &[("class", "what")], |m| {
                    m.inline("span", &[("class", "title")], &bar.title);
                    m.inline("small", &[], &typeset(&bar.note));
                });
                let title = typeset(&format!("{}: {}", bar.title, share(bar.value)));
                m.drawing("plot", 42.0, &title, |m| {
                    let width = percent(bar.value / most);
                    m.empty("rect", &[("class", "lost"), ("y", "13"), ("width", &width), ("height", "16")]);
                });
                m.element("div", &[("class", "figures")], |m| {
                    m.inline("span", &[("class", "number")], &typeset(&share(bar.value)));
                });
            });
        }
    });
}
