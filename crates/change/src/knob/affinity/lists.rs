//! The CPUs of each thread of a process, as one value.
//!
//! `2-5` is every thread's list. The value read from a process with several threads also names the threads of
//! each list, `2-5@810:5137,812-815:5140;0@811:5140` with the main thread's list first: without the numbers, once a
//! thread has ended, undo could not tell if the others are back to their old lists. After the colon is the start of the
//! threads, in clock ticks since boot: another thread may get the number of one that has ended. Files of earlier
//! versions lack it.
//!
//! `keep@811;2-5@810` is a value to write that leaves thread 811, and every thread that is not named, as it is.

use crate::journal::Part;
use crate::knob::Parts;
use rxlab_base::units::CpuMask;

/// More threads than a kernel can have (PID_MAX_LIMIT of include/linux/threads.h).
const MAX_TID: u64 = 1 << 22;

/// Stands for every online CPU, including those that come online later: the kernel's default.
pub(crate) const ALL: &str = "all";

/// Stands for the list that a thread has.
pub(super) const KEEP: &str = "keep";

/// A thread: its number, and its start in clock ticks since boot, `None` if unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Thread {
    pub(super) tid: u32,
    pub(super) start: Option<u64>,
}

/// Threads of consecutive numbers that started in one clock tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: u32,
    last: u32,
    start: Option<u64>,
}

impl Run {
    fn has(&self, thread: Thread) -> bool {
        let is_known_other = self.start.zip(thread.start).is_some_and(|(mine, its)| mine != its);
        (self.first..=self.last).contains(&thread.tid) && !is_known_other
    }

    fn threads(self) -> impl Iterator<Item = Thread> {
        (self.first..=self.last).map(move |tid| Thread { tid, start: self.start })
    }

    /// Its numbers, such as `812-815`.
    fn numbers(&self) -> String {
        if self.first == self.last { self.first.to_string() } else { format!("{}-{}", self.first, self.last) }
    }
}

/// Lists of CPUs and the threads that have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lists {
    // The first is the main thread's. Without threads it applies to all, and is the only one.
    groups: Vec<(String, Vec<Run>)>,
}

impl Lists {
    /// The lists of threads, of which the first is the main one.
    pub(super) fn from_threads(threads: &[(Thread, String)]) -> Self {
        let mut groups = Grouped::default();
        threads.iter().for_each(|(thread, list)| groups.add(list, *thread));
        let alone = threads.len() == 1;
        let runs = |threads| if alone { Vec::new() } else { runs(threads) };
        Self { groups: groups.0.into_iter().map(|(list, threads)| (list, runs(threads))).collect() }
    }

    /// Parses a value; `None` if it is invalid.
    pub(super) fn parse(value: &str) -> Option<Self> {
        if !value.contains('@') {
            return Some(Self { groups: vec![(canonical(value)?, Vec::new())] });
        }
        let mut count = 0u64;
        let mut group = |part: &str| {
            if part == KEEP {
                return Some((KEEP.to_owned(), Vec::new()));
            }
            let (list, tids) = part.split_once('@')?;
            let runs = tids.split(',').map(run).collect::<Option<Vec<_>>>()?;
            count += runs.iter().map(|run| u64::from(run.last - run.first) + 1).sum::<u64>();
            (count <= MAX_TID).then_some((canonical(list)?, runs))
        };
        Some(Self { groups: value.split(';').map(&mut group).collect::<Option<Vec<_>>>()? })
    }

    /// The list of a thread. A thread that is not named was started later and has the main thread's list.
    pub(super) fn list(&self, thread: Thread) -> &str {
        let named = self.groups.iter().find(|(_, runs)| runs.iter().any(|run| run.has(thread)));
        // Never empty: an empty text is not a value, and a process has a thread.
        named.or(self.groups.first()).map_or(ALL, |(list, _)| list)
    }

    fn names(&self, thread: Thread) -> bool {
        self.groups.iter().any(|(_, runs)| runs.iter().any(|run| run.has(thread)))
    }

