//! Schedules from seeds.

use super::schedule::{
    Actor, Area, Counted, Errno, Event, Foreign, GroupMove, Move, Schedule, Set, Slot, ThreadMove,
};
use crate::random::Random;

/// Devices of a machine: 0 and 1 are on a bus, 2 and 3 are virtual.
const DEVICES: u32 = 4;
const NAMESPACES: u32 = 3;
/// One schedule of so many has a persisted plan that grows, and one a thread that another program gives what a new one has.
const GROWING: u64 = 64;

impl Random {
    fn byte(&mut self, n: u32) -> u8 {
        u8::try_from(self.below(n)).unwrap_or(0)
    }
}

pub fn generate(seed: u64) -> Schedule {
    let random = &mut Random::new(seed);
    if seed.is_multiple_of(GROWING) {
        return growing_plan(random);
    }
    if seed % GROWING == 1 {
        return default_of_a_thread(random);
    }
    let mut custom: Vec<(Slot, u8)> = (0..random.below(3)).map(|_| (slot(random), random.byte(3))).collect();
    let mut moved = None;
    let first = match random.below(10) {
        1 => {
            let (set, lost) = discarding(random);
            custom.extend(lost);
            Actor::Apply { set: vec![set], confirm: random.byte(4), netns: 0 }
        }
        2 => {
            custom.extend([(Slot::Gro(2), 0), (Slot::Gro(3), 0)]);
            if random.percent(50) {
                custom.extend([(Slot::Threaded(2), 0), (Slot::Threaded(3), 0)]);
            }
            let queue = random.byte(2);
            let set = [vec![(of_napi(random, 2, queue), random.byte(2))], sets(random)].concat();
            let act = of_veth(random);
            moved = Some(at_some_time(random, act));
            Actor::Apply { set, confirm: random.byte(4), netns: 0 }
        }
        0 => Actor::Trial { set: sets(random), keep: random.percent(50) },
        _ => Actor::Apply {
            set: sets(random),
            confirm: if random.percent(75) { 1 + random.byte(3) } else { 0 },
            netns: if random.percent(75) { 0 } else { 1 + random.byte(NAMESPACES - 1) },
        },
    };
    let mut events = Vec::from_iter(moved);
    for _ in 0..=random.below(6) {
        let act = act(random);
        let back = match act {
            // Back home, or online again, half of the time.
            Move::Netns(device, _) => Some(Move::Netns(device, 0)),
            Move::Channels(device, _) => Some(Move::Channels(device, 2)),
            Move::Cpu(cpu, false) => Some(Move::Cpu(cpu, true)),
            Move::Rename(device) | Move::RenameOdd(device) => Some(Move::Rename(device)),
            Move::Mount(false) => Some(Move::Mount(true)),
            _ => None,
        };
        events.push(at_some_time(random, act));
        if let Some(back) = back
            && random.percent(50)
        {
            events.push(at_some_time(random, back));
        }
    }
    Schedule { custom, first, events }
}

/// A persisted plan that gets a value which was set after it.
fn growing_plan(random: &mut Random) -> Schedule {
    let (device, queue) = (random.byte(2), random.byte(2));
    let [older, newer] = random.pick(&[
        [Slot::Rps(device, queue), Slot::Rps(device, 1 - queue)],
        [Slot::Rps(device, queue), Slot::Channels(device)],
        [Slot::Rps(device, queue), Slot::Rfs(device, queue)],
        [Slot::Entries, Slot::Budget],
    ]);
    let [first, set, grown] = [older, newer, newer].map(|slot| vec![(slot, random.byte(2))]);
    let mut events = Vec::new();
    for _ in 0..random.below(3) {
        let act = act(random);
        events.push(at_some_time(random, act));
    }
    let then = [Actor::Apply { set, confirm: 0, netns: 0 }, Actor::Restore { set: grown }];
    // After the first command.
    events.extend(then.map(|actor| Event { of: Counted::Any, at: 60_000, act: Move::Run(actor) }));
    Schedule { custom: Vec::new(), first: Actor::Restore { set: first }, events }
}

/// Another program gives a thread of the kernel what a new one has, and then a user undoes.
fn default_of_a_thread(random: &mut Random) -> Schedule {
    let (device, queue, cpu) = (random.byte(2), random.byte(2), random.byte(4));
    let thread = random.pick(&[
        Slot::NapiPriority(device, queue),
        Slot::NapiPriority(device, queue),
        Slot::NapiCpus(device, queue),
        Slot::Ksoftirqd(cpu),
    ]);
    let mut events = Vec::new();
    for _ in 0..random.below(3) {
        let act = act(random);
        events.push(at_some_time(random, act));
    }
    let undo = || Move::Run(Actor::Undo { only: None, force: false });
    // After the first command.
    let then = [Move::Write(thread, Foreign::Fresh), undo(), undo()];
    events.extend(then.map(|act| Event { of: Counted::Any, at: 60_000, act }));
    Schedule {
        custom: vec![(Slot::Threaded(device), 0), (thread, random.byte(3))],
        first: Actor::Apply { set: vec![(thread, random.byte(2))], confirm: 0, netns: 0 },
        events,
    }
}

