//! Records that the programs write into their maps: the structs of records.bpf.h, parsed from bytes.

use std::collections::BTreeMap;

use rxlab_base::units::CpuId;

/// Number of classes in `enum class`.
const CLASSES: usize = 9;
/// Buckets of the histogram.
const BUCKETS: usize = 32;
/// State of `struct cpu` before its counters: eleven 64-bit and twelve 32-bit fields.
const CPU_STATE: usize = 11 * 8 + 12 * 4;

/// Set in the key of a NAPI without a number, combined with the index of its device.
pub(super) const UNNUMBERED: u32 = 0x8000_0000;

/// All counters at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// CLOCK_MONOTONIC in nanoseconds.
    pub at_ns: u64,
    /// By CPU; every possible one is included.
    pub cpus: BTreeMap<CpuId, CpuRecord>,
    /// By CPU and interrupt.
    pub irqs: BTreeMap<(CpuId, u32), IrqRecord>,
    /// By CPU and NAPI; 0 is the CPU's backlog. NAPIs of transmit queues have no number: their key has the
    /// device.
    pub napis: BTreeMap<(CpuId, u32), NapiRecord>,
    /// By CPU and process.
    pub victims: BTreeMap<(CpuId, ProcessId), VictimRecord>,
}

/// A process; distinguishes processes that reuse a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId {
    pub pid: u32,
    /// Nanoseconds from boot to its start.
    pub began_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuRecord {
    /// NET_RX nanoseconds by class.
    pub ns: [u64; CLASSES],
    /// NET_RX runs by class.
    pub runs: [u64; CLASSES],
    /// Runs by length: entry N counts 2^N to 2^(N+1) - 1 nanoseconds.
    pub histogram: [u64; BUCKETS],
    /// Nanoseconds in handlers of numbered interrupts.
    pub irq_ns: u64,
    /// Number of these interrupts.
    pub irqs: u64,
    /// Nanoseconds in inter-processor interrupts that handed packets over.
    pub ipi_ns: u64,
    /// Number of these interrupts.
    pub ipis: u64,
    pub threaded_ns: u64,
    pub threaded_polls: u64,
    /// Polls by tasks that wait for packets.
    pub busy_polls: u64,
    /// Packets of these polls.
    pub busy_work: u64,
    /// Nanoseconds of these polls, except the first of each wait.
    pub busy_ns: u64,
    /// Time of tasks for which the table had no room.
    pub unlisted_ns: u64,
    /// Number of times any table had no room.
    pub unlisted: u64,
    /// Nanoseconds in timer interrupts, and in inter-processor interrupts for other reasons.
    pub other_ns: u64,
    /// Number of these interrupts.
    pub others: u64,
    /// NET_RX runs whose raise was seen, which gives their cause.
    pub compared_runs: u64,
    /// Nanoseconds of these runs.
    pub compared_ns: u64,
    /// Those of them whose cause differs from the interrupt just before them.
    pub differing_runs: u64,
    /// Nanoseconds of these runs.
    pub differing_ns: u64,
    /// NET_RX runs whose polls were counted.
    pub polled_runs: u64,
}

/// Counters of an interrupt on one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IrqRecord {
    /// Nanoseconds in its handlers.
    pub ns: u64,
    pub count: u64,
    /// NET_RX nanoseconds that it caused.
    pub net_rx_ns: u64,
}

/// Counters of a NAPI on one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NapiRecord {
    pub polls: u64,
    /// Packets that the polls returned.
    pub work: u64,
    /// Polls that used up their budget.
    pub full: u64,
    /// Index of its device in the device's own namespace; 0 = none.
    pub ifindex: u32,
    /// Name of its device; empty = none.
    pub device: String,
}

/// Time a process lost on one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VictimRecord {
    /// NET_RX nanoseconds by class.
    pub ns: [u64; CLASSES],
    pub irq_ns: u64,
    /// ID of its control group (version 2).
    pub cgroup: u64,
    pub command: String,
}

impl CpuRecord {
    pub fn all_runs(&self) -> u64 {
        self.runs.iter().sum()
    }

    /// Receive time of every kind.
    pub fn net_rx_ns(&self) -> u64 {
        self.ns.iter().sum::<u64>() + self.threaded_ns + self.busy_ns
    }
}

/// Takes numbers off the front of bytes that the programs wrote in the machine's byte order.
pub(super) struct Words<'a>(pub(super) &'a [u8]);

impl Words<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_ne_bytes)
    }

    pub(super) fn number32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_ne_bytes)
    }

    /// A name of at most 16 bytes, ended by a zero if it is shorter.
    pub(super) fn name(&mut self) -> Option<String> {
        let bytes: [u8; 16] = self.bytes()?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

/// A key of a map of the programs; `None` for too few bytes.
pub(super) trait Key: Sized + Ord {
    fn parse(bytes: &[u8]) -> Option<Self>;
}

/// `struct key` of the programs.
impl Key for (CpuId, u32) {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut words = Words(bytes);
        Some((CpuId(words.number32()?), words.number32()?))
    }
}