    /// Its lists, without the threads that have them.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|(list, _)| list.as_str()).filter(|list| *list != KEEP)
    }

    pub(super) fn has(&self, list: &str) -> bool {
        self.groups.iter().any(|(known, _)| known == list)
    }

    /// True if the thread may have this list when the process has these: its own or, for a thread started
    /// later, that of any thread that may have started it.
    fn allow(&self, thread: Option<Thread>, list: &str) -> bool {
        match thread {
            Some(thread) if self.list(thread) == KEEP => true,
            Some(thread) if self.names(thread) => self.list(thread) == list,
            Some(_) => self.has(list),
            // The only thread of a process is the main one.
            None => self.groups.first().is_some_and(|(main, _)| main == list),
        }
    }

    /// True if every live thread has a list that one of `values` allows it.
    pub(super) fn explained_by(&self, values: &[&Self]) -> bool {
        let allowed = |thread, list: &str| values.iter().any(|value| value.allow(thread, list));
        self.groups.iter().all(|(list, runs)| match runs[..] {
            [] => allowed(None, list),
            _ => runs.iter().flat_map(|run| run.threads()).all(|thread| allowed(Some(thread), list)),
        })
    }

    /// Judges each thread by itself; `None` for a process with one thread, whose value has no parts.
    ///
    /// A thread that was started later and has a list of `ours` inherited it: its list is to be the main thread's.
    pub(super) fn parts(&self, original: &Self, ours: &[&Self]) -> Option<Parts> {
        let (mut mine, mut back, mut foreign) = (Grouped::default(), Grouped::default(), Grouped::default());
        for (live, runs) in &self.groups {
            if runs.is_empty() {
                return None;
            }
            for thread in runs.iter().flat_map(|run| run.threads()) {
                let wanted = original.list(thread);
                if wanted == live {
                    back.add(live, thread);
                } else if ours.iter().any(|value| value.allow(Some(thread), live)) {
                    mine.add(wanted, thread);
                } else {
                    foreign.add(live, thread);
                }
            }
        }
        let rest = back.0.iter().chain(&foreign.0).flat_map(|(_, threads)| threads.iter().copied());
        let keep = (KEEP.to_owned(), runs(rest.collect()));
        let groups = mine.0.iter().map(|(list, threads)| (list.clone(), runs(threads.clone())));
        let value = Self { groups: std::iter::once(keep).chain(groups).collect() }.to_string();
        Some(Parts { value, ours: mine.named(), back: back.named(), foreign: foreign.named() })
    }
}

/// Threads by their list.
#[derive(Default)]
struct Grouped(Vec<(String, Vec<Thread>)>);

impl Grouped {
    fn add(&mut self, list: &str, thread: Thread) {
        match self.0.iter_mut().find(|(known, _)| known == list) {
            Some((_, threads)) => threads.push(thread),
            None => self.0.push((list.to_owned(), vec![thread])),
        }
    }

    fn named(self) -> Vec<Part> {
        let named = |(value, threads): (String, Vec<Thread>)| {
            let word = if threads.len() == 1 { "thread" } else { "threads" };
            let numbers = threads.into_iter().map(|Thread { tid, .. }| Thread { tid, start: None });
            Part { part: format!("{word} {}", text(&runs(numbers.collect()))), value }
        };
        self.0.into_iter().map(named).collect()
    }
}

impl std::fmt::Display for Lists {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, (list, runs)) in self.groups.iter().enumerate() {
            let between = if number == 0 { "" } else { ";" };
            write!(f, "{between}{list}")?;
            if !runs.is_empty() {
                write!(f, "@{}", text(runs))?;
            }
        }
        Ok(())
    }
}

