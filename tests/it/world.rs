//! The real code on a simulated machine, while an adversary acts between any two of its operations.
//! `bench/simulation/src/world.rs` describes the simulation and its invariants.

use rxlab_simulation::world::{MUTATIONS, Mutation, Schedule, breaks, generate, run, shrink};

use crate::require;

/// Schedules of every test run, in equal parts that run in parallel. A debug build runs some 150 a second on a
/// machine with two slow cores, a release build 1,900.
const SEEDS: u64 = 20_000;
const PARTS: u64 = 4;

/// The violation of a schedule in the form that a failing run prints.
fn replay(text: &str) -> Option<String> {
    let schedule: Schedule = serde_json::from_str(text).expect("a schedule as printed");
    run(&schedule, Mutation::Nothing, false).violation
}

fn no_schedule_loses_a_value(part: u64) {
    require::needs!(minutes);
    let mut moves = 0;
    let seeds = SEEDS / PARTS;
    for seed in part * seeds..(part + 1) * seeds {
        let schedule = generate(seed);
        let report = run(&schedule, Mutation::Nothing, false);
        moves += report.moves.values().sum::<u64>();
        if report.violation.is_some() {
            let (small, violation) = shrink(&schedule, Mutation::Nothing);
            let text = serde_json::to_string(&small).expect("plain data");
            panic!("seed {seed}: invariant {violation}\nreplay(r#\"{text}\"#)");
        }
    }
    assert!(moves > 2 * seeds, "only {moves} moves: the adversary is asleep");
}

#[test]
fn the_first_part_loses_no_value() {
    no_schedule_loses_a_value(0);
}

#[test]
fn the_second_part_loses_no_value() {
    no_schedule_loses_a_value(1);
}

#[test]
fn the_third_part_loses_no_value() {
    no_schedule_loses_a_value(2);
}

#[test]
fn the_fourth_part_loses_no_value() {
    no_schedule_loses_a_value(3);
}

#[test]
fn a_schedule_determines_the_run() {
    for seed in 0..20 {
        let schedule = generate(seed);
        let text = serde_json::to_string(&schedule).expect("plain data");
        assert_eq!(serde_json::from_str::<Schedule>(&text).expect("as printed"), schedule);
        let [first, second] = [0, 1].map(|_| run(&schedule, Mutation::Nothing, false));
        assert_eq!(
            (first.operations, first.moves, first.ends),
            (second.operations, second.moves, second.ends)
        );
    }
}

/// Old defects, each made again by the simulated world.
#[test]
fn every_old_defect_is_found() {
    let missed: Vec<Mutation> = MUTATIONS
        .into_iter()
        .filter(|(mutation, wanted, seed)| breaks(*mutation, wanted, *seed).is_none())
        .map(|(mutation, ..)| mutation)
        .collect();
    assert!(missed.is_empty(), "run `world --mutations` for other seeds of {missed:?}");
}

