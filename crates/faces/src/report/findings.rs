//! The doctor's report for a terminal: the answer first, as much of it as fits on a screen; on request everything else.
//!
//! The text always has colours; the output stream strips them where they are not wanted.

mod answer;
mod bars;
mod overview;
mod page;
mod regime;
mod screen;

use anstyle::{AnsiColor, Style};

use super::text::{BAD, CAUTION, NOTE, rows};
pub use answer::{Answer, Command, Fact, Fix, Other};
pub use bars::Bar;
pub use overview::overview;
use rxlab_advise::diagnose::regime::{FamilyGain, hottest};
use rxlab_advise::diagnose::{Finding, Severity};
use rxlab_advise::doctor::{DoctorReport, Elsewhere};
use rxlab_base::number::{count, cpus_text, percent};
use rxlab_path::evidence::TRAFFIC;

const LABEL: Style = Style::new().dimmed();

/// The answer on a screen; ends with a line break. `more` is the command that shows everything, if there is one.
pub fn text(report: &DoctorReport, more: Option<&str>) -> String {
    let answer = Answer::new(report);
    let more = more.filter(|_| has_more(&answer));
    screen::screen(&answer, rows(), more)
}

/// The answer, then everything else. `program` is the start of suggested commands: `rxlab` with its global options.
pub fn everything(report: &DoctorReport, program: &str) -> String {
    let rest = page::page(report, program) + &report.regime.as_ref().map_or(String::new(), regime::whole);
    let gap = if rest.is_empty() { "" } else { "\n" };
    screen::screen(&Answer::new(report), usize::MAX, None) + gap + &rest
}

/// True if there is anything to read beyond the answer.
fn has_more(answer: &Answer) -> bool {
    answer.severity.is_some() || !answer.fixes.is_empty() || !answer.others.is_empty()
}

/// The mark before the title of a finding.
pub fn mark(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "!!",
        Severity::Warning => "!",
        Severity::Note => "-",
    }
}

fn mark_style(severity: Option<Severity>) -> Style {
    match severity {
        Some(Severity::Critical) => BAD,
        Some(Severity::Warning) => CAUTION,
        Some(Severity::Note) => NOTE,
        None => AnsiColor::Green.on_default(),
    }
}

/// The result where no finding calls for attention, with the figures behind it.
pub fn nothing(report: &DoctorReport) -> String {
    let load = &report.load;
    if let Some(why) = &report.refused {
        return format!("no verdict: {why}");
    }
    let worth = report.regime.iter().flat_map(|regime| &regime.knobs).filter(|gain| gain.trial);
    let worth: Vec<&FamilyGain> = worth.collect();
    if let (Some(regime), [_, ..]) = (&report.regime, &worth[..])
        && let Some(hot) = regime.cpus.first()
    {
        let alike = hottest(&regime.cpus);
        let (receive, its) = if alike.len() == 1 { ("receives", "its") } else { ("each receive", "their") };
        let names: Vec<&str> = worth.iter().map(|gain| gain.knob.name()).collect();
        let is = if names.len() == 1 { "is" } else { "are" };
        return format!(
            "{} {receive} for {} of {its} time: {} {is} worth a trial",
            cpus_text(&alike),
            percent(hot.receive),
            names.join(" and ")
        );
    }
    if let Some(why) = no_traffic(report) {
        return why;
    }
    let lost = load.ledger.in_words();
    let figures =
        [load.receive_time.map(|time| format!("busiest CPU {} receiving", percent(time))), Some(lost)];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    let is_full = load.headroom.is_some_and(|headroom| headroom.machine <= answer::NO_ROOM);
    let verdict =
        if is_full { "the machine is full, and no setting is known to make room" } else { "nothing to do" };
    format!("{verdict}: {}", figures.join(", "))
}

/// Reason why the absence of findings proves nothing, if there is one.
pub fn no_verdict(report: &DoctorReport) -> Option<String> {
    report.refused.clone().or_else(|| no_traffic(report))
}

/// Says that there was nothing to judge, if there was not.
fn no_traffic(report: &DoctorReport) -> Option<String> {
    let load = &report.load;
    (load.received < TRAFFIC && load.dropped < 1.0).then(|| match &report.elsewhere {
        Some(Elsewhere { packets, .. }) => format!(
            "nothing to judge here: no interface of this network namespace receives the {} packets/s of this machine",
            count(*packets)
        ),
        None if report.recorded => "no traffic in this recording: nothing to judge".to_owned(),
        None => format!(
            "no traffic to judge: interfaces other than lo receive {} packets/s",
            count(load.received)
        ),
    })
}

