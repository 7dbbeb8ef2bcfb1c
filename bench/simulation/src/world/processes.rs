//! Simulated processes: threads that start with the CPUs of the one that starts them, pin themselves and end, while
//! their numbers are used again.

use rxlab_base::units::{CpuId, CpuMask};

use super::kernel::{ALL_CPUS, Value};

/// Threads that a process can have at one time.
pub(crate) const MAX_THREADS: u8 = 4;

#[derive(Debug, Clone)]
pub(crate) struct Thread {
    /// In clock ticks since boot; no other thread has it.
    pub(crate) start: u64,
    pub(crate) cpus: Value,
}

/// A process. The position of a thread is that of its number.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// The first is the main one.
    pub(crate) threads: Vec<Option<Thread>>,
}

impl Process {
    /// With a thread besides the main one.
    pub(crate) fn new(pid: u32, starts: [u64; 2], cpus: u64) -> Self {
        let thread = |start| Some(Thread { start, cpus: Value::new(cpus) });
        let mut threads: Vec<Option<Thread>> = starts.into_iter().map(thread).collect();
        threads.resize(usize::from(MAX_THREADS), None);
        Self { pid, threads }
    }

    pub(crate) fn main(&self) -> &Thread {
        // The main thread ends with the process, which another one replaces at once.
        self.threads[0].as_ref().expect("a process has a main thread")
    }

    pub(crate) fn thread(&self, tid: u32) -> Option<&Thread> {
        self.threads.get(usize::try_from(tid.checked_sub(self.pid)?).ok()?)?.as_ref()
    }

    /// The threads with their numbers.
    pub(crate) fn alive(&self) -> impl Iterator<Item = (u32, &Thread)> {
        (self.pid..).zip(&self.threads).filter_map(|(tid, thread)| Some((tid, thread.as_ref()?)))
    }

    /// A thread starts another one, with the first number that is free.
    pub(crate) fn start(&mut self, parent: u8, start: u64) {
        let alive: Vec<usize> = (0..self.threads.len()).filter(|at| self.threads[*at].is_some()).collect();
        let parent = alive[usize::from(parent) % alive.len()];
        let (Some(parent), Some(free)) =
            (self.threads[parent].clone(), self.threads.iter().position(Option::is_none))
        else {
            return;
        };
        // It may go back to the list of the main thread, or to that of the one that started it.
        let main = self.main().cpus.originals.clone();
        let cpus = parent.cpus.inherited(&main);
        self.threads[free] = Some(Thread { start, cpus });
    }

    /// A thread ends, unless it is the main one.
    pub(crate) fn end(&mut self, thread: u8) {
        if let Some(thread) = self.threads.get_mut(usize::from(thread)).filter(|_| thread > 0) {
            *thread = None;
        }
    }
}

/// A control group of version 1 with its own CPUs, none of which stands for all of its parent.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) inode: u64,
    pub(crate) name: String,
    pub(crate) exists: bool,
    pub(crate) cpus: Value,
}

impl Group {
    pub(crate) fn new(inode: u64, name: &str) -> Self {
        // Without a list it would not get one: this kernel keeps that while the group has processes.
        Self { inode, name: name.to_owned(), exists: true, cpus: Value::new(ALL_CPUS) }
    }
}

/// The list that a value of `affinity` gives a thread: its own, or for one that is not named any of the lists.
/// `was` is a list; `online` are the CPUs that make up `all`.
pub(crate) fn allows(value: &str, (tid, start): (u32, u64), was: u64, online: u64) -> bool {
    let is_list = |list: &str| match list {
        "all" => was & online == online,
        list => list.parse::<CpuMask>().is_ok_and(|list| list == mask(was)),
    };
    let groups = || value.split(';').map(|group| group.split_once('@').unwrap_or((group, "")));
    let names = |runs: &str| runs.split(',').any(|run| has(run, tid, start));
    match groups().find(|(_, runs)| names(runs)) {
        Some((list, _)) => is_list(list),
        None => groups().any(|(list, _)| is_list(list)),
    }
}

/// True if a run such as `812-815:5140` has a thread.
fn has(run: &str, tid: u32, start: u64) -> bool {
    let (tids, began) = run.split_once(':').unwrap_or((run, ""));
    let (first, last) = tids.split_once('-').unwrap_or((tids, tids));
    let number = |text: &str| text.parse::<u32>().ok();
    let is_in = number(first).zip(number(last)).is_some_and(|(first, last)| (first..=last).contains(&tid));
    is_in && began.parse().map_or(began.is_empty(), |began: u64| began == start)
}

pub(crate) fn mask(value: u64) -> CpuMask {
    (0..64).filter(|cpu| value >> cpu & 1 == 1).map(CpuId).collect()
}
