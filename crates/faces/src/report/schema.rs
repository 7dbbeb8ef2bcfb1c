//! JSON Schemas of the artefacts: `docs/schema/*.json`, generated from the types and checked by a test.
//!
//! Built for tests only: the program writes its JSON with `Serialize`.

#![allow(clippy::disallowed_methods)] // Compares, and on request renews, files of the tree.

use std::path::{Path, PathBuf};

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::document::Document;
use super::fleet::Fleet;
use super::forecast::Forecast;
use super::live::LiveFrame;
use super::printed::{ApplyReport, HistoryReport, RulesReport, StatusReport, TrialsReport, UndoReport};
use super::receive_path::CpuReport;
use super::recording::RecordingReport;
use rxlab_advise::doctor::DoctorReport;
use rxlab_load::Report as LoadReport;
use rxlab_path::model::{FlowPath, Model};
use rxlab_probe::Interference;
use rxlab_probe::trace::Trace;
use rxlab_setting::Plan;
use rxlab_trial::blocks::BlocksRecord;
use rxlab_trial::checkpoint::Checkpoint;
use rxlab_trial::compare::Comparison;
use rxlab_trial::prior::TrialPlan;
use rxlab_trial::recommendation::TrialReport;
use rxlab_trial::record::TrialRecord;
use rxlab_trial::search::found::Found;
use rxlab_trial::tuning::Tuning;

/// The schema of `T` as serialized. `name` is the value of its `schema` field.
fn schema_of<T: JsonSchema>(name: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema: Schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), name.into());
    let mut schema = schema.to_value();
    schema["properties"]["schema"]["const"] = json!(name);
    schema
}

