//! A table that fits the terminal with any content.

use anstyle::Style;

use super::{FAINT, clean, columns, longest_word, styled, width, wrap_clean};

const GAP: usize = 2;
/// Minimum width of a wrapping column while other columns can shrink.
const NARROWEST: usize = 6;

#[derive(Debug, Clone)]
pub struct Column {
    title: String,
    /// True if cells are aligned right.
    is_number: bool,
    wraps: bool,
}

/// A column of words that keeps its width while others can shrink.
pub fn left(title: &str) -> Column {
    Column { title: title.to_owned(), is_number: false, wraps: false }
}

/// A column of words that wraps when the table is too wide.
pub fn wrapping(title: &str) -> Column {
    Column { wraps: true, ..left(title) }
}

/// A column of numbers.
pub fn right(title: &str) -> Column {
    Column { is_number: true, ..left(title) }
}

/// One cell: text, clean so that its width is known, and a style for it.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub fn styled(style: Style, text: impl Into<String>) -> Self {
        Self { text: clean(&text.into()), style }
    }

    /// A value that may be absent, then `-`.
    pub fn or_dash(value: Option<impl ToString>) -> Self {
        value.map_or_else(|| "-".to_owned(), |value| value.to_string()).into()
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(Style::new(), text)
    }
}

/// Rows under a heading.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    indent: usize,
    headed: bool,
}

impl Table {
    /// An empty table of at most 20 columns.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new(), indent: 0, headed: true }
    }

    pub fn indented(mut self, indent: usize) -> Self {
        self.indent = indent;
        self
    }

    pub fn without_titles(mut self) -> Self {
        self.headed = false;
        for column in &mut self.columns {
            column.title.clear();
        }
        self
    }

    /// Adds a row; missing cells are empty, surplus cells are a bug in the caller.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().collect();
        debug_assert!(row.len() <= self.columns.len(), "a row has more cells than the table has columns");
        row.resize(self.columns.len(), Cell::default());
        self.rows.push(row);
    }

    /// The table as lines, each at most [`columns`] columns and ended by a line break.
    pub fn render(&self) -> String {
        let widths = self.widths();
        let head: Vec<Cell> =
            self.columns.iter().map(|column| Cell::styled(FAINT, column.title.clone())).collect();
        self.headed
            .then_some(&head)
            .into_iter()
            .chain(&self.rows)
            .map(|row| self.lines(row, &widths))
            .collect()
    }

    fn lines(&self, row: &[Cell], widths: &[usize]) -> String {
        let cells: Vec<Vec<String>> = row
            .iter()
            .zip(widths)
            .map(|(cell, room)| {
                if width(&cell.text) <= *room {
                    vec![cell.text.trim_end().to_owned()]
                } else {
                    wrap_clean(&cell.text, *room)
                }
            })
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let mut out = String::new();
        for number in 0..height {
            let mut line = " ".repeat(self.indent);
            // Padding is added only before the next text, so that no line ends in blanks.
            let mut owed = 0;
            for (index, (cell, room)) in cells.iter().zip(widths).enumerate() {
                let text = cell.get(number).map_or("", String::as_str);
                let free = room - width(text);
                if !text.is_empty() {
                    let before = if self.columns[index].is_number { free } else { 0 };
                    line.push_str(&" ".repeat(owed + before));
                    line.push_str(&styled(row[index].style, text));
                    owed = free - before;
                } else {
                    owed += free;
                }
                owed += GAP;
            }
            out.push_str(line.trim_end_matches(' '));
            out.push('\n');
        }
        out
    }

    /// Natural widths; then the widest wrapping column shrinks until the line fits, down to its longest word. If that
    /// is not enough, every column shrinks, and only then are words broken.
    fn widths(&self) -> Vec<usize> {
        let (mut widths, mut words): (Vec<usize>, Vec<usize>) =
            self.columns.iter().map(|column| (width(&column.title), longest_word(&column.title))).unzip();
        for row in &self.rows {
            for ((room, word), cell) in widths.iter_mut().zip(&mut words).zip(row) {
                *room = (*room).max(width(&cell.text));
                *word = (*word).max(longest_word(&cell.text));
            }
        }
        let room = columns().saturating_sub(self.indent + GAP * widths.len().saturating_sub(1));
        let narrowest = vec![NARROWEST; widths.len()];
        let whole_words: Vec<usize> = words.iter().map(|word| *word.max(&NARROWEST)).collect();
        let none = vec![1; widths.len()];
        for (all, floors) in [(false, &whole_words), (true, &words), (false, &narrowest), (true, &none)] {
            while widths.iter().sum::<usize>() > room {
                let gives =
                    |index: &usize| (all || self.columns[*index].wraps) && widths[*index] > floors[*index];
                let Some(widest) = (0..widths.len()).filter(gives).max_by_key(|index| widths[*index]) else {
                    break;
                };
                widths[widest] -= 1;
            }
        }
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::{Cell, Table, left, right, wrapping};
    use crate::report::text::{BAD, WIDTH};
    use proptest::prelude::{Strategy, any, prop_assert, proptest};

    #[test]
    fn columns_line_up_and_long_lists_continue() {
        let mut table = Table::new([left("NIC"), right("IRQ"), wrapping("CPUs")]);
        let list: Vec<String> = (0..40).map(|cpu| (2 * cpu).to_string()).collect();
        table.row(["eth0".into(), "24".into(), list.join(",").into()]);
        table.row(["enp95s0".into(), "143".into(), "0-127".into()]);
        let text = anstream::adapter::strip_str(&table.render()).to_string();
        insta::assert_snapshot!(text, @r"
        NIC      IRQ  CPUs
        eth0      24  0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42,44,
                      46,48,50,52,54,56,58,60,62,64,66,68,70,72,74,76,78
        enp95s0  143  0-127
        ");
    }

    /// Regression: words in narrow columns were broken while other columns had room.
    #[test]
    fn a_word_is_whole_while_another_column_can_give() {
        let mut table = Table::new([wrapping("metric"), wrapping("change")]);
        let changes = "a b c d e f g h i j k l m n o p q r s t u v w x y z ".repeat(3);
        table.row(["throughput".into(), changes.into()]);
        assert!(anstream::adapter::strip_str(&table.render()).to_string().contains("throughput  a b c"));
    }

    fn cell() -> impl Strategy<Value = Cell> {
        ("[a-z0-9,\u{1b} ]{0,120}", any::<bool>())
            .prop_map(|(text, bad)| if bad { Cell::styled(BAD, text) } else { Cell::from(text) })
    }

    proptest! {
        #[test]
        fn no_table_is_wider_than_the_terminal(rows in proptest::collection::vec(proptest::collection::vec(cell(), 5), 0..8)) {
            let mut table = Table::new([
                wrapping("one"),
                right("two"),
                right("a long heading of a column"),
                left("four"),
                wrapping("five"),
            ]).indented(2);
            rows.into_iter().for_each(|row| table.row(row));
            for line in anstream::adapter::strip_str(&table.render()).to_string().lines() {
                prop_assert!(line.chars().count() <= WIDTH, "{line}");
                prop_assert!(!line.ends_with(' '));
            }
        }
    }
}
