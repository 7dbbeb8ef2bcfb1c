//! State of the screen, and how keys, clicks and intervals change it.

use std::collections::VecDeque;

use ratatui::layout::{Position, Rect};

use super::input::Input;
use crate::report::findings::worst_first;
use crate::report::live::{LiveFrame, NicRow};
use rxlab_advise::diagnose::Finding;
use rxlab_advise::plan::Proposal;
use rxlab_base::units::NicName;
use rxlab_setting::Plan;

/// Intervals of a running machine that are kept to go back to.
const KEPT: usize = 600;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Heatmap, the busiest queues, findings.
    Overview,
    Queues,
    Cpus,
    /// Programs that lose time to receive work.
    LostTime,
    /// Findings, and when they changed.
    Findings,
    /// Values that rxlab applied, and those that drifted.
    Applied,
}

impl View {
    /// All views, in the order of their keys.
    pub const ALL: [Self; 6] =
        [Self::Overview, Self::Queues, Self::Cpus, Self::LostTime, Self::Findings, Self::Applied];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Queues => "Queues",
            Self::Cpus => "CPUs",
            Self::LostTime => "Lost time",
            Self::Findings => "Findings",
            Self::Applied => "Applied",
        }
    }

    /// Columns that the rows can be sorted by.
    fn orders(self) -> &'static [Order] {
        match self {
            Self::Overview | Self::Queues => {
                &[Order::Packets, Order::Interrupts, Order::Dropped, Order::Name]
            }
            Self::Cpus => &[Order::Receiving, Order::Packets, Order::Dropped, Order::Name],
            Self::LostTime => &[Order::Lost, Order::CpuTime],
            Self::Findings | Self::Applied => &[],
        }
    }

    fn neighbour(self, right: bool) -> Self {
        let at = Self::ALL.iter().position(|view| *view == self).unwrap_or_default();
        let step = if right { 1 } else { Self::ALL.len() - 1 };
        Self::ALL[(at + step) % Self::ALL.len()]
    }
}

/// A column that rows are sorted by, largest first; names ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Packets,
    Interrupts,
    Dropped,
    Receiving,
    Lost,
    CpuTime,
    Name,
}

impl Order {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Interrupts => "interrupts",
            Self::Dropped => "drops",
            Self::Receiving => "receive time",
            Self::Lost => "time lost",
            Self::CpuTime => "CPU time",
            Self::Name => "number",
        }
    }
}

/// Effect of a click.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Spot {
    View(View),
    /// Shows one interface only, then the next, then all.
    Filter,
    /// Shows this interface only, or all if it is the only one.
    Nic(NicName),
    /// Sorts the rows by this column.
    Order(Order),
    /// Opens the finding at this position of the list.
    Finding(usize),
}

/// The machine on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub host: String,
    /// What is shown of it.
    pub moment: Moment,
}

/// The time that is on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moment {
    Live,
    /// A snapshot, with the time of its second moment.
    Snapshot(String),
    Recording,
}

/// Action that the loop must take after a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// End of the program.
    Quit,
    /// Stop until continued by the shell.
    Suspend,
    /// Try the plan on a copy of the machine in memory, and answer with [`App::show_diff`].
    Rehearse(Plan),
    /// Run `rxlab apply` with this plan and a deadline.
    Apply(Plan),
}

/// Window on top of a view.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Overlay {
    Help,
    /// A finding, by rule and interface, and the plan that is selected.
    Finding {
        id: String,
        nic: Option<NicName>,
        plan: usize,
    },
    /// A plan as a diff, or why there is none.
    Diff {
        plan: Box<Plan>,
        lines: Result<Vec<String>, String>,
        is_asked: bool,
    },
}

