//! A program fills the CPUs it may use while others idle.

use super::app_on_irq_cpu::sharing;
use super::figures::{Evidence, Subject, Unit};
use super::places::mean;
use super::workload::{ROOM, carries_traffic, common, named, processing, programs};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{cpus_text, percent, plural};
use rxlab_base::units::CpuMask;
use rxlab_path::evidence::{FULL, busy};
use rxlab_path::model::{Model, ProcessRates, Rates};

/// Part of its CPUs' time that the program itself takes: otherwise something else fills them.
const OWN: f64 = 0.7;

pub(super) const RULE: Rule = Rule {
    id: "restricted-process",
    asks: "Does a program fill the CPUs it may use while others idle?",
    fires: || {
        format!(
            "an interface carries traffic, programs with the same limited set of CPUs take {} of its time, \
             each of these CPUs is {} busy, at least as many threads are runnable as the set has CPUs (two \
             for one CPU), and the CPUs outside it are {} idle; a note unless more threads are runnable than \
             that",
            percent(OWN),
            percent(FULL),
            percent(ROOM)
        )
    },
    silent: "the set contains isolated CPUs or does not apply to the whole program (its threads run \
             elsewhere), the program has one thread or a nice value above 0, or is not visible",
    evidence: "the programs, their CPU time and runnable threads, the set and its origin, the load of the \
               CPUs inside and outside it",
    cause: "An affinity or a cpuset gives the program fewer CPUs than it has work for.",
    remedy: "If it serves this traffic, give it more CPUs; interrupts that need little time need no \
             dedicated CPU.",
    source: "sched_setaffinity(2); cpuset(7)",
    check: Check::Machine(check),
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    if !carries_traffic(model, rates) {
        return Vec::new();
    }
    // Another rule reports those with a better reason.
    let told: Vec<u32> = sharing(model, rates).iter().map(|sharing| sharing.process.pid).collect();
    let mut sets: Vec<(&CpuMask, Vec<&ProcessRates>)> = Vec::new();
    for process in programs(rates).iter().filter(|process| process.nice <= 0 && !told.contains(&process.pid))
    {
        let Some(allowed) = process.allowed.known() else { continue };
        match sets.iter_mut().find(|(set, _)| *set == allowed) {
            Some((_, processes)) => processes.push(process),
            None => sets.push((allowed, vec![process])),
        }
    }
    sets.iter().find_map(|(set, processes)| finding(model, rates, set, processes)).into_iter().collect()
}

