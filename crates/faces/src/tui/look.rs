//! Colours, and what replaces them where there are none.

use ratatui::style::{Color, Modifier, Style};

use crate::report::heat::{LEVELS, level};
use rxlab_advise::diagnose::Severity;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// None, or none are wanted.
    None,
    /// The eight of every terminal.
    Basic,
    /// A palette of 256 colours.
    Many,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub colours: Colours,
    /// Shades instead of colours in heatmaps.
    pub shades: bool,
}

/// From none to most, as near to the dark scale of pages (`heat::CSS`) as a palette comes: each is brighter than the one
/// before, so that they keep their order without colour vision and in greyscale.
const HEAT: [u8; LEVELS] = [233, 17, 18, 24, 31, 74, 153, 195];

/// From none to most, without colours.
const SHADES: [char; LEVELS] = [' ', '.', ':', '-', '=', '+', '#', '@'];

impl Look {
    /// True if a heatmap has colours.
    pub(super) fn is_coloured(self) -> bool {
        self.colours == Colours::Many && !self.shades
    }

    /// Colour of a share, 0 to 1.
    pub(super) fn heat(self, value: f64) -> Color {
        Color::Indexed(HEAT[level(value, 1.0)])
    }

    /// Character of a share, 0 to 1.
    pub(super) fn shade(self, value: f64) -> char {
        SHADES[level(value, 1.0)]
    }

    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Findings and figures that need attention; the mark or the figure says the same.
    pub(super) fn severity(self, severity: Severity) -> Style {
        match severity {
            Severity::Critical => self.coloured(Color::Red).add_modifier(Modifier::BOLD),
            Severity::Warning => self.coloured(Color::Yellow),
            Severity::Note => self.coloured(Color::Cyan),
        }
    }

    /// A line of a diff, by its sign.
    pub(super) fn diff(self, line: &str) -> Style {
        match line.as_bytes().first() {
            Some(b'-') => self.coloured(Color::Red),
            Some(b'+') => self.coloured(Color::Green),
            _ => Style::new(),
        }
    }

    fn coloured(self, colour: Color) -> Style {
        if self.colours == Colours::None { Style::new() } else { Style::new().fg(colour) }
    }
}
