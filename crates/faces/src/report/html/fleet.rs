//! The page of a fleet: each change with the effect on every host, findings by host, and what is applied where.

use super::markup::Markup;
use super::{effects, figure, glyph, page, tables, tone_class};
use crate::report::document::Document;
use crate::report::fleet::{Fleet, Section, shown, verdict, worst_first};
use crate::report::words;
use rxlab_base::number;
use rxlab_trial::effect::Effect;
use rxlab_trial::fleet::Pool;

/// Explains the pooled effect.
const METHOD: &str = "Each host counts once, with the pairs of the first planned look of its trial; the pooled interval is \
    Student's over the hosts. It holds for hosts like these whose trials do not disturb each other.";

/// The whole file, with the records that it was made from.
pub fn fleet_page(fleet: &Fleet, document: &Document) -> String {
    let title = fleet.title();
    page(&title, |m| {
        m.element("main", &[], |m| {
            m.element("header", &[], |m| m.leaf("h1", &[], &title));
            for (index, section) in fleet.sections().iter().enumerate() {
                article(m, section, fleet.pools.get(index));
            }
            m.element("footer", &[], |m| m.leaf("p", &[], METHOD));
        });
        m.data(document);
    })
}

fn article(m: &mut Markup, section: &Section, pool: Option<&Pool>) {
    m.element("article", &[], |m| {
        m.sentence("h2", &[], &section.heading);
        for (tone, line) in &section.lines {
            m.element("p", &[("class", &format!("finding {}", tone_class(*tone)))], |m| {
                m.inline("span", &[("class", "badge"), ("aria-hidden", "true")], glyph(*tone));
                m.text(" ");
                m.prose(line);
            });
        }
        pool.iter().for_each(|pool| forest(m, pool));
        if !section.rows.is_empty() {
            tables::figures(m, section.heads, section.rows.iter().map(|row| row.cells.clone()));
        }
    });
}

/// The effect on each host, then the pooled one.
fn forest(m: &mut Markup, pool: &Pool) {
    let looks: Vec<(String, String, Effect, _)> = worst_first(pool)
        .into_iter()
        .filter_map(|tried| {
            let note = tried.host.kernel.clone();
            Some((shown(&tried.host), note, tried.effect?, verdict(tried)))
        })
        .collect();
    let hosts = looks.iter().map(|(host, note, effect, said)| {
        effects::Row::named(host.clone(), note.clone(), Some(effect), *said)
    });
    let pooled = pool.primary().map(|primary| {
        let said = (words::call(primary.call), words::call_tone(primary.call));
        let note = number::plural(primary.hosts, "host");
        effects::Row::named("All hosts".to_owned(), note, Some(&primary.effect), said)
    });
    let rows: Vec<effects::Row<'_>> = hosts.chain(pooled).collect();
    if !rows.is_empty() {
        let margin = number::share(pool.margin);
        let caption =
            format!("Change from A to B in the trial of each host; the shaded band is \u{b1}{margin}.");
        figure(m, &pool.metric.title, &caption, |m| effects::rows(m, &rows, pool.margin));
    }
}
