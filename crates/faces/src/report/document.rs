//! A report as a value: the records that it shows, as `--json` prints them and as its HTML page embeds them.

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::printed::StatusReport;
use rxlab_advise::doctor::DoctorReport;
use rxlab_probe::Interference;
use rxlab_probe::trace::Trace;
use rxlab_trial::blocks::BlocksRecord;
use rxlab_trial::checkpoint::Checkpoint;
use rxlab_trial::compare::Comparison;
use rxlab_trial::record::TrialRecord;
use rxlab_trial::tuning::Tuning;

/// The content of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Document {
    /// `rxlab.report/1`.
    pub schema: String,
    /// Title; `None` = that of its first part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it shows, in the order of the page.
    pub parts: Vec<Part>,
    /// Checkpoints whose trial has not been read yet.
    #[serde(skip)]
    loose: Vec<Checkpoint>,
}

/// One record of a report, in its own schema.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Part {
    /// A trial of two arms.
    Trial(Box<Trial>),
    /// A trial of several arms in blocks.
    Blocks(Box<BlocksRecord>),
    /// Two setups compared by what they disturb.
    Comparison(Box<Comparison>),
    /// Findings of one machine.
    Doctor(Box<DoctorReport>),
    /// Time lost to received packets.
    Interference(Box<Interference>),
    /// The summary of a timeline.
    Trace(Box<Trace>),
    /// What `rxlab tune` did; its trials are parts of their own.
    Tune(Box<Tuning>),
    /// What is applied to one machine.
    Status(Box<StatusReport>),
}

/// A trial with its checkpoints.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Trial {
    /// The record.
    #[serde(flatten)]
    pub record: TrialRecord,
    /// Checkpoints so far, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Checkpoint>,
}

/// A text that holds no record.
#[derive(Debug, Error)]
pub enum ReadError {
    #[error("it is neither JSON nor a report of rxlab: {0}")]
    Json(serde_json::Error),
    #[error("it has no `schema` field, so rxlab did not write it")]
    Foreign,
    #[error("its schema is `{0}`; a report shows {list}", list = KNOWN.join(", "))]
    Schema(String),
    #[error("it is not a valid `{0}`: {1}")]
    Shape(String, serde_json::Error),
    #[error("the page has no rxlab record")]
    Page,
    #[error("the record in the page is damaged: {0}")]
    Damaged(String),
}

/// Schemas of everything that a report shows.
const KNOWN: [&str; 10] = [
    TrialRecord::SCHEMA,
    Checkpoint::SCHEMA,
    BlocksRecord::SCHEMA,
    Comparison::SCHEMA,
    DoctorReport::SCHEMA,
    Interference::SCHEMA,
    Trace::SCHEMA,
    Tuning::SCHEMA,
    StatusReport::SCHEMA,
    Document::SCHEMA,
];

/// Start of the element of a page that holds the record. It is data: browsers run no script of this type.
pub const DATA: &str = "<script type=\"application/json\" id=\"rxlab-report\">";
/// End of that element.
pub const DATA_END: &str = "</script>";

/// Bytes of JSON from which a page holds it compressed: 128 CPUs and 100 slots are over a megabyte.
const PLAIN: usize = 128 * 1024;
/// Largest record that a page may unfold to, bytes.
const LARGEST: u64 = 1 << 30;

/// A compressed document in a page.
#[derive(Serialize, Deserialize)]
struct Packed {
    /// Name of the encoding: [`GZIP`].
    encoding: String,
    data: String,
}

const GZIP: &str = "gzip+base64";

impl Default for Document {
    fn default() -> Self {
        Self { schema: Self::SCHEMA.to_owned(), title: None, parts: Vec::new(), loose: Vec::new() }
    }
}

impl Document {
    pub const SCHEMA: &'static str = "rxlab.report/1";

    pub fn new(parts: Vec<Part>) -> Self {
        Self { parts, ..Self::default() }
    }

