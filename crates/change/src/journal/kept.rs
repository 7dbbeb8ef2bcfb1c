//! Values held by the open transactions, as a plan. Pure.

use super::recover::{History, Touched};
use rxlab_setting::{Plan, PlannedSetting, Setting};

/// Permanent settings of `open` (oldest first, as [`super::Store::open_of`] returns them): those of
/// transactions that were finished and, if they had a deadline, confirmed. The last of several values for one
/// target counts. Reverted values, interfaces of another network namespace and effects of shell
/// commands are excluded; excluded transactions come second, each with the reason.
pub fn kept(open: &[(String, History)]) -> (Plan, Vec<(String, String)>) {
    let mut settings = Vec::new();
    let mut left_out = Vec::new();
    for (id, history) in open {
        if let Some(why) = reason(history) {
            left_out.push((id.clone(), why));
            continue;
        }
        for touched in history.touched() {
            // Reverted: an older transaction decides the value.
            let undone = touched.outcome.as_ref().is_some_and(super::Outcome::settles);
            if !undone {
                settings.retain(|(other, _): &(Touched, _)| !touched.is_same(other));
                let set = Setting::new(&touched.knob, touched.target.clone(), &touched.wanted);
                let why = format!("transaction {id}");
                let planned = PlannedSetting::new(set, why, touched.device.clone());
                settings.push((touched, planned));
            }
        }
    }
    let mut plan = Plan::new("kept", &[]);
    plan.settings = settings.into_iter().map(|(_, planned)| planned).collect();
    (plan, left_out)
}

/// Why a transaction does not stay; `None` if it does.
fn reason(history: &History) -> Option<String> {
    let Some(begin) = history.begin() else { return Some("its first record is missing".to_owned()) };
    if let Some(netns) = &begin.netns {
        return Some(format!("its interfaces are in the network namespace {}", netns.path.display()));
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
    use super::{History, kept};
    use crate::journal::BackCommand;
    use crate::journal::record::{Begin, Intent, Outcome, Record};
    use rxlab_path::model::DeviceAddress;

    fn history(deadline: Option<u64>, netns: bool, values: &[(&str, &str)], end: &[Record]) -> History {
        let netns =
            netns.then(|| rxlab_sys::Namespace { path: "/run/netns/x".into(), inode: 1, cookie: None });
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
        let (plan, left_out) = kept(&open);
        (plan.settings.iter().map(|planned| planned.set.to_string()).collect(), left_out)
    }

    #[test]
    fn the_last_value_of_what_is_to_stay() {
        let done = [Record::Complete];
        let confirmed = [Record::Complete, Record::Confirmed];
        let back = Record::Undone { seq: 1, outcome: Outcome::Restored };
        let command = Record::Command(BackCommand { back: "true".into(), directory: None });
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
