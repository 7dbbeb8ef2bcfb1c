//! From state to screen: two lines on top, a view, and a line of keys.

use std::ops::Range;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Clear};

use super::app::{App, Moment, Overlay, Spot, View};
use super::input::KEYS;
use super::look::Look;
use super::{findings, heat, tables};
use crate::report::live::LiveFrame;
use crate::report::status::{standing, text};
use crate::report::text::{clean, wrap};
use rxlab_advise::diagnose::Severity;
use rxlab_base::grammar::terminal::is_plain;
use rxlab_base::number::{percent, plural};
use rxlab_path::evidence::{LOST, tier_words};
use rxlab_path::model::Fact;

/// What the screen draws besides text.
const BLOCKS: &str = "\u{2500}\u{2502}\u{250c}\u{2510}\u{2514}\u{2518}\u{2580}\u{2588}\u{258c}";

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, look: Look) {
    let [head, tabs, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    app.spots.clear();
    frame.render_widget(self::head(app, head.width.into(), look), head);
    self::tabs(frame, tabs, app, look);
    match app.shown().cloned() {
        None => frame.render_widget(Line::styled("measuring the first interval ...", look.faint()), body),
        Some(shown) => {
            view(frame, body, app, &shown, look);
            overlay(frame, body, app, look);
        }
    }
    frame.render_widget(self::foot(app, foot.width.into(), look), foot);
    // Names of interfaces and programs come from others. They are cleaned before they are laid out; none that was forgotten
    // controls the terminal.
    for cell in &mut frame.buffer_mut().content {
        if cell.symbol().contains(|c| !is_plain(c) && !BLOCKS.contains(c)) {
            cell.set_symbol("\u{fffd}");
        }
    }
}

/// The machine, the moment, and its load. What does not fit is left out, the least important first.
fn head(app: &App, width: usize, look: Look) -> Line<'static> {
    // With the importance of each.
    let mut parts =
        vec![(1, Span::styled("rxlab top", look.strong())), (2, Span::raw(clean(&app.origin.host)))];
    if let Some(frame) = app.shown() {
        let (moment, is_past) = match (&app.origin.moment, app.ago()) {
            (Moment::Snapshot(taken), _) => {
                (format!("SNAPSHOT {}", taken.get(..16).unwrap_or(taken).replace('T', " ")), true)
            }
            (Moment::Recording, _) => {
                (format!("RECORDED {}", frame.time.trim_end_matches('Z').replace('T', " ")), true)
            }
            (Moment::Live, None) => (format!("{} live", frame.clock()), false),
            (Moment::Live, Some(ago)) => (format!("{} PAUSED, {ago:.0} s ago", frame.clock()), true),
        };
        parts.push((6, Span::styled(moment, if is_past { look.selected() } else { Style::new() })));
        let load = &frame.load;
        let alarm = |is_bad: bool| if is_bad { look.severity(Severity::Critical) } else { Style::new() };
        if let Some((cpu, time)) = load.busiest.zip(load.receive_time) {
            let text = format!("CPU {cpu}: {} receiving", percent(time));
            parts.push((5, Span::styled(text, alarm(time >= 0.9))));
        }
        parts.extend(load.packets_in_words().map(|packets| (3, Span::raw(packets))));
        parts.push((4, Span::styled(load.ledger.in_words(), alarm(load.dropped >= LOST))));
    }
    let length = |parts: &[(u8, Span<'_>)]| parts.iter().map(|(_, part)| part.width() + 2).sum::<usize>();
    while length(&parts) > width + 2 && parts.len() > 1 {
        let least = parts.iter().map(|(importance, _)| *importance).min();
        parts.retain(|(importance, _)| Some(*importance) != least);
    }
    let spans = parts.into_iter().flat_map(|(_, part)| [part, Span::raw("  ")]);
    Line::from(spans.collect::<Vec<_>>())
}

/// The views, the shown one in brackets, and the interface; by number only where there is little room.
fn tabs(frame: &mut Frame<'_>, area: Rect, app: &mut App, look: Look) {
    let (width, state) = (usize::from(area.width), &*app);
    let filter =
        format!("NIC: {}", state.filter.as_ref().map_or("all".to_owned(), |nic| clean(nic.as_str())));
    let titles = |is_short: bool| {
        View::ALL.into_iter().zip(1..).map(move |(view, number)| {
            let figure = state.shown().map_or(String::new(), |frame| match view {
                View::Findings if !frame.findings.is_empty() => format!(" ({})", state.findings(frame).len()),
                View::Applied if frame.unsettled() > 0 => " (!)".to_owned(),
                _ => String::new(),
            });
            let title = if is_short && view != state.view { "" } else { view.title() };
            let space = if title.is_empty() { "" } else { " " };
            let text = format!("{number}{space}{title}{figure}");
            let span = if view == state.view {
                Span::styled(format!("[{text}]"), look.strong())
            } else {
                Span::styled(format!(" {text} "), look.faint())
            };
            (Some(Spot::View(view)), span)
        })
    };
    let length = |is_short| titles(is_short).map(|(_, title)| title.width()).sum::<usize>();
    let is_short = length(false) + 2 + filter.chars().count() > width;
    let gap = width.saturating_sub(length(is_short) + filter.chars().count());
    let mut spans: Vec<(Option<Spot>, Span<'static>)> = titles(is_short).collect();
    spans.extend([(None, Span::raw(" ".repeat(gap))), (Some(Spot::Filter), Span::raw(filter))]);
    let mut rest = area;
    for (spot, span) in spans {
        let own = Rect { width: rest.width.min(span.width() as u16), ..rest };
        rest = Rect { x: own.right(), width: rest.width - own.width, ..rest };
        frame.render_widget(span, own);
        app.spots.extend(spot.map(|spot| (own, spot)));
    }
}

/// Something to tell, or the keys that do something here.
fn foot(app: &App, width: usize, look: Look) -> Line<'static> {
    if let Some(message) = &app.message {
        return Line::styled(clean(message), look.strong());
    }
    if let Some((id, state)) = app.shown().filter(|_| app.ago().is_none()).and_then(LiveFrame::unconfirmed) {
        let text = format!("{} {}", clean(id), standing(state));
        return Line::styled(text, look.severity(Severity::Warning));
    }
    let may_apply = app.origin.moment == Moment::Live;
    let keys: &[&str] = match app.overlays.last() {
        Some(Overlay::Help) => &["Esc close"],
        Some(Overlay::Finding { .. }) => {
            &["d diff of the plan", "a apply", "Tab next plan", "n next finding", "Esc close"]
        }
        Some(Overlay::Diff { is_asked: true, .. }) => &["y yes", "any other key: no"],
        Some(Overlay::Diff { .. }) if may_apply => &["a apply", "Esc close"],
        Some(Overlay::Diff { .. }) => &["Esc close"],
        None if app.ago().is_some() => &["p present", "left right time", "? keys", "q quit"],
        None if app.view == View::Findings => &["? keys", "Enter open", "f interface", "p pause", "q quit"],
        None => {
            &["? keys", "n next finding", "s sort", "f interface", "p pause", "left right time", "q quit"]
        }
    };
    // The last one says how to leave: it is always there.
    const GAP: &str = "   ";
    let (last, others) = keys.split_last().expect("each view has keys");
    let mut line = String::new();
    for key in others {
        if [&line, *key, GAP, last].iter().map(|part| part.chars().count()).sum::<usize>() <= width {
            line += &format!("{key}{GAP}");
        }
    }
    Line::styled(line + last, look.faint())
}

/// A title with a rule to the right end.
fn title(text: Vec<Span<'static>>, width: u16, look: Look) -> Line<'static> {
    let mut line = Line::from(text);
    let used = line.width();
    let rule = usize::from(width).saturating_sub(used + 1);
    line.push_span(Span::styled(format!(" {}", "\u{2500}".repeat(rule)), look.faint()));
    line
}

fn view(frame: &mut Frame<'_>, area: Rect, app: &mut App, shown: &LiveFrame, look: Look) {
    match app.view {
        View::Overview => overview(frame, area, app, shown, look),
        View::Queues => {
            let nics = tables::nics(app, shown);
            let height = (nics.len() as u16 + 1).min(area.height / 3);
            let [above, below] = halves(area, height);
            nics.draw(frame, above, 0, app, look);
            scrolled(frame, below, app, &tables::queues(app, shown), look);
        }
        View::Cpus => {
            let height = heat_height(shown, area.height / 2);
            let [above, below] = halves(area, height);
            heatmap(frame, above, app, look);
            scrolled(frame, below, app, &tables::cpus(app, shown), look);
        }
        View::LostTime => lost_time(frame, area, app, shown, look),
        View::Findings => {
            let count = app.findings(shown).len();
            let [above, below] = halves(area, (count.max(1) as u16).min(area.height / 2));
            app.selected = app.selected.min(count.saturating_sub(1));
            app.rows = above.height.into();
            let first = (app.selected + 1).saturating_sub(above.height.into());
            let mut lines = findings::list(app, shown, area.width.into(), look);
            if count > 0 {
                let line = std::mem::take(&mut lines[app.selected]);
                lines[app.selected] = line.patch_style(look.selected());
            }
            frame.render_widget(Text::from(lines.split_off(first.min(lines.len()))), above);
            clickable(app, above, first..count);
            changes(frame, below, app, look);
        }
        View::Applied => {
            let mut lines: Vec<String> = shown.applied.unknown.clone();
            if lines.is_empty() && shown.applied.transactions.is_empty() {
                lines.push("nothing is applied".to_owned());
            }
            let texts: Vec<String> = shown.applied.transactions.iter().map(text).collect();
            lines.extend(texts.iter().flat_map(|text| text.lines()).map(str::to_owned));
            let wide = |line: &String| indented(line, area.width.into());
            app.rows = area.height.into();
            let lines = lines.iter().flat_map(wide).map(Line::from).collect();
            app.selected = scrolled_lines(frame, area, app.selected, lines);
        }
    }
}

/// A line in as many lines as it needs, all with its indent.
fn indented(line: &str, width: usize) -> Vec<String> {
    let indent = line.len() - line.trim_start().len();
    wrap(line, width.saturating_sub(indent)).into_iter().map(|part| format!("{:indent$}{part}", "")).collect()
}

fn halves(area: Rect, above: u16) -> [Rect; 2] {
    Layout::vertical([Constraint::Length(above), Constraint::Fill(1)]).areas(area)
}

/// Lines of the heatmap with its title: one for each CPU if they fit, else one for two, else as many as there are.
fn heat_height(shown: &LiveFrame, most: u16) -> u16 {
    let cpus = u16::try_from(shown.cpus.len()).unwrap_or(u16::MAX);
    let fits = [cpus, cpus.div_ceil(2)].into_iter().find(|rows| *rows < most);
    fits.map_or(most, |rows| rows + 1)
}

fn overview(frame: &mut Frame<'_>, area: Rect, app: &mut App, shown: &LiveFrame, look: Look) {
    let list = findings::list(app, shown, area.width.into(), look);
    let mut findings_height = (list.len() as u16 + 1).min(area.height / 3);
    let heat_height = heat_height(shown, area.height * 9 / 20);
    let (nics, all) = (tables::nics(app, shown), tables::queues(app, shown));
    // Interfaces too if every queue has its row nevertheless; with more room programs, then the evidence of a finding.
    let needed = u16::try_from(nics.len() + all.len() + 2).unwrap_or(u16::MAX);
    let mut room = area.height.saturating_sub(heat_height + findings_height);
    let payers = payers(app, shown).filter(|_| room >= needed.saturating_add(PAYERS));
    let payers_height = payers.as_ref().map_or(0, |(_, rows)| (rows.len() as u16 + 2).min(room - needed));
    let evidence = evidence(app, shown, area.width.into(), look);
    let free = room.saturating_sub(needed.saturating_add(payers_height));
    let added = evidence.len() as u16 + 1;
    let evidence = if evidence.is_empty() || free < added { Vec::new() } else { evidence };
    if !evidence.is_empty() {
        (findings_height, room) = (findings_height + added, room - added);
    }
    let [heat, queues, programs, findings] = Layout::vertical([
        Constraint::Length(heat_height),
        Constraint::Length(if payers.is_some() { needed } else { room }),
        Constraint::Fill(1),
        Constraint::Length(findings_height),
    ])
    .areas(area);
    heatmap(frame, heat, app, look);
    if let Some((heading, rows)) = &payers {
        let [above, below] = halves(programs, 1);
        frame.render_widget(title(vec![Span::styled(*heading, look.strong())], area.width, look), above);
        rows.draw(frame, below, 0, app, look);
    }
    let [above, below] = halves(queues, if needed <= queues.height { nics.len() as u16 + 1 } else { 0 });
    nics.draw(frame, above, 0, app, look);
    all.draw(frame, below, 0, app, look);
    let [above, below] = halves(findings, 1);
    let count = app.findings(shown).len();
    let more = if evidence.is_empty() { count.saturating_sub(below.height.into()) } else { 0 };
    let mut text = if count == 0 { "findings".to_owned() } else { plural(count, "finding") };
    if more > 0 {
        text += &format!(", {more} below");
    }
    frame.render_widget(title(vec![Span::styled(text, look.strong())], area.width, look), above);
    let listed = (list.len() as u16).min(below.height);
    let [list_area, evidence_area] =
        halves(below, if evidence.is_empty() { below.height } else { listed + 1 });
    frame.render_widget(Text::from(list), list_area);
    frame.render_widget(Text::from(evidence), evidence_area);
    clickable(app, list_area, 0..count);
}

/// The evidence, cause and plans of the first finding, without its title; none without findings.
fn evidence(app: &App, shown: &LiveFrame, width: usize, look: Look) -> Vec<Line<'static>> {
    let Some(first) = app.findings(shown).into_iter().next() else { return Vec::new() };
    let plans: Vec<_> = shown.plans.iter().filter(|plan| plan.addresses(first)).collect();
    let title = findings::title_lines(first, width);
    findings::whole(first, &plans, 0, width, look).split_off(title)
}

/// Fewest lines of a table of programs: its heading, its titles, and a program.
const PAYERS: u16 = 3;

/// The programs that lose time to receive work, as far as that is measured, with a heading.
fn payers(app: &App, shown: &LiveFrame) -> Option<(&'static str, tables::Rows)> {
    let measured = shown.interference.as_ref().filter(|sample| sample.victims.known().is_some());
    let (heading, rows) = match (measured, &shown.programs) {
        (Some(sample), _) => ("programs that lose time", tables::losers(app, sample)),
        (None, Fact::Known(programs)) => {
            ("programs, those on receiving CPUs first", tables::programs(app, programs))
        }
        (None, _) => return None,
    };
    (rows.len() > 0).then_some((heading, rows))
}

/// Makes each line of a list open its finding.
fn clickable(app: &mut App, area: Rect, findings: Range<usize>) {
    findings.zip(area.rows()).for_each(|(finding, row)| app.spots.push((row, Spot::Finding(finding))));
}

fn heatmap(frame: &mut Frame<'_>, area: Rect, app: &App, look: Look) {
    let [above, below] = halves(area, 1);
    let history = app.history();
    let lines = heat::lines(&history, (below.width.into(), below.height.into()), look);
    let mut spans = vec![Span::styled("receive time of each CPU  ", look.strong())];
    spans.extend(heat::legend(look));
    if let Some(last) = history.last()
        && area.width >= 100
    {
        spans.push(Span::styled(format!("  {}", tier_words(&last.load.tier)), look.faint()));
    }
    frame.render_widget(title(spans, area.width, look), above);
    frame.render_widget(Text::from(lines), below);
}

/// A table that the user scrolls.
fn scrolled(frame: &mut Frame<'_>, area: Rect, app: &mut App, rows: &tables::Rows, look: Look) {
    app.rows = area.height.saturating_sub(1).into();
    app.selected = rows.draw(frame, area, app.selected, app, look);
}

/// Draws lines from `first` on, which is kept within them. Returns the first line drawn.
fn scrolled_lines(frame: &mut Frame<'_>, area: Rect, first: usize, mut lines: Vec<Line<'static>>) -> usize {
    let first = first.min(lines.len().saturating_sub(area.height.into()));
    frame.render_widget(Text::from(lines.split_off(first)), area);
    first
}

fn lost_time(frame: &mut Frame<'_>, area: Rect, app: &mut App, shown: &LiveFrame, look: Look) {
    let width = area.width.into();
    let is_visible = shown.interference.as_ref().is_some_and(|sample| sample.victims.known().is_some());
    let rows = payers(app, shown);
    let about = match &shown.interference {
        Some(sample) if is_visible => format!(
            "measured with eBPF over {:.1} s. Charged: CPU time as the kernel accounts it; had: without what receive \
             work took; own: receiving in its own system calls",
            sample.seconds
        ),
        Some(sample) => format!(
            "who lost time is unknown: {}. Programs on CPUs that receive packets may lose time",
            sample.missing.as_deref().unwrap_or("eBPF was not used")
        ),
        None if app.origin.moment != Moment::Live => {
            "who lost time was not recorded. Programs on CPUs that received packets may have lost time"
                .to_owned()
        }
        None => "measuring who loses time. Programs on CPUs that receive packets may lose time".to_owned(),
    };
    let about: Vec<Line<'_>> =
        wrap(&about, width).into_iter().map(|line| Line::styled(line, look.faint())).collect();
    let [above, below] = halves(area, about.len() as u16);
    frame.render_widget(Text::from(about), above);
    match rows {
        Some((_, rows)) => scrolled(frame, below, app, &rows, look),
        None if is_visible || shown.programs.known().is_some() => {
            frame.render_widget(Line::raw("no program lost or used a noticeable part of the time"), below)
        }
        None => frame.render_widget(Line::raw("no program is visible"), below),
    }
}

/// Findings that appeared, changed and cleared, newest first.
fn changes(frame: &mut Frame<'_>, area: Rect, app: &App, look: Look) {
    if area.height < 2 {
        return;
    }
    let [above, below] = halves(area, 1);
    frame.render_widget(title(vec![Span::styled("changes", look.strong())], area.width, look), above);
    let history = app.history();
    let lines = history.iter().rev().flat_map(|frame| frame.changed_lines());
    frame.render_widget(
        Text::from(lines.take(below.height.into()).map(|line| Line::from(clean(&line))).collect::<Vec<_>>()),
        below,
    );
}

fn overlay(frame: &mut Frame<'_>, area: Rect, app: &mut App, look: Look) {
    let inner = usize::from(area.width.saturating_sub(2));
    let (title, lines) = match app.overlays.last() {
        None => return,
        Some(Overlay::Help) => (" keys ".to_owned(), help(inner, look)),
        Some(Overlay::Finding { id, plan, .. }) => {
            let lines = match app.opened() {
                Some((finding, plans)) => findings::whole(finding, &plans, *plan, inner, look),
                None => {
                    vec![Line::raw("this finding is not in this interval: it has cleared, or came later")]
                }
            };
            (format!(" {id} "), lines)
        }
        Some(Overlay::Diff { plan, lines, is_asked }) => {
            let lines = diff(lines, *is_asked, app.origin.moment != Moment::Live, inner, look);
            (format!(" plan {} ", plan.name), lines)
        }
    };
    app.spots.retain(|(spot, _)| !spot.intersects(area));
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(title);
    let place = block.inner(area);
    frame.render_widget(block, area);
    app.rows = place.height.into();
    app.scroll = scrolled_lines(frame, place, app.scroll, lines);
}

fn help(width: usize, look: Look) -> Vec<Line<'static>> {
    let column = KEYS.iter().map(|(key, _)| key.len()).max().unwrap_or_default() + 2;
    let mut lines = Vec::new();
    for (key, what) in KEYS {
        for (number, part) in wrap(what, width.saturating_sub(column)).into_iter().enumerate() {
            let key = if number == 0 { key } else { "" };
            lines.push(Line::from(vec![
                Span::styled(format!("{key:<column$}"), look.strong()),
                Span::raw(part),
            ]));
        }
    }
    lines
}

/// The values before and after, and the question.
fn diff(
    lines: &Result<Vec<String>, String>,
    is_asked: bool,
    is_snapshot: bool,
    width: usize,
    look: Look,
) -> Vec<Line<'static>> {
    let mut shown: Vec<Line<'static>> = Vec::new();
    let mut say = |text: &str| {
        shown.extend(wrap(text, width).into_iter().map(|line| Line::styled(line, look.strong())))
    };
    match lines {
        Err(why) => say(why),
        Ok(lines) if lines.is_empty() => say("every value is already set"),
        Ok(_) if is_asked => say(
            "Set these values now? They revert after 60 s unless you confirm. The screen gives way to `rxlab apply`, \
             and returns after it. y: yes; any other key: no",
        ),
        Ok(_) if is_snapshot => say("These values would change."),
        Ok(_) => say(
            "These values would change. Nothing has been written yet; `a` applies them for 60 s, and asks first.",
        ),
    }
    if let Ok(lines) = lines {
        shown.push(Line::default());
        for line in lines {
            let style = look.diff(line);
            shown.extend(wrap(line, width).into_iter().map(|line| Line::styled(line, style)));
        }
    }
    shown
}
