//! Events for any number of readers, each at its own pace; the newest are kept for readers that come later.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Most bytes of kept events.
const MOST_BYTES: usize = 16 << 20;
/// Most events that a reader is given at once: a slow one keeps no more in memory.
const BATCH: usize = 16;

/// An event, as server-sent events have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Start of the server, in milliseconds since 1970: numbers begin again with it.
    pub epoch: u128,
    /// Its number, from 1.
    pub number: u64,
    pub name: &'static str,
    /// One line of JSON.
    pub data: String,
}

impl Event {
    /// The event in the format of a `text/event-stream` (HTML Standard, server-sent events).
    pub fn as_text(&self) -> String {
        format!("id: {}-{}\nevent: {}\ndata: {}\n\n", self.epoch, self.number, self.name, self.data)
    }
}

/// Keeps events and wakes readers.
#[derive(Debug)]
pub struct Hub {
    epoch: u128,
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
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
        Self { epoch, most, kept: Mutex::default(), news: Condvar::new() }
    }

    /// The number of the event with this id, which a reader that comes back has; 0 for an id of another server, from
    /// before a restart, and for any other text.
    pub fn number(&self, id: &str) -> u64 {
        let number = id.split_once('-').filter(|(epoch, _)| *epoch == self.epoch.to_string());
        number.and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
    }

    /// Adds an event. `data` must be one line: a line feed would end the event.
    pub fn publish(&self, name: &'static str, data: String) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last += 1;
        kept.bytes += data.len();
        let (epoch, number) = (self.epoch, kept.last);
        kept.events.push_back(Arc::new(Event { epoch, number, name, data }));
        while kept.events.len() > 1 && (kept.events.len() > self.most || kept.bytes > MOST_BYTES) {
            kept.bytes -= kept.events.pop_front().map_or(0, |event| event.data.len());
        }
        drop(kept);
        self.news.notify_all();
    }

    /// Returns the first kept events after the one with this number; waits up to `patience` if there are none.
    pub fn after(&self, number: u64, patience: Duration) -> Vec<Arc<Event>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (kept, _) = self
            .news
            .wait_timeout_while(kept, patience, |kept| kept.last <= number)
            .unwrap_or_else(PoisonError::into_inner);
        kept.events.iter().filter(|event| event.number > number).take(BATCH).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BATCH, Hub};

    #[test]
    fn late_readers_get_what_is_kept() {
        let hub = Hub::new(2);
        ["1", "2", "3"].into_iter().for_each(|data| hub.publish("frame", data.to_owned()));
        let texts = |number| -> Vec<String> {
            hub.after(number, Duration::ZERO).iter().map(|event| event.as_text()).collect()
        };
        let text = |number: u64| format!("id: {}-{number}\nevent: frame\ndata: {number}\n\n", hub.epoch);
        assert_eq!(texts(0), [text(2), text(3)]);
        assert_eq!(texts(2).len(), 1);
        assert_eq!(texts(3), Vec::<String>::new());
    }

    /// A reader of the server before the restart had more events than this one has published.
    #[test]
    fn a_reader_from_before_a_restart_begins_again() {
        let before = Hub { epoch: 1, ..Hub::new(9) };
        let hub = Hub { epoch: 2, ..Hub::new(9) };
        (0..5).for_each(|_| before.publish("frame", String::new()));
        hub.publish("frame", String::new());
        let id = |hub: &Hub| {
            hub.after(0, Duration::ZERO).last().map(|event| format!("{}-{}", event.epoch, event.number))
        };
        let last = id(&before).expect("an event");
        assert_eq!((before.number(&last), hub.number(&last)), (5, 0));
        assert_eq!(hub.number(&id(&hub).expect("an event")), 1);
        for odd in ["", "5", "2-", "2--1", "2-99999999999999999999", "x-1"] {
            assert_eq!(hub.number(odd), 0, "{odd}");
        }
    }

    #[test]
    fn a_slow_reader_has_few_events_in_memory() {
        let hub = Hub::new(100);
        (0..50).for_each(|_| hub.publish("frame", String::new()));
        assert_eq!(hub.after(0, Duration::ZERO).len(), BATCH);
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
