//! CPUs as bars: receive work and other work of each, equal neighbours folded on large machines.

use rxlab_advise::doctor::CpuUse;
use rxlab_base::units::CpuMask;

/// CPUs that are shown one by one, and bars at most.
const MOST: usize = 16;

/// Marks of a full bar.
const FULL: f64 = 10.0;

/// Use from which a CPU is not idle.
const SHOWN: f64 = 0.05;

/// A CPU, or several that are alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    pub cpus: CpuMask,
    /// Mean softirq time, as a fraction of wall time.
    pub receive: f64,
    /// Mean time in which they were not idle.
    pub busy: f64,
}

impl Bar {
    /// Marks for receive work and for other work.
    pub fn marks(&self) -> (usize, usize) {
        let receive = marks(self.receive);
        (receive, if self.busy < SHOWN { 0 } else { marks(self.busy).saturating_sub(receive) })
    }

    /// `2 ########-- 82%`; `3 .` if it is idle.
    pub fn text(&self) -> String {
        let (receive, other) = self.marks();
        if receive + other == 0 {
            return format!("{} .", self.cpus);
        }
        let percent = if receive > 0 { format!(" {:.0}%", self.receive * 100.0) } else { String::new() };
        format!("{} {}{}{percent}", self.cpus, "#".repeat(receive), "-".repeat(other))
    }
}

fn marks(part: f64) -> usize {
    if part < SHOWN { 0 } else { (part * FULL).round().clamp(1.0, FULL) as usize }
}

/// A bar for each CPU. Beyond 16 CPUs, neighbours with equal marks share one; beyond 16 bars, all but the hottest do.
pub(super) fn bars(cpus: &[CpuUse]) -> Vec<Bar> {
    let mut bars: Vec<Bar> =
        cpus.iter().map(|cpu| Bar { cpus: cpu.cpu.into(), receive: cpu.receive, busy: cpu.busy }).collect();
    if bars.len() <= MOST {
        return bars;
    }
    bars = folded(bars, |one, other| one.marks() == other.marks());
    if bars.len() > MOST {
        let mut hottest: Vec<&Bar> = bars.iter().collect();
        hottest.sort_by(|a, b| b.receive.total_cmp(&a.receive));
        let shown: CpuMask = hottest
            .into_iter()
            .take(MOST / 2)
            .filter(|bar| bar.marks().0 > 0)
            .fold(CpuMask::new(), |all, bar| all.union(&bar.cpus));
        let is_shown = |bar: &Bar| !shown.intersection(&bar.cpus).is_empty();
        let (shown, rest): (Vec<Bar>, Vec<Bar>) = bars.into_iter().partition(is_shown);
        // All others are one bar, wherever they are.
        bars = shown.into_iter().chain(folded(rest, |_, _| true)).collect();
    }
    bars
}

/// Neighbours that are alike as one, with their mean.
fn folded(bars: Vec<Bar>, alike: impl Fn(&Bar, &Bar) -> bool) -> Vec<Bar> {
    let mut folded: Vec<Bar> = Vec::new();
    for bar in bars {
        match folded.last_mut().filter(|last| alike(last, &bar)) {
            Some(last) => {
                let (a, b) = (last.cpus.len() as f64, bar.cpus.len() as f64);
                let mean = |x: f64, y: f64| (x * a + y * b) / (a + b);
                (last.receive, last.busy) = (mean(last.receive, bar.receive), mean(last.busy, bar.busy));
                last.cpus = last.cpus.union(&bar.cpus);
            }
            None => folded.push(bar),
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::bars;
    use rxlab_advise::doctor::CpuUse;
    use rxlab_base::units::CpuId;

    fn said(cpus: &[(f64, f64)]) -> String {
        let cpus = (0..).zip(cpus).map(|(cpu, (receive, busy))| CpuUse {
            cpu: CpuId(cpu),
            receive: *receive,
            busy: *busy,
        });
        bars(&cpus.collect::<Vec<_>>()).iter().map(super::Bar::text).collect::<Vec<_>>().join("  ")
    }

    #[test]
    fn cpus_as_bars() {
        assert_eq!(
            said(&[(0.98, 0.98), (0.0, 0.02), (0.3, 0.8), (0.0, 0.4)]),
            "0 ########## 98%  1 .  2 ###----- 30%  3 ----"
        );
        assert_eq!(said(&[(0.06, 0.06), (0.04, 0.04)]), "0 # 6%  1 .");
    }

    #[test]
    fn large_machines_are_folded() {
        let mut cpus = vec![(0.0, 0.01); 128];
        cpus[3] = (0.98, 1.0);
        assert_eq!(said(&cpus), "0-2 .  3 ########## 98%  4-127 .");
        let uneven: Vec<(f64, f64)> = (0..128).map(|cpu| (0.0, f64::from(cpu % 7) / 7.0)).collect();
        assert_eq!(said(&uneven), "0-127 ----");
        cpus.iter_mut().step_by(2).for_each(|cpu| cpu.1 = 0.5);
        assert_eq!(said(&cpus), "3 ########## 98%  0-2,4-127 ---");
    }
}
