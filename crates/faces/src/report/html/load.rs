//! The result of a load as one self-contained page: the latency by percentile, and the text report.

use rxlab_load::Report;

use super::markup::{Markup, typeset};
use super::{latency, page, screen};

/// The whole file.
pub fn load_page(report: &Report) -> String {
    let title = format!("Load on {}", report.spec.url);
    page(&title, |m| m.element("main", &[], |m| body(m, report, &title)))
}

fn body(m: &mut Markup, report: &Report, title: &str) {
    m.element("header", &[], |m| {
        m.leaf("h1", &[], title);
        let begun = report.begun.iter().cloned();
        let version = Some(format!("rxlab {}", report.version)).filter(|_| !report.version.is_empty());
        let interrupted = report.interrupted.then(|| "interrupted".to_owned());
        let parts: Vec<String> = begun.chain(version).chain(interrupted).collect();
        m.leaf("p", &[("class", "where")], &parts.join(", "));
    });
    m.element("article", &[], |m| {
        m.leaf("h2", &[], &typeset(&rxlab_load::shape(&report.spec)));
        latency::of_load(m, report);
        screen(m, &rxlab_load::render(report));
        screen(m, &rxlab_load::distribution(report));
    });
}

#[cfg(test)]
mod tests {
    use rxlab_load::Report;

    use super::load_page;

    /// A load of 2,000 requests at a rate, of which 20 timed out.
    const RECORDED: &str = include_str!("load/recorded.json");

    #[test]
    fn the_page_of_a_recorded_load() {
        let report = Report::from_json(RECORDED).expect("a result");
        let page = load_page(&report);
        let (_, shown) = page.split_once("</style>").expect("a style sheet");
        let shown = shown.trim();
        insta::assert_snapshot!(shown);
        assert!(!page.contains("http-equiv=\"refresh") && !page.contains("<script"), "nothing runs");
    }

    #[test]
    fn a_load_with_few_requests_has_no_plot() {
        let mut report = Report::from_json(RECORDED).expect("a result");
        report.histograms.latency.clear();
        report.histograms.given_up.clear();
        report.spec.url = "http://h/<b>".parse().expect("a URL");
        let page = load_page(&report);
        assert!(!page.contains("Latency percentiles") && !page.contains("<b>"), "{page}");
    }
}