/// Runs as text, such as `810:5137,812-815:5140`.
fn text(runs: &[Run]) -> String {
    let run = |run: &Run| match run.start {
        Some(start) => format!("{}:{start}", run.numbers()),
        None => run.numbers(),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// A list of CPUs as the kernel writes it, or `all`.
fn canonical(list: &str) -> Option<String> {
    if [ALL, KEEP].contains(&list) {
        return Some(list.to_owned());
    }
    list.parse::<CpuMask>().ok().filter(|mask| !mask.is_empty()).map(|mask| mask.to_string())
}

fn run(text: &str) -> Option<Run> {
    let number = |text: &str| text.parse::<u64>().ok().filter(|n| n.to_string() == text);
    let tid = |text: &str| u32::try_from(number(text)?).ok();
    let (tids, start) = match text.split_once(':') {
        Some((tids, start)) => (tids, Some(number(start)?)),
        None => (text, None),
    };
    let (first, last) = tids.split_once('-').unwrap_or((tids, tids));
    let run = Run { first: tid(first)?, last: tid(last)?, start };
    (run.first <= run.last).then_some(run)
}

/// Threads as runs, in rising order.
fn runs(mut threads: Vec<Thread>) -> Vec<Run> {
    threads.sort_unstable();
    let mut runs: Vec<Run> = Vec::new();
    for Thread { tid, start } in threads {
        match runs.last_mut() {
            Some(run) if run.last.checked_add(1) == Some(tid) && run.start == start => run.last = tid,
            _ => runs.push(Run { first: tid, last: tid, start }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{Lists, Thread};

    fn thread(tid: u32) -> Thread {
        Thread { tid, start: None }
    }

    fn lists(value: &str) -> Lists {
        Lists::parse(value).expect(value)
    }

    fn same(want: &str, got: &str) -> bool {
        lists(got).explained_by(&[&lists(want)])
    }

    #[test]
    fn threads_with_one_list_are_one_group() {
        let text = |threads: &[(u32, &str)]| {
            let threads: Vec<_> =
                threads.iter().map(|(tid, list)| (thread(*tid), (*list).to_owned())).collect();
            Lists::from_threads(&threads).to_string()
        };
        assert_eq!(text(&[(10, "0-3")]), "0-3");
        assert_eq!(text(&[(10, "0-3"), (12, "0-3"), (11, "0-3"), (14, "0-3")]), "0-3@10-12,14");
        assert_eq!(text(&[(10, "all"), (11, "2"), (12, "all")]), "all@10,12;2@11");
    }

    /// A thread that once was elsewhere than the main one, and is not told apart from the others any more.
    #[test]
    fn a_thread_that_did_not_go_back_is_noticed() {
        assert!(same("0-3", "0-3@10-12"));
        assert!(!same("2-5@10;7@11", "2-5@10-11"));
        assert!(same("2-5@10;7@11", "2-5@10;7@11"));
        assert!(same("2-5@10;7@11", "2-5"), "thread 11 has ended");
        assert!(!same("2-5@10;7@11", "7"));
        assert!(same("2-5@10;7@11", "2-5@10,12;7@11,13"), "each was started by one of the two");
        assert!(!same("2-5@10;7@11", "2-5@10;7@11;0@12"));
        assert!(!same("0-3", "0-2@10;0-3@11"));
    }

    #[test]
    fn a_move_that_was_cut_short_is_a_mix() {
        let (before, after) = (lists("0-3@10-11;7@12"), lists("2"));
        assert!(lists("2@10;0-3@11;7@12").explained_by(&[&before, &after]));
        assert!(!lists("2@10;7@11;7@12").explained_by(&[&before, &after]));
    }

    fn parts(live: &str, original: &str, ours: &[&str]) -> (String, Vec<String>, Vec<String>) {
        let ours: Vec<Lists> = ours.iter().map(|value| lists(value)).collect();
        let parts = lists(live).parts(&lists(original), &ours.iter().collect::<Vec<_>>()).expect("threads");
        let [ours, foreign] =
            [parts.ours, parts.foreign].map(|all| all.iter().map(ToString::to_string).collect());
        (parts.value, ours, foreign)
    }

    #[test]
    fn each_thread_is_judged_by_itself() {
        let original = "0-3@10-11;7@12";
        let ours = [original, "2", "2@10-12"];
        let (value, restored, left) = parts("2@10,12;1@11", original, &ours);
        assert_eq!(value, "keep@11;0-3@10;7@12");
        assert_eq!(
            (restored, left),
            (vec!["thread 10 = 0-3".into(), "thread 12 = 7".into()], vec!["thread 11 = 1".into()])
        );
        assert!(
            same(&value, "0-3@10;1@11;7@12") && same(&value, "0-3@10;5@11;7@12;2@20"),
            "others may change"
        );
        assert!(!same(&value, "0-3@10;1@11;2@12"));
        let (value, restored, left) = parts("0-3@10;1@11;7@12", original, &ours);
        assert_eq!((value.as_str(), restored.len(), left.len()), ("keep@10-12", 0, 1), "10 and 12 are back");
        assert_eq!(lists("2").parts(&lists("0-3"), &[&lists("2")]), None, "one thread");
    }

    /// A thread has the affinity of the one that started it.
    #[test]
    fn threads_that_came_later_are_ours_if_they_inherited_our_list() {
        let (value, restored, left) =
            parts("2@10,20-22;1@11;5@23", "0-3@10-11", &["0-3@10-11", "2", "2@10-11"]);
        assert_eq!(value, "keep@11,23;0-3@10,20-22");
        assert_eq!(
            (restored, left),
            (vec!["threads 10,20-22 = 0-3".into()], vec!["thread 11 = 1".into(), "thread 23 = 5".into()])
        );
    }

    #[test]
    fn a_thread_that_came_later_is_given_the_main_one_s_list() {
        let lists = lists("0-3@10-11;7@9");
        assert_eq!([9, 11, 50].map(|tid| lists.list(thread(tid))), ["7", "0-3", "0-3"]);
    }

    /// The list of a thread that had ended was once given to another one with its number.
    #[test]
    fn a_number_that_was_used_again_is_another_thread() {
        let original = "0-3@10:50;7@11:60";
        let text = |value: &str| Lists::parse(value).expect(value).to_string();
        assert_eq!(text(original), original);
        let runs = "0@10:50,11-12:60,13:61,14";
        assert_eq!(text(runs), runs);
        assert_eq!(lists(original).list(Thread { tid: 11, start: Some(70) }), "0-3");
        assert_eq!(lists(original).list(thread(11)), "7", "a value of an earlier version");
        assert!(same(original, "0-3@10:50;7@11:60") && same(original, "0-3@10:50,11:70"));
        assert!(!same(original, "7@10:50;0-3@11:60"));
        let (value, restored, left) =
            parts("2@10:50,11:70;5@12:80", original, &[original, "2", "2@10:50,11:60"]);
        assert_eq!(value, "keep@12:80;0-3@10:50,11:70", "it inherited our list from another thread");
        let expected = (vec!["threads 10-11 = 0-3".to_owned()], vec!["thread 12 = 5".to_owned()]);
        assert_eq!((restored, left), expected);
        let (value, ..) = parts("7@11:70;0-3@10:50", original, &[original, "2"]);
        assert_eq!(value, "keep@10:50;0-3@11:70");
        let (value, ..) = parts("2@10:50,11:70", original, &["2"]);
        assert_eq!((value.as_str(), text(&value)), ("keep;0-3@10:50,11:70", value.clone()), "none is kept");
    }

    #[test]
    fn what_is_no_value() {
        for bad in [
            "",
            "off",
            "0-3@",
            "@1",
            "0@1;",
            "0@1-",
            "0@2-1",
            "0@01",
            "0@1,x",
            "0@1-4294967295",
            "5-2",
            "0@1:",
            "0@1:05",
        ] {
            assert_eq!(Lists::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn reads_as_it_is_written(
            lists in proptest::collection::btree_map(1u32..60, ("[0-9]|all", proptest::option::of(1u64..4)), 1..20)
        ) {
            let one = |(tid, (list, start))| (Thread { tid, start }, list);
            let threads: Vec<(Thread, String)> = lists.into_iter().map(one).collect();
            let lists = Lists::from_threads(&threads);
            let text = lists.to_string();
            prop_assert_eq!(Lists::parse(&text), Some(lists.clone()));
            prop_assert!(lists.explained_by(&[&lists]));
            for (thread, list) in &threads {
                prop_assert_eq!(lists.list(*thread), list);
            }
        }

        #[test]
        fn what_is_read_is_written(text in "([0-9]{1,5}|[-@;,:]|all){0,12}|.{0,30}") {
            if let Some(lists) = Lists::parse(&text) {
                prop_assert!(lists.explained_by(&[&lists]) || text.contains('@'));
                prop_assert_eq!(Lists::parse(&lists.to_string()), Some(lists));
            }
        }
    }
}
