//! Artefacts as JSON. Their shape is the type's `Serialize`; nothing is renamed or added here.

use serde::Serialize;

/// Pretty JSON without a final line break. The value carries its own `schema` field.
///
/// # Errors
/// Errors of `serde_json`: a map whose keys are neither text nor numbers. No artefact has one.
pub fn pretty(value: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(value)
}

#[cfg(test)]
mod tests {
    use super::pretty;
    use crate::report::sample_record;
    use crate::trial::record::{Effect, TrialRecord};

    #[test]
    fn a_record_round_trips() {
        let mut record = sample_record::rps();
        let analysis = record.analysis.as_mut().expect("the sample has an analysis");
        analysis.metrics[1].effect = Some(Effect { mid: 0.01, low: -1.0, high: f64::INFINITY });
        let text = pretty(&record).expect("a record is JSON");
        assert!(text.starts_with("{\n  \"schema\": \"rxlab.trial/3\""), "{}", &text[..60]);
        assert_eq!(serde_json::from_str::<TrialRecord>(&text).expect("a record"), record);
    }
}
