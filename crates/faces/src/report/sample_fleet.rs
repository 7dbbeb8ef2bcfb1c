//! A sample fleet: trials, findings and what is applied.

use super::document::{Document, Part, Trial};
use super::printed::StatusReport;
use super::status::sample;
use rxlab_advise::doctor::diagnosed;
use rxlab_change::apply::{Live, TransactionStatus};
use rxlab_path::model::Identity;
use rxlab_path::sketch::Sketch;
use rxlab_stats::noise::Noise;
use rxlab_trial::record::TrialRecord;
use rxlab_trial::simulate::fleet::trial;

/// A trial of RPS on a host with this kernel and driver.
pub(crate) fn on(host: &str, (kernel, driver): (&str, &str), seed: u64, effect: f64) -> TrialRecord {
    let mut record = trial(host, &Noise::white(0.03), seed, effect);
    record.name = "rps".to_owned();
    record.change = vec![format!("rps {}/rx-0 = 2-7", if seed.is_multiple_of(2) { "eth0" } else { "ens3" })];
    record.host.kernel = kernel.to_owned();
    record.drivers = [driver.to_owned()].into();
    record.cpu_model = Some("Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz".to_owned());
    record
}

/// The status of a host on which a transaction holds.
pub(crate) fn status(host: &str) -> StatusReport {
    of(host, vec![sample([("eth0/rx-0", Live::Kept)])])
}

fn of(host: &str, transactions: Vec<TransactionStatus>) -> StatusReport {
    let identity =
        Identity { hostname: host.to_owned(), kernel: "6.12.1".to_owned(), boot_id: host.to_owned() };
    StatusReport::new((identity, Some("2026-05-02T10:00:00Z".to_owned())), transactions, &[], Vec::new())
}

/// Trials of twelve hosts that helped on ten and did nothing on two, which have another kernel and driver.
pub(crate) fn trials() -> Vec<TrialRecord> {
    let usual = (1..=10).map(|at| on(&format!("web{at:02}"), ("6.12.1", "mlx5_core"), at, 0.18));
    let odd = (11..=12).map(|at| on(&format!("web{at}"), ("5.15.0-91-generic", "virtio_net"), at, 0.0));
    usual.chain(odd).collect()
}

/// These trials, findings of two hosts and what is applied on three.
pub(crate) fn whole() -> Document {
    let findings = |host: &str, sketch: Sketch| {
        let mut report = diagnosed(sketch);
        report.identity.hostname = host.to_owned();
        report.identity.boot_id = host.to_owned();
        Part::Doctor(Box::new(report))
    };
    let mut parts: Vec<Part> =
        trials().into_iter().map(|record| Part::Trial(Box::new(Trial::new(record)))).collect();
    parts.push(findings("web01", Sketch::case_a()));
    parts.push(findings("web02", Sketch::new(4).device("eth0", &[1])));
    let drifted = sample([("eth0/rx-0", Live::Original)]);
    let reports = [status("web01"), of("web02", vec![drifted]), of("web03", Vec::new())];
    parts.extend(reports.map(|report| Part::Status(Box::new(report))));
    Document::new(parts)
}