    /// Reads the JSON of one record, of a list of them or of a document, or a page made from one.
    pub fn read(text: &str) -> Result<Self, ReadError> {
        let mut document = Self::default();
        let is_page = text.trim_start_matches('\u{feff}').trim_start().starts_with('<');
        let json = if is_page { embedded(text)? } else { text.to_owned() };
        document.take(serde_json::from_str(&json).map_err(ReadError::Json)?)?;
        document.attach();
        Ok(document)
    }

    /// Adds what another document has and this one has not. Only a document that is alone keeps its title.
    pub fn join(&mut self, other: Self) {
        self.title = if self.parts.is_empty() { other.title } else { None };
        other.parts.into_iter().for_each(|part| self.add(part));
        self.loose.extend(other.loose);
        self.attach();
    }

    /// Adds a part unless it is there already. Of a trial that was saved twice, the checkpoints are joined.
    fn add(&mut self, part: Part) {
        let Part::Trial(new) = part else {
            if !self.parts.contains(&part) {
                self.parts.push(part);
            }
            return;
        };
        let same = trials_mut(&mut self.parts).find(|trial| trial.record == new.record);
        match same {
            Some(trial) => new.checkpoints.into_iter().for_each(|checkpoint| trial.add(checkpoint)),
            None => self.parts.push(Part::Trial(new)),
        }
    }

    /// Gives checkpoints to the trials that they belong to.
    fn attach(&mut self) {
        for checkpoint in std::mem::take(&mut self.loose) {
            match trials_mut(&mut self.parts).find(|trial| trial.record.id == checkpoint.trial) {
                Some(trial) => trial.add(checkpoint),
                None => self.loose.push(checkpoint),
            }
        }
    }

    /// Id of a trial that a checkpoint belongs to and that is not part of the document.
    pub fn missing_trial(&self) -> Option<&str> {
        self.loose.first().map(|checkpoint| checkpoint.trial.as_str())
    }

    /// The trials of two arms, in order.
    pub fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.parts.iter().filter_map(|part| match part {
            Part::Trial(trial) => Some(trial.as_ref()),
            _ => None,
        })
    }

    fn take(&mut self, value: Value) -> Result<(), ReadError> {
        if let Value::Array(values) = value {
            return values.into_iter().try_for_each(|value| self.take(value));
        }
        let schema = value.get("schema").and_then(Value::as_str).ok_or(ReadError::Foreign)?.to_owned();
        match schema.as_str() {
            Self::SCHEMA => {
                let parts = value.get("parts").cloned().unwrap_or(Value::Array(Vec::new()));
                self.title = value.get("title").and_then(Value::as_str).map(str::to_owned);
                self.take(parts)?;
            }
            Checkpoint::SCHEMA => self.loose.push(shaped(&schema, value)?),
            TrialRecord::SCHEMA => {
                let checkpoints = value.get("checkpoints").cloned();
                let checkpoints = checkpoints.map(|list| shaped(&schema, list)).transpose()?;
                let record = shaped(&schema, value)?;
                let trial = Trial { record, checkpoints: checkpoints.unwrap_or_default() };
                self.add(Part::Trial(Box::new(trial)));
            }
            BlocksRecord::SCHEMA => self.add(Part::Blocks(shaped(&schema, value)?)),
            Comparison::SCHEMA => self.add(Part::Comparison(shaped(&schema, value)?)),
            DoctorReport::SCHEMA => self.add(Part::Doctor(shaped(&schema, value)?)),
            Interference::SCHEMA => self.add(Part::Interference(shaped(&schema, value)?)),
            Trace::SCHEMA => self.add(Part::Trace(shaped(&schema, value)?)),
            Tuning::SCHEMA => self.add(Part::Tune(shaped(&schema, value)?)),
            StatusReport::SCHEMA => self.add(Part::Status(shaped(&schema, value)?)),
            _ => return Err(ReadError::Schema(schema)),
        }
        Ok(())
    }

    /// The element that holds the document in a page. No text of it can end the element.
    pub fn element(&self) -> String {
        let json = serde_json::to_string(self).expect("a document is JSON");
        let json = match json.len() {
            0..PLAIN => json,
            _ => serde_json::to_string(&Packed { encoding: GZIP.to_owned(), data: pack(&json) })
                .expect("two texts are JSON"),
        };
        // Outside of strings JSON has none of these.
        let json = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
        format!("{DATA}{json}{DATA_END}")
    }
}

