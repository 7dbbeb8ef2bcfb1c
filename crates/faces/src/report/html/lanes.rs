//! A trace as one SVG picture: for each CPU a row of interrupts, one of softirqs, and one of threads that receive.

use std::collections::BTreeMap;

use super::markup::{Markup, px};
use crate::report::timeline::work_name;
use rxlab_base::parse::NET_RX;
use rxlab_base::units::CpuId;
use rxlab_path::model::Identity;
use rxlab_probe::Names;
use rxlab_probe::trace::{Slice, Work};

/// Width of the part that shows time, pixels.
const WIDTH: f64 = 1000.0;
/// Room for the names of CPUs and rows, on the left.
const LEFT: f64 = 110.0;
/// Room for the title.
const TOP: f64 = 44.0;
const ROW: f64 = 14.0;
/// From one CPU to the next.
const PITCH: f64 = 3.0 * ROW + 14.0;
/// Rows of a CPU: what interrupts is above what it interrupts.
const ROWS: [&str; 3] = ["interrupts", "softirqs", "threads"];

const STYLE: &str = "text { font: 12px system-ui, sans-serif; fill: #1b2126; } text.row { font-size: 10px; }
.ground { fill: #fcfcfa; } .lane { fill: #eceef0; } line { stroke: #cdd2d6; }
.irq { fill: #b3430a; } .net-rx { fill: #0b5c9e; } .softirq { fill: #85b2d0; } .thread { fill: #49535c; }
@media (prefers-color-scheme: dark) { text { fill: #e8eaec; } .ground { fill: #16191c; } .lane { fill: #24292d; }
line { stroke: #3c444a; } .irq { fill: #ef8b54; } .net-rx { fill: #6db5ee; } .softirq { fill: #38678c; }
.thread { fill: #a9b3bb; } }\n";

/// A picture of a trace that began at `began` and took `length`, both in nanoseconds.
pub fn picture(slices: &[Slice], (began, length): (u64, u64), names: &Names, machine: &Identity) -> String {
    let mut lanes: BTreeMap<CpuId, [Vec<&Slice>; 3]> = BTreeMap::new();
    for slice in slices {
        lanes.entry(slice.cpu).or_default()[row(&slice.work)].push(slice);
    }
    let bottom = TOP + lanes.len() as f64 * PITCH;
    let (width, height) = (LEFT + WIDTH + 20.0, bottom + 24.0);
    let x = |at: u64| LEFT + WIDTH * at.saturating_sub(began).min(length) as f64 / length.max(1) as f64;
    let milliseconds = length as f64 / 1e6;
    let Identity { hostname, kernel, .. } = machine;
    let title = format!("Receive work by CPU, {milliseconds:.0} ms; {hostname}, Linux {kernel}");
    let mut m = Markup::default();
    let size = [
        ("xmlns", "http://www.w3.org/2000/svg"),
        ("width", &px(width)),
        ("height", &px(height)),
        ("role", "img"),
        ("aria-label", &title),
    ];
    m.element("svg", &size, |m| {
        m.element("style", &[], |m| m.fixed(STYLE));
        m.empty("rect", &[("class", "ground"), ("width", "100%"), ("height", "100%")]);
        m.leaf("text", &[("x", &px(LEFT)), ("y", "24")], &title);
        for (lane, (cpu, rows)) in lanes.iter().enumerate() {
            let top = TOP + lane as f64 * PITCH;
            m.leaf("text", &[("x", "8"), ("y", &px(top + 1.8 * ROW))], &format!("CPU {cpu}"));
            for (index, (name, slices)) in ROWS.iter().zip(rows).enumerate() {
                let y = top + index as f64 * ROW;
                m.leaf("text", &[("class", "row"), ("x", "54"), ("y", &px(y + 10.0))], name);
                rectangle(m, "lane", (LEFT, WIDTH), y, "");
                for bar in bars(slices, x, names) {
                    let width = (bar.to - bar.from).max(0.5);
                    rectangle(m, bar.class, (bar.from, width), y, &bar.title());
                }
            }
        }
        let step: f64 = [1.0, 2.0, 5.0].into_iter().find(|step| milliseconds <= 10.0 * step).unwrap_or(10.0);
        for tick in (0..).map(|tick| step * f64::from(tick)).take_while(|tick| *tick <= milliseconds) {
            let at = px(LEFT + WIDTH * tick / milliseconds);
            m.empty(
                "line",
                &[("x1", &at), ("x2", &at), ("y1", &px(bottom - 10.0)), ("y2", &px(bottom - 4.0))],
            );
            m.label((&at, &px(bottom + 10.0)), "middle", &tick.to_string());
        }
        m.leaf("text", &[("x", "8"), ("y", &px(bottom + 10.0))], "milliseconds");
    });
    m.finish()
}

fn rectangle(m: &mut Markup, class: &str, (x, width): (f64, f64), y: f64, title: &str) {
    let (x, y, width, height) = (px(x), px(y), px(width), px(ROW - 2.0));
    let attributes = [("class", class), ("x", &x), ("y", &y), ("width", &width), ("height", &height)];
    match title {
        "" => m.empty("rect", &attributes),
        title => m.element("rect", &attributes, |m| m.leaf("title", &[], title)),
    }
}

/// Index of the work's row in [`ROWS`].
fn row(work: &Work) -> usize {
    match work {
        Work::Irq(_) | Work::Ipi | Work::Timer => 0,
        Work::Softirq(_) => 1,
        Work::Thread { .. } => 2,
    }
}

/// Work of one kind with no visible gap between its pieces.
struct Bar {
    from: f64,
    to: f64,
    class: &'static str,
    name: String,
    pieces: usize,
    packets: u64,
    ns: u64,
}

impl Bar {
    fn title(&self) -> String {
        let mut title = format!("{}: {:.1} us", self.name, self.ns as f64 / 1e3);
        if self.packets > 0 {
            title += &format!(", {} packets", self.packets);
        }
        if self.pieces > 1 {
            title += &format!(", in {} pieces", self.pieces);
        }
        title
    }
}

/// Slices of one row in time order as bars; those that would overlap in the picture are one.
fn bars(slices: &[&Slice], x: impl Fn(u64) -> f64, names: &Names) -> Vec<Bar> {
    let mut slices = slices.to_vec();
    slices.sort_by_key(|slice| slice.began);
    let mut bars: Vec<Bar> = Vec::new();
    for slice in slices {
        let (name, class) = work_name(names, &slice.work);
        let class = if slice.work == Work::Softirq(NET_RX) { "net-rx" } else { class };
        let packets = slice.run.as_ref().map_or(0, |run| run.packets + run.backlog);
        let (from, to) = (x(slice.began), x(slice.ended));
        match bars.last_mut().filter(|bar| bar.name == name && from - bar.to < 0.2) {
            Some(bar) => {
                bar.to = to.max(bar.to);
                bar.pieces += 1;
                bar.packets += packets;
                bar.ns += slice.length();
            }
            None => bars.push(Bar { from, to, class, name, pieces: 1, packets, ns: slice.length() }),
        }
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::picture;
    use rxlab_base::parse::NET_RX;
    use rxlab_base::units::CpuId;
    use rxlab_path::model::Identity;
    use rxlab_probe::Names;
    use rxlab_probe::trace::{Slice, Work};

    fn slice(cpu: u32, work: Work, began: u64, ended: u64) -> Slice {
        Slice { cpu: CpuId(cpu), began, ended, work, run: None, whole: true }
    }

    #[test]
    fn each_cpu_has_its_rows_and_short_work_is_joined() {
        let mut slices = vec![
            slice(0, Work::Ipi, 1_001_000_000, 1_001_100_000),
            slice(0, Work::Softirq(NET_RX), 1_001_100_000, 1_003_000_000),
            slice(2, Work::Thread { pid: 7, name: "nginx <7>".to_owned() }, 1_002_000_000, 1_009_000_000),
        ];
        // Pieces of a microsecond with a microsecond between them: less than a pixel.
        slices.extend(
            (0..100).map(|n| slice(2, Work::Timer, 1_004_000_000 + 2_000 * n, 1_004_001_000 + 2_000 * n)),
        );
        let machine =
            Identity { hostname: "web1".to_owned(), kernel: "6.1".to_owned(), boot_id: String::new() };
        insta::assert_snapshot!(picture(&slices, (1_000_000_000, 10_000_000), &Names::default(), &machine));
    }
}