/// All published schemas, by file name.
fn published() -> [(&'static str, Value); 26] {
    [
        ("apply.json", schema_of::<ApplyReport<'_>>(ApplyReport::SCHEMA)),
        ("history.json", schema_of::<HistoryReport<'_>>(HistoryReport::SCHEMA)),
        ("rules.json", schema_of::<RulesReport<'_>>(RulesReport::SCHEMA)),
        ("status.json", schema_of::<StatusReport>(StatusReport::SCHEMA)),
        ("top.json", schema_of::<LiveFrame>(LiveFrame::SCHEMA)),
        ("trials.json", schema_of::<TrialsReport<'_>>(TrialsReport::SCHEMA)),
        ("undo.json", schema_of::<UndoReport<'_>>(UndoReport::SCHEMA)),
        ("checkpoint.json", schema_of::<Checkpoint>(Checkpoint::SCHEMA)),
        ("compare.json", schema_of::<Comparison>(Comparison::SCHEMA)),
        ("model.json", schema_of::<Model>(Model::SCHEMA)),
        ("cpus.json", schema_of::<CpuReport>(CpuReport::SCHEMA)),
        ("flow.json", schema_of::<FlowPath>(FlowPath::SCHEMA)),
        ("findings.json", schema_of::<DoctorReport>(DoctorReport::SCHEMA)),
        ("fleet.json", schema_of::<Fleet>(Fleet::SCHEMA)),
        ("forecast.json", schema_of::<Forecast>(Forecast::SCHEMA)),
        ("interference.json", schema_of::<Interference>(Interference::SCHEMA)),
        ("plan.json", schema_of::<Plan>(Plan::SCHEMA)),
        ("recording.json", schema_of::<RecordingReport>(RecordingReport::SCHEMA)),
        ("trace.json", schema_of::<Trace>(Trace::SCHEMA)),
        ("find-max.json", schema_of::<Found>(Found::SCHEMA)),
        ("report.json", schema_of::<Document>(Document::SCHEMA)),
        ("load.json", schema_of::<LoadReport>(LoadReport::SCHEMA)),
        ("trial-blocks.json", schema_of::<BlocksRecord>(BlocksRecord::SCHEMA)),
        ("trial-plan.json", schema_of::<TrialPlan>(TrialPlan::SCHEMA)),
        ("tune.json", schema_of::<Tuning>(Tuning::SCHEMA)),
        ("trial.json", schema_of::<TrialReport>(TrialRecord::SCHEMA)),
    ]
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema")
}

#[test]
fn the_files_in_docs_are_these_schemas() {
    let mut names = Vec::new();
    for (name, schema) in published() {
        let text = serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n";
        let path = folder().join(name);
        if std::env::var_os("RXLAB_UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(folder()).expect("docs can be written");
            std::fs::write(&path, &text).expect("docs can be written");
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == text, "docs/schema/{name} is stale: run make docs");
        names.push(name.to_owned());
    }
    let files = std::fs::read_dir(folder()).expect("docs/schema can be listed");
    let mut there: Vec<String> =
        files.map(|entry| entry.expect("listed").file_name().into_string().expect("text")).collect();
    there.sort();
    names.sort();
    assert_eq!(there, names);
}

/// Validation error of a value against the schema `name`.
fn complaint(name: &str, value: &Value) -> Option<String> {
    let (_, schema) = published().into_iter().find(|(file, _)| *file == name).expect("published");
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    let place = "memory:///schema.json";
    compiler.add_resource(place, schema).expect("an address");
    let index = compiler.compile(place, &mut schemas).expect("a valid schema");
    schemas.validate(value, index).err().map(|error| error.to_string())
}

mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::complaint;
    use crate::report::document::{Document, Part, Trial};
    use crate::report::fleet::Fleet;
    use crate::report::live::{Applied, LiveFrame};
    use crate::report::printed::{
        ApplyReport, HistoryReport, RulesReport, Standing, StatusReport, TransactionRow, TrialRow,
        TrialsReport, UndoReport,
    };
    use crate::report::receive_path::CpuReport;
    use crate::report::{
        forecast, sample_compare, sample_fleet, sample_interference, sample_model, sample_trace,
    };
    use rxlab_advise::diagnose::RULES;
    use rxlab_advise::doctor::{Alerts, diagnosed};
    use rxlab_change::apply::{
        Change, Ending, Kept, Live, State, TransactionStatus, Undo, UndoOutcome, ValueStatus,
    };
    use rxlab_change::journal::Outcome;
    use rxlab_path::model::Model;
    use rxlab_path::sketch::Sketch;
    use rxlab_setting::Setting;
    use rxlab_trial::recommendation::TrialReport;
    use rxlab_trial::record::Effect;
    use rxlab_trial::sample_record;
    use rxlab_trial::spec::Kind;

    /// A value as JSON, in which its schema is the first field.
    fn value(of: &impl serde::Serialize) -> Value {
        let text = serde_json::to_string(of).expect("JSON");
        assert!(text.starts_with("{\"schema\":\"rxlab."), "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    #[test]
    fn models_fit() {
        for model in [sample_model::rich(), Model::default(), sample_model::large()] {
            let model = Model { schema: Model::SCHEMA.to_owned(), ..model };
            assert_eq!(complaint("model.json", &value(&model)), None);
        }
    }

    #[test]
    fn invalid_models_do_not_fit() {
        let model = value(&sample_model::rich());
        for (place, wrong) in [
            ("/schema", json!("rxlab.model/1")),
            ("/nics/4/rx/0/rps_cpus", json!({"known": 5})),
            ("/nics/4/rx/0/rps_cpus", json!("unknown")),
            ("/nics/4/rx/0/irqs/0/source", json!("guess")),
            ("/cpus/0/id", json!("0")),
            ("/listeners", json!({"denied": "luck"})),
        ] {
            let mut model = model.clone();
            *model.pointer_mut(place).expect(place) = wrong;
            assert!(complaint("model.json", &model).is_some(), "{place}");
        }
    }

    #[test]
    fn what_commands_print_fits() {
        let setting: Setting = "rps eth0/rx-0 = 4-7".parse().expect("a setting");
        let change = Change { setting: setting.clone(), before: Some("0".to_owned()), needed: true };
        assert_eq!(complaint("apply.json", &value(&ApplyReport::rehearsed(&[change], &[]))), None);
        let kept = Kept {
            setting,
            before: "0".to_owned(),
            kept: "4-7".to_owned(),
            changed: true,
            replayed: Vec::new(),
            remark: None,
        };
        let set = ApplyReport::set("000001-092e", std::slice::from_ref(&kept), Some(60.0), &[], &[]);
        assert_eq!(complaint("apply.json", &value(&set)), None);
        let mut wrong = value(&set);
        wrong["settings"][0]["setting"] = json!(5);
        assert!(complaint("apply.json", &wrong).is_some());

        let outcome = UndoOutcome {
            knob: kept.setting.knob.clone(),
            target: kept.setting.target.clone(),
            original: "0".to_owned(),
            wanted: "4-7".to_owned(),
            outcome: Outcome::Drift { live: "5".to_owned(), fresh: false },
            trouble: true,
        };
        let undo = Undo {
            id: "000001-092e".to_owned(),
            outcomes: vec![outcome],
            earlier: Vec::new(),
            command: None,
            closed: true,
            journal_error: None,
        };
        let undone = UndoReport::new(std::slice::from_ref(&undo), &[], &[], false);
        assert_eq!(complaint("undo.json", &value(&undone)), None);
        assert_eq!(complaint("undo.json", &value(&UndoReport::forgotten("000001-092e"))), None);

        let status = TransactionStatus {
            id: undo.id.clone(),
            started: "2026-05-01T10:00:00Z".to_owned(),
            what: "apply rps".to_owned(),
            netns: None,
            state: State::Unconfirmed { seconds_left: 12.0, unguarded: true },
            seen: None,
            values: vec![ValueStatus {
                knob: kept.setting.knob.clone(),
                target: kept.setting.target.clone(),
                original: "0".to_owned(),
                wanted: "4-7".to_owned(),
                live: Live::Drifted { value: "5".to_owned(), changed: Vec::new() },
                suspects: Vec::new(),
            }],
            reapplied: 0,
            command: None,
        };
        let place = (Model::default().identity, Some("2026-05-01T10:00:00Z".to_owned()));
        let all = StatusReport::new(place, vec![status.clone()], &[], Vec::new());
        assert_eq!(complaint("status.json", &value(&all)), None);
        let again: StatusReport = serde_json::from_value(value(&all)).expect("a status");
        assert_eq!(again, all);
        let row = |standing| TransactionRow {
            id: status.id.clone(),
            started: status.started.clone(),
            what: status.what.clone(),
            standing,
        };
        let rows = [
            row(Standing::Open(status.state)),
            row(Standing::Ended(Ending::PutBack)),
            row(Standing::Unreadable("damaged".to_owned())),
        ];
        assert_eq!(complaint("history.json", &value(&HistoryReport::new(&rows, &[]))), None);
        assert_eq!(
            complaint("rules.json", &value(&RulesReport::new(RULES.iter().collect(), Vec::new()))),
            None
        );

        let (model, rates) = Sketch::case_a().build();
        let applied = Arc::new(Applied { transactions: vec![status], unknown: Vec::new() });
        let time = "2026-05-01T10:00:00Z".to_owned();
        let frame = LiveFrame::new(&model, &rates, "rxlab", &mut Alerts::default(), time, applied);
        assert!(!frame.changes.is_empty() && !frame.plans.is_empty());
        assert_eq!(complaint("top.json", &value(&frame)), None);
    }

    #[test]
    fn cpus_findings_and_records_fit() {
        let model = sample_model::rich();
        let report = CpuReport::new(&model, &model.online());
        assert_eq!(complaint("cpus.json", &value(&report)), None);

        let report = diagnosed(Sketch::case_a());
        assert!(!report.findings.is_empty() && !report.plans.is_empty());
        assert_eq!(complaint("findings.json", &value(&report)), None);

        assert_eq!(complaint("recording.json", &value(&crate::report::recording::tests::sample(2))), None);
        assert_eq!(complaint("forecast.json", &value(&forecast::sample())), None);
        for proposal in &report.plans {
            assert_eq!(complaint("plan.json", &value(&proposal.plan)), None);
        }

        for sample in [sample_interference::measured(), sample_interference::counted()] {
            assert_eq!(complaint("interference.json", &value(&sample)), None);
        }
        for trace in [sample_trace::traced(), sample_trace::full()] {
            assert_eq!(complaint("trace.json", &value(&trace)), None);
        }

        for comparison in [sample_compare::steered(), sample_compare::undecided()] {
            assert_eq!(complaint("compare.json", &value(&comparison)), None);
        }

        let mut record = sample_record::rps();
        let analysis = record.analysis.as_mut().expect("the sample has an analysis");
        analysis.metrics[1].effect = Some(Effect { mid: 0.01, low: -1.0, high: f64::INFINITY });
        let report = TrialReport::new(record.clone(), "rxlab");
        assert_eq!(complaint("trial.json", &value(&report)), None);

        let blocks = sample_record::blocks(Kind::Search, &["a"]);
        let rows = [TrialRow::of_pairs(&record, false), TrialRow::of_blocks(&blocks, true)];
        assert_eq!(complaint("trials.json", &value(&TrialsReport::new(&rows))), None);
        assert_eq!(complaint("fleet.json", &value(&Fleet::new(&sample_fleet::whole()))), None);
        let parts = vec![
            Part::Trial(Box::new(Trial::new(record))),
            Part::Interference(Box::new(sample_interference::counted())),
        ];
        assert_eq!(complaint("report.json", &value(&Document::new(parts))), None);
    }
}