impl Trial {
    /// A trial without checkpoints.
    pub fn new(record: TrialRecord) -> Self {
        Self { record, checkpoints: Vec::new() }
    }

    fn add(&mut self, checkpoint: Checkpoint) {
        if !self.checkpoints.contains(&checkpoint) {
            self.checkpoints.push(checkpoint);
            self.checkpoints.sort_by(|a, b| a.taken.cmp(&b.taken));
        }
    }
}

fn trials_mut(parts: &mut [Part]) -> impl Iterator<Item = &mut Trial> {
    parts.iter_mut().filter_map(|part| match part {
        Part::Trial(trial) => Some(trial.as_mut()),
        _ => None,
    })
}

fn shaped<T: DeserializeOwned>(schema: &str, value: Value) -> Result<T, ReadError> {
    serde_json::from_value(value).map_err(|error| ReadError::Shape(schema.to_owned(), error))
}

fn embedded(page: &str) -> Result<String, ReadError> {
    let (_, rest) = page.split_once(DATA).ok_or(ReadError::Page)?;
    let (json, _) = rest.split_once(DATA_END).ok_or(ReadError::Page)?;
    match serde_json::from_str::<Packed>(json) {
        Ok(packed) if packed.encoding == GZIP => unpack(&packed.data),
        Ok(packed) => Err(ReadError::Damaged(format!("unknown encoding `{}`", packed.encoding))),
        Err(_) => Ok(json.to_owned()),
    }
}

fn pack(json: &str) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let packed = encoder.write_all(json.as_bytes()).and_then(|()| encoder.finish());
    STANDARD.encode(packed.expect("memory takes all bytes"))
}

