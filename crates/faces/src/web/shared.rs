//! Answers that take long to compute and that several requests want: each is computed once and kept for a moment.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Computations at once; who wants another one has to come back.
const RUNNING: usize = 2;
/// Answers kept.
const KEPT: usize = 4;
/// Most bytes of kept answers; the newest is kept in any case.
const KEPT_BYTES: usize = 32 << 20;
/// Time for which an answer is kept.
const FRESH: Duration = Duration::from_secs(10);
/// The same for an error: its cause may have ended.
const FRESH_ERROR: Duration = Duration::from_secs(1);
/// Longest wait for a computation that another request started.
const PATIENCE: Duration = Duration::from_secs(30);

/// A computed text, or why there is none.
pub type Computed = Result<Arc<str>, String>;

/// Computed answers by their key.
#[derive(Debug)]
pub struct Shared<K> {
    entries: Mutex<Vec<Entry<K>>>,
    news: Condvar,
}

#[derive(Debug)]
struct Entry<K> {
    key: K,
    /// `None` while it is computed.
    computed: Option<(Instant, Computed)>,
}

impl<K> Entry<K> {
    fn is_fresh(&self) -> bool {
        self.computed
            .as_ref()
            .is_none_or(|(at, computed)| at.elapsed() < if computed.is_ok() { FRESH } else { FRESH_ERROR })
    }

    fn bytes(&self) -> usize {
        self.computed.as_ref().and_then(|(_, computed)| computed.as_ref().ok()).map_or(0, |text| text.len())
    }
}

impl<K> Default for Shared<K> {
    fn default() -> Self {
        Self { entries: Mutex::new(Vec::new()), news: Condvar::new() }
    }
}

impl<K: Clone + PartialEq> Shared<K> {
    /// The answer for `key`: one that is fresh, or that another request is computing, or a new one. `None` if too many
    /// others are being computed.
    pub fn get(&self, key: &K, compute: impl FnOnce() -> Result<String, String>) -> Option<Computed> {
        let mut entries = self.entries();
        let until = Instant::now() + PATIENCE;
        loop {
            entries.retain(Entry::is_fresh);
            match entries.iter().find(|entry| entry.key == *key) {
                Some(Entry { computed: Some((_, computed)), .. }) => return Some(computed.clone()),
                Some(_) if Instant::now() < until => {
                    let left = until.saturating_duration_since(Instant::now());
                    let waited = self.news.wait_timeout(entries, left);
                    (entries, _) = waited.unwrap_or_else(PoisonError::into_inner);
                }
                Some(_) => return None,
                None if entries.iter().filter(|entry| entry.computed.is_none()).count() >= RUNNING => {
                    return None;
                }
                None => break,
            }
        }
        entries.push(Entry { key: key.clone(), computed: None });
        drop(entries);
        let unfinished = Unfinished { shared: self, key };
        let computed = compute().map(Arc::from);
        unfinished.end(computed.clone());
        Some(computed)
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry<K>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A computation: forgotten if it panics, so that the next request starts another.
struct Unfinished<'a, K: Clone + PartialEq> {
    shared: &'a Shared<K>,
    key: &'a K,
}

impl<K: Clone + PartialEq> Unfinished<'_, K> {
    fn end(self, computed: Computed) {
        let mut entries = self.shared.entries();
        let key = self.key.clone();
        entries.push(Entry { key, computed: Some((Instant::now(), computed)) });
        let done = |entries: &[Entry<K>]| entries.iter().filter(|entry| entry.computed.is_some()).count();
        // The oldest come first.
        while done(&entries) > 1
            && (done(&entries) > KEPT || entries.iter().map(Entry::bytes).sum::<usize>() > KEPT_BYTES)
            && let Some(oldest) = entries.iter().position(|entry| entry.computed.is_some())
        {
            entries.remove(oldest);
        }
    }
}

impl<K: Clone + PartialEq> Drop for Unfinished<'_, K> {
    fn drop(&mut self) {
        self.shared.entries().retain(|entry| entry.key != *self.key || entry.computed.is_some());
        self.shared.news.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};

    use super::{KEPT, KEPT_BYTES, RUNNING, Shared};

    #[test]
    fn what_many_want_is_computed_once() {
        let (shared, computed, all) = (Shared::default(), AtomicUsize::new(0), Barrier::new(8));
        std::thread::scope(|scope| {
            let texts: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        all.wait();
                        shared.get(&7, || {
                            computed.fetch_add(1, Ordering::SeqCst);
                            Ok("seven".to_owned())
                        })
                    })
                })
                .collect();
            let texts: Vec<Arc<str>> = texts
                .into_iter()
                .map(|text| text.join().expect("no panic").expect("room").expect("text"))
                .collect();
            assert!(texts.iter().all(|text| Arc::ptr_eq(text, &texts[0])), "one copy in memory");
        });
        assert_eq!(computed.into_inner(), 1);
    }

    #[test]
    fn only_some_are_computed_at_once() {
        let (shared, begun, end) = (Shared::default(), Barrier::new(RUNNING + 1), Barrier::new(RUNNING + 1));
        std::thread::scope(|scope| {
            for key in 0..RUNNING {
                let (shared, begun, end) = (&shared, &begun, &end);
                scope.spawn(move || {
                    shared.get(&key, || {
                        begun.wait();
                        end.wait();
                        Ok(String::new())
                    })
                });
            }
            begun.wait();
            assert!(shared.get(&99, || unreachable!("no room")).is_none());
            end.wait();
        });
        assert!(shared.get(&99, || Ok(String::new())).is_some(), "room again");
    }

    #[test]
    fn little_is_kept() {
        let shared = Shared::default();
        let large = "x".repeat(KEPT_BYTES / 2 + 1);
        for key in 0..3 {
            shared.get(&key, || Ok(large.clone()));
        }
        assert_eq!(shared.entries().iter().map(|entry| entry.key).collect::<Vec<_>>(), [2]);
        for key in 3..20 {
            shared.get(&key, || Err("no".to_owned()));
        }
        assert_eq!(shared.entries().len(), KEPT);
    }

    #[test]
    fn a_computation_that_panics_is_not_waited_for() {
        let shared: Shared<u8> = Shared::default();
        let panics = std::panic::AssertUnwindSafe(|| shared.get(&1, || panic!("on purpose")));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(shared.get(&1, || Ok("again".to_owned())), Some(Ok("again".into())));
    }
}