/// A value of the NAPI of a queue, or of its thread.
fn of_napi(random: &mut Random, device: u8, queue: u8) -> Slot {
    random.pick(&[
        Slot::QueueDefer(device, queue),
        Slot::QueueFlush(device, queue),
        Slot::Suspend(device, queue),
        Slot::QueueThreaded(device, queue),
        Slot::NapiCpus(device, queue),
        Slot::NapiPriority(device, queue),
    ])
}

/// A move of the first veth after which a sample of it is outdated.
fn of_veth(random: &mut Random) -> Move {
    match random.below(7) {
        0 => Move::Rename(2),
        1 => Move::Netns(2, random.byte(NAMESPACES)),
        2 => Move::LinkReset(2),
        3 => Move::Write(Slot::Gro(2), Foreign::First),
        4 => Move::Remake(2),
        _ => Move::Swap(2, 3),
    }
}

/// A write that discards what another program has set, and that.
fn discarding(random: &mut Random) -> (Set, Vec<(Slot, u8)>) {
    let device = random.byte(2);
    let queue = random.byte(2);
    let thread = random.pick(&[Slot::NapiCpus(device, queue), Slot::NapiPriority(device, queue)]);
    let (which, other) = (random.byte(2), random.byte(3));
    let channels = (Slot::Channels(device), which);
    let reopens = if random.percent(50) { channels } else { (Slot::Ring(device), which) };
    match random.below(9) {
        0 => (reopens, vec![(Slot::Irq(device, 1), other)]),
        1 => (channels, vec![(Slot::Rps(device, 0), other)]),
        2 => (reopens, vec![(Slot::Threaded(device), other)]),
        3 => (reopens, vec![(Slot::QueueDefer(device, 0), other)]),
        4 => ((Slot::Defer(device), which), vec![(Slot::QueueDefer(device, 0), other)]),
        // Fewer queues are refused.
        5 => ((Slot::Channels(device), 1), vec![(Slot::Rss(device), other)]),
        6 => (reopens, vec![(Slot::Threaded(device), other), (thread, other)]),
        7 => (reopens, vec![(Slot::QueueThreaded(device, queue), other), (thread, other)]),
        // The NAPIs of a veth.
        _ => {
            let veth = 2 + device;
            let single = random.pick(&[
                Slot::QueueDefer(veth, 0),
                Slot::Suspend(veth, 0),
                Slot::QueueThreaded(veth, 0),
                Slot::Threaded(veth),
            ]);
            ((Slot::Gro(veth), 1), vec![(Slot::Gro(veth), other), (single, other)])
        }
    }
}

fn at_some_time(random: &mut Random, act: Move) -> Event {
    let of = random.pick(&[Counted::Any, Counted::Any, Counted::Write, Counted::Journal]);
    let reach = match of {
        Counted::Any => random.pick(&[60, 250, 700]),
        Counted::Write => random.pick(&[3, 8]),
        Counted::Journal => random.pick(&[12, 40]),
    };
    Event { of, at: 1 + random.below(reach), act }
}

fn act(random: &mut Random) -> Move {
    match random.below(46) {
        40 | 41 => Move::Group(random.byte(2), group_move(random)),
        42 => Move::Mount(random.percent(30)),
        43 => Move::RunElsewhere(command(random)),
        44 => Move::RunElsewhere(Actor::Apply {
            set: sets(random),
            confirm: if random.percent(30) { 1 + random.byte(3) } else { 0 },
            netns: 0,
        }),
        45 => Move::Run(Actor::Restore { set: sets(random) }),
        38 => Move::RenameOdd(device(random)),
        39 => Move::OddName(random.byte(NAMESPACES)),
        34..38 => Move::Process(random.byte(2), thread_move(random)),
        0..3 => Move::Kill,
        30 => Move::KillInCall,
        31 => Move::KillBoth,
        32 => Move::Slow(random.pick(&[1, 20, 250]), random.pick(&[20, 150, 700])),
        3..5 | 15 => Move::Write(slot(random), foreign(random)),
        5..7 | 26..28 => Move::Run(command(random)),
        7 => Move::Rename(device(random)),
        8 => Move::Swap(device(random), device(random)),
        9..11 => Move::Netns(device(random), random.byte(NAMESPACES)),
        11 => Move::Remake(device(random)),
        12 => Move::Delete(device(random)),
        13 => Move::LinkReset(device(random)),
        14 => Move::Channels(random.byte(2), 1 + random.byte(4)),
        16 => Move::Cpu(1 + random.byte(3), random.percent(30)),
        17 if random.percent(30) => Move::Reboot(random.byte(255)),
        21 => Move::Stop(random.pick(&[1, 4, 12, 40])),
        22 => Move::KillGuard,
        23 => Move::Clock(random.pick(&[1, 5, 60])),
        24 => Move::Damage(random.byte(3), random.byte(255)),
        25 => Move::Reuse(1 + random.byte(NAMESPACES - 1)),
        _ => fault(random),
    }
}

