//! `rss_context`: further RSS tables, for the flows that rules send there.

use rustix::io::Errno;

use super::error::Meanings;
use super::rss::{NO_TABLE, entries, form, shown, table_of};
use super::{Knob, KnobError, Result, Site};
use crate::journal::Armed;
use rxlab_base::parse::ethtool::{Rss, rss_contexts};
use rxlab_path::model::{Model, Nic};
use rxlab_setting::Target;
use rxlab_sys::{Action, EthtoolChange, EthtoolGet};

/// One RSS context in addition to the default one.
///
/// Kernel: `Documentation/networking/scaling.rst`, "RSS". It exists with a table, or does not exist.
pub(super) struct RssContext;

const NONE: &str = "none";
const TOO_OLD: &str =
    "the driver has no RSS contexts, or this kernel cannot list them (Linux can since 6.12)";

const MEANINGS: Meanings = &[
    (Errno::EXIST, "the kernel gave it another number; ask for the lowest free one. Nothing was changed"),
    (Errno::BUSY, "flow rules lead to it; remove them first"),
    (Errno::INVAL, "the driver does not accept this table, or the device lost one of its queues"),
    (Errno::NOSPC, "the device has no room for another context"),
];

/// The interface and the number of the context.
fn find(site: Site<'_>) -> Result<(&Nic, u32)> {
    match site.target {
        Target::Context { nic, id } => Ok((site.known_nic(nic)?, *id)),
        _ => Err(site.wrong("an RSS context (NIC/context-N)")),
    }
}

fn contexts(site: Site<'_>, nic: &Nic) -> Result<Vec<Rss>> {
    site.ethtool(EthtoolGet::RssContexts, nic, rss_contexts).map_err(|error| error.or_lacks(TOO_OLD))
}

/// A table for a context has as many entries as the default one.
fn size(site: Site<'_>, nic: &Nic) -> Result<usize> {
    let (_, rss) = shown(site, nic).map_err(|error| error.or_lacks(NO_TABLE))?;
    Ok(rss.table.len())
}

