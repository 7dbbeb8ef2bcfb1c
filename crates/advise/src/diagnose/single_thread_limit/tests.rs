//! One thread that limits the load, and similar cases.

use super::{RULE, thread_room};
use crate::diagnose::Severity;
use crate::diagnose::sketch::{Diagnosed, Sketch, cpus};
use rxlab_base::units::{CpuId, Fact, Need};
use rxlab_path::model::SocketRates;

/// Redis on CPU 2 of 8: 99 % in user mode there, 3 % on the others.
fn redis() -> Sketch {
    let sketch = Sketch::new(8).smt().device("eth0", &[0]).traffic("eth0", 4e4).receives(0, 0.05, 4e4);
    sketch.works(2, 0.985).program("redis-server", 0.99, "0-7").thread(2, 0.99, 0.001)
}

fn behind() -> Sketch {
    redis().udp(6379, 200_704, 212_992)
}

#[test]
fn a_server_of_one_thread() {
    let found = behind().finding(&RULE);
    assert_eq!(found.title, "redis-server: one thread is full, other CPUs 97 % idle");
    assert_eq!((found.severity, found.cpu), (Severity::Warning, Some(CpuId(2))));
    assert_eq!(
        found.seen(),
        [
            "redis-server (800), thread 900: ran 99.0 % of the time, waited 0.1 % of it for a CPU; on CPU 2",
            "CPU 2: 0.5 % of its time in interrupts and softirqs (rough: timer ticks)",
            "UDP port 6379: 200,704 and 212,992 bytes waiting to be read in the two samples",
            "headroom of redis-server: 1.0x of the current traffic; it cannot use the idle time of other \
             CPUs",
        ]
    );
    assert!(
        found.remedy.contains("off CPU 2 and its sibling (gains at most 0.5 %); no RFS"),
        "{}",
        found.remedy
    );
}

/// No single CPU is busy: the thread uses each of them for a part of the time.
#[test]
fn wherever_the_scheduler_moves_it() {
    let moved = behind().each("0-7", |sketch, cpu| sketch.works(cpu, 0.12));
    let found = moved.finding(&RULE);
    assert_eq!((found.cpu, found.severity), (None, Severity::Warning));
    assert!(found.seen()[0].ends_with("; last on CPU 2, moved by the scheduler"), "{found:?}");
    assert!(found.seen()[1].starts_with("each of its CPUs: at most 5.0 %"), "{found:?}");
}

#[test]
fn what_shows_that_it_is_behind() {
    let shown = |sketch: Sketch| sketch.finding(&RULE).seen()[2].to_owned();
    assert_eq!(
        shown(redis().tcp(80, 128, 127, None)),
        "TCP port 80: 128 and 127 connections waiting to be accepted in the two samples"
    );
    assert_eq!(shown(redis().tcp(80, 0, 0, Some(40))), "TCP port 80: 40 connections with unread data");
    let dropping = redis().udp(53, 0, 900).socket(|held| held.dropped = 1_200.0);
    assert_eq!(shown(dropping), "UDP port 53: 1,200 drops/s");
}

#[test]
fn where_the_queues_are_not_seen_it_is_a_note_with_a_condition() {
    let sockets = |sockets| {
        let found = redis().last(|process| process.sockets = sockets).finding(&RULE);
        assert_eq!(found.severity, Severity::Note);
        assert!(found.remedy.starts_with("if it serves this traffic: "), "{}", found.remedy);
        found.seen()[2].to_owned()
    };
    assert_eq!(
        sockets(Fact::Denied(Need::SysPtrace)),
        "its sockets are not visible: that needs CAP_SYS_PTRACE"
    );
    let others = SocketRates { held: Vec::new(), others: true };
    assert_eq!(sockets(Fact::Known(others)), "it has no public socket in this namespace");
    assert_eq!(
        redis().tcp(80, 0, 0, None).finding(&RULE).severity,
        Severity::Note,
        "connections are not seen"
    );
}

/// A batch job was once named as the limit of the machine.
#[test]
fn only_what_is_seen_to_limit_has_a_room() {
    let room = |sketch: Sketch| {
        let (model, rates) = sketch.build();
        thread_room(&model, &rates).map(|room| room.program)
    };
    assert_eq!(room(behind()).as_deref(), Some("redis-server"));
    let unseen = redis().last(|process| process.sockets = Fact::Denied(Need::SysPtrace));
    assert_eq!(room(unseen), None);
}

#[test]
fn two_workers_are_two() {
    let worker = |sketch: Sketch, cpu| {
        let sketch = sketch.works(cpu, 0.985).program("nginx", 0.99, "0-7").thread(cpu, 0.99, 0.001);
        sketch.tcp(80, 9, 9, None)
    };
    let two = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 4e4).each("2-3", worker);
    assert_eq!(two.finding(&RULE).title, "nginx: 2 threads are full, other CPUs 98 % idle");
    let all = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 4e4).each("0-7", worker);
    all.silent(&RULE, "one for each CPU");
    let confined = Sketch::new(8).device("eth0", &[0]).traffic("eth0", 4e4).each("2-3", |sketch, cpu| {
        worker(sketch, cpu).last(|process| process.allowed = Fact::Known(cpus("2-3")))
    });
    confined.silent(&RULE, "it needs more CPUs first: restricted-process");
}

#[test]
fn near_misses() {
    redis().udp(53, 0, 0).silent(&RULE, "it polls: its queue is empty");
    redis().udp(53, 700, 0).silent(&RULE, "it keeps up");
    redis().tcp(80, 0, 0, Some(1)).silent(&RULE, "the connection that it works on");
    let none = SocketRates { held: Vec::new(), others: false };
    redis().last(|process| process.sockets = Fact::Known(none)).silent(&RULE, "a compiler");
    let turns = redis().udp(53, 9, 9).last(|process| {
        let one = process.each[0].clone();
        process.each =
            (0..4).map(|tid| rxlab_path::model::ThreadRates { tid, ran: 0.25, ..one.clone() }).collect();
    });
    turns.silent(&RULE, "four threads that take turns");
    let waits = behind().last(|process| process.each[0].waited = 0.06);
    waits.silent(&RULE, "it lacks a CPU");
    behind().receives(2, 0.2, 4e4).silent(&RULE, "packets take its CPU");
    let moved = behind().each("0-7", |sketch, cpu| sketch.works(cpu, 0.12));
    moved.receives(5, 0.2, 4e4).silent(&RULE, "and may have done so where it was");
    behind().drops(0, 1.0).silent(&RULE, "lost before");
    behind().missed("eth0", 1.0).silent(&RULE, "lost before, by the device");
    assert_eq!(behind().drops(0, 0.2).findings(&RULE).len(), 1, "one packet in five seconds");
    let unused = behind().device("eth1", &[3]).traffic("eth1", 10.0).missed("eth1", 5.0);
    assert_eq!(unused.findings(&RULE).len(), 1, "it does not come over that one");
    behind().each("3-7", |sketch, cpu| sketch.works(cpu, 0.8)).silent(&RULE, "no room elsewhere");
    behind().traffic("eth0", 300.0).silent(&RULE, "no traffic");
    let hotspot = behind().receives(0, 0.9, 4e4);
    hotspot.silent(&RULE, "another CPU drowns in packets");
}