fn thread_move(random: &mut Random) -> ThreadMove {
    match random.below(5) {
        0 => ThreadMove::Again,
        1 => ThreadMove::End(1 + random.byte(3)),
        2 => ThreadMove::Replace(1 + random.byte(2)),
        _ => ThreadMove::Start(random.byte(4)),
    }
}

fn group_move(random: &mut Random) -> GroupMove {
    random.pick(&[
        GroupMove::Rename,
        GroupMove::Rename,
        GroupMove::Swap,
        GroupMove::Remake,
        GroupMove::Remake,
        GroupMove::Remove,
    ])
}

fn command(random: &mut Random) -> Actor {
    match random.below(9) {
        8 => Actor::Restore { set: sets(random) },
        0 | 1 => Actor::Apply {
            set: sets(random),
            confirm: if random.percent(30) { 1 + random.byte(3) } else { 0 },
            netns: if random.percent(80) { 0 } else { random.byte(NAMESPACES) },
        },
        2..5 => Actor::Undo { only: random.percent(30).then(|| random.byte(2)), force: random.percent(10) },
        5 => Actor::Confirm,
        6 => Actor::Reapply,
        _ => Actor::Status,
    }
}

fn fault(random: &mut Random) -> Move {
    let area = match random.below(14) {
        13 => Area::Napis,
        12 => Area::View,
        0 => Area::Interfaces,
        1 => Area::NoInterfaces,
        2 | 3 => Area::Device(device(random)),
        4 => Area::Writes(device(random)),
        5 => Area::Interrupts,
        6 => Area::Namespaces,
        7 => Area::Enter,
        8 | 9 => Area::DiskWrites,
        10 => Area::DiskReads,
        _ => Area::DiskGone,
    };
    let errno = match area {
        Area::DiskWrites => {
            random.pick(&[Errno::Enospc, Errno::Erofs, Errno::Eio, Errno::Efbig, Errno::Emfile])
        }
        // ENOENT: hidden by a mount of procfs with subset=pid.
        Area::Interrupts => {
            random.pick(&[Errno::Eio, Errno::Eacces, Errno::Emfile, Errno::Enomem, Errno::Enoent])
        }
        Area::Napis | Area::DiskReads => random.pick(&[Errno::Eio, Errno::Emfile, Errno::Enomem]),
        Area::Namespaces | Area::Enter | Area::Interfaces => random.pick(&[
            Errno::Eio,
            Errno::Eacces,
            Errno::Enoent,
            Errno::Emfile,
            Errno::Enomem,
            Errno::Eagain,
        ]),
        _ => random.pick(&[Errno::Eio, Errno::Ebusy, Errno::Eacces, Errno::Enoent, Errno::Emfile]),
    };
    let operations = random.pick(&[1, 3, 20, 150]);
    Move::Fault(area, errno, operations)
}

fn foreign(random: &mut Random) -> Foreign {
    match random.below(6) {
        0 => Foreign::Ours(random.byte(2)),
        1 => Foreign::First,
        2 => Foreign::Fresh,
        _ => Foreign::Other(random.byte(2)),
    }
}

fn device(random: &mut Random) -> u8 {
    random.byte(DEVICES)
}

fn sets(random: &mut Random) -> Vec<Set> {
    let mut sets: Vec<Set> = Vec::new();
    for _ in 0..=random.below(3) {
        let slot = slot(random);
        if sets.iter().all(|(other, _)| *other != slot) {
            sets.push((slot, random.byte(2)));
        }
    }
    sets
}

fn slot(random: &mut Random) -> Slot {
    match random.below(32) {
        17 => Slot::Defer(random.byte(2)),
        18 | 19 => Slot::QueueDefer(device(random), random.byte(2)),
        20 => Slot::Rss(random.byte(2)),
        21 => Slot::Ksoftirqd(random.byte(4)),
        22 => Slot::Group(random.byte(2)),
        23 => Slot::Flush(random.byte(2)),
        24 => Slot::QueueFlush(device(random), random.byte(2)),
        25 => Slot::Suspend(device(random), random.byte(2)),
        26 => Slot::QueueThreaded(device(random), random.byte(2)),
        27 => Slot::NapiCpus(device(random), random.byte(2)),
        28 => Slot::NapiPriority(device(random), random.byte(2)),
        29 | 30 => Slot::Gro(2 + random.byte(2)),
        31 => Slot::Ring(random.byte(2)),
        14..17 => {
            let most = random.pick(&[2, 4]);
            Slot::Thread(random.byte(2), random.byte(most))
        }
        12 => Slot::Xps(random.byte(3), random.byte(2)),
        13 => Slot::Threaded(device(random)),
        0..5 => Slot::Rps(device(random), random.byte(2)),
        5 | 6 => Slot::Rfs(device(random), random.byte(2)),
        7 | 8 => Slot::Irq(random.byte(2), random.byte(2)),
        9 => Slot::Channels(random.byte(2)),
        10 => Slot::Entries,
        _ => Slot::Budget,
    }
}
