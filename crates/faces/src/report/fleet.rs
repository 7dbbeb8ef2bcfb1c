//! Many hosts, one answer: the trials of several hosts pooled, what is found on each, and what is applied where.
//!
//! [`Fleet::sections`] says it once; text, Markdown and HTML only lay it out.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::document::{Document, Part};
use super::findings::no_verdict;
use super::status;
use super::text::{BAD, CAUTION, Cell, GOOD, STRONG, Table, left, paragraph, rows, styled, wrapping};
use super::words::{self, Tone};
use rxlab_advise::diagnose::Severity;
use rxlab_advise::doctor::DoctorReport;
use rxlab_base::number::{self, capitalized, plural};
use rxlab_change::apply::{State, TransactionStatus};
use rxlab_path::model::Identity;
use rxlab_trial::effect::Effect;
use rxlab_trial::fleet::{Exception, Pool, Tried, name_of, pools};
use rxlab_trial::record::{AS_IS, Better, Call, TrialRecord};

/// What the records of several hosts say together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Fleet {
    /// `rxlab.fleet/1`.
    pub schema: String,
    /// Each change that was tried, over its hosts.
    pub pools: Vec<Pool>,
    /// Findings and open transactions, by the name of the host.
    pub hosts: Vec<HostState>,
    /// Records of other kinds, which say nothing about a fleet.
    pub other_records: usize,
}

/// The state of one host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostState {
    /// The host.
    pub host: Identity,
    /// Boots of which there are records: several may also be several machines of one name, of which the latest counts.
    pub boots: usize,
    /// Its findings, from the latest sample; `None` without one.
    pub findings: Option<Vec<Found>>,
    /// Reason why the absence of findings proves nothing, such as no traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_verdict: Option<String>,
    /// Its open transactions, from the latest status; `None` without one.
    pub applied: Option<Vec<TransactionStatus>>,
    /// Files of its journal that cannot be read.
    pub unreadable: usize,
}

/// One finding of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Found {
    /// Name of the rule.
    pub id: String,
    /// Its severity.
    pub severity: Severity,
    /// What is wrong, in a few words.
    pub title: String,
}

/// A part of the answer: statements, then a table.
pub(super) struct Section {
    pub(super) heading: String,
    pub(super) lines: Vec<(Tone, String)>,
    /// The first as many columns are enough for a terminal.
    pub(super) narrow: usize,
    pub(super) heads: &'static [&'static str],
    pub(super) rows: Vec<Row>,
}

/// A row of a table; the tone is that of its third cell.
pub(super) struct Row {
    pub(super) tone: Tone,
    pub(super) cells: Vec<String>,
}

/// Names of hosts in one statement.
const NAMES: usize = 4;
/// Most and fewest rows of a table on a terminal.
const ROWS: (usize, usize) = (20, 3);

impl Fleet {
    pub const SCHEMA: &'static str = "rxlab.fleet/1";

    /// What the records of a document say together.
    pub fn new(document: &Document) -> Self {
        let records: Vec<&TrialRecord> = document.trials().map(|trial| &trial.record).collect();
        let mut hosts: BTreeMap<String, Latest<'_>> = BTreeMap::new();
        let mut other_records = 0;
        for part in &document.parts {
            match part {
                Part::Doctor(report) => Latest::of(&mut hosts, &report.identity).doctor(report),
                Part::Status(report) => {
                    let unknown = Identity::default();
                    let latest = Latest::of(&mut hosts, report.host.as_ref().unwrap_or(&unknown));
                    latest.boots.extend(report.host.iter().map(|host| host.boot_id.as_str()));
                    if latest.status.is_none_or(|known| known.taken <= report.taken) {
                        latest.status = Some(report);
                    }
                }
                Part::Trial(_) => {}
                Part::Blocks(_)
                | Part::Comparison(_)
                | Part::Interference(_)
                | Part::Trace(_)
                | Part::Tune(_) => {
                    other_records += 1;
                }
            }
        }
        Self {
            schema: Self::SCHEMA.to_owned(),
            pools: pools(&records),
            hosts: hosts.into_values().map(Latest::state).collect(),
            other_records,
        }
    }

