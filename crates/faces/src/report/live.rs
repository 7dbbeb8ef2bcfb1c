//! One interval of a machine in the rows that `rxlab top` shows, for the screen, for lines of text and for JSON.
//!
//! Figures and findings come from the doctor's report and the rates it was made of; nothing is measured or judged here.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::findings::nothing;
use rxlab_advise::diagnose::{Finding, Severity};
use rxlab_advise::doctor::{Alert, Alerts, Load, doctor};
use rxlab_advise::plan::Proposal;
use rxlab_base::number::{percent, plural};
use rxlab_base::units::{CpuId, CpuMask, Fact, IrqId, NicName, QueueId};
use rxlab_change::apply::{State, TransactionStatus};
use rxlab_path::evidence::{arrival_cpus, busy, is_counted, queue_packets, receive_time};
use rxlab_path::model::{CpuRates, Model, Nic, NicKind, ProcessRates, Rates};
use rxlab_probe::Interference;

/// Everything `rxlab top` shows of one interval; one line of `rxlab top --json`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LiveFrame {
    /// Name and version of the format.
    pub schema: &'static str,
    /// End of the interval, RFC 3339 in UTC.
    pub time: String,
    /// Length of the interval.
    pub seconds: f64,
    /// Load of the machine, as in the doctor's report.
    pub load: Load,
    /// CPUs online in the whole interval, by number.
    pub cpus: Vec<CpuRow>,
    /// Devices, and other interfaces that received packets, by name.
    pub nics: Vec<NicRow>,
    /// Receive queues of these interfaces.
    pub queues: Vec<QueueRow>,
    /// The programs that used most CPU time, most first.
    pub programs: Fact<Vec<ProgramRow>>,
    /// Time that programs lost to receive work, from its latest measurement; `None` if it was not measured.
    #[serde(skip)]
    pub interference: Option<Arc<Interference>>,
    /// Findings as reported: one clears after it was absent from two intervals in a row.
    pub findings: Arc<Vec<Finding>>,
    /// Plans that findings refer to.
    pub plans: Arc<Vec<Proposal>>,
    /// Findings that appeared, cleared or changed their severity in this interval.
    pub changes: Vec<Alert>,
    /// Open transactions of rxlab.
    pub applied: Arc<Applied>,
    /// The verdict if there are no findings.
    pub verdict: String,
    /// Reason for no verdict on steering, if there is none.
    pub refused: Option<String>,
    /// Sources that were missing or broken, and what is unknown as a result.
    pub gaps: Vec<String>,
}

/// Values that rxlab has applied, compared with the machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Applied {
    /// Open transactions, oldest first.
    pub transactions: Vec<TransactionStatus>,
    /// Reasons why more may be applied: a journal, or a file of it, that cannot be read.
    pub unknown: Vec<String>,
}

/// One CPU. Times are fractions of wall time; the rest are events per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuRow {
    pub cpu: CpuId,
    /// Time in hard interrupts and softirqs.
    pub receive_time: f64,
    /// Time in which it was not idle.
    pub busy: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Packets that went up the stack; `None`, as the following, if nothing counts them by CPU.
    pub packets: Option<f64>,
    /// Packets dropped because the backlog was full.
    pub dropped: Option<f64>,
    /// NET_RX runs that stopped at their budget or time limit with work left.
    pub time_squeeze: Option<f64>,
    /// RPS inter-processor interrupts received.
    pub rps_ipis: Option<f64>,
}