/// Refuses to go on if the driver would delete contexts with the change: see [`rxlab_path::drivers::RuleLoss`].
pub(super) fn keep_all_of_driver(site: Site<'_>) -> Result {
    let nic = site.nic()?;
    if !nic.driver_facts().deletes_rules.channels {
        return Ok(());
    }
    match site.ethtool(EthtoolGet::RssContexts, nic, rss_contexts) {
        Ok(contexts) => contexts.first().map_or(Ok(()), |first| {
            let ids: Vec<String> = contexts.iter().map(|rss| rss.context.to_string()).collect();
            let (nic, s) = (&nic.name, if ids.len() == 1 { "" } else { "s" });
            Err(site.unrestorable(format!(
                "RSS context{s} {}, which {nic} would lose: remove first, as with `ethtool -X {nic} context {} delete`",
                ids.join(", "),
                first.context
            )))
        }),
        // No contexts, or a kernel before 6.12, which lists none.
        Err(KnobError::Unsupported { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

impl Knob for RssContext {
    fn name(&self) -> &'static str {
        "rss_context"
    }

    /// Existing contexts; others can be created.
    fn targets(&self, model: &Model) -> Vec<Target> {
        let all = model.nics.iter().flat_map(|nic| {
            nic.hardware.rss_contexts.known().into_iter().flatten().map(move |rss| (nic, rss))
        });
        all.map(|(nic, rss)| Target::Context { nic: nic.name.clone(), id: rss.context }).collect()
    }

    fn check(&self, site: Site<'_>, value: &str) -> Result<String> {
        let (nic, id) = find(site)?;
        let is_there = contexts(site, nic)?.iter().any(|rss| rss.context == id);
        if value == NONE && is_there {
            return Err(site.unrestorable(format!(
                "its hash key, function and fields, which the driver chooses for a new context: remove it with \
                 `ethtool -X {} context {id} delete`",
                nic.name
            )));
        }
        if value == NONE {
            return Ok(NONE.to_owned());
        }
        let table = table_of(site, nic, value, size(site, nic)?)?;
        Ok(form::text(&table, None))
    }

    fn read(&self, site: Site<'_>) -> Result<String> {
        let (nic, id) = find(site)?;
        let contexts = contexts(site, nic)?;
        let found = contexts.iter().find(|rss| rss.context == id);
        Ok(found.map_or_else(|| NONE.to_owned(), |rss| form::text(&rss.table, None)))
    }

    fn write(&self, site: Site<'_>, value: &str, _armed: &Armed) -> Result {
        let (nic, id) = find(site)?;
        let there = contexts(site, nic)?.into_iter().find(|rss| rss.context == id);
        let change = match (there, value == NONE) {
            (None, true) => return Ok(()),
            (Some(_), true) => EthtoolChange::NoContext { id },
            (Some(rss), false) => {
                EthtoolChange::Context { id, queues: entries(site, value, rss.table.len())? }
            }
            (None, false) => {
                EthtoolChange::NewContext { id, queues: entries(site, value, size(site, nic)?)? }
            }
        };
        let action = Action::EthtoolIoctl { nic: nic.name.clone(), change };
        site.act(value, &action, MEANINGS).map_err(|error| error.or_lacks(TOO_OLD))
    }
}

#[cfg(test)]
mod tests {
    use super::{EthtoolGet, RssContext};
    use crate::knob::testbed::{answer, check, path, read, refusal, refusing, write};
    use rxlab_sys::{Cause, RecordedHost};

    /// Synthetic: no available machine has RSS contexts. A table of four, and the context 1.
    fn host() -> RecordedHost {
        let table = |queues: [u32; 4]| queues.map(u32::to_ne_bytes).concat();
        let context = answer(&[(2, &1u32.to_ne_bytes()), (4, &table([1, 1, 1, 1]))]);
        RecordedHost::new()
            .with(&path(EthtoolGet::Rss), answer(&[(4, &table([0, 1, 0, 1]))]))
            .with(&path(EthtoolGet::RssContexts), context)
    }

    #[test]
    fn a_context_comes_and_goes() {
        let host = host();
        let read = |at: &str| read(&RssContext, &host, at).expect("readable");
        let set = |at: &str, value: &str| {
            let value = check(&RssContext, &host, at, value).expect(value);
            write(&RssContext, &host, at, &value).expect("written");
        };
        assert_eq!(
            (read("eth0/context-1").as_str(), read("eth0/context-2").as_str()),
            ("weights 0,1", "none")
        );
        set("eth0/context-2", "equal 2");
        set("eth0/context-1", "weights 1,3");
        assert_eq!(
            (read("eth0/context-1").as_str(), read("eth0/context-2").as_str()),
            ("weights 1,3", "equal 2")
        );
        for at in ["eth0/context-2", "eth0/context-2"] {
            write(&RssContext, &host, at, "none").expect("written");
        }
        set("eth0/context-2", "none");
        assert_eq!(
            (read("eth0/context-1").as_str(), read("eth0/context-2").as_str()),
            ("weights 1,3", "none")
        );
    }

    /// Undo made it again with another key and function.
    #[test]
    fn a_context_is_not_removed() {
        let error = refusal(&RssContext, &host(), "eth0/context-1", "none");
        let expected = "rss_context eth0/context-1: undo could not restore its hash key, function and fields, which the driver \
                        chooses for a new context: remove it with `ethtool -X eth0 context 1 delete`";
        assert_eq!(error, expected);
        assert_eq!(
            check(&RssContext, &host(), "eth0/context-2", "none").as_deref(),
            Ok("none"),
            "there is none"
        );
    }

    #[test]
    fn refusals_are_one_line() {
        let says = |host: &RecordedHost, at: &str, value: &str| refusal(&RssContext, host, at, value);
        assert_eq!(
            says(&host(), "eth0", "none"),
            "rss_context acts on an RSS context (NIC/context-N), not on eth0"
        );
        assert!(
            says(&host(), "eth0/context-1", "equal 3").ends_with("eth0 has 2 receive queues, and no rx-2")
        );
        assert!(says(&host(), "eth0/context-1", "default").contains("expected default, equal N"));
        let old = RecordedHost::new();
        assert!(says(&old, "eth0/context-1", "none").contains("Linux can since 6.12"));
        let other_number = refusing(host(), "rss-contexts-get/eth0", Cause::Errno(17));
        let error = write(&RssContext, &other_number, "eth0/context-5", "equal 2").expect_err("refused");
        assert_eq!(
            error.to_string(),
            "rss_context eth0/context-5 = equal 2: the kernel rejected it: the kernel gave it another number; ask \
             for the lowest free one. Nothing was changed"
        );
    }
}
