//! Changes from one sample to the next: findings that are new, worse, milder or gone.

use serde::{Deserialize, Serialize};

use crate::diagnose::Finding;

/// Change of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Not in the previous sample.
    Appeared,
    /// More severe than last reported.
    Worsened,
    /// Less severe than last reported, in two samples in a row.
    Eased,
    /// Absent from two samples in a row.
    Cleared,
}

/// One line of `rxlab doctor --watch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alert {
    /// Name and version of the format.
    pub schema: String,
    /// End of the sample, RFC 3339 in UTC.
    pub time: String,
    /// Change of the finding.
    pub change: Change,
    /// The finding; as last seen if it cleared.
    pub finding: Finding,
}

impl Alert {
    pub const SCHEMA: &'static str = "rxlab.alert/2";

    /// `2026-05-01T10:00:00Z  appeared  critical  one-core-hotspot: CPU 2 does 96 % of ...`.
    pub fn in_one_line(&self) -> String {
        let change = match self.change {
            Change::Appeared => "appeared",
            Change::Worsened => "worsened",
            Change::Eased => "eased",
            Change::Cleared => "cleared",
        };
        let finding = &self.finding;
        let nic = finding.nic.as_ref().map_or(String::new(), |nic| format!(" {nic}"));
        let Finding { severity, id, title, .. } = finding;
        format!("{}  {change:<8}  {severity:<8}  {id}{nic}: {title}", self.time)
    }
}

/// Consecutive samples in which a finding must be milder or gone before that is reported: otherwise figures close to
/// a threshold would produce a line per sample.
const QUIET: u32 = 2;

/// A finding as reported.
#[derive(Debug, Clone)]
struct Told {
    /// With the figures of the last sample that had it at this severity.
    finding: Finding,
    /// Consecutive samples in which it was milder or absent.
    quiet: u32,
}

/// Findings reported so far.
#[derive(Debug, Clone, Default)]
pub struct Alerts {
    told: Vec<Told>,
    calls: bool,
}

impl Alerts {
    /// Returns changes, cleared findings first. Figures and the CPU may change: a finding is identified by its rule and
    /// its interface.
    pub fn update(&mut self, findings: &[Finding], time: &str) -> Vec<Alert> {
        self.calls = findings.iter().any(Finding::needs_attention);
        let (mut gone, mut changed) = (Vec::new(), Vec::new());
        self.told.retain_mut(|told| {
            let now = findings.iter().find(|finding| same(finding, &told.finding));
            let milder = now.is_none_or(|now| now.severity < told.finding.severity);
            told.quiet = if milder { told.quiet + 1 } else { 0 };
            match now {
                Some(now) if now.severity > told.finding.severity => {
                    changed.push((Change::Worsened, now.clone()));
                }
                Some(now) if told.quiet >= QUIET => changed.push((Change::Eased, now.clone())),
                None if told.quiet >= QUIET => {
                    gone.push((Change::Cleared, told.finding.clone()));
                    return false;
                }
                _ if milder => return true,
                _ => {}
            }
            *told = Told { finding: now.unwrap_or(&told.finding).clone(), quiet: 0 };
            true
        });
        for finding in findings {
            if !self.told.iter().any(|told| same(finding, &told.finding)) {
                self.told.push(Told { finding: finding.clone(), quiet: 0 });
                changed.push((Change::Appeared, finding.clone()));
            }
        }
        let alert = |(change, finding)| Alert {
            schema: Alert::SCHEMA.to_owned(),
            time: time.to_owned(),
            change,
            finding,
        };
        gone.into_iter().chain(changed).map(alert).collect()
    }

    /// The findings as reported: appeared, and not cleared yet.
    pub fn standing(&self) -> Vec<Finding> {
        self.told.iter().map(|told| told.finding.clone()).collect()
    }

    /// True if the last sample had a finding that needs attention.
    pub fn needs_attention(&self) -> bool {
        self.calls
    }
}

fn same(a: &Finding, b: &Finding) -> bool {
    (&a.id, &a.nic) == (&b.id, &b.nic)
}

#[cfg(test)]
mod tests {
    use super::{Alert, Alerts, Change};
    use crate::diagnose::diagnose;
    use rxlab_path::sketch::Sketch;

    fn look(alerts: &mut Alerts, sketch: Sketch) -> Vec<(Change, String)> {
        let (model, rates) = sketch.build();
        let news = alerts.update(&diagnose(&model, &rates), "2026-05-01T10:00:00Z");
        news.into_iter().map(|alert| (alert.change, alert.finding.id)).collect()
    }

