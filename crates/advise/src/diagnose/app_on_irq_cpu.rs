//! A program shares a full CPU with interrupts while other CPUs have room.
//!
//! [`super::receive_interference`] covers a program that is pinned to that one CPU.

use super::elsewhere::is_elsewhere;
use super::figures::{Evidence, Subject};
use super::workload::{ROOM, common, interrupt_cpus, landings, named, nic_on, processing, programs};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::percent;
use rxlab_base::units::CpuMask;
use rxlab_path::evidence::{FULL, ORIGIN, brought, busy, may_be_lo, receive_time};
use rxlab_path::model::{CpuRates, Model, ProcessRates, Rates};

/// Receive time of the CPU from which sharing it slows the program down.
const RECEIVES: f64 = 0.25;

/// Time of processes on it from which there is something to move.
const RUNS: f64 = 0.10;

pub(super) const RULE: Rule = Rule {
    id: "app-on-irq-cpu",
    asks: "Does a program run on a CPU that handles interrupts although others have room?",
    fires: || {
        format!(
            "the CPU of a device's interrupt is {} busy, {} of its time in softirq and {} in processes; a \
             program may run only on such CPUs, or has one thread that was there in both samples; and a CPU \
             without interrupts is {} idle. A note if the program may run there",
            percent(FULL),
            percent(RECEIVES),
            percent(RUNS),
            percent(ROOM)
        )
    },
    silent: "most CPUs handle interrupts (a queue for each), no other CPU has room, the program is pinned to \
             the one CPU (receive-interference), runs at a nice value above 0, is not visible, or the packets there \
             may come from `lo` or hardly any come by interrupts",
    evidence: "the CPU's time in softirq and in processes, the program, its share of a CPU and the CPUs it \
               may use, idle CPUs",
    cause: "Receive work preempts every program on its CPU, and the scheduler does not move a program that \
            is alone on a CPU.",
    remedy: "Let the program run on the other CPUs (taskset, CPUAffinity=, a cpuset), or move the interrupt.",
    source: "Documentation/networking/scaling.rst (RSS IRQ Configuration)",
    check: Check::Machine(check),
};

/// A program, the CPU it shares, and the CPUs with room.
pub(super) struct Sharing<'a> {
    pub(super) process: &'a ProcessRates,
    cpu: &'a CpuRates,
    room: CpuMask,
    /// It may not run on the CPUs with room.
    confined: bool,
}

