//! Old defects, made again to show that the schedules find them.

use super::{adversary, run};

/// An old defect reintroduced, to show that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mutation {
    /// The code without a mutation.
    #[default]
    Nothing,
    /// The inode follows the name and only one namespace is known: a device is its name, and an unlisted one
    /// is gone.
    NamesOnly,
    /// The guard ends after five attempts.
    FiveAttempts,
    /// The guard ends once the journal is invisible.
    BlindGuard,
    /// One damaged journal makes every journal unreadable.
    DamageSpreads,
    /// A namespace with a name that is not UTF-8 cannot be searched.
    NamesAreText,
    /// The journal does not have what a write discards.
    NothingDisplaced,
    /// A write of channels is thought to keep `threaded`.
    ThreadedStays,
    /// The same of the RSS table.
    TableStays,
    /// A write for all NAPIs is thought to keep the values of single ones.
    NapisStay,
    /// NAPIs that cannot be read are none.
    NoNapis,
    /// NAPIs that are made again are thought to keep their threads.
    PollersStay,
    /// A thread is its number, whenever it began.
    ThreadsByNumber,
    /// A list of interrupts that cannot be read is empty.
    NoInterrupts,
    /// A control group is its path, and one that is not there is gone.
    GroupsByPath,
    /// Scheduling is set in one call, after which an idle thread has lost its nice value.
    OneStep,
    /// A journal does not know of others, nor that it is out of sight.
    NoRegistry,
    /// Several processes can have the lock.
    TwoHolders,
    /// A value that was written is taken for kept.
    NotReadBack,
    /// `undo` says that all is back, whatever is left.
    AllIsBack,
    /// `persist` takes every value of the journal, by its name then.
    AllPersists,
}

/// Every mutation, with the invariants of which it breaks one, and the first seed that finds it (`world --mutations`).
pub const MUTATIONS: [(Mutation, &str, u64); 20] = [
    (Mutation::AllPersists, "8", 6),
    (Mutation::PollersStay, "6", 734),
    (Mutation::ThreadsByNumber, "1267", 5383),
    (Mutation::NoInterrupts, "6", 14744),
    (Mutation::AllIsBack, "57", 1),
    (Mutation::NotReadBack, "7", 1100),
    (Mutation::TwoHolders, "1234567", 2286),
    (Mutation::NamesOnly, "12", 14),
    (Mutation::FiveAttempts, "3", 58),
    (Mutation::BlindGuard, "3", 181),
    (Mutation::DamageSpreads, "4", 658),
    (Mutation::NamesAreText, "348", 134),
    (Mutation::NothingDisplaced, "6", 34),
    (Mutation::ThreadedStays, "6", 2909),
    (Mutation::TableStays, "6", 339),
    (Mutation::NapisStay, "6", 34),
    (Mutation::NoNapis, "6", 486),
    (Mutation::GroupsByPath, "12", 168),
    (Mutation::OneStep, "1347", 201),
    (Mutation::NoRegistry, "1", 23),
];

/// The violation of one of the `wanted` invariants with a mutation, by the schedule of a seed.
pub fn breaks(mutation: Mutation, wanted: &str, seed: u64) -> Option<String> {
    let violation = run(&adversary::generate(seed), mutation, false).violation?;
    violation.starts_with(|kind| wanted.contains(kind)).then_some(violation)
}