    /// True if nothing in it is about a host.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty() && self.hosts.is_empty()
    }

    /// True if a change is proven to do harm somewhere, or an applied value does not hold.
    pub fn has_trouble(&self) -> bool {
        self.pools.iter().any(Pool::is_harmful) || self.hosts.iter().any(HostState::is_in_trouble)
    }

    /// `Fleet of 43 hosts`.
    pub fn title(&self) -> String {
        let tried = self.pools.iter().flat_map(|pool| &pool.hosts).map(|tried| name_of(&tried.host));
        let names: BTreeSet<&str> =
            tried.chain(self.hosts.iter().map(|state| name_of(&state.host))).collect();
        format!("Fleet of {}", plural(names.len(), "host"))
    }

    /// All parts of the answer.
    pub(super) fn sections(&self) -> Vec<Section> {
        let mut sections: Vec<Section> = self.pools.iter().map(pool_section).collect();
        sections.extend(findings(&self.hosts));
        sections.extend(applied(&self.hosts));
        if let (Some(first), 1..) = (sections.first_mut(), self.other_records) {
            let records = plural(self.other_records, "record");
            first
                .lines
                .push((Tone::Caution, format!("{records} of other kinds: `rxlab report` shows them.")));
        }
        sections
    }

    /// The answer on one screen: tables are as long as there is room.
    pub fn text(&self) -> String {
        let (most, fewest) = ROWS;
        let fits = |most: &usize| self.text_with(*most).lines().count() <= rows();
        let most = (fewest..=most).rev().find(fits).unwrap_or(fewest);
        self.text_with(most)
    }

    fn text_with(&self, most: usize) -> String {
        let mut out = format!("{}\n", styled(STRONG, &self.title()));
        for section in self.sections() {
            out.push('\n');
            out += &paragraph("", &section.heading);
            for (tone, line) in &section.lines {
                out += &coloured(*tone, &paragraph("  ", line));
            }
            if section.rows.is_empty() {
                continue;
            }
            let heads = &section.heads[..section.narrow];
            let mut table = Table::new(
                heads.iter().enumerate().map(|(at, head)| if at == 1 { left(head) } else { wrapping(head) }),
            )
            .indented(2);
            for Row { tone, cells } in section.rows.iter().take(most) {
                let cell = |(at, text): (usize, &String)| match at {
                    2 => Cell::styled(style(*tone), text.clone()),
                    _ => text.clone().into(),
                };
                table.row(cells.iter().take(section.narrow).enumerate().map(cell));
            }
            out += &table.render();
            if let Some(more @ 1..) = section.rows.len().checked_sub(most) {
                out += &paragraph("  ", &format!("and {}", plural(more, "more row")));
            }
        }
        out
    }
}

/// The latest records of a host.
#[derive(Default)]
struct Latest<'a> {
    host: Identity,
    boots: BTreeSet<&'a str>,
    doctor: Option<&'a DoctorReport>,
    status: Option<&'a super::printed::StatusReport>,
}

impl<'a> Latest<'a> {
    fn of<'b>(hosts: &'b mut BTreeMap<String, Self>, host: &Identity) -> &'b mut Self {
        let new = || Self { host: host.clone(), ..Self::default() };
        hosts.entry(name_of(host).to_owned()).or_insert_with(new)
    }

    fn doctor(&mut self, report: &'a DoctorReport) {
        self.boots.insert(&report.identity.boot_id);
        if self.doctor.is_none_or(|known| known.taken <= report.taken) {
            self.doctor = Some(report);
        }
    }

    fn state(self) -> HostState {
        let found = |report: &DoctorReport| {
            let found = report.findings.iter().map(|finding| Found {
                id: finding.id.to_string(),
                severity: finding.severity,
                title: finding.title.clone(),
            });
            found.collect()
        };
        HostState {
            host: self.host,
            boots: self.boots.len(),
            findings: self.doctor.map(found),
            no_verdict: self.doctor.and_then(no_verdict),
            applied: self.status.map(|status| status.transactions.clone()),
            unreadable: self.status.map_or(0, |status| status.unreadable.len()),
        }
    }
}

impl HostState {
    fn is_in_trouble(&self) -> bool {
        self.unreadable > 0 || self.applied.iter().flatten().any(|one| !one.is_fine())
    }
}

/// Name of a host in words.
pub(super) fn shown(host: &Identity) -> String {
    match name_of(host) {
        "" => "unknown host".to_owned(),
        name => name.to_owned(),
    }
}

/// The first of some names, and how many more there are.
fn named(names: &[String]) -> String {
    match names.len() {
        0..=NAMES => names.join(", "),
        more => format!("{} and {} more", names[..NAMES - 1].join(", "), more - NAMES + 1),
    }
}