#[derive(Debug)]
pub struct App {
    pub(super) origin: Origin,
    frames: VecDeque<LiveFrame>,
    /// Most frames that are kept.
    kept: usize,
    /// Number of the oldest frame.
    oldest: u64,
    /// Number of the frame on the screen; `None` for the newest.
    at: Option<u64>,
    pub(super) view: View,
    order: [usize; View::ALL.len()],
    pub(super) filter: Option<NicName>,
    /// Selected finding, or first row of a table.
    pub(super) selected: usize,
    /// First line of what lies on top.
    pub(super) scroll: usize,
    pub(super) overlays: Vec<Overlay>,
    /// One line for the user, until the next key.
    pub(super) message: Option<String>,
    pub(super) shades: bool,
    mouse: bool,
    /// Effects of clicks by position, as drawn last.
    pub(super) spots: Vec<(Rect, Spot)>,
    /// Rows of the table that was drawn last, for moving by screens.
    pub(super) rows: usize,
}

impl App {
    /// A screen without any interval yet.
    pub fn new(origin: Origin, filter: Option<NicName>) -> Self {
        Self {
            origin,
            frames: VecDeque::new(),
            kept: KEPT,
            oldest: 0,
            at: None,
            view: View::Overview,
            order: [0; View::ALL.len()],
            filter,
            selected: 0,
            scroll: 0,
            overlays: Vec::new(),
            message: None,
            shades: false,
            mouse: true,
            spots: Vec::new(),
            rows: 1,
        }
    }

    /// Keeps at least this many intervals.
    pub fn keep(&mut self, intervals: usize) {
        self.kept = self.kept.max(intervals);
    }

    /// Adds the newest interval.
    pub fn push(&mut self, frame: LiveFrame) {
        self.frames.push_back(frame);
        if self.frames.len() > self.kept {
            self.frames.pop_front();
            self.oldest += 1;
            self.at = self.at.map(|at| at.max(self.oldest));
        }
    }

    /// True if heatmaps are wanted in shades.
    pub fn wants_shades(&self) -> bool {
        self.shades
    }

    /// True if clicks and the wheel are wanted.
    pub fn wants_mouse(&self) -> bool {
        self.mouse
    }

    /// True if lost time is on the screen and should be measured.
    pub fn wants_lost_time(&self) -> bool {
        self.view == View::LostTime && self.at.is_none()
    }

    /// One line for the user, until the next key.
    pub fn tell(&mut self, message: String) {
        self.message = Some(message);
    }

    /// The answer to [`Request::Rehearse`].
    pub fn show_diff(&mut self, plan: Plan, lines: Result<Vec<String>, String>) {
        self.lay(Overlay::Diff { plan: plan.into(), lines, is_asked: false });
    }

    /// Frames up to the one on the screen, oldest first.
    pub(super) fn history(&self) -> Vec<&LiveFrame> {
        let count = self.at.map_or(self.frames.len(), |at| (at - self.oldest) as usize + 1);
        self.frames.iter().take(count).collect()
    }

    /// The frame on the screen; `None` before the first interval.
    pub(super) fn shown(&self) -> Option<&LiveFrame> {
        match self.at {
            None => self.frames.back(),
            Some(at) => self.frames.get((at - self.oldest) as usize),
        }
    }

    /// Seconds between the end of the shown frame and that of the newest; `None` if the newest is shown, always.
    pub(super) fn ago(&self) -> Option<f64> {
        let at = self.at?;
        let later = self.frames.iter().skip((at - self.oldest) as usize + 1);
        Some(later.map(|frame| frame.seconds).sum())
    }

    /// Interfaces that pass the filter: the one, and the devices that carry its packets.
    pub(super) fn passes(&self, frame: &LiveFrame, nic: &NicName) -> bool {
        let Some(filter) = &self.filter else { return true };
        let carries = |row: &NicRow| row.nic == *filter && row.carriers.contains(nic);
        filter == nic || frame.nics.iter().any(carries)
    }

