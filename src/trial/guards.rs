//! Guards: limits for a single slot, beyond which the change is rolled back immediately.

use super::spec::Guards;
use crate::model::Rates;

/// Figures of one slot that may trip a guard.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trouble {
    /// Failed requests as a fraction of all.
    pub error_rate: f64,
    /// p99 latency in microseconds, if there are enough requests.
    pub p99_us: Option<f64>,
    /// Sign that the load generator was the limit.
    pub client_limited: Option<String>,
}

/// The tripped guard, with its figures.
pub fn tripped(guards: &Guards, trouble: &Trouble, rates: &Rates) -> Option<String> {
    let over = |value: f64, limit: Option<f64>| limit.filter(|limit| value > *limit);
    if let Some(limit) = over(trouble.error_rate, guards.error_rate) {
        let (rate, limit) = (100.0 * trouble.error_rate, 100.0 * limit);
        return Some(format!("{rate:.2} % of the requests failed (limit {limit:.2} %)"));
    }
    if let Some(limit) = over(trouble.p99_us.unwrap_or(0.0), guards.p99_us) {
        let p99 = trouble.p99_us.unwrap_or(0.0);
        return Some(format!("p99 was {p99:.0} us (limit {limit:.0} us)"));
    }
    let drops: f64 = rates.cpus.iter().map(|cpu| cpu.dropped).sum::<f64>()
        + rates.nics.iter().map(|nic| nic.rx_dropped).sum::<f64>();
    over(drops, guards.drops).map(|limit| format!("{drops:.0} packets/s were dropped (limit {limit:.0})"))
}

#[cfg(test)]
mod tests {
    use super::{Trouble, tripped};
    use crate::model::Rates;
    use crate::trial::spec::Guards;

    fn quiet() -> Rates {
        Rates {
            seconds: 1.0,
            cpus: Vec::new(),
            nics: Vec::new(),
            irqs: Vec::new(),
            exact_softirq_time: None,
            softirq_timed: None,
            costs: None,
            gaps: Vec::new(),
            unseen: Vec::new(),
            processes: crate::model::Fact::NotAsked,
        }
    }

    #[test]
    fn each_guard_says_its_figures() {
        let guards = Guards { error_rate: Some(0.01), p99_us: Some(500.0), drops: Some(0.0) };
        let fine = Trouble { error_rate: 0.01, p99_us: Some(500.0), client_limited: None };
        assert_eq!(tripped(&guards, &fine, &quiet()), None);
        let errors = Trouble { error_rate: 0.05, ..fine.clone() };
        assert_eq!(
            tripped(&guards, &errors, &quiet()).as_deref(),
            Some("5.00 % of the requests failed (limit 1.00 %)")
        );
        let slow = Trouble { p99_us: Some(501.0), ..fine };
        assert_eq!(tripped(&guards, &slow, &quiet()).as_deref(), Some("p99 was 501 us (limit 500 us)"));
    }
}