fn finding(model: &Model, rates: &Rates, set: &CpuMask, processes: &[&ProcessRates]) -> Option<Finding> {
    let all = common(model);
    let own = set.intersection(&model.online());
    let others = all.difference(&own);
    if others.is_empty() || own.is_empty() || !own.difference(&all).is_empty() {
        return None;
    }
    // If a thread has a set of its own, the main thread's set does not apply to the whole program.
    let inside =
        |process: &&ProcessRates| process.ran_on.known().is_some_and(|ran| ran.difference(set).is_empty());
    let runnable: u32 = processes
        .iter()
        .filter(|process| inside(process))
        .filter_map(|process| process.runnable.known())
        .sum();
    let share: f64 = processes.iter().filter(|process| inside(process)).map(|process| process.cpu).sum();
    let width = own.len();
    let enough = (runnable as usize) >= width.max(2);
    let each_full = own.iter().all(|cpu| rates.cpu(cpu).is_some_and(|cpu| busy(cpu) >= FULL));
    let by_programs = share >= OWN * width as f64 && mean(rates, &own, processing) >= OWN * FULL;
    let idle = mean(rates, &others, |cpu| cpu.idle);
    if !enough || !each_full || !by_programs || idle < ROOM {
        return None;
    }
    let first = processes.iter().find(|process| inside(process))?;
    let by_group = first.cpuset.known() == Some(set);
    let who = if by_group { "its cpuset" } else { "its affinity" };
    Some(Finding {
        severity: if runnable as usize > width { Severity::Warning } else { Severity::Note },
        title: format!(
            "{} fills its {width} of {} CPUs; the others are {} idle",
            first.command,
            all.len(),
            percent(idle)
        ),
        evidence: vec![
            Evidence::about(Subject::process(first), |seen| {
                format!(
                    "{}{}: uses {:.1} CPUs, {}, limited to {} by {who}",
                    named(first),
                    match processes.len() {
                        1 => String::new(),
                        many => format!(" and {} more", seen.count("more_processes", many - 1)),
                    },
                    seen.figure("cpu", share, Unit::Cpus),
                    plural(seen.count("runnable", runnable as usize), "runnable thread"),
                    cpus_text(&own)
                )
            }),
            Evidence::about(Subject::Cpus(own.clone()), |seen| {
                let busy = seen.percent("busy", mean(rates, &own, busy));
                format!("{}: {busy} busy on average", cpus_text(&own))
            }),
            Evidence::about(Subject::Cpus(others.clone()), |seen| {
                format!("{}: {} idle on average", cpus_text(&others), seen.percent("idle", idle))
            }),
        ],
        why: format!("{who} limits it to {}, and it has work for more", plural(width, "CPU")),
        remedy: format!("if it serves this traffic, let it run on {} as well", cpus_text(&others)),
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::Severity;
    use crate::diagnose::sketch::{Diagnosed, Sketch};

    /// Field case B's `/compute` after pinning: the server on CPUs 0-5, interrupts on 6 and 7, which are 0 to
    /// 3 % busy with some 97,000 packets/s.
    fn case_b(user: f64) -> Sketch {
        let sketch = Sketch::new(8).device("eth0", &[6, 7, 6, 7, 6, 7, 6, 7]).traffic("eth0", 9.7e4);
        let sketch = sketch.receives(6, 0.02, 4.8e4).receives(7, 0.03, 4.9e4);
        sketch.each("0-5", |sketch, cpu| sketch.works(cpu, user))
    }

    #[test]
    fn field_case_b_with_six_cores_instead_of_eight() {
        let found = case_b(0.98).program("server", 5.8, "0-5").threads(14, 6).finding(&RULE);
        assert_eq!(found.title, "server fills its 6 of 8 CPUs; the others are 96 % idle");
        assert_eq!(found.severity, Severity::Note, "six threads on six CPUs may be all there is");
        assert_eq!(
            found.seen()[0],
            "server (800): uses 5.8 CPUs, 6 runnable threads, limited to CPUs 0-5 by its affinity"
        );
        assert_eq!(found.remedy, "if it serves this traffic, let it run on CPUs 6-7 as well");
        let waiting = case_b(0.98).program("server", 5.8, "0-5").threads(14, 9);
        let waiting = waiting.last(|process| process.cpuset = process.allowed.clone());
        let found = waiting.finding(&RULE);
        assert_eq!(found.severity, Severity::Warning);
        assert!(found.why.starts_with("its cpuset limits it to 6 CPUs"), "{}", found.why);
    }

    #[test]
    fn workers_with_one_set_are_one() {
        let worker =
            |sketch: Sketch, _| sketch.program("nginx", 0.97, "0-5").last(|process| process.stays_on = None);
        let found = case_b(0.98).each("0-5", worker).finding(&RULE);
        assert!(
            found.seen()[0].starts_with("nginx (800) and 5 more: uses 5.8 CPUs, 6 runnable threads"),
            "{found:?}"
        );
    }

    #[test]
    fn near_misses() {
        let server = |sketch: Sketch| sketch.program("server", 5.8, "0-5").threads(14, 9);
        server(case_b(0.6)).silent(&RULE, "its CPUs have room");
        server(case_b(0.98).each("6-7", |sketch, cpu| sketch.receives(cpu, 0.8, 4e4)))
            .silent(&RULE, "the others are busy");
        server(case_b(0.98).isolate("4-5")).silent(&RULE, "isolated for it");
        server(case_b(0.98).traffic("eth0", 300.0)).silent(&RULE, "a batch job on a quiet network");
        case_b(0.98).program("server", 5.8, "0-7").threads(14, 9).silent(&RULE, "may use all");
        case_b(0.98).program("server", 2.0, "0-5").threads(14, 9).silent(&RULE, "others fill them");
        server(case_b(0.98)).last(|process| process.nice = 5).silent(&RULE, "gives way");
        let elsewhere = server(case_b(0.98))
            .last(|process| process.ran_on = rxlab_base::units::Fact::Known("0-7".parse().expect("a list")));
        elsewhere.silent(&RULE, "its threads have sets of their own");
        let single = case_b(0.1).works(3, 0.99).program("redis-server", 0.99, "3");
        single.silent(&RULE, "one thread cannot use two CPUs");
    }
}
