//! `docs/knobs.md`, made of what the knobs say about themselves.

use std::fmt::Write;

use super::{KNOBS, Risk};

/// The reference of all knobs in Markdown.
pub fn reference() -> String {
    let mut text = String::from(
        "# Knobs\n\n\
         What rxlab can set, in the order of applying. This file is made by `rxlab::knob::reference` and a test \
         compares it;\nrun the tests with `RXLAB_UPDATE_DOCS=1` after a change.\n\n\
         A setting is written `KNOB TARGET = VALUE`. Every write is journalled first, read back after, and undone by\n\
         `rxlab undo`; see [journal.md](journal.md).\n",
    );
    for knob in KNOBS {
        let doc = knob.doc();
        let risk = match doc.risk {
            Risk::Safe => "safe: packets keep flowing, a flow may be reordered once",
            Risk::BriefStall => "brief stall: traffic stops for milliseconds",
            Risk::LinkReset => "link reset: the link goes down and up",
        };
        write!(
            text,
            "\n## {}\n\n{}\n\n\
             - Target: {}\n- Value: {}\n- Example: `{}`\n- Kernel file: `{}`\n- Kernel documentation: {}\n\
             - Since Linux: {}\n- Risk: {risk}\n- Lost by: {}\n- Beware: {}\n",
            knob.name(),
            doc.summary,
            doc.target,
            doc.values,
            doc.example,
            doc.path,
            doc.source,
            doc.since,
            doc.lost,
            doc.beware,
        )
        .expect("writing to a string does not fail");
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    #[allow(clippy::disallowed_methods)] // The test compares, and on request renews, a file of the tree.
    fn the_file_in_docs_is_this_text() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/knobs.md");
        if std::env::var_os("RXLAB_UPDATE_DOCS").is_some() {
            std::fs::write(&path, super::reference()).expect("written");
        }
        let file = std::fs::read_to_string(&path).expect("docs/knobs.md can be read");
        assert!(file == super::reference(), "docs/knobs.md is stale: run with RXLAB_UPDATE_DOCS=1");
    }
}
