//! Open transactions as text: what is applied, what drifted, and who probably did it.

use super::text::{clean, paragraph};
use rxlab_change::apply::{Live, State, Suspect, TransactionStatus, ValueStatus, in_words};
use rxlab_change::journal::{BackCommand, Part};

/// All transactions, or that there are none; ends with a line break.
pub fn all(transactions: &[TransactionStatus]) -> String {
    match transactions {
        [] => "nothing is applied\n".to_owned(),
        all => all.iter().map(text).collect(),
    }
}

/// One transaction and its values; ends with a line break. Names in a journal come from other users, and a snapshot's
/// journal may come from anyone.
pub fn text(transaction: &TransactionStatus) -> String {
    let TransactionStatus { id, started, what, netns, state, values, command, seen: _, reapplied: _ } =
        transaction;
    let mut out =
        format!("transaction {}  {}\n  {}, {}\n", clean(id), standing(state), clean(what), clean(started));
    if let Some(netns) = netns {
        out += &format!("  in the network namespace {}\n", clean(&netns.path.to_string_lossy()));
    }
    for ValueStatus { knob, target, original, wanted, live, suspects } in values {
        let line = format!("{knob} {target} = {wanted}  (was {original})  {}", now(live));
        out += &format!("  {}\n", clean(&line));
        if *state != State::Unfinished && asks_who(live, suspects) {
            out += &paragraph("    ", &in_words(suspects));
        }
    }
    if let Some(BackCommand { back, directory, directory_id: _ }) = command {
        let inside = directory.as_ref().map_or_else(String::new, |directory| format!(" in {directory}"));
        out += &format!("  {}\n", clean(&format!("a shell command ran; `rxlab undo` runs{inside}: {back}")));
    }
    out
}

/// State of a transaction, in words.
pub fn standing(state: &State) -> String {
    match state {
        State::Applied => "applied".to_owned(),
        State::Unconfirmed { seconds_left, .. } if *seconds_left < 0.0 => {
            "not confirmed in time, and its journal has no revert: its guard waits or is gone, run `rxlab undo`"
                .to_owned()
        }
        State::Unconfirmed { unguarded: true, .. } => {
            "not confirmed, and no guard is running to revert it: run `rxlab undo`, or `rxlab confirm` to keep it"
                .to_owned()
        }
        State::Unconfirmed { seconds_left, .. } => {
            format!("reverts in {seconds_left:.0} s unless you run `rxlab confirm`")
        }
        State::Unfinished => {
            "unfinished: being applied or reverted, or stopped; `rxlab undo` continues".to_owned()
        }
    }
}

/// The current value, in words.
pub fn now(live: &Live) -> String {
    match live {
        Live::Kept => "kept".to_owned(),
        Live::Covered { by } => format!("left to {by}, which has set it since"),
        Live::Original => "DRIFTED: it is back at its original value".to_owned(),
        Live::Drifted { value, changed } if changed.is_empty() => format!("DRIFTED: it is {value} now"),
        Live::Drifted { changed, .. } => format!("DRIFTED in part: {} now; the rest is kept", parts(changed)),
        Live::Gone => "gone: what it was set on no longer exists".to_owned(),
        Live::Unreadable { why } => format!("unknown: {why}"),
    }
}

/// Parts of a value, such as `thread 811 = 1`.
pub fn parts(parts: &[Part]) -> String {
    parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// True if the suspects are worth printing. For a device that is gone the reason is known without any.
pub fn asks_who(live: &Live, suspects: &[Suspect]) -> bool {
    match live {
        Live::Original | Live::Drifted { .. } => true,
        Live::Gone => !suspects.is_empty(),
        Live::Kept | Live::Covered { .. } | Live::Unreadable { .. } => false,
    }
}

/// An applied transaction with RPS masks of these queues.
#[cfg(test)]
pub(crate) fn sample<const N: usize>(queues: [(&str, Live); N]) -> TransactionStatus {
    let values = queues.map(|(queue, live)| ValueStatus {
        knob: "rps".to_owned(),
        target: queue.parse().expect("a target"),
        original: "off".to_owned(),
        wanted: "0-1,3-7".to_owned(),
        live,
        suspects: Vec::new(),
    });
    TransactionStatus {
        id: "000001-092e".to_owned(),
        started: "2026-05-01T09:50:00Z".to_owned(),
        what: "apply rps".to_owned(),
        netns: None,
        seen: None,
        state: State::Applied,
        values: values.into(),
        reapplied: 0,
        command: None,
    }
}

#[cfg(test)]
mod tests {
    use super::{sample, standing, text};
    use rxlab_change::apply::{Culprit, Likelihood, Live, State, Suspect, TransactionStatus, ValueStatus};
    use rxlab_change::journal::BackCommand;
    use rxlab_setting::Target;

    #[test]
    fn nothing_reverts_without_a_guard() {
        let guarded = State::Unconfirmed { seconds_left: 9.4, unguarded: false };
        assert_eq!(standing(&guarded), "reverts in 9 s unless you run `rxlab confirm`");
        let state = guarded.without_guard();
        assert!(standing(&state).contains("no guard is running to revert it: run `rxlab undo`"));
        assert!(!TransactionStatus { state, ..sample([]) }.is_fine());
        assert!(TransactionStatus { state: guarded, ..sample([]) }.is_fine());
        assert_eq!(State::Applied.without_guard(), State::Applied);
    }

    /// A journal from a stranger's snapshot once wrote its escape sequences to the terminal.
    #[test]
    fn a_journal_does_not_control_the_terminal() {
        let evil = || "\u{1b}]0;x\u{7}".to_owned();
        let transaction = TransactionStatus {
            id: evil(),
            started: evil(),
            what: evil(),
            values: vec![ValueStatus {
                knob: evil(),
                target: Target::Host,
                original: evil(),
                wanted: evil(),
                live: Live::Drifted { value: evil(), changed: Vec::new() },
                suspects: vec![Suspect {
                    who: Culprit::NewQueues,
                    likelihood: Likelihood::Probable,
                    evidence: vec![evil()],
                }],
            }],
            command: Some(BackCommand { back: evil(), directory: Some(evil()), ..BackCommand::default() }),
            ..sample([])
        };
        let text = text(&transaction);
        assert!(text.lines().count() == 5 && text.contains("DRIFTED"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
}