/// The programs that share a full CPU with interrupts, most CPU time first.
pub(super) fn sharing<'a>(model: &Model, rates: &'a Rates) -> Vec<Sharing<'a>> {
    let (takes, common) = (interrupt_cpus(&landings(model, rates), rates), common(model));
    let free = common.difference(&takes);
    if free.len() * 2 < common.len() {
        return Vec::new();
    }
    let has_room = |cpu: &&CpuRates| free.contains(cpu.cpu) && cpu.idle >= ROOM;
    let room: CpuMask = rates.cpus.iter().filter(has_room).map(|cpu| cpu.cpu).collect();
    // Packets that a program sends to a virtual interface are received where it runs, and move along with it.
    let brought = brought(model, rates);
    let shared = |cpu: &&CpuRates| {
        takes.contains(cpu.cpu)
            && brought.get(&cpu.cpu).is_some_and(|packets| *packets >= cpu.packets * ORIGIN)
            && !may_be_lo(model, rates, cpu.cpu)
            && !is_elsewhere(model, rates, cpu)
            && busy(cpu) >= FULL
            && receive_time(cpu) >= RECEIVES
            && processing(cpu) >= RUNS
    };
    let shared: Vec<&CpuRates> = rates.cpus.iter().filter(shared).collect();
    let one = |process: &'a ProcessRates| {
        let allowed = process.allowed.known().filter(|allowed| allowed.len() > 1)?;
        let confined = allowed.intersection(&model.online()).difference(&takes).is_empty();
        let is_on = |cpu: &&&CpuRates| {
            let ran = process.ran_on.known().is_some_and(|ran| ran.contains(cpu.cpu));
            let stays = process.threads == 1 && process.stays_on == Some(cpu.cpu);
            allowed.contains(cpu.cpu) && if confined { ran } else { stays }
        };
        let room = if confined { room.clone() } else { room.intersection(allowed) };
        let cpu = shared.iter().find(is_on).copied()?;
        let moves = process.nice <= 0 && process.cpu >= RUNS && !room.is_empty();
        moves.then_some(Sharing { process, cpu, room, confined })
    };
    programs(rates).iter().filter_map(one).collect()
}

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let found = sharing(model, rates);
    let Some(first) = found.iter().find(|sharing| sharing.confined).or(found.first()) else {
        return Vec::new();
    };
    let (process, cpu) = (first.process, first.cpu);
    let id = cpu.cpu;
    let allowed = process.allowed.known().map_or_else(String::new, ToString::to_string);
    let mut evidence = vec![
        Evidence::about(Subject::Cpu(id), |seen| {
            format!(
                "CPU {id}: {} of its time in softirq ({}), {} in processes, {} idle",
                seen.percent("receive_time", receive_time(cpu)),
                seen.tier(rates),
                seen.percent("processing", processing(cpu)),
                seen.percent("idle", cpu.idle)
            )
        }),
        Evidence::about(Subject::process(process), |seen| {
            format!(
                "{}: {} of a CPU in {}, may use CPUs {allowed}, ran on CPU {id}",
                named(process),
                seen.percent("cpu", process.cpu),
                match seen.count("threads", process.threads as usize) {
                    1 => "one thread".to_owned(),
                    threads => format!("{threads} threads"),
                }
            )
        }),
        Evidence::fact(
            Subject::Cpus(first.room.clone()),
            format!("CPUs {} handle no interrupts and are at least half idle", first.room),
        ),
    ];
    if found.len() > 1 {
        let others: Vec<String> = found
            .iter()
            .filter(|other| other.process.pid != process.pid)
            .take(4)
            .map(|other| named(other.process))
            .collect();
        evidence.push(Evidence::fact(Subject::Machine, format!("the same for {}", others.join(", "))));
    }
    let why = if first.confined {
        "the program may run only on CPUs with interrupts, and receive work preempts it"
    } else {
        "receive work preempts the program, and the scheduler does not move it"
    };
    vec![Finding {
        severity: if first.confined { Severity::Warning } else { Severity::Note },
        nic: nic_on(&landings(model, rates), id),
        cpu: Some(id),
        title: format!(
            "{} shares CPU {id} with interrupts: {} in softirq",
            process.command,
            percent(receive_time(cpu))
        ),
        evidence,
        why: why.to_owned(),
        remedy: match process.allowed.known() {
            Some(allowed) if allowed.difference(&model.set_apart()).is_empty() => {
                "move the interrupt: the program is pinned to isolated CPUs"
            }
            _ => "let it run on the other CPUs (taskset, CPUAffinity=, a cpuset), or move the interrupt",
        }
        .to_owned(),
        ..RULE.finding()
    }]
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::Severity;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_base::units::{CpuId, Fact};

    /// Eight CPUs, interrupts on two of them, CPU 2 full.
    fn host(softirq: f64, user: f64) -> Sketch {
        let sketch = Sketch::new(8).device("eth0", &[2, 3]).traffic("eth0", 1e5);
        sketch.receives(2, softirq, 5e4).receives(3, 0.2, 5e4).works(2, user)
    }

    #[test]
    fn a_program_that_may_not_go_elsewhere() {
        let found = host(0.45, 0.54).program("redis-server", 0.6, "2-3").finding(&RULE);
        assert_eq!(found.title, "redis-server shares CPU 2 with interrupts: 45 % in softirq");
        assert_eq!(found.severity, Severity::Warning);
        assert_eq!(
            found.seen()[1],
            "redis-server (800): 60 % of a CPU in one thread, may use CPUs 2-3, ran on CPU 2"
        );
        assert_eq!(found.seen()[2], "CPUs 0-1,4-7 handle no interrupts and are at least half idle");
    }

    #[test]
    fn one_that_stays_although_it_may_go() {
        let stays = |sketch: Sketch| sketch.program("haproxy", 0.6, "2-7");
        assert_eq!(stays(host(0.45, 0.54)).finding(&RULE).severity, Severity::Note);
        let moved = stays(host(0.45, 0.54)).last(|process| process.stays_on = None);
        moved.silent(&RULE, "the scheduler moves it");
    }

    /// Some of its isolated CPUs take interrupts; those that do not are free for it.
    #[test]
    fn a_program_on_isolated_cpus_is_not_sent_away_from_them() {
        let host = || host(0.45, 0.54).isolate("2-5");
        host().program("upf", 3.0, "2-5").last(|upf| upf.threads = 12).silent(&RULE, "4-5 take none");
        let found = host().program("upf", 3.0, "2-3").finding(&RULE);
        assert_eq!(found.remedy, "move the interrupt: the program is pinned to isolated CPUs");
    }

    /// A vhost thread was told to leave the CPU of interrupts: nearly all of the receive work there was for what it sent.
    #[test]
    fn receive_work_of_what_a_program_sends_moves_along() {
        let sends = host(0.45, 0.54).veth("tap0").traffic("tap0", 9e5).receives(2, 0.45, 9.5e5);
        sends
            .program("vhost-1500", 0.6, "0-7")
            .last(|vhost| vhost.stays_on = Some(CpuId(2)))
            .last(|vhost| {
                vhost.ran_on = Fact::Known(CpuId(2).into());
            })
            .silent(&RULE, "interrupts bring a twentieth of the packets");
    }

    #[test]
    fn near_misses() {
        let with = |sketch: Sketch| sketch.program("redis-server", 0.6, "2-3").findings(&RULE).is_empty();
        assert!(with(host(0.45, 0.3)), "the CPU is not full");
        assert!(with(host(0.05, 0.94)), "interrupts take hardly any time");
        let full = |sketch: Sketch, cpu| sketch.works(cpu, 0.9);
        assert!(with(host(0.45, 0.54).each("0-1,4-7", full)), "no room elsewhere");
        let queues = Sketch::new(4).device("eth0", &[0, 1, 2]).traffic("eth0", 1e5);
        assert!(with(queues.receives(2, 0.45, 5e4).works(2, 0.54)), "a queue for nearly every CPU");
        host(0.45, 0.54).silent(&RULE, "no program is visible there");
        host(0.45, 0.54).program("xz", 0.6, "2-3").last(|xz| xz.nice = 10).silent(&RULE, "gives way");
        host(0.45, 0.54).program("openssl", 0.6, "2").silent(&RULE, "pinned: that is receive-interference's");
    }
}
