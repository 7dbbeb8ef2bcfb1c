//! Program counts turned into a report: numbers joined to names, processes merged.

use std::collections::BTreeMap;

use super::counted::{Moment, hypervisor_ns, packets};
use super::interference::{CpuInterference, Interference, IrqInterference, NapiPolls, Tier, Victim};
use super::names::Names;
use super::raw::{CpuRecord, ProcessId, Reading, UNNUMBERED, VictimRecord};
use super::{Class, Programs};
use rxlab_base::parse;
use rxlab_base::units::{CpuId, Fact, IrqId};
use rxlab_path::sample::{Inventory, control_group};
use rxlab_sys::Host;

/// Cost computed from the counts in `between`, two readings that are `seconds` apart.
pub fn exact(
    host: &dyn Host,
    inventory: &Inventory,
    (before, after): (&Moment, &Moment),
    (between, seconds): (&Reading, f64),
    programs: &Programs,
) -> Interference {
    let exact_softirq_time = inventory.settings.exact_softirq_time.clone();
    let losses = losses(between);
    let names = Names::new(inventory);
    let mut notes = programs.limits();
    notes.extend(remarks(between));
    if !programs.times_threads() && between.cpus.values().any(|record| record.threaded_polls > 0) {
        notes.push("NAPI threads started meanwhile: their time is not included; sample again".to_owned());
    }
    Interference {
        schema: Interference::SCHEMA.to_owned(),
        tier: Tier::Ebpf,
        missing: None,
        victims: Fact::Known(victims(&losses, (before, after), &exact_softirq_time, |pid| {
            control_group(host, pid)
        })),
        exact_softirq_time,
        seconds,
        cpus: cpus(between, programs.times_threads(), before, after),
        irqs: Fact::Known(irqs(between, &names)),
        napis: Fact::Known(napis(between, &names)),
        threads: after.processes.threads(&before.processes),
        inference: Vec::new(),
        cost: programs.cost(),
        notes,
    }
}

fn by_class(ns: [u64; 9]) -> impl Iterator<Item = (Class, u64)> {
    Class::OF_RUNS.into_iter().zip(ns)
}

/// CPUs that are online, or had counts.
fn cpus(between: &Reading, times_threads: bool, before: &Moment, after: &Moment) -> Vec<CpuInterference> {
    let online = |cpu: &CpuId| after.counters.times.known().is_none_or(|times| times.contains_key(cpu));
    let counted = |record: &CpuRecord| record.irqs > 0 || record.all_runs() > 0;
    let one = |(cpu, record): (&CpuId, &CpuRecord)| {
        let mut classes: BTreeMap<Class, Fact<u64>> =
            by_class(record.ns).map(|(class, ns)| (class, Fact::Known(ns))).collect();
        let known = times_threads || record.threaded_polls == 0;
        let threaded = if known { Fact::Known(record.threaded_ns) } else { Fact::NotAsked };
        classes.insert(Class::ThreadedNapi, threaded);
        classes.insert(Class::BusyPoll, Fact::Known(record.busy_ns));
        CpuInterference {
            cpu: *cpu,
            net_rx_ns: Fact::Known(record.net_rx_ns()),
            runs: Fact::Known(record.all_runs()),
            hard_irq_ns: Fact::Known(record.irq_ns + record.ipi_ns),
            by_class: classes,
            histogram: Fact::Known(record.histogram.to_vec()),
            busy_polled: Fact::Known(record.busy_work),
            packets: packets(*cpu, before, after),
            hypervisor_ns: hypervisor_ns(*cpu, before, after),
        }
    };
    between.cpus.iter().filter(|(cpu, record)| online(cpu) || counted(record)).map(one).collect()
}

