//! Findings of the rules on a machine that a test sketches.

pub(crate) use rxlab_path::sketch::{Sketch, cpus};

use super::regime::{Regime, regime};
use super::{Finding, Rule};
use crate::decision::Decisions;

/// Runs rules on a sketch.
pub(crate) trait Diagnosed: Sized {
    /// Asserts that a rule finds nothing, for this reason.
    fn silent(self, rule: &Rule, reason: &str);
    /// The titles of one rule's findings.
    fn titles(self, rule: &Rule) -> Vec<String>;
    /// The only finding of one rule.
    fn finding(self, rule: &Rule) -> Finding;
    /// The findings of one rule.
    fn findings(self, rule: &Rule) -> Vec<Finding>;
    /// The verdict on the possible gain, without findings.
    fn regime(self) -> Regime;
}

impl Diagnosed for Sketch {
    #[track_caller]
    fn silent(self, rule: &Rule, reason: &str) {
        assert_eq!(self.findings(rule), [], "{reason}");
    }

    fn titles(self, rule: &Rule) -> Vec<String> {
        self.findings(rule).into_iter().map(|finding| finding.title).collect()
    }

    #[track_caller]
    fn finding(self, rule: &Rule) -> Finding {
        let found = self.findings(rule);
        let [one] = <[Finding; 1]>::try_from(found).expect("one finding");
        one
    }

    fn findings(self, rule: &Rule) -> Vec<Finding> {
        let (model, rates) = self.build();
        rule.findings(&model, &rates)
    }

    fn regime(self) -> Regime {
        let (model, rates) = self.build();
        regime(&model, &rates, &[], &mut Decisions::new(&model, &rates)).expect("there is traffic")
    }
}