/// `struct process` of the programs.
impl Key for (CpuId, ProcessId) {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut words = Words(bytes);
        let (cpu, pid) = (CpuId(words.number32()?), words.number32()?);
        Some((cpu, ProcessId { pid, began_ns: words.number()? }))
    }
}

/// Slots of each CPU.
pub(super) const SLOTS: u32 = 64;

/// `struct irq_slot`, number `at`; `None` when it is free.
pub(super) fn irq_slot(at: u32, bytes: &[u8]) -> Option<((CpuId, u32), IrqRecord)> {
    let mut words = Words(bytes);
    let number = words.number()?.checked_sub(1)?;
    Some(((CpuId(at / SLOTS), u32::try_from(number).ok()?), IrqRecord::parse(words.0)?))
}

/// `struct victim_slot`; `None` when it is free.
pub(super) fn victim_slot(_at: u32, bytes: &[u8]) -> Option<((CpuId, ProcessId), VictimRecord)> {
    let (key, record) = bytes.split_at_checked(size_of::<[u64; 2]>())?;
    let (cpu, process) = <(CpuId, ProcessId)>::parse(key)?;
    (process.pid > 0).then_some(())?;
    Some(((cpu, process), VictimRecord::parse(record)?))
}

/// A record in a map of the programs: state of theirs, counters, and what the counters belong to.
pub(super) trait Record: Clone + Default {
    /// Bytes before the counters.
    const STATE: usize = 0;

    /// The counters, in the order of the source.
    fn counters(&mut self) -> Vec<&mut u64>;

    /// Takes the fields after the counters; `None` for too few bytes.
    fn identify(&mut self, _words: &mut Words<'_>) -> Option<()> {
        Some(())
    }

    /// `None` for too few bytes.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut words = Words(bytes.get(Self::STATE..)?);
        let mut record = Self::default();
        for counter in record.counters() {
            *counter = words.number()?;
        }
        record.identify(&mut words)?;
        Some(record)
    }

    /// Counts since `earlier`, which must be an older reading of the same attached programs: a counter that is
    /// lower than before counts as unchanged.
    fn since(mut self, earlier: &Self) -> Self {
        let mut earlier = earlier.clone();
        for (now, before) in self.counters().into_iter().zip(earlier.counters()) {
            *now = now.saturating_sub(*before);
        }
        self
    }
}

/// A record as the kernel returns it.
pub(super) fn record<R: Record>(bytes: &[u8]) -> R {
    R::parse(bytes).expect("the kernel returns values of the map's own size")
}

impl Record for CpuRecord {
    const STATE: usize = CPU_STATE;

    fn counters(&mut self) -> Vec<&mut u64> {
        let by_class = self.ns.iter_mut().chain(&mut self.runs).chain(&mut self.histogram);
        let others = [
            &mut self.irq_ns,
            &mut self.irqs,
            &mut self.ipi_ns,
            &mut self.ipis,
            &mut self.threaded_ns,
            &mut self.threaded_polls,
            &mut self.busy_polls,
            &mut self.busy_work,
            &mut self.busy_ns,
            &mut self.unlisted_ns,
            &mut self.unlisted,
            &mut self.other_ns,
            &mut self.others,
            &mut self.compared_runs,
            &mut self.compared_ns,
            &mut self.differing_runs,
            &mut self.differing_ns,
            &mut self.polled_runs,
        ];
        by_class.chain(others).collect()
    }
}

impl Record for IrqRecord {
    fn counters(&mut self) -> Vec<&mut u64> {
        vec![&mut self.ns, &mut self.count, &mut self.net_rx_ns]
    }
}

impl Record for NapiRecord {
    fn counters(&mut self) -> Vec<&mut u64> {
        vec![&mut self.polls, &mut self.work, &mut self.full]
    }

    fn identify(&mut self, words: &mut Words<'_>) -> Option<()> {
        (self.ifindex, self.device) = (words.number32()?, words.name()?);
        Some(())
    }
}

impl Record for VictimRecord {
    fn counters(&mut self) -> Vec<&mut u64> {
        self.ns.iter_mut().chain([&mut self.irq_ns]).collect()
    }

    fn identify(&mut self, words: &mut Words<'_>) -> Option<()> {
        (self.cgroup, self.command) = (words.number()?, words.name()?);
        Some(())
    }
}

impl Reading {
    /// Time that a running process lost on a CPU.
    pub fn lost(&self, cpu: CpuId, pid: u32) -> Option<&VictimRecord> {
        let [first, last] = [0, u64::MAX].map(|began_ns| (cpu, ProcessId { pid, began_ns }));
        self.victims.range(first..=last).next_back().map(|(_, record)| record)
    }