/// Findings by severity; within a severity, grouped by interface.
pub fn worst_first(all: &[Finding]) -> Vec<&Finding> {
    let first_of_nic = |finding: &&Finding| all.iter().position(|first| first.nic == finding.nic);
    let mut findings: Vec<&Finding> = all.iter().collect();
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.severity), first_of_nic(finding)));
    findings
}

#[cfg(test)]
mod tests {
    use super::{Answer, Fix, everything, text};
    use crate::report::document::{DATA, Document, Part};
    use crate::report::text::for_screen;
    use crate::report::text::rows;
    use crate::report::{html, markdown};
    use rxlab_advise::diagnose::Severity;
    use rxlab_advise::doctor::{DoctorReport, Since, diagnosed, doctor};
    use rxlab_path::sketch::Sketch;

    fn plain(sketch: Sketch) -> String {
        whole(&diagnosed(sketch))
    }

    fn whole(report: &DoctorReport) -> String {
        checked(&everything(report, "rxlab"))
    }

    fn shown(report: &DoctorReport) -> String {
        checked(&text(report, Some("rxlab doctor -v")))
    }

    fn checked(text: &str) -> String {
        let text = crate::report::text::plain(text);
        text.lines().for_each(|line| assert_eq!(line.trim_end(), line, "ends in spaces"));
        text
    }

    #[test]
    fn field_case_a() {
        insta::assert_snapshot!(plain(Sketch::case_a()));
    }

    #[test]
    fn a_screen_of_field_case_a() {
        insta::assert_snapshot!(shown(&diagnosed(Sketch::case_a())));
    }

    fn many() -> DoctorReport {
        let irqs: Vec<u32> = (0..16).collect();
        let mut sketch = Sketch::new(128).device("eth0", &irqs).traffic("eth0", 3e6).rps("eth0", "0-127");
        for cpu in irqs {
            sketch = sketch.receives(cpu, 0.4, 1e5);
        }
        diagnosed(sketch.rfs(32768, "eth0", 0).drops(3, 120.0).receives(3, 0.85, 1e5))
    }

    #[test]
    fn a_screen_of_several_findings() {
        insta::assert_snapshot!(shown(&many()));
    }

    /// With any number of findings, the screen has the worst of them.
    #[test]
    fn at_most_a_screen_and_the_worst_first() {
        let mut report = many();
        for copies in 0..40_u32 {
            let mut finding = report.findings.last().expect("there are some").clone();
            finding.severity = if copies % 7 == 6 { Severity::Critical } else { Severity::Note };
            finding.nic = (copies % 3 > 0).then(|| format!("eth{}", copies % 3).parse().expect("a name"));
            finding.title = format!("number {copies} of many{}", " findings".repeat(copies as usize % 12));
            report.findings.push(finding);
            let text = shown(&report);
            assert!(text.lines().count() <= rows(), "{copies}: {text}");
            let first = shown(&report).lines().next().unwrap_or_default().to_owned();
            assert_eq!(first.starts_with("!!"), copies >= 6, "{text}");
            let titles: Vec<char> = text.lines().filter_map(|line| line.chars().next()).collect();
            let first_note = titles.iter().position(|mark| *mark == '-').unwrap_or(usize::MAX);
            let last_mark = titles.iter().rposition(|mark| *mark == '!').expect("the worst is there");
            assert!(last_mark < first_note, "{text}");
            assert!(whole(&report).contains(&format!("number {copies} of many")));
        }
    }

    #[test]
    fn two_cpus_and_a_veth() {
        let sketch = Sketch::new(2).veth("veth0").traffic("veth0", 5.4e5).works(0, 0.54);
        insta::assert_snapshot!(plain(sketch.receives(0, 0.45, 5.4e5).works(1, 0.8).receives(1, 0.0, 0.0)));
    }

