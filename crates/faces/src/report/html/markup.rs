//! Writer of HTML and inline SVG that closes all elements and escapes all text.

use std::fmt::Write;

use crate::report::document::Document;
use crate::report::words::{self, Span};
use rxlab_base::grammar::html::push_text;

/// Attributes of an element: name and value; the value is escaped.
pub(super) type Attributes<'a> = &'a [(&'a str, &'a str)];

#[derive(Debug, Default)]
pub(super) struct Markup {
    out: String,
}

impl Markup {
    /// Raw text. Nothing is escaped, so it must be used for the document type and the style sheet only.
    pub(super) fn fixed(&mut self, markup: &'static str) {
        self.out.push_str(markup);
    }

    /// The element that holds a document as data.
    pub(super) fn data(&mut self, document: &Document) {
        self.out.push_str(&document.element());
        self.out.push('\n');
    }

    pub(super) fn text(&mut self, text: &str) {
        push_text(text, &mut self.out);
    }

    /// A sentence of the program.
    pub(super) fn prose(&mut self, text: &str) {
        for part in words::spans(text) {
            match part {
                Span::Words(words) => self.text(&typeset(words)),
                Span::Code(code) => self.inline("code", &[], code),
            }
        }
    }

    /// An element with content, on lines of its own.
    pub(super) fn element(&mut self, tag: &str, attributes: Attributes<'_>, body: impl FnOnce(&mut Self)) {
        self.open(tag, attributes, ">");
        self.out.push('\n');
        body(self);
        self.close(tag);
        self.out.push('\n');
    }

    /// An element with text only, on a line of its own.
    pub(super) fn leaf(&mut self, tag: &str, attributes: Attributes<'_>, text: &str) {
        self.inline(tag, attributes, text);
        self.out.push('\n');
    }

    /// An element with a sentence of the program, on a line of its own.
    pub(super) fn sentence(&mut self, tag: &str, attributes: Attributes<'_>, text: &str) {
        self.open(tag, attributes, ">");
        self.prose(text);
        self.close(tag);
        self.out.push('\n');
    }

    /// An element with text only, without white space around it.
    pub(super) fn inline(&mut self, tag: &str, attributes: Attributes<'_>, text: &str) {
        self.open(tag, attributes, ">");
        self.text(text);
        self.close(tag);
    }

    /// An element without content.
    pub(super) fn empty(&mut self, tag: &str, attributes: Attributes<'_>) {
        self.open(tag, attributes, "/>");
        self.out.push('\n');
    }

    /// An element with only a text that shows when the pointer is over it.
    pub(super) fn hinted(&mut self, tag: &str, attributes: Attributes<'_>, hint: &str) {
        self.element(tag, attributes, |m| m.inline("title", &[], hint));
    }

    /// A drawing as wide as its container and `height` pixels high. Horizontal positions inside are percentages, so
    /// that text keeps its size at every width. `title` describes the drawing.
    pub(super) fn drawing(&mut self, class: &str, height: f64, title: &str, body: impl FnOnce(&mut Self)) {
        let attributes = [
            ("class", class),
            ("width", "100%"),
            ("height", &px(height)),
            ("role", "img"),
            ("aria-label", title),
        ];
        self.element("svg", &attributes, body);
    }

    /// A drawing in cells: `columns` x `rows` units stretched to the width of the container and to `height` pixels. For
    /// areas only; text would be stretched too.
    pub(super) fn cells(
        &mut self,
        class: &str,
        (columns, rows, height): (usize, usize, f64),
        title: &str,
        body: impl FnOnce(&mut Self),
    ) {
        let attributes = [
            ("class", class),
            ("width", "100%"),
            ("height", &px(height)),
            ("viewBox", &format!("0 0 {columns} {rows}")),
            ("preserveAspectRatio", "none"),
            ("role", "img"),
            ("aria-label", title),
        ];
        self.element("svg", &attributes, body);
    }

    /// Labels next to a drawing, in a strip of `height` pixels; the drawing's own title says the same.
    pub(super) fn labels(&mut self, height: f64, body: impl FnOnce(&mut Self)) {
        let attributes =
            [("class", "labels"), ("width", "100%"), ("height", &px(height)), ("aria-hidden", "true")];
        self.element("svg", &attributes, body);
    }

