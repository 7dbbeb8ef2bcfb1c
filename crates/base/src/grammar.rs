//! Text that others chose (names of interfaces, processes, units, plans, paths) in the grammars of the programs that read
//! it. One grammar per file, with the rules that matter and their source. A test of each has that program, or a parser of
//! the same grammar, read hostile names back.
//!
//! Metrics have no file here: `prometheus-client` writes them, and a test has Prometheus read them back.

pub mod html;
pub mod sh;
pub mod systemd;
pub mod terminal;
pub mod tuned;
pub mod udev;
pub mod yaml;

/// True for a name that means itself in all of these grammars: no quote, wildcard, specifier or separator, and no dash in
/// front, which a program would take for an option. Kernels allow other names.
pub fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.@".contains(c))
}

/// Text that has tried to be something else in one of the grammars.
#[cfg(any(test, feature = "testing"))]
pub const HOSTILE: &[&str] = &[
    "",
    " ",
    "-x",
    "--help",
    "a b",
    "it's",
    "say \"x\"",
    "both'\"",
    "back\\",
    "\\",
    "\\\\x41\\n",
    "\\u{41}",
    "line\nExecStart=/bin/false",
    "cr\rlf\r\n",
    "tab\tx",
    "\u{b}\u{c}",
    "nel\u{85}x",
    "ls\u{2028}- name: injected",
    "ps\u{2029}x",
    "nbsp\u{a0}x",
    "bom\u{feff}x",
    "bell\u{7}",
    "\u{1b}[1meth0",
    "\u{1b}]0;title\u{7}",
    "c1\u{9b}2J",
    "del\u{7f}",
    "bidi\u{202e}0hte",
    "iso\u{2066}x\u{2069}",
    "zero\u{200b}width",
    "e\u{301}",
    "\u{e9}",
    "\u{435}th0",
    "eth\u{2212}0",
    "\u{1f600}",
    "100%",
    "%n%H%%",
    "$HOME ${x} $(reboot)",
    "`reboot`",
    "a;b|c&d<e>f",
    ";",
    "*?[a-z]",
    "{a,b}",
    "{{ 7 * 7 }}",
    "${f:exec:reboot}",
    "a=b",
    "# comment",
    "x # y",
    "x ; y",
    "[section]",
    "!tag &anchor *alias",
    "? key : value",
    "yes",
    "~",
    "0x1f",
    "</script><b onclick=\"x\">",
    "&lt;&#60;&amp",
    "<!--",
    "]]>",
    "a,b",
];