    fn idle() -> Sketch {
        Sketch::new(8).device("eth0", &[2])
    }

    #[test]
    fn a_line_only_when_a_finding_appears_or_clears() {
        let mut alerts = Alerts::default();
        assert_eq!(look(&mut alerts, idle()), []);
        assert!(!alerts.needs_attention());
        let hot = "one-core-hotspot".to_owned();
        assert_eq!(look(&mut alerts, Sketch::case_a()), [(Change::Appeared, hot.clone())]);
        assert_eq!(look(&mut alerts, Sketch::case_a().ksoftirqd(2, 0.5)), [], "the same with other figures");
        let drops = "backlog-drops".to_owned();
        assert_eq!(look(&mut alerts, Sketch::case_a().drops(2, 40.0)), [(Change::Appeared, drops.clone())]);
        assert!(alerts.needs_attention());
        assert_eq!(look(&mut alerts, idle()), [], "one quiet sample");
        assert!(!alerts.needs_attention(), "the last sample has none");
        assert_eq!(look(&mut alerts, idle()), [(Change::Cleared, hot), (Change::Cleared, drops)]);
        assert_eq!(look(&mut alerts, idle()), []);
    }

    /// A device with one queue, whose CPU spends the fraction `softirq` of its time receiving.
    fn hot(cpu: u32, softirq: f64) -> Sketch {
        Sketch::new(8).device("eth0", &[cpu]).traffic("eth0", 4e4).receives(cpu, softirq, 4e4)
    }

    /// Regression: a rise from 30 to 98 % of a CPU was not reported.
    #[test]
    fn severity_rises_at_once_and_falls_after_two_samples() {
        let mut alerts = Alerts::default();
        let id = || "one-core-hotspot".to_owned();
        assert_eq!(look(&mut alerts, hot(2, 0.3)), [(Change::Appeared, id())]);
        assert_eq!(look(&mut alerts, hot(2, 0.98)), [(Change::Worsened, id())]);
        assert_eq!(look(&mut alerts, hot(2, 0.6)), []);
        assert_eq!(look(&mut alerts, hot(2, 0.98)), [], "it was not milder for long");
        assert_eq!(look(&mut alerts, hot(2, 0.6)), []);
        assert_eq!(look(&mut alerts, hot(2, 0.6)), [(Change::Eased, id())]);
        assert_eq!(look(&mut alerts, hot(2, 0.6)), []);
    }

    #[test]
    fn a_figure_near_a_threshold_or_a_move_to_another_cpu_is_no_change() {
        let mut alerts = Alerts::default();
        assert_eq!(look(&mut alerts, hot(2, 0.26)).len(), 1);
        let quiet = || hot(2, 0.24).rps("eth0", "3");
        for sketch in [quiet(), hot(2, 0.26), quiet(), hot(5, 0.3)] {
            assert_eq!(look(&mut alerts, sketch), []);
        }
    }

    #[test]
    fn a_thread_that_moves_is_the_same_finding() {
        let mut alerts = Alerts::default();
        let full = |cpu: Option<u32>| {
            let sketch = idle().traffic("eth0", 4e4).receives(2, 0.05, 4e4);
            let sketch = match cpu {
                Some(cpu) => sketch.works(cpu, 0.985),
                None => sketch.each("0-7", |sketch, cpu| sketch.works(cpu, 0.12)),
            };
            let sketch = sketch.program("redis-server", 0.99, "0-7");
            sketch.thread(cpu.unwrap_or(4), 0.99, 0.001).udp(6379, 900, 900)
        };
        assert_eq!(look(&mut alerts, full(Some(3))), [(Change::Appeared, "single-thread-limit".to_owned())]);
        for cpu in [Some(5), None, None, Some(6), Some(6)] {
            assert_eq!(look(&mut alerts, full(cpu)), []);
        }
    }

    #[test]
    fn an_alert_is_one_line() {
        let (model, rates) = Sketch::case_a().build();
        let news = Alerts::default().update(&diagnose(&model, &rates), "2026-05-01T10:00:00Z");
        assert_eq!(
            news[0].in_one_line(),
            "2026-05-01T10:00:00Z  appeared  critical  one-core-hotspot eth0: CPU 2 is full: it \
             receives all packets of eth0; 7 CPUs 79 % busy"
        );
        let line = serde_json::to_string(&news[0]).expect("JSON");
        assert!(line.starts_with(
            "{\"schema\":\"rxlab.alert/2\",\"time\":\"2026-05-01T10:00:00Z\",\"change\":\"appeared\""
        ));
        assert_eq!(serde_json::from_str::<Alert>(&line).expect("an alert"), news[0]);
    }
}