    #[test]
    fn an_unknown_limit_has_its_reason() {
        let mut report = doctor(&Sketch::case_a().build().0, &Sketch::case_a().build().1, "rxlab");
        (report.regime, report.plans) = (None, Vec::new());
        let text = whole(&report);
        assert!(text.contains("room   unknown: the interfaces receive fewer than 1,000 packets/s"), "{text}");
        report.refused = Some("packets of eth0 are received elsewhere".to_owned());
        let text = whole(&report);
        assert!(text.contains("note   no further verdict: packets of eth0 are received elsewhere"), "{text}");
    }

    #[test]
    fn one_thread_is_the_limit() {
        let sketch = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 4e4).receives(0, 0.05, 4e4);
        let sketch = sketch.works(2, 0.985).program("redis-server", 0.99, "0-7").thread(2, 0.99, 0.001);
        insta::assert_snapshot!(plain(sketch.tcp(6379, 0, 0, Some(48))));
    }

    #[test]
    fn disks_drown_a_cpu() {
        let sketch = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 2e3).receives(2, 0.02, 2e3);
        let sketch = sketch.receives(5, 0.93, 40.0).ksoftirqd(5, 0.6).softirqs(5, "TIMER", 250.0);
        insta::assert_snapshot!(plain(sketch.softirqs(5, "BLOCK", 41e3)));
    }

    #[test]
    fn many_queues_and_several_findings() {
        insta::assert_snapshot!(whole(&many()));
    }

    #[test]
    fn a_quiet_machine() {
        let (model, mut rates) = Sketch::new(4).device("eth0", &[1]).build();
        rates.gaps.push("no /proc/net/softnet_stat: drops and time squeezes are unknown".into());
        let text = text(&doctor(&model, &rates, "rxlab"), None);
        insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string());
        assert!(text.starts_with('\u{1b}'), "coloured before the edge strips it");
    }

    /// Regression: `nothing to do: busiest CPU 0 % in softirq` while one CPU was fully busy receiving.
    #[test]
    fn refused_if_receiving_threads_are_not_visible() {
        let (model, mut rates) = Sketch::new(4).device("eth0", &[1]).traffic("eth0", 4e5).build();
        rates.unseen = vec!["eth0".parse().expect("a name")];
        let text = whole(&doctor(&model, &rates, "rxlab"));
        let verdict = "no verdict: packets of eth0 are received by threads whose time is not visible";
        assert!(text.starts_with(verdict), "{text}");
    }

    /// It was once "nothing to do", above settings to try.
    #[test]
    fn settings_worth_a_trial_are_something_to_do() {
        let host = |time| {
            let sketch = Sketch::new(16).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &[8e4; 4]);
            plain(sketch.all_receive("2-3", 0.2, 8e4).all_receive("0-1", time, 8e4))
        };
        let busy = host(0.75);
        assert!(
            busy.starts_with("CPUs 0-1 each receive for 75 % of their time: RPS and RFS are worth a trial"),
            "{busy}"
        );
        assert!(busy.contains("   try    rxlab tune    (a few minutes; "), "{busy}");
        assert!(host(0.4).starts_with("nothing to do: busiest CPU 40 % receiving"), "{}", host(0.4));
        let router = Sketch::new(2).device("eth0", &[0, 1]).queue_traffic("eth0", &[1e5; 2]);
        let full = plain(router.nic_rates("eth0", |nic| nic.tx_packets = 2e5).all_receive("0-1", 0.96, 1e5));
        assert!(
            full.starts_with("the machine is full, and no setting is known to make room: busiest CPU 96 %"),
            "{full}"
        );
    }

    /// The colour of notes was once unknown there.
    #[test]
    fn all_styles_pass_to_the_terminal() {
        let mut report = many();
        let severities = [Severity::Critical, Severity::Warning, Severity::Note];
        assert!(report.findings.len() >= severities.len());
        report
            .findings
            .iter_mut()
            .zip(severities)
            .for_each(|(finding, severity)| finding.severity = severity);
        let (model, rates) = Sketch::new(4).device("eth0", &[1]).build();
        for report in [report, doctor(&model, &rates, "rxlab")] {
            let text = everything(&report, "rxlab");
            assert_eq!(for_screen(&text, true), text);
        }
    }

    #[test]
    fn a_refusal_next_to_findings_is_a_note() {
        let sketch = Sketch::new(2).loopback().device("eth0", &[0]).rfs(32768, "eth0", 0);
        let sketch = sketch.traffic("eth0", 2e3).traffic("lo", 3e5).receives(0, 0.6, 3e5);
        let text = plain(sketch);
        assert!(text.contains("rfs-half-configured") && text.contains("no further verdict: 99 %"), "{text}");
    }

    /// Whoever has fifteen lines loses detail, not the answer.
    #[test]
    fn a_small_screen_has_the_answer_and_what_to_do() {
        let answer = Answer::new(&diagnosed(Sketch::case_a()));
        for rows in 4..24 {
            let text = checked(&super::screen::screen(&answer, rows, Some("rxlab doctor -v")));
            assert!(text.lines().count() <= rows, "{rows}: {text}");
            assert!(text.starts_with("!! CPU 2 is full"), "{text}");
            let least = [
                (4, " 1 RPS to CPUs 0-1,3-7"),
                (5, "   try    rxlab tune --nic eth0"),
                (7, "2 ########## 98%"),
                (8, "   why    one queue"),
                (9, "   rough  CPU 2 at 26-59 %"),
                (10, "   room   CPU 2: none"),
                (11, " 2 RFS"),
            ];
            for (least, part) in least {
                assert_eq!(text.contains(part), rows >= least, "{rows} lines, {part}: {text}");
            }
        }
    }

    /// The page once offered a trial that the screen did not, without the limit and the date.
    #[test]
    fn page_and_ticket_say_what_the_screen_says() {
        for mut report in
            [diagnosed(Sketch::case_a()), many(), diagnosed(Sketch::new(4).device("eth0", &[1]))]
        {
            report.taken = Some("2026-11-21T13:04:05Z".to_owned());
            let answer = Answer::new(&report);
            let document = Document::new(vec![Part::Doctor(Box::new(report.clone()))]);
            let page = html::render(&document, Some("rxlab"));
            let page =
                page.split(DATA).next().unwrap_or_default().replace('\u{a0}', " ").replace('\u{2212}', "-");
            let page = page
                .replace('\u{2192}', "->")
                .replace("&gt;", ">")
                .replace("&#39;", "'")
                .replace("&amp;", "&");
            let ticket = markdown::render(&document, "rxlab").replace('\\', "");
            // The first letter may be a capital.
            let at = |whole: &str, text: &str| {
                whole.find(&text[1..]).unwrap_or_else(|| panic!("no `{text}` in {whole}"))
            };
            for whole in [&page, &ticket] {
                let line = |fix: &Fix| fix.command.as_ref().map(|next| next.line.clone());
                let of_fix = |fix: &Fix| [Some(fix.action.clone()), fix.rough.clone(), line(fix)];
                let fixes = answer.fixes.iter().flat_map(of_fix).flatten();
                let facts = answer.facts.iter().map(|fact| fact.text.clone());
                facts.chain(fixes).chain([answer.headline.clone(), answer.basis.clone()]).for_each(|text| {
                    at(whole, &text);
                });
                let actions: Vec<usize> = answer.fixes.iter().map(|fix| at(whole, &fix.action)).collect();
                assert!(actions.is_sorted(), "{whole}");
                let trials = whole.matches("rxlab trial run").count() + whole.matches("rxlab tune").count();
                assert_eq!(
                    trials,
                    answer.fixes.iter().filter(|fix| fix.command.is_some()).count(),
                    "no other trial"
                );
            }
        }
    }

    #[test]
    fn refused_on_loopback() {
        insta::assert_snapshot!(plain(Sketch::new(2).loopback().traffic("lo", 3e5).receives(0, 0.6, 3e5)));
    }

    #[test]
    fn a_change_is_compared_with_what_was_before_it() {
        let mut report = diagnosed(Sketch::case_a());
        report.since = Some(Since {
            transaction: "000001-092e".to_owned(),
            what: "apply rps".to_owned(),
            seconds: 725.0,
            cpu: rxlab_base::units::CpuId(2),
            receive_before: 0.98,
            receive: 0.49,
            packets_before: 9_559.0,
            packets: 10_972.0,
        });
        let line = "since `apply rps` 12 min ago: CPU 2: 98 -> 49 % receiving; 9,559 -> 10,972";
        for said in [whole(&report), shown(&report)] {
            assert!(said.replace("\n         ", "").contains(line), "{said}");
        }
    }
}
