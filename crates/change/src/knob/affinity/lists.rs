//! The CPUs of each thread of a process, as one value.
//!
//! `2-5` is every thread's list. The value read from a process with several threads also names the threads of
//! each list, `2-5@810,812-815;0@811` with the main thread's list first: without the numbers, once a thread
//! has ended, undo could not tell if the others are back to their old lists.
//!
//! `keep@811;2-5@810` is a value to write that leaves thread 811, and every thread that is not named, as it is.

use std::ops::RangeInclusive;

use crate::journal::Part;
use crate::knob::Parts;
use rxlab_base::units::CpuMask;

/// More threads than a kernel can have (PID_MAX_LIMIT of include/linux/threads.h).
const MAX_TID: u64 = 1 << 22;

/// Stands for every online CPU, including those that come online later: the kernel's default.
pub(in crate::knob) const ALL: &str = "all";

/// Stands for the list that a thread has.
pub(super) const KEEP: &str = "keep";

/// Lists of CPUs and the threads that have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lists {
    // The first is the main thread's. Without threads it applies to all, and is the only one.
    groups: Vec<(String, Vec<RangeInclusive<u32>>)>,
}

impl Lists {
    /// The lists of threads, of which the first is the main one.
    pub(super) fn from_threads(threads: &[(u32, String)]) -> Self {
        let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
        for (tid, list) in threads {
            match groups.iter_mut().find(|(known, _)| known == list) {
                Some((_, tids)) => tids.push(*tid),
                None => groups.push((list.clone(), vec![*tid])),
            }
        }
        let alone = threads.len() == 1;
        let runs = |tids: Vec<u32>| if alone { Vec::new() } else { runs(tids) };
        Self { groups: groups.into_iter().map(|(list, tids)| (list, runs(tids))).collect() }
    }

    /// Parses a value; `None` if it is invalid.
    pub(super) fn parse(value: &str) -> Option<Self> {
        if !value.contains('@') {
            return Some(Self { groups: vec![(canonical(value)?, Vec::new())] });
        }
        let mut count = 0u64;
        let mut group = |part: &str| {
            let (list, tids) = part.split_once('@')?;
            let runs = tids.split(',').map(run).collect::<Option<Vec<_>>>()?;
            count += runs.iter().map(|run| u64::from(run.end() - run.start()) + 1).sum::<u64>();
            (count <= MAX_TID).then_some((canonical(list)?, runs))
        };
        Some(Self { groups: value.split(';').map(&mut group).collect::<Option<Vec<_>>>()? })
    }

    /// The list of a thread. A thread that is not named was started later and has the main thread's list.
    pub(super) fn list(&self, tid: u32) -> &str {
        let named = self.groups.iter().find(|(_, runs)| runs.iter().any(|run| run.contains(&tid)));
        // Never empty: an empty text is not a value, and a process has a thread.
        named.or(self.groups.first()).map_or(ALL, |(list, _)| list)
    }

    fn names(&self, tid: u32) -> bool {
        self.groups.iter().any(|(_, runs)| runs.iter().any(|run| run.contains(&tid)))
    }

    fn has(&self, list: &str) -> bool {
        self.groups.iter().any(|(known, _)| known == list)
    }

    /// True if the thread may have this list when the process has these: its own or, for a thread started
    /// later, that of any thread that may have started it.
    fn allow(&self, tid: Option<u32>, list: &str) -> bool {
        match tid {
            Some(tid) if self.list(tid) == KEEP => true,
            Some(tid) if self.names(tid) => self.list(tid) == list,
            Some(_) => self.has(list),
            // The only thread of a process is the main one.
            None => self.groups.first().is_some_and(|(main, _)| main == list),
        }
    }

