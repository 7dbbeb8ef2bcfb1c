//! Values held by the open transactions. Pure.

use super::recover::{History, Touched};
use rxlab_sys::Namespace;

/// A value that is to stay.
pub(crate) struct Held<'a> {
    pub(crate) id: &'a str,
    pub(crate) history: &'a History,
    pub(crate) touched: Touched,
}

/// Permanent values of `open` (oldest first, as [`super::Store::open_of`] returns them): those of
/// transactions of the network namespace `here` that were finished and, if they had a deadline, confirmed. The last of several
/// values for one target counts. Reverted values and effects of shell commands are excluded; excluded transactions come
/// second, each with the reason.
pub(crate) fn kept<'a>(
    open: &'a [(String, History)],
    here: Option<&Namespace>,
) -> (Vec<Held<'a>>, Vec<(String, String)>) {
    let mut values: Vec<Held<'_>> = Vec::new();
    let mut left_out = Vec::new();
    for (id, history) in open {
        if let Some(why) = reason(history, here) {
            left_out.push((id.clone(), why));
            continue;
        }
        for touched in history.touched() {
            // Reverted: an older transaction decides the value.
            let undone = touched.outcome.as_ref().is_some_and(super::Outcome::settles);
            if !undone {
                values.retain(|other| !touched.is_same(&other.touched));
                values.push(Held { id, history, touched });
            }
        }
    }
    (values, left_out)
}

/// Why a transaction does not stay; `None` if it does.
fn reason(history: &History, here: Option<&Namespace>) -> Option<String> {
    let Some(begin) = history.begin() else { return Some("its first record is missing".to_owned()) };
    if let Some(netns) = &begin.netns {
        return Some(format!("its interfaces are in the network namespace {}", netns.path.display()));
    }
    match (&begin.home, here) {
        (Some(then), Some(now)) if !then.is_same(now) => {
            return Some("it was made in another network namespace".to_owned());
        }
        (None, Some(_)) => {
            return Some("its journal does not say in which network namespace it was made".to_owned());
        }
        _ => {}
    }
    let why = if history.pending_command().is_some() {
        "it is a shell command"
    } else if !history.is_complete() {
        "it is not finished"
    } else if history.pending_deadline().is_some() {
        "it is not confirmed"
    } else {
        return None;
    };
    Some(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Held, History, Touched, kept};
    use crate::journal::BackCommand;
    use crate::journal::record::{Begin, Intent, Outcome, Record};
    use rxlab_path::model::DeviceAddress;
    use rxlab_sys::Namespace;

    fn history(deadline: Option<u64>, netns: bool, values: &[(&str, &str)], end: &[Record]) -> History {
        let netns = netns.then(|| Namespace { path: "/run/netns/x".into(), inode: 1, cookie: None });
        let mut records = vec![Record::Begin(Begin { netns, deadline, ..Begin::sample() })];
        for (at, (nic, after)) in values.iter().enumerate() {
            records.push(Record::Intent(Intent {
                seq: at as u64 + 1,
                device: Some(DeviceAddress(format!("pci:of-{}", nic.trim_end_matches(char::is_alphabetic)))),
                ..Intent::sample("rps", &format!("{nic}/rx-0"), "off", after)
            }));
        }
        records.extend_from_slice(end);
        History { records, valid_bytes: 0 }
    }

    fn said(open: &[History]) -> (Vec<String>, Vec<(String, String)>) {
        let open: Vec<_> = open.iter().enumerate().map(|(n, h)| (n.to_string(), h.clone())).collect();
        let (values, left_out) = kept(&open, None);
        let text = |kept: &Held<'_>| {
            let Touched { knob, target, wanted, .. } = &kept.touched;
            format!("{knob} {target} = {wanted}")
        };
        (values.iter().map(text).collect(), left_out)
    }

    /// `persist` in one network namespace wrote the values of another one.
    #[test]
    fn values_of_another_namespace_are_not_kept_here() {
        let namespace = |inode: u64| Namespace { path: "/proc/self/ns/net".into(), inode, cookie: None };
        let made_in = |home: Option<Namespace>| {
            let mut own = history(None, false, &[("1a", "1")], &[Record::Complete]);
            own.records[0] = Record::Begin(Begin { home, ..Begin::sample() });
            [("1".to_owned(), own)]
        };
        let kept_at = |open: &[(String, History)], here: Option<&Namespace>| {
            let (values, left_out) = kept(open, here);
            (values.len(), left_out.into_iter().map(|(_, why)| why).collect::<Vec<_>>().join("; "))
        };
        let here = namespace(7);
        assert_eq!(kept_at(&made_in(Some(namespace(7))), Some(&here)), (1, String::new()));
        let why = "it was made in another network namespace".to_owned();
        assert_eq!(kept_at(&made_in(Some(namespace(8))), Some(&here)), (0, why));
        let why = "its journal does not say in which network namespace it was made".to_owned();
        assert_eq!(kept_at(&made_in(None), Some(&here)), (0, why));
        assert_eq!(kept_at(&made_in(None), None), (1, String::new()), "not a running machine");
    }

    #[test]
    fn the_last_value_of_what_is_to_stay() {
        let done = [Record::Complete];
        let confirmed = [Record::Complete, Record::Confirmed];
        let back = Record::Undone { seq: 1, outcome: Outcome::Restored };
        let command = Record::Command(BackCommand { back: "true".into(), ..BackCommand::default() });
        let (settings, left_out) = said(&[
            history(None, false, &[("1a", "1"), ("2a", "1")], &done),
            // The same device under another name.
            history(Some(5), false, &[("1b", "2")], &confirmed),
            history(Some(5), false, &[("1b", "3")], &done),
            history(None, false, &[("1b", "4")], &[]),
            history(None, true, &[("3a", "5")], &done),
            history(None, false, &[("2a", "6")], &[Record::Complete, back]),
            history(None, false, &[], &[command, Record::Complete]),
        ]);
        assert_eq!(settings, ["rps 2a/rx-0 = 1", "rps 1b/rx-0 = 2"]);
        let reasons = [
            ("2", "it is not confirmed"),
            ("3", "it is not finished"),
            ("4", "its interfaces are in the network namespace /run/netns/x"),
            ("6", "it is a shell command"),
        ];
        assert_eq!(left_out, reasons.map(|(id, why)| (id.to_owned(), why.to_owned())));
    }
}