    /// Counts between `earlier` and this; an entry that is new started at zero.
    pub fn since(self, earlier: &Self) -> Self {
        fn all<K: Ord, R: Record>(now: BTreeMap<K, R>, before: &BTreeMap<K, R>) -> BTreeMap<K, R> {
            let none = R::default();
            now.into_iter()
                .map(|(key, record)| {
                    let before = before.get(&key).unwrap_or(&none);
                    (key, record.since(before))
                })
                .collect()
        }
        Self {
            at_ns: self.at_ns,
            cpus: all(self.cpus, &earlier.cpus),
            irqs: all(self.irqs, &earlier.irqs),
            napis: all(self.napis, &earlier.napis),
            victims: all(self.victims, &earlier.victims),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{CPU_STATE, CpuRecord, IrqRecord, Key, NapiRecord, ProcessId, Reading, Record, VictimRecord};
    use rxlab_base::units::CpuId;

    fn numbers(from: u64, count: u64) -> Vec<u8> {
        (from..from + count).flat_map(u64::to_ne_bytes).collect()
    }

    #[test]
    fn fields_are_where_the_programs_put_them() {
        let cpu = CpuRecord::parse(&[vec![0xff; CPU_STATE], numbers(1, 68)].concat()).expect("long enough");
        assert_eq!((cpu.ns[0], cpu.ns[8], cpu.runs[0], cpu.histogram[31]), (1, 9, 10, 50));
        assert_eq!((cpu.irq_ns, cpu.ipis, cpu.threaded_ns, cpu.busy_ns, cpu.others), (51, 54, 55, 59, 63));
        assert_eq!((cpu.compared_runs, cpu.differing_ns, cpu.polled_runs), (64, 67, 68));
        let napi = [numbers(1, 3), 7u32.to_ne_bytes().to_vec(), b"eth0\0xxxxxxxxxxx".to_vec()].concat();
        let napi = NapiRecord::parse(&napi).expect("long enough");
        assert_eq!((napi.full, napi.ifindex, napi.device.as_str()), (3, 7, "eth0"));
        let victim = [numbers(1, 11), b"sixteen bytes xx".to_vec()].concat();
        let victim = VictimRecord::parse(&victim).expect("long enough");
        assert_eq!(
            (victim.ns[8], victim.irq_ns, victim.cgroup, victim.command.as_str()),
            (9, 10, 11, "sixteen bytes xx")
        );
    }

    #[test]
    fn a_slot_has_its_key_in_front() {
        let irq = |number| super::irq_slot(130, &numbers(number, 4));
        let record = IrqRecord { ns: 7, count: 8, net_rx_ns: 9 };
        assert_eq!((irq(6), irq(0)), (Some(((CpuId(2), 5), record)), None));
        let victim = |pid: u32| {
            let key = [2u32.to_ne_bytes(), pid.to_ne_bytes()].concat();
            super::victim_slot(0, &[key, numbers(1, 12), b"sixteen bytes xx".to_vec()].concat())
        };
        let (key, record) = victim(7).expect("taken");
        assert_eq!(key, (CpuId(2), ProcessId { pid: 7, began_ns: 1 }));
        assert_eq!((record.ns[0], record.irq_ns, record.command.as_str()), (2, 11, "sixteen bytes xx"));
        assert_eq!(victim(0), None);
    }

    #[test]
    fn differences_are_by_key() {
        let irq = |ns| IrqRecord { ns, count: 1, net_rx_ns: 0 };
        let before = Reading { irqs: [((CpuId(0), 5), irq(3))].into(), ..Reading::default() };
        let now = Reading {
            irqs: [((CpuId(0), 5), irq(10)), ((CpuId(1), 5), irq(4))].into(),
            ..Reading::default()
        };
        let between = now.since(&before).irqs;
        assert_eq!((between[&(CpuId(0), 5)].ns, between[&(CpuId(1), 5)].ns), (7, 4));
    }

    proptest! {
        #[test]
        fn only_too_few_bytes_are_none(bytes in proptest::collection::vec(any::<u8>(), 0..800)) {
            fn is_whole<R: Record>(bytes: &[u8], behind_counters: usize) -> bool {
                bytes.len() >= R::STATE + 8 * R::default().counters().len() + behind_counters
            }
            prop_assert_eq!(CpuRecord::parse(&bytes).is_some(), is_whole::<CpuRecord>(&bytes, 0));
            prop_assert_eq!(IrqRecord::parse(&bytes).is_some(), is_whole::<IrqRecord>(&bytes, 0));
            prop_assert_eq!(NapiRecord::parse(&bytes).is_some(), is_whole::<NapiRecord>(&bytes, 4 + 16));
            prop_assert_eq!(VictimRecord::parse(&bytes).is_some(), is_whole::<VictimRecord>(&bytes, 8 + 16));
            prop_assert_eq!(<(CpuId, u32)>::parse(&bytes).is_some(), bytes.len() >= 8);
            prop_assert_eq!(<(CpuId, ProcessId)>::parse(&bytes).is_some(), bytes.len() >= 16);
        }
    }
}
