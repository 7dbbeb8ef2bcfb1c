//! The recorded machine at one moment: the last content of every entry.

use std::collections::{BTreeMap, BTreeSet};

use super::numbers::{Coding, Numbers};
use super::observer::{FAILURE, FILE, LINK, LIST, Observed};
use super::tick::{Change, Key, Tick};
use rxlab_sys::{RecordedHost, Recording};

/// Everything recorded of a machine at one tick, by key.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    entries: BTreeMap<String, Entry>,
    now_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Whole(Vec<u8>),
    Numbers(Numbers),
}

impl Entry {
    fn new(key: &str, bytes: Vec<u8>) -> Self {
        let path = key.strip_prefix(FILE);
        match path.and_then(|path| Numbers::parse(Coding::for_path(path), &bytes)) {
            Some(numbers) => Self::Numbers(numbers),
            None => Self::Whole(bytes),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Whole(bytes) => bytes.clone(),
            Self::Numbers(numbers) => numbers.render(),
        }
    }
}

impl State {
    /// What leads from here to `observed`. Entries that were not observed stay as they are, but for those below names
    /// that are no longer in their directory.
    pub(super) fn changes(&self, observed: Observed) -> Vec<(Key, Change)> {
        let mut gone = BTreeSet::new();
        let mut changes = Vec::new();
        for (key, seen) in &observed {
            if let Some(path) = key.strip_prefix(LIST) {
                self.gone_below(path, seen.as_deref().unwrap_or_default(), &mut gone);
            }
            if !key.starts_with(FAILURE) {
                // It can be read again.
                let failure = format!("{FAILURE}{}", &key[1..]);
                if !observed.contains_key(&failure) && self.entries.contains_key(&failure) {
                    gone.insert(failure);
                }
            }
        }
        gone.retain(|key| !observed.contains_key(key));
        for (key, seen) in observed {
            let before = self.entries.get(&key);
            match seen {
                None => {
                    if before.is_some() {
                        changes.push((key.into(), Change::Gone));
                    }
                }
                Some(bytes) => {
                    let after = Entry::new(&key, bytes);
                    changes.extend(change(before, after).map(|change| (key.into(), change)));
                }
            }
        }
        changes.extend(gone.into_iter().map(|key| (key.into(), Change::Gone)));
        changes
    }

    /// Adds the keys below names that `names`, a new listing of `path`, no longer has.
    fn gone_below(&self, path: &str, names: &[u8], gone: &mut BTreeSet<String>) {
        let Some(before) = self.entries.get(&format!("{LIST}{path}")).map(Entry::bytes) else { return };
        if before == names {
            return;
        }
        let now: BTreeSet<&[u8]> = listed(names).collect();
        for name in listed(&before).filter(|name| !now.contains(name)) {
            let name = String::from_utf8_lossy(name);
            for kind in [FILE, LINK, LIST, FAILURE] {
                let (own, below) = (format!("{kind}{path}/{name}"), format!("{kind}{path}/{name}/"));
                let all = self.entries.range(below.clone()..).map(|(key, _)| key);
                gone.extend(all.take_while(|key| key.starts_with(&below)).cloned());
                gone.extend(Some(own).filter(|own| self.entries.contains_key(own)));
            }
        }
    }

    /// Applies a tick. False if it does not fit: it belongs to another state.
    pub(super) fn apply(&mut self, tick: &Tick) -> bool {
        self.now_ns = tick.now_ns;
        tick.changes.iter().all(|(key, change)| match change {
            Change::Gone => self.entries.remove(&**key).is_some(),
            Change::Whole(bytes) => {
                self.entries.insert(key.to_string(), Entry::new(key, bytes.clone()));
                true
            }
            Change::Numbers(deltas) => match self.entries.get_mut(&**key) {
                Some(Entry::Numbers(numbers)) => numbers.advance(deltas),
                _ => false,
            },
        })
    }

    pub(super) fn host(&self) -> RecordedHost {
        let mut files = BTreeMap::new();
        let mut rest = Recording { now_ns: self.now_ns, ..Recording::default() };
        for (key, entry) in &self.entries {
            let bytes = entry.bytes();
            let mut characters = key.chars();
            let (kind, path) = (characters.next(), characters.as_str().to_owned());
            match kind {
                Some(FILE) => _ = files.insert(path, bytes),
                Some(LINK) => _ = rest.links.insert(path, String::from_utf8_lossy(&bytes).into_owned()),
                Some(LIST) => {
                    let names = listed(&bytes).map(|name| String::from_utf8_lossy(name).into_owned());
                    rest.lists.insert(path, names.collect());
                }
                Some(FAILURE) => {
                    if let Ok(cause) = serde_json::from_slice(&bytes) {
                        rest.failures.insert(path, cause);
                    }
                }
                _ => {}
            }
        }
        RecordedHost::from_parts(files, rest)
    }
}

fn change(before: Option<&Entry>, after: Entry) -> Option<Change> {
    if let (Some(Entry::Numbers(before)), Entry::Numbers(after)) = (before, &after)
        && let Some(deltas) = before.deltas(after)
    {
        return (!deltas.is_empty()).then_some(Change::Numbers(deltas));
    }
    (before != Some(&after)).then(|| Change::Whole(after.bytes()))
}

/// Names of a listing.
fn listed(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::State;
    use crate::recorder::observer::Seen;
    use crate::recorder::tick::{Change, Tick};
    use rxlab_sys::{Cause, Host, RecordedHost, RecordingHost};

    fn observe(state: &State, host: &RecordedHost, look: impl Fn(&dyn Host)) -> Tick {
        let observer = RecordingHost::with_notes(host, Seen::default());
        look(&observer);
        let Seen { observed, now_ns } = observer.finish();
        Tick { at_ms: 0, now_ns, is_full: true, changes: state.changes(observed) }
    }

    /// A process ends, another starts with its files, and a file can no longer be read.
    #[test]
    fn what_is_gone_is_forgotten_and_the_rest_stays() {
        let look = |host: &dyn Host| {
            for pid in host.list("proc").expect("listed") {
                let _ = host.read(&format!("proc/{pid}/stat"));
            }
            let _ = host.read("sys/secret");
        };
        let first = RecordedHost::new().with("proc/7/stat", "7 1\n").with("sys/secret", "4\n").at_ns(9);
        let mut state = State::default();
        assert!(state.apply(&observe(&state, &first, look)));
        assert!(state.apply(&observe(&state, &first, |host| drop(host.read("proc/7/comm")))));
        let second = RecordedHost::new()
            .with("proc/8/stat", "8 1\n")
            .with_failure("sys/secret", Cause::Denied)
            .at_ns(200_000);
        let tick = observe(&state, &second, look);
        assert!(tick.changes.contains(&("fproc/7/stat".into(), Change::Gone)));
        assert!(state.apply(&tick));
        let host = state.host();
        assert_eq!(host.now_ns(), 200_000);
        assert_eq!(host.list("proc").expect("listed"), ["8"]);
        assert_eq!(host.read("proc/7/stat").expect_err("ended").cause, Cause::Missing);
        assert_eq!(host.read("sys/secret").expect_err("denied").cause, Cause::Denied);
        assert!(state.apply(&observe(&state, &first, look)));
        assert_eq!(state.host().read("sys/secret").expect("readable again"), b"4\n");
        assert!(observe(&state, &first, look).changes.is_empty(), "nothing changed");
    }
}