/// Losses of each process over all CPUs.
fn losses(between: &Reading) -> BTreeMap<ProcessId, VictimRecord> {
    let mut sums: BTreeMap<ProcessId, VictimRecord> = BTreeMap::new();
    for ((_, process), record) in &between.victims {
        let sum = sums.entry(*process).or_insert_with(|| VictimRecord {
            command: record.command.clone(),
            cgroup: record.cgroup,
            ..VictimRecord::default()
        });
        for (sum, ns) in sum.ns.iter_mut().zip(record.ns) {
            *sum += ns;
        }
        sum.irq_ns += record.irq_ns;
    }
    sums
}

/// Running processes one by one; ended ones merged by name and control group.
fn victims(
    losses: &BTreeMap<ProcessId, VictimRecord>,
    (before, after): (&Moment, &Moment),
    exact_softirq_time: &Fact<bool>,
    group: impl Fn(u32) -> Fact<String>,
) -> Vec<Victim> {
    let mut ended: BTreeMap<(&str, u64), Victim> = BTreeMap::new();
    let mut victims = Vec::new();
    let running = losses.keys().filter(|process| after.processes.has(**process));
    let paths: BTreeMap<ProcessId, Fact<String>> =
        running.map(|process| (*process, group(process.pid))).collect();
    let numbered = numbered(losses, &paths);
    for (process, loss) in losses {
        if loss.irq_ns == 0 && loss.ns.iter().all(|ns| *ns == 0) {
            continue;
        }
        let runs = paths.contains_key(process);
        let believed_ns =
            if runs { after.processes.spent(process.pid, &before.processes) } else { Fact::Unsupported };
        let control_group = match paths.get(process) {
            Some(path) => path.clone(),
            None => Fact::Known(match numbered.get(&loss.cgroup) {
                Some(Some(path)) => (*path).to_owned(),
                _ => format!("number {}", loss.cgroup),
            }),
        };
        let path = control_group.known().map(String::as_str);
        let mut victim = Victim {
            command: loss.command.clone(),
            pid: runs.then_some(process.pid),
            processes: 1,
            container: path.and_then(parse::container),
            unit: path.and_then(parse::unit).map(str::to_owned),
            control_group,
            by_class: by_class(loss.ns).filter(|(_, ns)| *ns > 0).collect(),
            hard_irq_ns: loss.irq_ns,
            really_ns: Fact::Unsupported,
            believed_ns,
        };
        if runs {
            victim.really_ns = really(&victim, exact_softirq_time);
            victims.push(victim);
            continue;
        }
        ended
            .entry((&loss.command, loss.cgroup))
            .and_modify(|fold| {
                fold.processes += 1;
                fold.hard_irq_ns += victim.hard_irq_ns;
                for (class, ns) in &victim.by_class {
                    *fold.by_class.entry(*class).or_default() += ns;
                }
            })
            .or_insert(victim);
    }
    victims.extend(ended.into_values());
    victims.sort_by_key(|victim| std::cmp::Reverse((victim.lost_ns(), victim.own_ns())));
    victims
}

/// Paths of control groups by number, from processes that still run. `None` if two members report different
/// paths: the number is that of version 2, and they differ in version 1.
fn numbered<'a>(
    losses: &BTreeMap<ProcessId, VictimRecord>,
    paths: &'a BTreeMap<ProcessId, Fact<String>>,
) -> BTreeMap<u64, Option<&'a str>> {
    let mut numbered: BTreeMap<u64, Option<&str>> = BTreeMap::new();
    for (process, path) in paths {
        let Some(path) = path.known() else { continue };
        let known = numbered.entry(losses[process].cgroup).or_insert(Some(path));
        *known = known.filter(|known| known == path);
    }
    numbered
}

/// A kernel that counts interrupts exactly has already taken them out of the tasks' time.
fn really(victim: &Victim, exact_softirq_time: &Fact<bool>) -> Fact<u64> {
    victim.believed_ns.clone().and_then(|believed| match exact_softirq_time {
        Fact::Known(true) => Fact::Known(believed),
        Fact::Known(false) => Fact::Known(believed.saturating_sub(victim.lost_ns())),
        absent => absent.clone().map(|_| believed),
    })
}