fn pool_section(pool: &Pool) -> Section {
    let setting = |lines: &[String]| match lines {
        [] => AS_IS.to_owned(),
        lines => format!("`{}`", lines.join("; ")),
    };
    let against =
        if pool.against.is_empty() { String::new() } else { format!(" against {}", setting(&pool.against)) };
    let heading = format!(
        "{}{against}: {} on {}",
        setting(&pool.change),
        pool.metric.title,
        plural(pool.hosts.len(), "host")
    );
    Section {
        heading,
        lines: statements(pool),
        narrow: 5,
        heads: &["Host", "Change [interval]", "Verdict", "Kernel", "Driver", "CPU", "First look", "Trial"],
        rows: host_rows(pool),
    }
}

/// What is said of a change: harm first, then the pooled effect, its limits, and the advice.
fn statements(pool: &Pool) -> Vec<(Tone, String)> {
    let mut lines = Vec::new();
    let mut say = |tone: Tone, text: String| lines.push((tone, text));
    let harmed: Vec<&Tried> = pool.hosts.iter().filter(|tried| !tried.against.is_empty()).collect();
    for tried in harmed.iter().take(NAMES) {
        say(Tone::Bad, format!("Harm on {}: {}", shown(&tried.host), tried.against.join("; ")));
    }
    if harmed.len() > NAMES {
        say(Tone::Bad, format!("Harm on {} more", plural(harmed.len() - NAMES, "host")));
    }
    if let Some(primary) = pool.primary() {
        let call = capitalized(words::call(primary.call));
        let (effect, hosts) = (primary.effect.in_words(), plural(primary.hosts, "host"));
        let shows = match pool.helped() {
            0 => "no single trial shows that it helps".to_owned(),
            helped => format!("on {helped} the host's own trial shows that it helps"),
        };
        let except = if primary.call == Call::Helps { excepted(pool) } else { String::new() };
        let title = &primary.metric.title;
        say(
            words::call_tone(primary.call),
            format!("{call}: {title} {effect} on average over {hosts}; {shows}{except}"),
        );
        let is_shown = |call: Call| Call::SHOWN.contains(&call);
        let others: Vec<String> = pool.pooled[1..]
            .iter()
            .filter(|one| is_shown(one.call))
            .map(|one| format!("{} {}", one.metric.title, one.effect.in_words()))
            .collect();
        if !others.is_empty() {
            say(Tone::Neutral, format!("Also: {}", others.join("; ")));
        }
    }
    if let Some(spread) = pool.spread {
        let next = spread.next.interval().unwrap_or_default();
        let next = format!("a trial on one more such host would show {next} % in 19 of 20 cases");
        if spread.differs {
            let (between, share) = (number::share(spread.between.exp_m1()), number::percent(spread.share));
            say(
                Tone::Caution,
                format!(
                    "The hosts differ by {between} (standard deviation; {share} of the variance is not noise); {next}"
                ),
            );
        } else {
            say(Tone::Neutral, format!("The hosts are not proven to differ; {next}"));
        }
    }
    for one in &pool.exceptions {
        let (effect, rest) = (number::change(one.effect), number::change(one.rest));
        let hosts = named(&one.hosts);
        let compared = plural(one.compared, "group");
        say(
            Tone::Caution,
            format!("{effect} on {} ({hosts}), {rest} elsewhere; {compared} compared", one.group),
        );
    }
    for tried in pool.hosts.iter().filter(|tried| !tried.open.is_empty()).take(NAMES) {
        say(Tone::Caution, format!("Undecided on {}: {}", shown(&tried.host), tried.open.join("; ")));
    }
    let out: Vec<String> = pool
        .hosts
        .iter()
        .filter_map(|tried| Some(format!("{} ({})", shown(&tried.host), tried.left_out.as_ref()?)))
        .collect();
    if !out.is_empty() {
        say(Tone::Caution, format!("Not pooled: {}", named(&out)));
    }
    if pool.hidden() > 0 {
        let hosts = plural(pool.hidden(), "host");
        say(Tone::Caution, format!("On {hosts} the load or the client may have hidden an effect"));
    }
    let repeated = names_of(pool, |tried| tried.repeated > 0);
    if !repeated.is_empty() {
        say(Tone::Neutral, format!("Tried more than once, the first trial counts: {}", named(&repeated)));
    }
    if let Some((tone, text)) = boots(names_of(pool, |tried| tried.boots > 1)) {
        say(tone, text);
    }
    let advice =
        pool.advice.map_or_else(String::new, |advice| format!("{}. ", capitalized(advice.in_words())));
    say(Tone::Neutral, format!("{advice}{}", pool.reason));
    lines
}