macro_rules! replays {
    ($($(#[$about:meta])* $name:ident: $schedule:literal;)*) => {
        $($(#[$about])* #[test] fn $name() { assert_eq!(replay($schedule), None); })*
    };
}

// Schedules that once broke an invariant.
replays! {
    /// A namespace that could not be entered for a while was considered deleted.
    closed_namespace: r#"{"first":{"Apply":{"set":[[{"Rps":[1,0]},0]],"confirm":3,"netns":0}},"events":[{"of":"Write","at":1,"act":{"Netns":[1,2]}},{"of":"Any","at":1,"act":{"Fault":["Enter","ENOENT",150]}}]}"#;
    /// An empty interface list in a live namespace was considered proof that a device was gone.
    empty_interface_list: r#"{"first":{"Apply":{"set":[[{"Rps":[2,0]},0],[{"Channels":1},1]],"confirm":0,"netns":0}},"events":[{"of":"Write","at":1,"act":{"Fault":["NoInterfaces","ENOENT",150]}}]}"#;
    /// A listed device whose directory returned ENOENT for a while was considered gone.
    unreadable_directory: r#"{"first":{"Apply":{"set":[[{"Irq":[1,1]},1]],"confirm":2,"netns":0}},"events":[{"of":"Journal","at":12,"act":{"Fault":[{"Device":1},"ENOENT",150]}}]}"#;
    /// Two names were swapped between a write of channels and the restore of the values it reset: those were set on
    /// the other device.
    replay_on_another_device: r#"{"custom":[[{"Rps":[0,0]},0]],"first":{"Apply":{"set":[[{"Channels":1},0]],"confirm":3,"netns":0}},"events":[{"of":"Any","at":120,"act":{"Swap":[0,1]}}]}"#;
    /// A name passed to other hardware between the read and the write: the intent had the inode of one device and the
    /// interrupt of another.
    interrupt_of_another_device: r#"{"first":{"Apply":{"set":[[{"Irq":[0,1]},0]],"confirm":1,"netns":0}},"events":[{"of":"Any","at":80,"act":{"Swap":[3,0]}}]}"#;
    /// The same during the undo: the interrupt of the wrong device already had the original value.
    undo_of_another_interrupt: r#"{"first":{"Apply":{"set":[[{"Irq":[1,1]},1],[{"Rps":[0,1]},0]],"confirm":2,"netns":0}},"events":[{"of":"Write","at":2,"act":{"Swap":[0,1]}}]}"#;
    /// A value that another program set on a new queue before the old queue's values were restored was overwritten.
    foreign_value_on_a_new_queue: r#"{"first":{"Apply":{"set":[],"confirm":3,"netns":2}},"events":[{"of":"Write","at":1,"act":{"Write":[{"Rfs":[0,0]},{"Other":1}]}},{"of":"Any","at":1,"act":{"Run":{"Apply":{"set":[[{"Channels":0},0]],"confirm":0,"netns":0}}}}]}"#;
    /// A refused undo of channels recorded the transaction's own values, and the next undo set them again.
    own_value_set_again: r#"{"first":{"Apply":{"set":[[{"Irq":[1,1]},0],[{"Channels":1},1]],"confirm":3,"netns":0}},"events":[{"of":"Write","at":2,"act":{"Fault":[{"Writes":1},"EIO",150]}}]}"#;
    /// A device that moved to another namespace and back during the search was considered gone.
    moved_during_the_search: r#"{"first":{"Apply":{"set":[[{"Rps":[1,1]},0]],"confirm":1,"netns":0}},"events":[{"of":"Any","at":115,"act":{"Netns":[1,1]}},{"of":"Any","at":213,"act":{"Netns":[1,0]}}]}"#;
    /// A name was swapped while the values that a write of channels resets were being read, and the process was
    /// killed before it noticed: undo set the values of the other device.
    values_of_another_device: r#"{"custom":[[{"Rps":[2,0]},1]],"first":{"Apply":{"set":[[{"Channels":0},0]],"confirm":0,"netns":0}},"events":[{"of":"Any","at":109,"act":{"Swap":[2,0]}},{"of":"Journal","at":11,"act":"Kill"}]}"#;
    /// A trial considered the values of the interface that took over the name foreign, and left its own.
    trial_of_another_interface: r#"{"first":{"Trial":{"set":[[{"Irq":[1,0]},1],[{"Irq":[0,0]},0]],"keep":false}},"events":[{"of":"Write","at":2,"act":{"Swap":[0,1]}}]}"#;
    /// The same with the channels of hardware, whose queues each flip recreates.
    channels_of_another_interface: r#"{"first":{"Trial":{"set":[[{"Channels":0},0]],"keep":true}},"events":[{"of":"Journal","at":21,"act":{"Swap":[1,0]}}]}"#;
    /// A transaction was created between the read of the journal and the undo of an older one with the same value,
    /// which was closed because of it.
    covered_meanwhile: r#"{"first":{"Apply":{"set":[["Entries",1]],"confirm":0,"netns":2}},"events":[{"of":"Any","at":83,"act":{"Run":{"Undo":{"only":0,"force":false}}}},{"of":"Journal","at":22,"act":{"Run":{"Apply":{"set":[["Entries",0],[{"Rps":[0,0]},1],[{"Rfs":[2,1]},1]],"confirm":2,"netns":0}}}},{"of":"Any","at":1,"act":{"Run":"Reapply"}}]}"#;
    /// The value read back after a write was that of the interface that took over the name.
    read_back_from_another_interface: r#"{"first":{"Apply":{"set":[[{"Rps":[2,1]},0]],"confirm":3,"netns":0}},"events":[{"of":"Write","at":1,"act":{"Swap":[2,1]}},{"of":"Journal","at":10,"act":{"Cpu":[2,false]}}]}"#;
    /// An undo of channels recorded the transaction's own interrupt, which it had failed to restore, as one to set
    /// again.
    own_interrupt_set_again: r#"{"first":{"Apply":{"set":[[{"Channels":0},1],[{"Irq":[0,1]},0]],"confirm":1,"netns":0}},"events":[{"of":"Write","at":3,"act":{"Remake":0}},{"of":"Write","at":2,"act":{"Fault":["Interrupts","EIO",20]}}]}"#;
    /// The state directory was invisible while a second apply checked for unconfirmed changes, so it overwrote a
    /// value of the first.
    journal_out_of_sight: r#"{"first":{"Apply":{"set":[["Budget",0]],"confirm":1,"netns":0}},"events":[{"of":"Journal","at":29,"act":{"Fault":["DiskGone","ENOENT",1]}},{"of":"Any","at":1,"act":{"Run":{"Apply":{"set":[["Budget",1],[{"Channels":0},0],[{"Irq":[0,0]},0]],"confirm":2,"netns":0}}}}]}"#;
    /// An empty list of interfaces after a write of channels made the values that it had reset count as gone.
    values_of_an_unlisted_interface: r#"{"custom":[[{"Rps":[0,1]},0]],"first":{"Apply":{"set":[[{"Channels":0},1]],"confirm":3,"netns":0}},"events":[{"of":"Any","at":140,"act":{"Fault":["NoInterfaces","EACCES",3]}}]}"#;
    /// `threaded`, which another program had switched on during a write of channels, was switched off again.
    threads_switched_on_meanwhile: r#"{"first":{"Apply":{"set":[[{"Channels":1},1]],"confirm":3,"netns":0}},"events":[{"of":"Any","at":132,"act":{"Write":[{"Threaded":1},{"Other":1}]}}]}"#;
    /// An interrupt list that could not be read counted as a device without interrupts: their affinities were lost.
    affinities_that_could_not_be_read: r#"{"custom":[[{"Irq":[0,1]},0]],"first":{"Apply":{"set":[],"confirm":0,"netns":0}},"events":[{"of":"Journal","at":1,"act":{"Fault":["Interrupts","EMFILE",150]}},{"of":"Write","at":1,"act":{"Run":{"Apply":{"set":[[{"Rfs":[1,0]},0],[{"Channels":0},0]],"confirm":0,"netns":0}}}}]}"#;
    /// A list of interrupts that was missing counted as one without any.
    affinities_in_a_list_that_is_missing: r#"{"custom":[[{"Irq":[0,1]},0]],"first":{"Apply":{"set":[],"confirm":0,"netns":0}},"events":[{"of":"Journal","at":1,"act":{"Fault":["Interrupts","ENOENT",150]}},{"of":"Write","at":1,"act":{"Run":{"Apply":{"set":[[{"Rfs":[1,0]},0],[{"Channels":0},0]],"confirm":0,"netns":0}}}}]}"#;
    /// Files of an interrupt that were missing for a moment counted as one without an affinity.
    affinities_in_files_that_are_missing: r#"{"custom":[[{"Irq":[0,1]},0]],"first":{"Apply":{"set":[[{"Channels":0},0]],"confirm":2,"netns":0}},"events":[{"of":"Any","at":142,"act":{"Fault":["Interrupts","ENOENT",3]}},{"of":"Any","at":1,"act":{"Netns":[3,2]}}]}"#;
    /// A device whose directory was missing for a moment counted as one without queues, before a write of channels and after it.
    values_of_queues_out_of_sight: r#"{"custom":[[{"Rps":[1,0]},2]],"first":{"Apply":{"set":[[{"Channels":1},1]],"confirm":1,"netns":0}},"events":[{"of":"Any","at":92,"act":{"Fault":[{"Device":1},"ENOENT",20]}}]}"#;
    values_of_queues_out_of_sight_later: r#"{"custom":[[{"Rps":[1,0]},2]],"first":{"Apply":{"set":[[{"Channels":1},1]],"confirm":1,"netns":0}},"events":[{"of":"Any","at":207,"act":{"Fault":[{"Device":1},"ENOENT",20]}}]}"#;
    /// A group was made again at its path while the group of its unit was looked for, and got the value.
    group_made_again_before_the_write: r#"{"first":{"Apply":{"set":[[{"Group":1},1]],"confirm":0,"netns":2}},"events":[{"of":"Any","at":56,"act":{"Group":[1,"Remake"]}}]}"#;
    /// Undo named the value that a queue had from a write for all of them.
    value_between_two_writes: r#"{"first":{"Apply":{"set":[[{"Defer":0},1],[{"QueueDefer":[0,1]},0]],"confirm":3,"netns":0}},"events":[]}"#;
    /// A table that was the default of the queues, and read when there were others, was said to be altered.
    table_of_other_queues: r#"{"first":{"Apply":{"set":[[{"Rss":1},1]],"confirm":0,"netns":0}},"events":[{"of":"Any","at":110,"act":{"Channels":[1,4]}}]}"#;
    /// An RPS mask that another program set after an interrupted write of channels was taken for what the driver left.
    set_after_an_interrupted_write: r#"{"first":{"Apply":{"set":[[{"Channels":0},1]],"confirm":2,"netns":0}},"events":[{"of":"Write","at":1,"act":{"Swap":[2,0]}},{"of":"Write","at":1,"act":{"Write":[{"Rps":[0,0]},{"Other":1}]}}]}"#;
    /// Two veths had swapped their names since the sample: the settings of the wrong NAPI were set.
    napi_of_another_veth: r#"{"custom":[[{"Gro":2},0],[{"Gro":3},0]],"first":{"Apply":{"set":[[{"QueueDefer":[2,0]},0]],"confirm":1,"netns":0}},"events":[{"of":"Any","at":120,"act":{"Swap":[2,3]}}]}"#;
    /// The same during the undo.
    undo_of_another_napi: r#"{"custom":[[{"Gro":2},0],[{"Gro":3},0]],"first":{"Apply":{"set":[[{"QueueDefer":[2,0]},0]],"confirm":1,"netns":0}},"events":[{"of":"Any","at":244,"act":{"Swap":[2,3]}}]}"#;
    /// The same with the threads of NAPIs.
    thread_of_another_napi: r#"{"custom":[[{"Gro":2},0],[{"Gro":3},0],[{"Threaded":2},0],[{"Threaded":3},0]],"first":{"Apply":{"set":[[{"NapiPriority":[2,0]},0]],"confirm":1,"netns":0}},"events":[{"of":"Any","at":120,"act":{"Swap":[2,3]}}]}"#;
    /// The value of a NAPI whose interface had moved to another namespace since the sample was taken for gone.
    napi_of_an_interface_that_moved: r#"{"custom":[[{"Gro":2},0],[{"Gro":3},0]],"first":{"Apply":{"set":[[{"QueueDefer":[2,0]},0]],"confirm":1,"netns":0}},"events":[{"of":"Any","at":252,"act":{"Netns":[2,1]}}]}"#;
    /// The same with the thread of a NAPI.
    thread_of_an_interface_that_moved: r#"{"custom":[[{"Gro":2},0],[{"Gro":3},0],[{"Threaded":2},0],[{"Threaded":3},0]],"first":{"Apply":{"set":[[{"NapiPriority":[2,0]},0]],"confirm":1,"netns":0}},"events":[{"of":"Any","at":260,"act":{"Netns":[2,1]}}]}"#;
    /// Undo named the value between two writes of an interface that had been renamed.
    value_between_two_writes_by_another_name: r#"{"first":{"Apply":{"set":[[{"Defer":1},1],[{"QueueDefer":[1,1]},0]],"confirm":1,"netns":0}},"events":[{"of":"Write","at":2,"act":{"Swap":[1,3]}}]}"#;
    /// Another program set the list of a group while the directory of the group was looked for, between the last look at the list
    /// and its write.
    list_of_a_group_set_before_the_write: r#"{"first":{"Apply":{"set":[[{"Group":1},0],[{"Thread":[1,0]},0]],"confirm":3,"netns":2}},"events":[{"of":"Any","at":60,"act":{"Write":[{"Group":1},{"Other":1}]}}]}"#;
    /// The driver of an interface could not be read, so that its queues' interrupts had names of their own, by which undo did not
    /// find them.
    interrupts_of_an_unknown_driver: r#"{"custom":[[{"Irq":[1,1]},0]],"first":{"Apply":{"set":[[{"Ring":1},0]],"confirm":3,"netns":0}},"events":[{"of":"Any","at":84,"act":{"Fault":[{"Device":1},"EACCES",20]}}]}"#;
    /// An interface that was listed, and whose directory was missing for a moment, was taken for gone.
    listed_without_a_directory: r#"{"custom":[[{"Gro":2},0]],"first":{"Apply":{"set":[[{"QueueFlush":[2,0]},0]],"confirm":0,"netns":0}},"events":[{"of":"Journal","at":12,"act":{"Swap":[2,3]}},{"of":"Any","at":161,"act":{"Fault":[{"Device":2},"ENOENT",150]}}]}"#;
    /// Two names were exchanged between the last look at an RSS table and its write, which went to the other interface.
    table_of_another_interface: r#"{"first":{"Trial":{"set":[[{"Rss":1},1],[{"Rfs":[1,1]},1]],"keep":true}},"events":[{"of":"Any","at":3,"act":{"Rename":0}},{"of":"Any","at":315,"act":{"Swap":[1,0]}}]}"#;
    /// The index of an interface could not be read, so that the values of its single NAPIs were not saved before they were replaced.
    values_of_an_interface_without_an_index: r#"{"custom":[[{"QueueFlush":[0,0]},1]],"first":{"Apply":{"set":[[{"Flush":0},1]],"confirm":3,"netns":0}},"events":[{"of":"Any","at":80,"act":{"Fault":[{"Device":0},"EBUSY",20]}}]}"#;
    /// The same where the queues are made again.
    threads_of_an_interface_without_an_index: r#"{"custom":[[{"QueueThreaded":[1,1]},2]],"first":{"Apply":{"set":[[{"Channels":1},0]],"confirm":1,"netns":0}},"events":[{"of":"Any","at":100,"act":{"Fault":[{"Device":1},"ENOENT",3]}}]}"#;
    /// Undo names a group as it is called now, which was the name of another one.
    groups_that_exchange_their_names: r#"{"custom":[[{"Group":1},2]],"first":{"Apply":{"set":[[{"Group":0},1],[{"Group":1},0]],"confirm":2,"netns":1}},"events":[{"of":"Journal","at":16,"act":{"Group":[1,"Swap"]}}]}"#;
    /// A plan that had grown was set in the older transaction, over a value that a newer one held.
    plan_that_grows_over_a_newer_value: r#"{"first":{"Restore":{"set":[[{"Rps":[0,0]},0]]}},"events":[{"of":"Any","at":9000,"act":{"Run":{"Apply":{"set":[[{"Rps":[0,1]},0]],"confirm":0,"netns":0}}}},{"of":"Any","at":9001,"act":{"Run":{"Restore":{"set":[[{"Rps":[0,1]},1]]}}}}]}"#;
    /// The journal could not be written while a change was put back, and what had been put back was forgotten: a value for all
    /// queues gave one of them, which was back already, the value from between the two writes.
    put_back_without_a_journal: r#"{"first":{"Apply":{"set":[[{"QueueThreaded":[0,1]},1],[{"Threaded":0},0]],"confirm":3,"netns":0}},"events":[{"of":"Write","at":2,"act":{"Mount":false}}]}"#;
    /// NAPIs could not be listed, and values of theirs that our write had discarded were taken for gone.
    values_of_napis_that_cannot_be_listed: r#"{"custom":[[{"QueueThreaded":[0,1]},0]],"first":{"Apply":{"set":[[{"Channels":0},0],[{"Rps":[2,0]},1]],"confirm":1,"netns":0}},"events":[{"of":"Write","at":2,"act":{"Fault":["DiskWrites","ENOSPC",20]}},{"of":"Write","at":2,"act":{"Fault":["Napis","EMFILE",150]}}]}"#;
    /// A persisted plan named a control group twice, by its path and by its unit: both values were said to be set.
    control_group_by_two_names: r#"{"first":{"Apply":{"set":[],"confirm":1,"netns":0}},"events":[{"of":"Any","at":1,"act":{"Run":{"Restore":{"set":[[{"Thread":[1,0]},0],[{"Group":0},0],[{"Rss":1},0]]}}}},{"of":"Any","at":1,"act":{"Run":{"Restore":{"set":[[{"Group":0},1]]}}}}]}"#;
    /// An interface was in another network namespace while NAPIs were listed, and its values were not saved before they were
    /// discarded.
    values_of_napis_that_were_not_listed: r#"{"custom":[[{"QueueThreaded":[0,1]},1]],"first":{"Apply":{"set":[[{"Ring":0},0]],"confirm":1,"netns":0}},"events":[{"of":"Journal","at":1,"act":{"Netns":[0,1]}},{"of":"Any","at":78,"act":{"Netns":[0,0]}}]}"#;
    /// An undo was killed after its write, and `reapply` saved what that had left.
    reapplied_after_an_undo_that_was_killed: r#"{"custom":[[{"Irq":[0,1]},2]],"first":{"Apply":{"set":[[{"Channels":0},0]],"confirm":0,"netns":0}},"events":[{"of":"Write","at":2,"act":{"Run":{"Undo":{"only":null,"force":false}}}},{"of":"Write","at":2,"act":"Kill"},{"of":"Write","at":2,"act":{"Run":"Reapply"}}]}"#;
    /// Values that were set again gave a NAPI a thread, and the next write of the same plan did not save what another program had
    /// set for that.
    thread_made_by_a_value_that_was_set_again: r#"{"custom":[[{"QueueThreaded":[0,1]},0]],"first":{"Apply":{"set":[[{"Ring":0},1],[{"Channels":0},1]],"confirm":2,"netns":0}},"events":[{"of":"Write","at":4,"act":{"Write":[{"NapiPriority":[0,1]},{"Ours":0}]}}]}"#;
    /// Two names were exchanged between two settings of one plan, which set the same interface twice and said that it has both values.
    one_interface_set_by_two_names: r#"{"custom":[[{"Gro":2},0]],"first":{"Apply":{"set":[[{"QueueThreaded":[2,0]},0],[{"Rps":[3,0]},0],[{"Rps":[2,0]},1]],"confirm":1,"netns":0}},"events":[{"of":"Any","at":245,"act":{"Swap":[2,3]}},{"of":"Write","at":1,"act":{"Fault":[{"Device":0},"EMFILE",20]}}]}"#;
    /// Two journals of one machine began a transaction in the same second, and gave it the same id.
    one_id_in_two_journals: r#"{"first":{"Apply":{"set":[[{"Rps":[2,1]},1]],"confirm":1,"netns":0}},"events":[{"of":"Any","at":1,"act":{"RunElsewhere":{"Apply":{"set":[[{"Threaded":0},1],[{"Gro":2},1]],"confirm":1,"netns":0}}}},{"of":"Journal","at":3,"act":{"Fault":["DiskGone","ENOENT",3]}}]}"#;
    /// A value of two parts was half set again, on a thread that the write before it had created, and was taken for another
    /// program's.
    value_that_was_half_set_again: r#"{"custom":[[{"Threaded":0},0],[{"NapiPriority":[0,0]},0]],"first":{"Apply":{"set":[[{"Ring":0},1]],"confirm":3,"netns":0}},"events":[{"of":"Write","at":3,"act":"KillInCall"},{"of":"Any","at":346,"act":{"Mount":false}}]}"#;
    /// Undo named the value of an interrupt that a killed write had reset, and then set the interrupt again with that write.
    value_set_again_after_it_was_named: r#"{"custom":[[{"Irq":[1,1]},2]],"first":{"Trial":{"set":[[{"Ring":1},0],[{"Irq":[1,1]},1]],"keep":false}},"events":[{"of":"Journal","at":22,"act":"KillInCall"}]}"#;
    /// A restore put a change back, and set the same interface by the name that it had got meanwhile: the simulation took what had
    /// been said before for false.
    set_by_the_name_of_another: r#"{"first":{"Apply":{"set":[],"confirm":2,"netns":0}},"events":[{"of":"Write","at":2,"act":{"Swap":[3,2]}},{"of":"Any","at":1,"act":{"RunElsewhere":{"Restore":{"set":[[{"Rps":[3,0]},1],[{"Xps":[1,0]},1],[{"Rps":[2,0]},1]]}}}}]}"#;
    /// A write for all queues took effect, and its interface was renamed before that was seen: undo named the value that a queue had
    /// between two writes.
    value_of_a_queue_after_a_write_for_all_that_failed: r#"{"first":{"Apply":{"set":[[{"NapiCpus":[2,0]},1],[{"Defer":0},1],["Entries",0],[{"QueueDefer":[0,0]},0]],"confirm":3,"netns":0}},"events":[{"of":"Write","at":6,"act":{"Rename":0}}]}"#;
    /// A value was set over what a killed write had left, and both were undone: the simulation took what was said of it for false.
    value_from_before_a_killed_write: r#"{"custom":[[{"Threaded":0},0],[{"NapiPriority":[0,0]},1]],"first":{"Apply":{"set":[[{"NapiPriority":[0,0]},1]],"confirm":0,"netns":0}},"events":[{"of":"Any","at":1,"act":{"Run":{"Restore":{"set":[[{"Rfs":[3,1]},1],[{"Channels":0},0]]}}}},{"of":"Any","at":417,"act":"Kill"},{"of":"Any","at":599,"act":{"Run":{"Undo":{"only":null,"force":false}}}}]}"#;
    /// The CPUs of a thread were set back, then the thread was ended, and then its interface was made again: the simulation took what had
    /// been said for false.
    set_back_on_an_interface_that_went: r#"{"custom":[[{"Gro":2},0]],"first":{"Apply":{"set":[[{"QueueThreaded":[2,0]},0],[{"Ring":1},0],[{"NapiCpus":[2,0]},0]],"confirm":1,"netns":0}},"events":[{"of":"Any","at":581,"act":{"Remake":2}}]}"#;
    /// Another program set what a new thread has, on purpose: the nice value of one of ours with the policy of the other.
    default_that_another_program_has_set: r#"{"custom":[[{"Threaded":0},0],[{"NapiPriority":[0,0]},2]],"first":{"Apply":{"set":[[{"NapiPriority":[0,0]},1]],"confirm":0,"netns":0}},"events":[{"of":"Any","at":60000,"act":{"Write":[{"NapiPriority":[0,0]},"Fresh"]}},{"of":"Any","at":60000,"act":{"Run":{"Undo":{"only":null,"force":false}}}}]}"#;
    /// `threaded = off`, which kernel and driver may give as well, was set by another program while a driver refused other queues: the
    /// simulation took it for one that undo can tell from theirs.
    default_that_another_program_has_set_while_queues_are_refused: r#"{"custom":[[{"Rss":0},1],[{"Threaded":0},1]],"first":{"Apply":{"set":[[{"Channels":0},0]],"confirm":2,"netns":0}},"events":[{"of":"Any","at":157,"act":{"Write":[{"Threaded":0},"Fresh"]}}]}"#;
    /// Another interface of the same trial was changed by another program, before the trial came to it: the simulation compared that
    /// with the value of the first.
    value_that_a_trial_found_changed: r#"{"first":{"Trial":{"set":[[{"Gro":2},0],[{"Gro":3},1]],"keep":false}},"events":[{"of":"Any","at":398,"act":{"Write":[{"Gro":3},{"Other":1}]}}]}"#;
    /// The value for all queues was back although its undo was not in the journal, and others made the queues again: undo gave one what
    /// the value for all had been, and left it there.
    original_of_a_queue_that_only_the_value_for_all_gave: r#"{"first":{"Apply":{"set":[[{"QueueDefer":[0,0]},1],[{"Defer":0},0]],"confirm":2,"netns":0}},"events":[{"of":"Write","at":2,"act":{"Mount":false}},{"of":"Write","at":4,"act":{"Channels":[0,1]}}]}"#;
    /// An interface that was moved to and fro between namespaces during the search was considered gone.
    interface_that_moves_to_and_fro: r#"{"first":{"Apply":{"set":[[{"Channels":0},0]],"confirm":3,"netns":0}},"events":[{"of":"Any","at":264,"act":{"Netns":[0,0]}},{"of":"Any","at":323,"act":{"Netns":[0,2]}},{"of":"Any","at":195,"act":{"Netns":[0,1]}}]}"#;
    /// A rollback without its journal was killed in the kernel, and undo found the number of queues as it had been: it made a thread
    /// again, and not the CPUs that this had been given.
    cpus_of_a_thread_that_undo_makes_again: r#"{"custom":[[{"QueueThreaded":[1,1]},2],[{"NapiCpus":[1,1]},2]],"first":{"Apply":{"set":[[{"Channels":1},0]],"confirm":1,"netns":0}},"events":[{"of":"Journal","at":15,"act":{"Mount":false}},{"of":"Any","at":203,"act":"KillInCall"}]}"#;
    /// The state directory was out of sight for a minute after the deadline, and the simulated registry did not say so: the guard
    /// takes a file that is registered for missing, and goes on.
    out_of_sight_for_a_minute: r#"{"custom":[[{"Gro":2},1]],"first":{"Apply":{"set":[[{"Gro":2},1]],"confirm":3,"netns":0}},"events":[{"of":"Journal","at":39,"act":{"Clock":60}},{"of":"Journal","at":29,"act":{"Fault":["DiskGone","EBUSY",20]}}]}"#;
    /// The clock went on by a minute while the guard tried, and the next moment its journal was out of sight: it took that for a minute
    /// without one, and ended.
    out_of_sight_after_a_minute: r#"{"first":{"Apply":{"set":[[{"Ksoftirqd":3},1]],"confirm":2,"netns":2}},"events":[{"of":"Any","at":45,"act":{"Fault":["DiskGone","EACCES",1]}},{"of":"Any","at":1,"act":"KillInCall"},{"of":"Any","at":43,"act":{"Clock":60}}]}"#;
    /// A guard was killed in the kernel while it set channels back, which switched `threaded` off, and another program set channels
    /// at that moment: the next undo left the channels alone, and `threaded` with them.
    threads_lost_by_an_undo_before_a_foreign_value: r#"{"custom":[[{"Threaded":1},2]],"first":{"Apply":{"set":[[{"Channels":1},1]],"confirm":3,"netns":0}},"events":[{"of":"Journal","at":18,"act":"KillInCall"},{"of":"Write","at":2,"act":{"Write":[{"Channels":1},{"Other":0}]}}]}"#;
    /// An interface was out of sight for a moment while values were saved that new channels reset: one of them was taken for one that
    /// the kernel does not have.
    value_of_an_interface_out_of_sight: r#"{"custom":[[{"Rps":[1,0]},2]],"first":{"Apply":{"set":[[{"Channels":1},1]],"confirm":1,"netns":0}},"events":[{"of":"Any","at":160,"act":{"Fault":[{"Device":1},"ENOENT",20]}},{"of":"Any","at":180,"act":{"Run":{"Restore":{"set":[[{"NapiCpus":[0,1]},1],[{"QueueDefer":[3,0]},0]]}}}}]}"#;
}
