//! What changed from one look to the next: findings that are new and findings that are gone.

use serde::{Deserialize, Serialize};

use crate::diagnose::Finding;

/// What became of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The look before did not have it.
    Appeared,
    /// This look does not have it.
    Cleared,
}

/// One line of `rxlab doctor --watch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// `rxlab.alert/1`.
    pub schema: String,
    /// End of the look, RFC 3339 in UTC.
    pub time: String,
    /// What became of it.
    pub change: Change,
    /// The finding; one that cleared as it was last seen.
    pub finding: Finding,
}

impl Alert {
    /// The schema of this version.
    pub const SCHEMA: &'static str = "rxlab.alert/1";

    /// `2026-05-01T10:00:00Z  appeared  critical  one-core-hotspot: CPU 2 does 96 % of ...`.
    pub fn in_one_line(&self) -> String {
        let change = match self.change {
            Change::Appeared => "appeared",
            Change::Cleared => "cleared",
        };
        let finding = &self.finding;
        let severity = match finding.severity {
            crate::diagnose::Severity::Critical => "critical",
            crate::diagnose::Severity::Warning => "warning",
            crate::diagnose::Severity::Note => "note",
        };
        let nic = finding.nic.as_ref().map_or(String::new(), |nic| format!(" {nic}"));
        format!("{}  {change:<8}  {severity:<8}  {}{nic}: {}", self.time, finding.id, finding.title)
    }
}

/// The findings of the look before.
#[derive(Debug, Clone, Default)]
pub struct Alerts {
    known: Vec<Finding>,
}

impl Alerts {
    /// What is new and what is gone, gone first. Figures may change: a finding is the same while its rule, its
    /// interface and its CPU are.
    pub fn look(&mut self, findings: &[Finding], time: &str) -> Vec<Alert> {
        let same = |a: &Finding, b: &Finding| (&a.id, &a.nic, a.cpu) == (&b.id, &b.nic, b.cpu);
        let without = |these: &[Finding], those: &[Finding]| -> Vec<Finding> {
            these.iter().filter(|one| !those.iter().any(|other| same(one, other))).cloned().collect()
        };
        let cleared = without(&self.known, findings);
        let appeared = without(findings, &self.known);
        self.known = findings.to_vec();
        let alert = |change| {
            move |finding| Alert { schema: Alert::SCHEMA.to_owned(), time: time.to_owned(), change, finding }
        };
        let appeared = appeared.into_iter().map(alert(Change::Appeared));
        cleared.into_iter().map(alert(Change::Cleared)).chain(appeared).collect()
    }

    /// Whether the last look had none.
    pub fn is_clear(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{Alert, Alerts, Change};
    use crate::diagnose::diagnose;
    use crate::diagnose::sketch::Sketch;

    fn look(alerts: &mut Alerts, sketch: Sketch) -> Vec<(Change, String)> {
        let (model, rates) = sketch.build();
        let news = alerts.look(&diagnose(&model, &rates), "2026-05-01T10:00:00Z");
        news.into_iter().map(|alert| (alert.change, alert.finding.id)).collect()
    }

    #[test]
    fn a_line_when_something_appears_or_clears_and_none_between() {
        let mut alerts = Alerts::default();
        let idle = || Sketch::new(8).device("eth0", &[2]);
        assert_eq!(look(&mut alerts, idle()), []);
        assert!(alerts.is_clear());
        let hot = "one-core-hotspot".to_owned();
        assert_eq!(look(&mut alerts, Sketch::case_a()), [(Change::Appeared, hot.clone())]);
        assert_eq!(look(&mut alerts, Sketch::case_a().ksoftirqd(2, 0.5)), [], "the same with other figures");
        let drops = "backlog-drops".to_owned();
        assert_eq!(look(&mut alerts, Sketch::case_a().drops(2, 40.0)), [(Change::Appeared, drops.clone())]);
        assert!(!alerts.is_clear());
        assert_eq!(look(&mut alerts, idle()), [(Change::Cleared, hot), (Change::Cleared, drops)]);
        assert!(alerts.is_clear());
    }

    #[test]
    fn an_alert_is_one_line() {
        let (model, rates) = Sketch::case_a().build();
        let news = Alerts::default().look(&diagnose(&model, &rates), "2026-05-01T10:00:00Z");
        assert_eq!(
            news[0].in_one_line(),
            "2026-05-01T10:00:00Z  appeared  critical  one-core-hotspot eth0: CPU 2 does 96 % of the receive work, \
             7 CPUs do 4 %"
        );
        let line = serde_json::to_string(&news[0]).expect("JSON");
        assert!(line.starts_with(
            "{\"schema\":\"rxlab.alert/1\",\"time\":\"2026-05-01T10:00:00Z\",\"change\":\"appeared\""
        ));
        assert_eq!(serde_json::from_str::<Alert>(&line).expect("an alert"), news[0]);
    }
}