fn irqs(between: &Reading, names: &Names) -> Vec<IrqInterference> {
    let used = between.irqs.iter().filter(|(_, record)| record.count > 0 || record.net_rx_ns > 0);
    let mut irqs: Vec<IrqInterference> = used
        .map(|((cpu, number), record)| IrqInterference {
            cpu: *cpu,
            irq: IrqId(*number),
            actions: names.actions(*number).to_vec(),
            queue: names.queue_of_irq(*number).map(str::to_owned),
            ns: record.ns,
            count: record.count,
            net_rx_ns: record.net_rx_ns,
        })
        .collect();
    irqs.sort_by_key(|irq| std::cmp::Reverse(irq.ns + irq.net_rx_ns));
    irqs
}

fn napis(between: &Reading, names: &Names) -> Vec<NapiPolls> {
    // As many per run as in the runs whose polls were counted.
    let of_all = |cpu: CpuId, counted: u64| {
        let (runs, polled) = between.cpus.get(&cpu).map_or((0, 0), |cpu| (cpu.all_runs(), cpu.polled_runs));
        if polled == 0 { counted } else { (counted as f64 * (runs as f64 / polled as f64)).round() as u64 }
    };
    let used = between.napis.iter().filter(|(_, record)| record.polls > 0);
    let mut napis: Vec<NapiPolls> = used
        .map(|((cpu, napi), record)| NapiPolls {
            cpu: *cpu,
            napi: if napi & UNNUMBERED == 0 { *napi } else { 0 },
            device: record.device.clone(),
            queues: names.queues(*napi).to_vec(),
            polls: of_all(*cpu, record.polls),
            packets: of_all(*cpu, record.work),
            full: of_all(*cpu, record.full),
        })
        .collect();
    napis.sort_by_key(|napi| std::cmp::Reverse(napi.packets));
    napis
}

