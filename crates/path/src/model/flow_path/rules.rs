//! Flow rules of the device ("ntuple"), which decide before the hash does.

use super::known;
use crate::model::{Flow, Nic, NicKind};
use rxlab_base::parse::ethtool::{FlowAction, FlowRule, Rss, flow_matches};
use rxlab_base::units::Fact;

/// Rules that a flow may match.
pub(super) struct Rules<'a> {
    /// Rules that match for certain.
    sure: Vec<&'a FlowRule>,
    /// Rules that compare more than the flow determines.
    maybe: Vec<&'a FlowRule>,
    /// The reason why there may be more rules.
    unknown: Option<String>,
}

impl<'a> Rules<'a> {
    pub(super) fn new(nic: &'a Nic, flow: &Flow, is_redacted: bool) -> Self {
        let (mut sure, mut maybe) = (Vec::new(), Vec::new());
        let rules = nic.hardware.rules.known().into_iter().flatten();
        // Those only wake the machine.
        for rule in rules.filter(|rule| rule.action != FlowAction::WakeOnLan) {
            let has_stand_ins = is_redacted && rule.spec.fields.iter().any(|field| field.contains("-ip "));
            match flow_matches(rule, flow.as_rule(&rule.spec.kind).as_deref()) {
                _ if has_stand_ins => maybe.push(rule),
                Some(true) => sure.push(rule),
                None => maybe.push(rule),
                Some(false) => {}
            }
        }
        let is_readable = matches!(nic.hardware.rules, Fact::Known(_) | Fact::Unsupported | Fact::NotAsked);
        let unknown = known(&nic.hardware.rules, "the list of flow rules").err();
        Self { sure, maybe, unknown: unknown.filter(|_| !is_readable) }
    }

    /// The rule that decides, if one does.
    pub(super) fn deciding(&self) -> Option<&'a FlowRule> {
        let first = *self.sure.first()?;
        (self.maybe.is_empty() && self.sure.iter().all(|rule| rule.action == first.action)).then_some(first)
    }

    /// The reason why it is not known which of several rules decides.
    pub(super) fn ambiguous(&self) -> Option<String> {
        let is_ambiguous = !self.sure.is_empty() && self.deciding().is_none();
        let rules = self.sure.iter().chain(&self.maybe);
        is_ambiguous.then(|| format!("{} may match: their order is the device's", numbered(rules)))
    }

    /// Reasons to doubt that no rule decides.
    pub(super) fn doubts(&self) -> Vec<String> {
        let maybe = (!self.maybe.is_empty() && self.sure.is_empty())
            .then(|| format!("assumed that {} does not match: rules come before RSS", numbered(&self.maybe)));
        maybe.into_iter().chain(self.unknown.clone()).collect()
    }

    /// True if a rule, not the table alone, steers the flow.
    pub(super) fn steer(&self) -> bool {
        !self.sure.is_empty()
    }

    /// Key, function and table for the flow: those of the RSS context that the deciding rule names, else the default.
    pub(super) fn rss(&self, nic: &Nic) -> Result<Rss, String> {
        if nic.kind != NicKind::Device {
            return Err("a virtual interface has no device that hashes".to_owned());
        }
        let default = known(&nic.hardware.rss, "the RSS table").cloned();
        let Some(FlowAction::Context { context, .. }) = self.deciding().map(|rule| rule.action) else {
            return default;
        };
        let contexts = known(&nic.hardware.rss_contexts, "the list of RSS contexts")?;
        let found = contexts.iter().find(|rss| rss.context == context).cloned();
        let found = found.ok_or_else(|| format!("RSS context {context} is not listed"))?;
        // A context without a key of its own uses the device's.
        let default = default.unwrap_or_default();
        Ok(Rss {
            key: found.key.or(default.key),
            function: found.function.or(default.function),
            transform: found.transform.or(default.transform),
            ..found
        })
    }
}

/// `flow rule 3` or `flow rule 3 or 7`.
fn numbered<'a>(rules: impl IntoIterator<Item = &'a &'a FlowRule>) -> String {
    let numbers: Vec<String> = rules.into_iter().map(|rule| rule.location.to_string()).collect();
    format!("flow rule {}", numbers.join(" or "))
}
