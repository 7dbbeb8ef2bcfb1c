//! Keys and the mouse, and what they mean, the same in every view.

use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Position;

use super::app::View;

/// Lines that one step of the wheel moves by.
const WHEEL: i16 = 3;

/// Meaning of a key or of an event of the mouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    Quit,
    /// Stop it until the shell continues it.
    Suspend,
    /// Close what is open on top of the view.
    Back,
    View(View),
    /// The view to the right, or the next plan of a finding.
    NextView,
    /// The view to the left.
    PreviousView,
    /// Move by this number of lines.
    Lines(i16),
    /// Move by this number of screens.
    Screens(i16),
    First,
    Last,
    /// Move by this number of intervals in time.
    Intervals(i64),
    /// Stay at this moment, or return to the present.
    Pause,
    /// Another order of the rows.
    Sort,
    /// Another interface, or all.
    Filter,
    NextFinding,
    /// Open what is selected.
    Open,
    /// Show the plan of a finding as a diff.
    Diff,
    /// Begin to apply it.
    Apply,
    Yes,
    /// Heatmap in colours or in shades.
    Shades,
    /// Take clicks and the wheel, or leave them to the terminal.
    Mouse,
    /// Do what is drawn at this position.
    Click(Position),
    Help,
}

/// The help: keys, and what they do.
pub(super) const KEYS: [(&str, &str); 17] = [
    ("1-6  Tab", "switch view"),
    ("up down  j k  PgUp PgDn", "select, or scroll"),
    ("Home End", "first and last row"),
    ("left right  h l", "back and forward in time, by one interval"),
    ("[ ]", "the same by ten intervals"),
    ("p  Space", "pause; again: return to the present"),
    ("s", "sort by another column"),
    ("f", "show one interface only, then the next, then all"),
    ("n", "open the next finding"),
    ("Enter", "open the selected finding: evidence, cause, plan"),
    ("d", "show the plan as a diff of this machine's settings"),
    ("a", "apply the plan: shows the diff, asks, and reverts it unless you confirm"),
    ("g", "heatmap in colours or in shades of one colour"),
    ("click", "switch view, open finding, sort, show one interface"),
    ("m", "mouse off, so that the terminal selects text, or on"),
    ("Esc", "close what is open"),
    ("q  Ctrl-C", "quit"),
];

/// The meaning of a key; `None` for keys without one, and for releases of keys.
pub fn of_key(key: KeyEvent) -> Option<Input> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Input::Quit),
            KeyCode::Char('z') => Some(Input::Suspend),
            _ => None,
        };
    }
    Some(match key.code {
        KeyCode::Char('q') => Input::Quit,
        KeyCode::Esc | KeyCode::Backspace => Input::Back,
        KeyCode::Tab => Input::NextView,
        KeyCode::BackTab => Input::PreviousView,
        KeyCode::Up | KeyCode::Char('k') => Input::Lines(-1),
        KeyCode::Down | KeyCode::Char('j') => Input::Lines(1),
        KeyCode::PageUp => Input::Screens(-1),
        KeyCode::PageDown => Input::Screens(1),
        KeyCode::Home => Input::First,
        KeyCode::End => Input::Last,
        KeyCode::Left | KeyCode::Char('h') => Input::Intervals(-1),
        KeyCode::Right | KeyCode::Char('l') => Input::Intervals(1),
        KeyCode::Char('[') => Input::Intervals(-10),
        KeyCode::Char(']') => Input::Intervals(10),
        KeyCode::Char('p' | ' ') => Input::Pause,
        KeyCode::Char('s') => Input::Sort,
        KeyCode::Char('f') => Input::Filter,
        KeyCode::Char('n') => Input::NextFinding,
        KeyCode::Enter => Input::Open,
        KeyCode::Char('d') => Input::Diff,
        KeyCode::Char('a') => Input::Apply,
        KeyCode::Char('y') => Input::Yes,
        KeyCode::Char('g') => Input::Shades,
        KeyCode::Char('m') => Input::Mouse,
        KeyCode::Char('?') | KeyCode::F(1) => Input::Help,
        KeyCode::Char(digit) => {
            Input::View(View::ALL.get((digit as usize).wrapping_sub('1' as usize)).copied()?)
        }
        _ => return None,
    })
}

/// The meaning of an event of the mouse; `None` for releases and the other buttons.
pub fn of_mouse(event: MouseEvent) -> Option<Input> {
    match event.kind {
        MouseEventKind::Down(MouseButton::Left) => Some(Input::Click(Position::new(event.column, event.row))),
        MouseEventKind::ScrollUp => Some(Input::Lines(-WHEEL)),
        MouseEventKind::ScrollDown => Some(Input::Lines(WHEEL)),
        _ => None,
    }
}
