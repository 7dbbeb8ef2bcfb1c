//! Events for any number of readers, each at its own pace; the newest are kept for readers that come later.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Most bytes of kept events.
const MOST_BYTES: usize = 16 << 20;

/// An event, as server-sent events have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number, from 1.
    pub id: u64,
    pub name: &'static str,
    /// One line of JSON.
    pub data: String,
}

impl Event {
    /// The event in the format of a `text/event-stream` (HTML Standard, server-sent events).
    pub fn as_text(&self) -> String {
        format!("id: {}\nevent: {}\ndata: {}\n\n", self.id, self.name, self.data)
    }
}

/// Keeps events and wakes readers.
#[derive(Debug)]
pub struct Hub {
    /// Events kept at most.
    most: usize,
    kept: Mutex<Kept>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    last: u64,
}

impl Hub {
    /// A hub that keeps the newest `most` events, fewer if they are large.
    pub fn new(most: usize) -> Self {
        Self { most, kept: Mutex::default(), news: Condvar::new() }
    }

    /// Adds an event. `data` must be one line: a line feed would end the event.
    pub fn publish(&self, name: &'static str, data: String) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last += 1;
        kept.bytes += data.len();
        let id = kept.last;
        kept.events.push_back(Arc::new(Event { id, name, data }));
        while kept.events.len() > 1 && (kept.events.len() > self.most || kept.bytes > MOST_BYTES) {
            kept.bytes -= kept.events.pop_front().map_or(0, |event| event.data.len());
        }
        drop(kept);
        self.news.notify_all();
    }

    /// Returns the kept events after the one with the number `id`; waits up to `patience` if there are none.
    pub fn after(&self, id: u64, patience: Duration) -> Vec<Arc<Event>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (kept, _) = self
            .news
            .wait_timeout_while(kept, patience, |kept| kept.last <= id)
            .unwrap_or_else(PoisonError::into_inner);
        kept.events.iter().filter(|event| event.id > id).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Hub;

    #[test]
    fn late_readers_get_what_is_kept() {
        let hub = Hub::new(2);
        ["1", "2", "3"].into_iter().for_each(|data| hub.publish("frame", data.to_owned()));
        let texts = |id| -> Vec<String> {
            hub.after(id, Duration::ZERO).iter().map(|event| event.as_text()).collect()
        };
        assert_eq!(texts(0), ["id: 2\nevent: frame\ndata: 2\n\n", "id: 3\nevent: frame\ndata: 3\n\n"]);
        assert_eq!(texts(2).len(), 1);
        assert_eq!(texts(3), Vec::<String>::new());
    }

    #[test]
    fn large_events_push_out_old_ones() {
        let hub = Hub::new(100);
        (0..3).for_each(|_| hub.publish("frame", "x".repeat(7 << 20)));
        assert_eq!(hub.after(0, Duration::ZERO).len(), 2);
    }

    #[test]
    fn a_waiting_reader_is_woken() {
        let hub = Hub::new(2);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| hub.after(0, Duration::from_secs(60)));
            hub.publish("frame", String::new());
            assert_eq!(reader.join().expect("woken").len(), 1);
        });
    }
}