fn remarks(between: &Reading) -> Vec<String> {
    let sum = |of: fn(&CpuRecord) -> u64| between.cpus.values().map(of).sum::<u64>();
    let mut remarks = Vec::new();
    let unlisted = sum(|cpu| cpu.unlisted);
    if unlisted > 0 {
        remarks.push(format!(
            "a table was full {unlisted} times: {:.1} ms are counted for the CPUs but for no process",
            sum(|cpu| cpu.unlisted_ns) as f64 / 1e6
        ));
    }
    let (runs, compared, differing) =
        (sum(CpuRecord::all_runs), sum(|cpu| cpu.compared_runs), sum(|cpu| cpu.differing_ns));
    let part = |of: u64, all: u64| 100.0 * of as f64 / all.max(1) as f64;
    // Runs between the attaching of two programs have no raise either.
    if compared < runs * 9 / 10 {
        remarks.push(format!(
            "each run is attributed to the interrupt that ended just before it, or else to the task itself: where \
             the raise was traced as well ({:.0} % of the runs), {:.2} % of the time had another cause",
            part(compared, runs),
            part(differing, sum(|cpu| cpu.compared_ns)),
        ));
        remarks.push(format!(
            "poll counts are estimates: they were counted in {:.0} % of the runs",
            part(sum(|cpu| cpu.polled_runs), runs)
        ));
    }
    let polls = sum(|cpu| cpu.busy_polls);
    if polls > 0 {
        remarks.push(format!(
            "busy-polling tasks polled {polls} times and got {} packets: their own time, in column \
             \"self\"",
            sum(|cpu| cpu.busy_work)
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::{Moment, losses, victims};
    use crate::raw::{ProcessId, Reading, VictimRecord};
    use crate::{Class, Victim};
    use rxlab_base::units::{CpuId, Fact};
    use rxlab_sys::RecordedHost;

    fn moment(ticks: u32) -> Moment {
        let stat = format!("7 (busy) R 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 1 0 0 0\n");
        let host = RecordedHost::new().with("proc/7/stat", stat);
        Moment::take(&host, &Moment::inventory(&host))
    }

    /// A process that began `ticks` after boot.
    fn process_on(cpu: u32, pid: u32, ticks: u64) -> (CpuId, ProcessId) {
        (CpuId(cpu), ProcessId { pid, began_ns: ticks * 10_000_000 + 1 })
    }

    fn record(command: &str, class: usize, ns: u64) -> VictimRecord {
        let mut record =
            VictimRecord { command: command.into(), cgroup: 3, irq_ns: 10, ..Default::default() };
        record.ns[class] = ns;
        record
    }

    fn interrupted(exact: Fact<bool>) -> Vec<Victim> {
        let reading = Reading {
            victims: [
                (process_on(0, 7, 1), record("busy", 1, 400_000_000)),
                (process_on(1, 7, 1), record("busy", 4, 100_000_000)),
                (process_on(0, 8, 2), record("sh", 0, 5)),
                (process_on(1, 9, 3), record("sh", 0, 6)),
                (process_on(1, 10, 4), VictimRecord::default()),
            ]
            .into(),
            ..Reading::default()
        };
        rows(&reading, &exact)
    }

    fn rows(reading: &Reading, exact: &Fact<bool>) -> Vec<Victim> {
        let group = |pid| Fact::Known(format!("/group of {pid}"));
        victims(&losses(reading), (&moment(0), &moment(100)), exact, group)
    }

    #[test]
    fn a_process_is_one_row_and_those_that_ended_are_folded() {
        let victims = interrupted(Fact::Known(false));
        let [busy, shells] = victims.as_slice() else { panic!("{victims:?}") };
        assert_eq!((busy.pid, busy.lost_ns(), busy.own_ns()), (Some(7), 400_000_020, 100_000_000));
        assert_eq!(busy.control_group, Fact::Known("/group of 7".into()));
        assert_eq!(busy.believed_ns, Fact::Known(1_000_000_000));
        assert_eq!(busy.really_ns, Fact::Known(599_999_980), "packets it received itself were its own work");
        assert_eq!((shells.pid, shells.processes, shells.by_class[&Class::NicIrq]), (None, 2, 11));
        assert_eq!((shells.hard_irq_ns, &shells.believed_ns), (20, &Fact::Unsupported));
    }

    /// A shell forked both, and each became another program.
    #[test]
    fn a_number_used_again_is_another_process() {
        let reading = Reading {
            victims: [
                (process_on(0, 7, 0), record("busy", 0, 5)),
                (process_on(0, 7, 1), record("busy", 0, 7)),
            ]
            .into(),
            ..Reading::default()
        };
        let rows = rows(&reading, &Fact::Known(false));
        let rows: Vec<_> = rows.iter().map(|row| (row.pid, row.by_class[&Class::NicIrq])).collect();
        assert_eq!(rows, [(Some(7), 7), (None, 5)]);
    }

    #[test]
    fn those_that_ended_are_of_the_group_of_those_that_run() {
        let docker = format!("/docker/{}", "4f".repeat(32));
        let reading = |other: u64| {
            let ended = VictimRecord { cgroup: other, ..record("sh", 0, 5) };
            Reading {
                victims: [(process_on(0, 7, 1), record("busy", 1, 9)), (process_on(0, 8, 2), ended)].into(),
                ..Reading::default()
            }
        };
        let found = |other| {
            let losses = losses(&reading(other));
            victims(&losses, (&moment(0), &moment(100)), &Fact::Known(false), |_| Fact::Known(docker.clone()))
        };
        let shell = |other| found(other).into_iter().find(|victim| victim.command == "sh").expect("a row");
        assert_eq!(shell(3).container.map(|container| container.engine), Some("docker".into()));
        assert_eq!((shell(4).container, shell(4).control_group), (None, Fact::Known("number 4".into())));
    }

    #[test]
    fn an_exact_kernel_has_taken_it_out_already() {
        assert_eq!(interrupted(Fact::Known(true))[0].really_ns, Fact::Known(1_000_000_000));
        assert_eq!(interrupted(Fact::Unsupported)[0].really_ns, Fact::Unsupported);
    }
}