    /// Findings that pass the filter, worst first.
    pub(super) fn findings<'a>(&self, frame: &'a LiveFrame) -> Vec<&'a Finding> {
        let mut findings = worst_first(&frame.findings);
        findings.retain(|finding| finding.nic.as_ref().is_none_or(|nic| self.passes(frame, nic)));
        findings
    }

    /// The order of the rows of the shown view.
    pub(super) fn order(&self) -> Option<Order> {
        self.view.orders().get(self.order[self.view as usize]).copied()
    }

    /// The finding that is open, and its plans.
    pub(super) fn opened(&self) -> Option<(&Finding, Vec<&Proposal>)> {
        let Some(Overlay::Finding { id, nic, .. }) = self.overlays.last() else { return None };
        let frame = self.shown()?;
        let finding = frame.findings.iter().find(|finding| finding.id == *id && finding.nic == *nic)?;
        Some((finding, plans(frame, finding)))
    }

    /// Changes the state by a key or a click.
    pub fn handle(&mut self, input: Input) -> Option<Request> {
        self.message = None;
        if let Some(Overlay::Diff { plan, lines, is_asked }) = self.overlays.last_mut() {
            let is_sure = *is_asked && input == Input::Yes;
            let plan = plan.clone();
            let may = lines.as_ref().is_ok_and(|lines| !lines.is_empty());
            // Every other answer is a no.
            *is_asked = input == Input::Apply && may && !*is_asked && self.origin.moment == Moment::Live;
            match input {
                _ if is_sure => {
                    self.overlays.clear();
                    return Some(Request::Apply(*plan));
                }
                Input::Apply if self.origin.moment != Moment::Live => {
                    self.tell("a recording cannot be changed: run this on the machine itself".to_owned());
                    return None;
                }
                Input::Apply | Input::Yes => return None,
                _ => {}
            }
        }
        match input {
            Input::Quit => return Some(Request::Quit),
            Input::Suspend => return Some(Request::Suspend),
            Input::Back => {
                self.overlays.pop();
                self.scroll = 0;
            }
            Input::Help if self.overlays.last() == Some(&Overlay::Help) => _ = self.overlays.pop(),
            Input::Help => self.lay(Overlay::Help),
            Input::View(view) => self.show(view),
            Input::NextView if !self.next_plan() => self.show(self.view.neighbour(true)),
            Input::NextView => {}
            Input::PreviousView => self.show(self.view.neighbour(false)),
            Input::Lines(by) => *self.line() = self.line().saturating_add_signed(by.into()),
            Input::Screens(by) => {
                let lines = isize::from(by).saturating_mul(self.rows.max(1).cast_signed());
                *self.line() = self.line().saturating_add_signed(lines);
            }
            Input::First => *self.line() = 0,
            Input::Last => *self.line() = usize::MAX,
            Input::Intervals(by) => self.go(by),
            Input::Pause => {
                self.at = match self.at {
                    None => self.newest(),
                    Some(_) => None,
                }
            }
            Input::Sort => {
                let count = self.view.orders().len().max(1);
                self.sort((self.order[self.view as usize] + 1) % count);
            }
            Input::Filter => self.next_filter(),
            Input::Shades => self.shades = !self.shades,
            Input::Mouse => {
                self.mouse = !self.mouse;
                let text = if self.mouse { "mouse on" } else { "mouse off: the terminal selects text" };
                self.tell(text.to_owned());
            }
            Input::Click(position) => self.click(position),
            Input::NextFinding => self.next_finding(),
            Input::Open => self.open(),
            Input::Diff | Input::Apply => return self.rehearse(),
            Input::Yes => {}
        }
        None
    }

    /// Puts something on top.
    fn lay(&mut self, overlay: Overlay) {
        self.scroll = 0;
        self.overlays.push(overlay);
    }

    /// The line that moves: of what lies on top, else of the view. Drawing keeps it within what there is.
    fn line(&mut self) -> &mut usize {
        if self.overlays.is_empty() { &mut self.selected } else { &mut self.scroll }
    }

    fn show(&mut self, view: View) {
        self.overlays.clear();
        self.view = view;
        self.selected = 0;
    }

    fn newest(&self) -> Option<u64> {
        (self.oldest + self.frames.len() as u64).checked_sub(1).filter(|_| !self.frames.is_empty())
    }

    /// Moves in time. Forward from the newest interval is the present.
    fn go(&mut self, by: i64) {
        let Some(newest) = self.newest() else { return };
        let at = self.at.unwrap_or(newest).saturating_add_signed(by);
        self.at =
            if at > newest || (at == newest && self.at.is_none()) { None } else { Some(at.max(self.oldest)) };
    }

    /// Sorts the rows by one of the view's columns.
    fn sort(&mut self, order: usize) {
        self.order[self.view as usize] = order;
        if let Some(order) = self.order() {
            self.tell(format!("sorted by {}", order.title()));
        }
    }

    fn click(&mut self, position: Position) {
        let Some((_, spot)) = self.spots.iter().find(|(area, _)| area.contains(position)) else { return };
        match spot.clone() {
            Spot::View(view) => self.show(view),
            Spot::Filter => self.next_filter(),
            Spot::Nic(nic) => {
                self.filter = if self.filter.as_ref() == Some(&nic) { None } else { Some(nic) };
                self.selected = 0;
            }
            Spot::Order(order) => {
                if let Some(at) = self.view.orders().iter().position(|other| *other == order) {
                    self.sort(at);
                }
            }
            Spot::Finding(at) => {
                self.show(View::Findings);
                self.selected = at;
                self.open();
            }
        }
    }

    fn next_filter(&mut self) {
        let Some(frame) = self.shown() else { return };
        let at = self.filter.as_ref().and_then(|nic| frame.nics.iter().position(|row| row.nic == *nic));
        let next = match (&self.filter, at) {
            (None, _) => frame.nics.first(),
            (Some(_), Some(at)) => frame.nics.get(at + 1),
            (Some(_), None) => None,
        };
        self.filter = next.map(|row| row.nic.clone());
        self.selected = 0;
    }

    /// Opens the first finding, or the one after the open one.
    fn next_finding(&mut self) {
        let Some(frame) = self.shown() else { return };
        let findings = self.findings(frame);
        let open = match self.overlays.last() {
            Some(Overlay::Finding { id, nic, .. }) => {
                findings.iter().position(|finding| finding.id == *id && finding.nic == *nic)
            }
            _ => None,
        };
        let next = open.map_or(0, |open| (open + 1) % findings.len());
        if !self.open_at(next) {
            self.tell("no findings".to_owned());
        }
    }

    /// Opens the selected finding.
    fn open(&mut self) {
        if self.view != View::Findings {
            return self.next_finding();
        }
        let Some(frame) = self.shown() else { return };
        if self.overlays.is_empty() {
            self.open_at(self.selected.min(self.findings(frame).len().saturating_sub(1)));
        }
    }

    /// Opens the finding at a position of the list; false if there is none.
    fn open_at(&mut self, at: usize) -> bool {
        let Some(frame) = self.shown() else { return false };
        let Some(finding) = self.findings(frame).get(at).copied() else { return false };
        let (id, nic) = (finding.id.clone(), finding.nic.clone());
        self.show(View::Findings);
        self.selected = at;
        self.lay(Overlay::Finding { id, nic, plan: 0 });
        true
    }

    /// Selects the next plan of the open finding; false if none is open.
    fn next_plan(&mut self) -> bool {
        let count = self.opened().map(|(_, plans)| plans.len().max(1));
        match (self.overlays.last_mut(), count) {
            (Some(Overlay::Finding { plan, .. }), Some(count)) => {
                *plan = (*plan + 1) % count;
                true
            }
            _ => false,
        }
    }

    fn rehearse(&mut self) -> Option<Request> {
        if self.overlays.is_empty() {
            self.open();
        }
        let Some(Overlay::Finding { plan, .. }) = self.overlays.last() else { return None };
        let chosen = *plan;
        let Some((_, plans)) = self.opened() else {
            self.tell("this finding has cleared".to_owned());
            return None;
        };
        match plans.get(chosen) {
            Some(proposal) => Some(Request::Rehearse(proposal.plan.clone())),
            None => {
                self.tell("no plan: the remedy is in words".to_owned());
                None
            }
        }
    }
}

/// Plans that a finding refers to.
pub(super) fn plans<'a>(frame: &'a LiveFrame, finding: &Finding) -> Vec<&'a Proposal> {
    frame.plans.iter().filter(|proposal| proposal.addresses(finding)).collect()
}