    /// True if every live thread has a list that one of `values` allows it.
    pub(super) fn explained_by(&self, values: &[&Self]) -> bool {
        let allowed = |tid, list: &str| values.iter().any(|value| value.allow(tid, list));
        self.groups.iter().all(|(list, runs)| match runs[..] {
            [] => allowed(None, list),
            _ => runs.iter().cloned().flatten().all(|tid| allowed(Some(tid), list)),
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
            for tid in runs.iter().cloned().flatten() {
                let wanted = original.list(tid);
                if wanted == live {
                    back.add(live, tid);
                } else if ours.iter().any(|value| value.allow(Some(tid), live)) {
                    mine.add(wanted, tid);
                } else {
                    foreign.add(live, tid);
                }
            }
        }
        let rest = back.0.iter().chain(&foreign.0).flat_map(|(_, tids)| tids.iter().copied());
        let keep = (KEEP.to_owned(), runs(rest.collect()));
        let groups = mine.0.iter().map(|(list, tids)| (list.clone(), runs(tids.clone())));
        let value = Self { groups: std::iter::once(keep).chain(groups).collect() }.to_string();
        Some(Parts { value, ours: mine.named(), back: back.named(), foreign: foreign.named() })
    }
}

/// Threads by their list.
#[derive(Default)]
struct Grouped(Vec<(String, Vec<u32>)>);

impl Grouped {
    fn add(&mut self, list: &str, tid: u32) {
        match self.0.iter_mut().find(|(known, _)| known == list) {
            Some((_, tids)) => tids.push(tid),
            None => self.0.push((list.to_owned(), vec![tid])),
        }
    }

    fn named(self) -> Vec<Part> {
        let named = |(value, tids): (String, Vec<u32>)| {
            let word = if tids.len() == 1 { "thread" } else { "threads" };
            Part { part: format!("{word} {}", text(&runs(tids))), value }
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

/// Runs as text, such as `810,812-815`.
fn text(runs: &[RangeInclusive<u32>]) -> String {
    let run = |run: &RangeInclusive<u32>| match (run.start(), run.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
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

fn run(text: &str) -> Option<RangeInclusive<u32>> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|n| n.to_string() == text);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let run = number(first)?..=number(last)?;
    (!run.is_empty()).then_some(run)
}

/// Numbers as runs, in rising order.
fn runs(mut numbers: Vec<u32>) -> Vec<RangeInclusive<u32>> {
    numbers.sort_unstable();
    let mut runs: Vec<RangeInclusive<u32>> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some(run) if run.end().checked_add(1) == Some(number) => *run = *run.start()..=number,
            _ => runs.push(number..=number),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::Lists;

    fn lists(value: &str) -> Lists {
        Lists::parse(value).expect(value)
    }

    fn same(want: &str, got: &str) -> bool {
        lists(got).explained_by(&[&lists(want)])
    }

    #[test]
    fn threads_with_one_list_are_one_group() {
        let text = |threads: &[(u32, &str)]| {
            let threads: Vec<_> = threads.iter().map(|(tid, list)| (*tid, (*list).to_owned())).collect();
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
        assert_eq!((lists.list(9), lists.list(11), lists.list(50)), ("7", "0-3", "0-3"));
    }

    #[test]
    fn what_is_no_value() {
        for bad in
            ["", "off", "0-3@", "@1", "0@1;", "0@1-", "0@2-1", "0@01", "0@1,x", "0@1-4294967295", "5-2"]
        {
            assert_eq!(Lists::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn reads_as_it_is_written(lists in proptest::collection::btree_map(1u32..60, "[0-9]|all", 1..20)) {
            let threads: Vec<(u32, String)> = lists.into_iter().collect();
            let lists = Lists::from_threads(&threads);
            let text = lists.to_string();
            prop_assert_eq!(Lists::parse(&text), Some(lists.clone()));
            prop_assert!(lists.explained_by(&[&lists]));
            for (tid, list) in &threads {
                prop_assert_eq!(lists.list(*tid), list);
            }
        }

        #[test]
        fn what_is_read_is_written(text in "([0-9]{1,5}|[-@;,]|all){0,12}|.{0,30}") {
            if let Some(lists) = Lists::parse(&text) {
                prop_assert!(lists.explained_by(&[&lists]) || text.contains('@'));
                prop_assert_eq!(Lists::parse(&lists.to_string()), Some(lists));
            }
        }
    }
}