    /// Labels of a vertical axis: the position of each, 0 to 1 from the top, and its text.
    pub(super) fn scale(&mut self, height: f64, labels: impl Iterator<Item = (f64, String)>) {
        self.labels(height, |m| {
            for (at, text) in labels {
                let y = px((at * height + 4.0).clamp(10.0, height - 1.0));
                m.label(("100%", &y), "end", &text);
            }
        });
    }

    /// Text in a drawing; `anchor` is the part of it that is at the position: `start`, `middle` or `end`.
    pub(super) fn label(&mut self, (x, y): (&str, &str), anchor: &str, text: &str) {
        self.leaf("text", &[("x", x), ("y", y), ("text-anchor", anchor)], text);
    }

    pub(super) fn classed_label(&mut self, class: &str, (x, y): (&str, &str), anchor: &str, text: &str) {
        self.leaf("text", &[("class", class), ("x", x), ("y", y), ("text-anchor", anchor)], text);
    }

    /// A horizontal line through a drawing, `y` pixels from the top.
    pub(super) fn rule(&mut self, class: &str, y: f64) {
        let y = px(y);
        self.empty("line", &[("class", class), ("x2", "100%"), ("y1", &y), ("y2", &y)]);
    }

    pub(super) fn finish(self) -> String {
        self.out
    }

    fn open(&mut self, tag: &str, attributes: Attributes<'_>, end: &str) {
        let _ = write!(self.out, "<{tag}");
        for (name, value) in attributes {
            let _ = write!(self.out, " {name}=\"");
            push_text(value, &mut self.out);
            self.out.push('"');
        }
        self.out.push_str(end);
    }

    fn close(&mut self, tag: &str) {
        let _ = write!(self.out, "</{tag}>");
    }
}

/// A position or length as a share of the width.
pub(super) fn percent(fraction: f64) -> String {
    trimmed(format!("{:.2}", fraction * 100.0)) + "%"
}

/// A position or length in pixels.
pub(super) fn px(value: f64) -> String {
    trimmed(format!("{value:.1}"))
}

fn trimmed(number: String) -> String {
    number.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Report text with typographic minus signs and arrows; `%` stays with its number, and intervals stay on one line.
pub(super) fn typeset(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let (mut before, mut bracketed) = (' ', false);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied().unwrap_or(' ');
        match c {
            '-' if matches!(before, ' ' | '[' | '(') && next.is_ascii_digit() => out.push('\u{2212}'),
            '-' if next == '>' => {
                rest.next();
                out.push('\u{2192}');
            }
            ' ' if (before.is_ascii_digit() && next == '%') || (bracketed && before == ',') => {
                out.push('\u{a0}')
            }
            c => out.push(c),
        }
        bracketed = (bracketed || c == '[') && c != ']';
        before = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Markup, percent, typeset};

    #[test]
    fn text_and_attributes_are_escaped() {
        let mut markup = Markup::default();
        markup.element("p", &[("title", "\"><script>")], |m| m.text("<b>&'\u{0}"));
        assert_eq!(
            markup.finish(),
            "<p title=\"&quot;&gt;&lt;script&gt;\">\n&lt;b&gt;&amp;&#39;\\u{0}</p>\n"
        );
    }

    #[test]
    fn what_backquotes_enclose_is_code() {
        let prose = |text: &str| {
            let mut markup = Markup::default();
            markup.sentence("p", &[], text);
            markup.finish()
        };
        assert_eq!(
            prose("5 % of it: `rxlab show -v` -> `a<b`"),
            "<p>5\u{a0}% of it: <code>rxlab show -v</code> \u{2192} <code>a&lt;b</code></p>\n"
        );
        assert_eq!(prose("eth`0"), "<p>eth`0</p>\n", "a character of a name");
    }

    #[test]
    fn numbers_are_short_and_text_is_typeset() {
        assert_eq!(percent(0.5), "50%");
        assert_eq!(percent(0.12345), "12.35%");
        assert_eq!(percent(1.0), "100%");
        assert_eq!(
            typeset("-51 % [-53, -49] rx-0 a -> b"),
            "\u{2212}51\u{a0}% [\u{2212}53,\u{a0}\u{2212}49] rx-0 a \u{2192} b"
        );
    }
}
