//! A tree of lines that fits the terminal: long text continues below its start, and the lines of the tree run through.

use anstyle::Style;

use super::{columns, styled, width, wrap};

/// Minimum columns for text at any depth.
const NARROWEST: usize = 20;

/// A line of text and its children.
#[derive(Debug, Clone, Default)]
pub struct Node {
    head: String,
    text: String,
    style: Style,
    children: Vec<Node>,
}

impl Node {
    /// A node without children.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Starts the line with `head` in `style`; continued text is indented under it.
    #[must_use]
    pub fn headed(mut self, style: Style, head: impl Into<String>) -> Self {
        (self.style, self.head) = (style, head.into());
        self
    }

    /// Adds a child after the existing ones.
    pub fn push(&mut self, child: Node) {
        self.children.push(child);
    }

    /// The tree as lines of at most [`columns`] columns (for 20 levels), each ended by a line break.
    pub fn render(&self) -> String {
        let mut out = String::new();
        self.draw("", "", &mut out);
        out
    }

    /// `first` precedes the first line, `rest` all other lines of this node and its children.
    fn draw(&self, first: &str, rest: &str, out: &mut String) {
        // Below text that continues, the line to the first child starts immediately.
        let below = if self.children.is_empty() { "   " } else { "|  " };
        let room = columns().saturating_sub(width(rest) + 3).max(NARROWEST);
        let text = format!("{} {}", self.head, self.text);
        let mut head = super::clean(&self.head);
        for (number, line) in wrap(&text, room).iter().enumerate() {
            let before = if number == 0 { first.to_owned() } else { format!("{rest}{below}") };
            let line = match line.strip_prefix(&head) {
                Some(tail) if number == 0 => styled(self.style, &std::mem::take(&mut head)) + tail,
                _ => line.clone(),
            };
            out.push_str(format!("{before}{line}").trim_end());
            out.push('\n');
        }
        for (index, child) in self.children.iter().enumerate() {
            let last = index + 1 == self.children.len();
            let (branch, trunk) = if last { ("`- ", "   ") } else { ("|- ", "|  ") };
            child.draw(&format!("{rest}{branch}"), &format!("{rest}{trunk}"), out);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, prop_assert, proptest};

    use super::Node;
    use crate::report::text::{STRONG, WIDTH};

    fn plain(node: &Node) -> String {
        anstream::adapter::strip_str(&node.render()).to_string()
    }

    #[test]
    fn lines_of_the_tree_run_through_texts_that_continue() {
        let list: Vec<String> = (0..30).map(|cpu| (2 * cpu).to_string()).collect();
        let mut queue = Node::new(format!("CPUs {}", list.join(","))).headed(STRONG, "rx-0");
        queue.push(Node::new("nginx"));
        let mut nic = Node::new("virtio_net").headed(STRONG, "eth0");
        nic.push(queue);
        nic.push(Node::new("word ".repeat(20)));
        insta::assert_snapshot!(plain(&nic));
    }

    fn tree() -> impl Strategy<Value = Node> {
        let leaf = ("[a-z\u{1b}]{0,9}", "[a-z0-9, \u{1b}]{0,120}")
            .prop_map(|(head, text)| Node::new(text).headed(STRONG, head));
        leaf.prop_recursive(8, 40, 4, |inner| {
            (inner.clone(), proptest::collection::vec(inner, 0..4)).prop_map(|(mut node, children)| {
                children.into_iter().for_each(|child| node.push(child));
                node
            })
        })
    }

    proptest! {
        #[test]
        fn no_tree_is_wider_than_the_terminal(node in tree()) {
            for line in plain(&node).lines() {
                prop_assert!(line.chars().count() <= WIDTH, "{line}");
                prop_assert!(!line.ends_with(' '));
            }
        }
    }
}
