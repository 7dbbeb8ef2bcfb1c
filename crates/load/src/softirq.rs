//! Share of time spent in softirqs on the CPUs of the load threads: receive work that preempts them.

use std::collections::BTreeMap;
use std::time::Instant;

use rxlab_base::parse::stat;
use rxlab_base::units::CpuId;
use rxlab_sys::{Host, LiveHost};

/// Counts since the last sample.
#[derive(Debug)]
pub(super) struct Softirqs {
    host: LiveHost,
    /// Softirq time by CPU, in ticks of USER_HZ.
    last: BTreeMap<CpuId, u64>,
    at: Instant,
}

impl Softirqs {
    /// `None` if `/proc/stat` cannot be read.
    pub(super) fn watch() -> Option<Self> {
        let host = LiveHost::open("/".as_ref()).ok()?;
        let last = ticks(&host)?;
        Some(Self { host, last, at: Instant::now() })
    }

    /// Fraction of the time since the last sample, by CPU.
    pub(super) fn take(&mut self) -> BTreeMap<CpuId, f64> {
        let (now, at) = (ticks(&self.host).unwrap_or_default(), Instant::now());
        let shares = shares(&self.last, &now, at.duration_since(self.at).as_secs_f64());
        (self.last, self.at) = (now, at);
        shares
    }
}

/// Only for CPUs present in the earlier sample.
fn shares(before: &BTreeMap<CpuId, u64>, now: &BTreeMap<CpuId, u64>, seconds: f64) -> BTreeMap<CpuId, f64> {
    now.iter()
        .filter_map(|(cpu, ticks)| {
            let more = ticks.saturating_sub(*before.get(cpu)?);
            // USER_HZ is 100 on every architecture that Linux still supports.
            Some((*cpu, (more as f64 / 100.0 / seconds.max(f64::MIN_POSITIVE)).min(1.0)))
        })
        .collect()
}

fn ticks(host: &LiveHost) -> Option<BTreeMap<CpuId, u64>> {
    let stat = stat(&host.read_text("proc/stat").ok()?).ok()?;
    Some(stat.into_iter().map(|(cpu, times)| (cpu, times.softirq)).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Softirqs, shares};
    use rxlab_base::units::CpuId;

    #[test]
    fn ticks_are_hundredths_of_a_second() {
        let of =
            |ticks: &[u64]| -> BTreeMap<CpuId, u64> { (0..).map(CpuId).zip(ticks.iter().copied()).collect() };
        let shares: Vec<f64> =
            shares(&of(&[100, 100, 7]), &of(&[150, 500, 7, 9]), 2.0).into_values().collect();
        assert_eq!(shares, [0.25, 1.0, 0.0], "CPU 3 is new");
    }

    #[test]
    fn every_cpu_of_this_machine_is_looked_at() {
        let mut softirqs = Softirqs::watch().expect("readable");
        std::thread::sleep(std::time::Duration::from_millis(20));
        let shares = softirqs.take();
        assert!(!shares.is_empty() && shares.len() == softirqs.last.len(), "{shares:?}");
    }
}