fn unpack(data: &str) -> Result<String, ReadError> {
    let bytes = STANDARD.decode(data).map_err(|error| ReadError::Damaged(error.to_string()))?;
    let mut json = String::new();
    let mut decoder = GzDecoder::new(bytes.as_slice()).take(LARGEST);
    decoder.read_to_string(&mut json).map_err(|error| ReadError::Damaged(error.to_string()))?;
    Ok(json)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

    use super::{DATA, DATA_END, Document, Part, ReadError, Trial};
    use crate::report::{sample_compare, sample_fleet, sample_interference, sample_trace};
    use rxlab_advise::doctor::diagnosed;
    use rxlab_path::sketch::Sketch;
    use rxlab_trial::sample_record;
    use rxlab_trial::sample_record::checkpoint;

    fn everything() -> Document {
        Document::new(vec![
            Part::Doctor(Box::new(diagnosed(Sketch::case_a()))),
            Part::Trial(Box::new(Trial::new(sample_record::rps()))),
            Part::Comparison(Box::new(sample_compare::steered())),
            Part::Comparison(Box::new(sample_compare::undecided())),
            Part::Interference(Box::new(sample_interference::measured())),
            Part::Trace(Box::new(sample_trace::traced())),
            Part::Status(Box::new(sample_fleet::status("web1"))),
        ])
    }

    #[test]
    fn a_document_comes_back_from_its_json_and_from_its_page() {
        let document = everything();
        let json = serde_json::to_string_pretty(&document).expect("JSON");
        assert!(json.starts_with("{\n  \"schema\": \"rxlab.report/1\""));
        let wide = Document::new(vec![Part::Trial(Box::new(Trial::new(sample_record::wide())))]);
        for document in [document, wide] {
            let json = serde_json::to_string(&document).expect("JSON");
            assert_eq!(Document::read(&json).expect("a document"), document);
            let page = format!("<!DOCTYPE html>\n<p>{}</p>", document.element());
            let again = Document::read(&page).expect("a page");
            assert_eq!(serde_json::to_string(&again).expect("JSON"), json, "to the last digit");
        }
    }

    #[test]
    fn a_large_record_is_compressed() {
        let wide = Document::new(vec![Part::Trial(Box::new(Trial::new(sample_record::wide())))]);
        let (plain, packed) = (serde_json::to_string(&wide).expect("JSON").len(), wide.element().len());
        assert!(plain > 1_000_000 && packed * 3 < plain * 2, "{plain} to {packed} bytes");
        assert!(wide.element().contains("gzip+base64"));
    }

    #[test]
    fn joined_documents_have_each_record_once_and_checkpoints_with_their_trial() {
        let mut all = Document::default();
        let late = checkpoint(&sample_record::rps().id, "2026-03-02T12:00:00Z");
        let early = checkpoint(&sample_record::rps().id, "2026-03-01T13:00:00Z");
        let loose = format!(
            "[{},{}]",
            serde_json::to_string(&late).expect("JSON"),
            serde_json::to_string(&early).expect("JSON")
        );
        all.join(Document::read(&loose).expect("checkpoints"));
        assert_eq!(all.missing_trial(), Some(late.trial.as_str()));
        all.join(everything());
        all.join(everything());
        all.join(Document::read(&serde_json::to_string(&late).expect("JSON")).expect("one"));
        assert_eq!((all.missing_trial(), all.parts.len()), (None, 7));
        let trial = all.trials().next().expect("a trial");
        assert_eq!(trial.checkpoints, [early, late]);
        let json = serde_json::to_string(&all).expect("JSON");
        assert_eq!(Document::read(&json).expect("a document"), all);
    }

    #[test]
    fn what_is_not_a_record_is_an_error_that_says_so() {
        let error = |text: &str| Document::read(text).expect_err(text).to_string();
        assert!(error("x").starts_with("it is neither JSON nor a report of rxlab: "), "{}", error("x"));
        assert_eq!(error("{}"), "it has no `schema` field, so rxlab did not write it");
        assert_eq!(error("3"), error("{}"));
        let other = error("{\"schema\": \"rxlab.trial/1\"}");
        assert!(
            other.starts_with("its schema is `rxlab.trial/1`; a report shows rxlab.trial/3, "),
            "{other}"
        );
        let shape = error("{\"schema\": \"rxlab.trial/3\"}");
        assert!(shape.starts_with("it is not a valid `rxlab.trial/3`: missing field"), "{shape}");
        assert_eq!(error("<p>hello</p>"), "the page has no rxlab record");
        assert_eq!(error(&format!("<p>{DATA}{{")), error("<p>hello</p>"));
        let packed = |data: &str, encoding: &str| {
            format!("<p>{DATA}{{\"encoding\":\"{encoding}\",\"data\":\"{data}\"}}{DATA_END}")
        };
        assert!(matches!(Document::read(&packed("!", "gzip+base64")), Err(ReadError::Damaged(_))));
        assert!(matches!(Document::read(&packed("AAAA", "gzip+base64")), Err(ReadError::Damaged(_))));
        assert!(matches!(Document::read(&packed("AAAA", "rot13")), Err(ReadError::Damaged(_))));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_name_ends_the_element(name in "(</script>|<!--|<script|[<>&\"'\\\\]|\\PC|\u{2028}){0,12}") {
            let mut record = sample_record::rfs();
            record.slots.clear();
            record.host.hostname.clone_from(&name);
            record.change = vec![name.clone()];
            let document = Document::new(vec![Part::Trial(Box::new(Trial::new(record)))]);
            let element = document.element();
            let inside = element.strip_prefix(DATA).and_then(|text| text.strip_suffix(DATA_END)).expect("an element");
            prop_assert!(!inside.contains(['<', '>', '&']), "{inside}");
            prop_assert_eq!(Document::read(&format!("<p>{element}")).expect("a page"), document);
        }

        #[test]
        fn what_is_read_can_be_written(text in "(\\{\"schema\":\"rxlab.report/1\",\"parts\":\\[\\]\\}|<p>|<script type=\"application/json\" id=\"rxlab-report\">|</script>|\\{|\\}|\"schema\":|\"rxlab.report/1\"|\"parts\":|\\[|\\]|\\PC){0,12}") {
            if let Ok(document) = Document::read(&text) {
                prop_assert_eq!(Document::read(&format!("<p>{}", document.element())).expect("a page"), document);
            }
        }
    }
}