/// One interface; events per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NicRow {
    pub nic: NicName,
    /// Its driver; `None` for virtual interfaces.
    pub driver: Option<String>,
    /// The devices that carry its packets.
    pub carriers: Vec<NicName>,
    /// Packets received per second.
    pub rx_packets: f64,
    /// Bytes received per second.
    pub rx_bytes: f64,
    /// Packets for which the device had no buffer.
    pub rx_missed: f64,
    /// Packets received and dropped, those without a buffer included.
    pub rx_dropped: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct QueueRow {
    pub nic: NicName,
    pub queue: QueueId,
    /// Packets per second: counted, or an equal part of the interface's packets.
    pub packets: f64,
    /// True if the packets were counted for this queue.
    pub is_counted: bool,
    /// Packets per second that device or driver dropped; `None` if not counted.
    pub dropped: Option<f64>,
    /// Interrupts per second; `None` for a queue without interrupts.
    pub interrupts: Option<f64>,
    /// CPUs that handle its interrupts, as far as known.
    pub cpus: CpuMask,
    /// CPUs that RPS hands its packets to; empty = off.
    pub rps_cpus: Fact<CpuMask>,
    /// Entries of its RFS table; 0 = off.
    pub rps_flow_cnt: Fact<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProgramRow {
    pub pid: u32,
    /// Its name, truncated by the kernel to 15 bytes.
    pub command: String,
    /// CPU seconds per second.
    pub cpu: f64,
    /// CPUs that its threads last ran on.
    pub ran_on: Fact<CpuMask>,
    /// Most receive time of these CPUs; `None` if they are not known.
    pub receive_time: Option<f64>,
}

impl LiveFrame {
    pub const SCHEMA: &'static str = "rxlab.top/1";

    /// The rows of an interval that ended at `time`, without lost time. `alerts` are those of the intervals before it;
    /// `program` begins the commands that try a plan.
    pub fn new(
        model: &Model,
        rates: &Rates,
        program: &str,
        alerts: &mut Alerts,
        time: String,
        applied: Arc<Applied>,
    ) -> Self {
        let report = doctor(model, rates, program);
        let changes = alerts.update(&report.findings, &time);
        let shown: Vec<&Nic> = model.nics.iter().filter(|nic| is_shown(nic, rates)).collect();
        let interrupts: BTreeMap<IrqId, f64> =
            rates.irqs.iter().map(|irq| (irq.irq, irq.per_cpu.values().sum())).collect();
        let queues = shown.iter().flat_map(|nic| nic.rx.iter().map(move |queue| (*nic, queue)));
        let queues = queues.map(|(nic, queue)| QueueRow {
            nic: nic.name.clone(),
            queue: QueueId::rx(queue.index),
            packets: queue_packets(nic, queue, rates),
            is_counted: is_counted(nic, queue, rates),
            dropped: rates.nic(&nic.name).and_then(|rates| rates.queue_drops.get(&queue.index).copied()),
            interrupts: Some(&queue.irqs)
                .filter(|irqs| !irqs.is_empty())
                .and_then(|irqs| irqs.iter().map(|irq| interrupts.get(&irq.number).copied()).sum()),
            cpus: arrival_cpus(queue, model, rates),
            rps_cpus: queue.rps_cpus.clone(),
            rps_flow_cnt: queue.rps_flow_cnt.clone(),
        });
        Self {
            schema: Self::SCHEMA,
            time,
            seconds: rates.seconds,
            cpus: rates.cpus.iter().map(|row| cpu(row, !rates.uncounted)).collect(),
            queues: queues.collect(),
            nics: shown.iter().filter_map(|nic| row(nic, model, rates)).collect(),
            programs: rates
                .processes
                .clone()
                .map(|programs| programs.iter().map(|program| self::program(program, rates)).collect()),
            verdict: nothing(&report),
            // The CPUs have rows of their own.
            load: Load { cpus: Vec::new(), ..report.load },
            interference: None,
            findings: Arc::new(alerts.standing()),
            plans: Arc::new(report.plans),
            changes,
            applied,
            refused: report.refused,
            gaps: report.gaps,
        }
    }

    /// Time of day of its end, `10:00:05`.
    pub fn clock(&self) -> &str {
        self.time.get(11..19).unwrap_or(&self.time)
    }

    /// The machine in one line, with the number of the most severe findings: `CPU 2: 96 % receiving, 42,000 packets/s, no
    /// drops, 1 critical finding`.
    pub fn in_one_line(&self) -> String {
        let (load, worst) = (&self.load, self.findings.iter().map(|finding| finding.severity).max());
        let busiest = load.busiest.map_or_else(
            || "no CPU".to_owned(),
            |cpu| format!("CPU {cpu}: {} receiving", percent(load.receive_time.unwrap_or_default())),
        );
        let findings = worst.map_or("no findings".to_owned(), |worst| {
            let same = self.findings.iter().filter(|finding| finding.severity == worst).count();
            match worst {
                Severity::Critical => plural(same, "critical finding"),
                Severity::Warning | Severity::Note => plural(same, &worst.to_string()),
            }
        });
        let figures = [Some(busiest), load.packets_in_words(), Some(load.ledger.in_words()), Some(findings)];
        figures.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Lines for a pipe: the machine, and findings that changed.
    pub fn lines(&self) -> Vec<String> {
        let first = format!("{}  {}", self.clock(), self.in_one_line());
        std::iter::once(first).chain(self.changed_lines()).collect()
    }

    /// One line for each finding that changed: `10:00:05  appeared  critical  one-core-hotspot eth0: ...`.
    pub fn changed_lines(&self) -> Vec<String> {
        let line = |alert: &Alert| {
            let line = alert.in_one_line();
            let change = line.strip_prefix(&alert.time).unwrap_or(&line);
            format!("{}{change}", self.clock())
        };
        self.changes.iter().map(line).collect()
    }

    /// Transactions of which a value is no longer what was set, or that are unfinished or overdue.
    pub fn unsettled(&self) -> usize {
        self.applied.transactions.iter().filter(|one| !one.is_fine()).count()
    }

    /// The oldest transaction that waits for its confirmation, and its state.
    pub fn unconfirmed(&self) -> Option<(&str, &State)> {
        let waiting = |one: &&TransactionStatus| matches!(one.state, State::Unconfirmed { .. });
        let one = self.applied.transactions.iter().find(waiting)?;
        Some((one.id.as_str(), &one.state))
    }
}

/// True for a device, and for whatever receives.
fn is_shown(nic: &Nic, rates: &Rates) -> bool {
    let receives = rates.nic(&nic.name).is_some_and(|rates| rates.rx_packets > 0.0);
    receives || nic.kind == NicKind::Device
}

fn cpu(rates: &CpuRates, is_counted: bool) -> CpuRow {
    let counted = |rate: f64| is_counted.then_some(rate);
    CpuRow {
        cpu: rates.cpu,
        receive_time: receive_time(rates),
        busy: busy(rates),
        steal: rates.steal,
        packets: counted(rates.packets),
        dropped: counted(rates.dropped),
        time_squeeze: counted(rates.time_squeeze),
        rps_ipis: counted(rates.rps_ipis),
    }
}

/// `None` for an interface that was not there in the whole interval.
fn row(nic: &Nic, model: &Model, rates: &Rates) -> Option<NicRow> {
    let rates = rates.nic(&nic.name)?;
    Some(NicRow {
        nic: nic.name.clone(),
        driver: nic.driver.clone(),
        carriers: model.carriers(nic).into_iter().map(|carrier| carrier.name.clone()).collect(),
        rx_packets: rates.rx_packets,
        rx_bytes: rates.rx_bytes,
        rx_missed: rates.rx_missed,
        rx_dropped: rates.rx_dropped,
    })
}

fn program(program: &ProcessRates, rates: &Rates) -> ProgramRow {
    let of = |cpus: &CpuMask| cpus.iter().filter_map(|cpu| rates.cpu(cpu)).map(receive_time).reduce(f64::max);
    ProgramRow {
        pid: program.pid,
        command: program.command.clone(),
        cpu: program.cpu,
        receive_time: program.ran_on.known().and_then(of),
        ran_on: program.ran_on.clone(),
    }
}