/// `; not on kernel 5.15 with virtio_net`, of a change that helps on average.
fn excepted(pool: &Pool) -> String {
    let less = |one: &&Exception| one.is_less(pool.metric.better) && one.helps_some;
    let less = pool.exceptions.iter().filter(less).map(|one| one.group.clone()).collect();
    let parts = [("not", pool.unhelped()), ("less", less)].map(|(how, groups)| match &groups[..] {
        [] => String::new(),
        groups => format!("; {how} on {}", groups.join(", ")),
    });
    parts.concat()
}

fn names_of(pool: &Pool, is_one: impl Fn(&Tried) -> bool) -> Vec<String> {
    pool.hosts.iter().filter(|tried| is_one(tried)).map(|tried| shown(&tried.host)).collect()
}

/// Says which hosts have records of several boots.
fn boots(names: Vec<String>) -> Option<(Tone, String)> {
    let line =
        || format!("Several boots, or several hosts of one name, taken as one host: {}", named(&names));
    (!names.is_empty()).then(|| (Tone::Caution, line()))
}

/// The hosts of a pool, those with harm first, then from the worst effect to the best.
pub(super) fn worst_first(pool: &Pool) -> Vec<&Tried> {
    let mut hosts: Vec<&Tried> = pool.hosts.iter().collect();
    let gain = |tried: &Tried| {
        let mid = tried.effect.map_or(f64::INFINITY, |effect| effect.mid);
        if pool.metric.better == Better::Lower && mid.is_finite() { -mid } else { mid }
    };
    hosts.sort_by(|a, b| {
        let key = |tried: &Tried| (tried.against.is_empty(), tried.first_look.is_none());
        key(a).cmp(&key(b)).then(gain(a).total_cmp(&gain(b)))
    });
    hosts
}

/// Verdict of a host's own trial, in words.
pub(super) fn verdict(tried: &Tried) -> (&'static str, Tone) {
    match &tried.verdict {
        Some(verdict) => (words::verdict(verdict), words::verdict_tone(verdict)),
        None => (words::UNFINISHED, Tone::Caution),
    }
}

fn host_rows(pool: &Pool) -> Vec<Row> {
    let row = |tried: &Tried| {
        let dash = || "-".to_owned();
        let (words, tone) = verdict(tried);
        let drivers: Vec<&str> = tried.drivers.iter().map(String::as_str).collect();
        let look = tried
            .first_look
            .map(|look| format!("{} by {}", number::change(look.mid.exp_m1()), plural(look.pairs, "pair")));
        let cells = vec![
            shown(&tried.host),
            tried.effect.as_ref().map_or_else(dash, Effect::in_words),
            words.to_owned(),
            tried.host.kernel.clone(),
            if drivers.is_empty() { "unknown".to_owned() } else { drivers.join(", ") },
            tried.cpu_model.clone().unwrap_or_else(|| "unknown".to_owned()),
            look.unwrap_or_else(dash),
            tried.trial.clone(),
        ];
        Row { tone, cells }
    };
    worst_first(pool).into_iter().map(row).collect()
}

/// Findings, that on most hosts first; `None` without a sample of any host.
fn findings(hosts: &[HostState]) -> Option<Section> {
    let sampled: Vec<(&HostState, &Vec<Found>)> =
        hosts.iter().filter_map(|state| Some((state, state.findings.as_ref()?))).collect();
    let mut by_id: BTreeMap<&str, (Severity, Vec<String>)> = BTreeMap::new();
    for (state, found) in &sampled {
        for one in found.iter() {
            let (severity, names) = by_id.entry(one.id.as_str()).or_insert((one.severity, Vec::new()));
            *severity = (*severity).max(one.severity);
            add(names, &state.host);
        }
    }
    let mut rows: Vec<(&str, (Severity, Vec<String>))> = by_id.into_iter().collect();
    rows.sort_by_key(|(_, (severity, names))| std::cmp::Reverse((names.len(), *severity)));
    let row = |(id, (severity, names)): (&str, (Severity, Vec<String>))| Row {
        tone: words::severity_tone(severity),
        cells: vec![
            id.to_owned(),
            names.len().to_string(),
            severity.to_string(),
            named(&names),
            names.join(", "),
        ],
    };
    let mut lines: Vec<(Tone, String)> = boots(several_boots(hosts)).into_iter().collect();
    let (mut clean, mut unjudged) = (Vec::new(), Vec::new());
    for (state, _) in sampled.iter().filter(|(_, found)| found.is_empty()) {
        match &state.no_verdict {
            None => clean.push(shown(&state.host)),
            Some(why) => unjudged.push(format!("{} ({why})", shown(&state.host))),
        }
    }
    if !clean.is_empty() {
        lines.push((Tone::Good, format!("Without a finding: {}", named(&clean))));
    }
    if !unjudged.is_empty() {
        lines.push((Tone::Caution, format!("Not judged: {}", named(&unjudged))));
    }
    (!sampled.is_empty()).then(|| Section {
        heading: format!("Findings on {}", plural(sampled.len(), "host")),
        lines,
        narrow: 4,
        heads: &["Finding", "Hosts", "Severity", "Where", "All hosts"],
        rows: rows.into_iter().map(row).collect(),
    })
}

fn several_boots(hosts: &[HostState]) -> Vec<String> {
    hosts.iter().filter(|state| state.boots > 1).map(|state| shown(&state.host)).collect()
}

/// Adds the name of a host once. Hosts come one after the other.
fn add(names: &mut Vec<String>, host: &Identity) {
    let name = shown(host);
    if names.last() != Some(&name) {
        names.push(name);
    }
}

/// What is applied where, and what does not hold; `None` without the status of any host.
fn applied(hosts: &[HostState]) -> Option<Section> {
    let known: Vec<(&HostState, &Vec<TransactionStatus>)> =
        hosts.iter().filter_map(|state| Some((state, state.applied.as_ref()?))).collect();
    let mut lines: Vec<(Tone, String)> = boots(several_boots(hosts)).into_iter().collect();
    let mut by_what: BTreeMap<&str, [Vec<String>; 2]> = BTreeMap::new();
    for (state, transactions) in &known {
        let host = shown(&state.host);
        for one in transactions.iter() {
            let [all, broken] = by_what.entry(one.what.as_str()).or_default();
            add(all, &state.host);
            if !one.is_fine() {
                add(broken, &state.host);
            }
            lines.extend(troubles(&host, one));
        }
        if state.unreadable > 0 {
            let files = plural(state.unreadable, "file");
            lines.push((Tone::Bad, format!("{host}: {files} of the journal cannot be read")));
        }
    }
    let none: Vec<String> =
        known.iter().filter(|(_, all)| all.is_empty()).map(|(state, _)| shown(&state.host)).collect();
    if !none.is_empty() {
        lines.push((Tone::Neutral, format!("Nothing is applied on {}", named(&none))));
    }
    let row = |(what, [all, broken]): (&str, [Vec<String>; 2])| {
        let (holds, tone) = match broken.len() {
            0 => ("holds everywhere".to_owned(), Tone::Good),
            broken => (format!("not on {}", plural(broken, "host")), Tone::Bad),
        };
        let cells = vec![what.to_owned(), all.len().to_string(), holds, named(&all), all.join(", ")];
        Row { tone, cells }
    };
    (!known.is_empty()).then(|| Section {
        heading: format!("Status of {}", plural(known.len(), "host")),
        lines,
        narrow: 4,
        heads: &["What", "Hosts", "Holds", "Where", "All hosts"],
        rows: by_what.into_iter().map(row).collect(),
    })
}

/// What does not hold of a transaction.
fn troubles(host: &str, transaction: &TransactionStatus) -> Vec<(Tone, String)> {
    let drifted = transaction.values.iter().filter(|value| !value.live.holds());
    let mut lines: Vec<(Tone, String)> = drifted
        .map(|value| {
            let now = status::now(&value.live);
            (Tone::Bad, format!("{host}: `{} {} = {}` {now}", value.knob, value.target, value.wanted))
        })
        .collect();
    let is_waiting = match transaction.state {
        State::Applied => false,
        State::Unconfirmed { seconds_left, unguarded } => seconds_left < 0.0 || unguarded,
        State::Unfinished => true,
    };
    if is_waiting {
        lines.push((
            Tone::Bad,
            format!("{host}: {}: {}", transaction.what, status::standing(&transaction.state)),
        ));
    }
    lines
}

fn style(tone: Tone) -> anstyle::Style {
    match tone {
        Tone::Good => GOOD,
        Tone::Bad => BAD,
        Tone::Caution => CAUTION,
        Tone::Neutral => anstyle::Style::new(),
    }
}

/// Lines in the style of their tone.
fn coloured(tone: Tone, lines: &str) -> String {
    lines.lines().map(|line| format!("{}\n", styled(style(tone), line))).collect()
}

#[cfg(test)]
mod tests;
