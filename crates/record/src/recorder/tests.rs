//! The ring as a whole, on a machine of a few files and a disk in memory.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::writer::RESERVE;
use super::{Gap, Intervals, Limits, Recorder, Ring, Storage};
use rxlab_base::units::CpuId;
use rxlab_sys::{Host, RecordedHost};

/// A disk that can be full. Writing to a full one leaves half of what was written.
#[derive(Debug, Clone, Default)]
struct Memory(Arc<Mutex<Files>>);

#[derive(Debug, Default)]
struct Files {
    files: BTreeMap<String, Vec<u8>>,
    capacity: Option<usize>,
    /// Bytes of other programs, which take whatever becomes free.
    others: Option<usize>,
}

impl Memory {
    fn with<T>(&self, act: impl FnOnce(&mut Files) -> T) -> T {
        act(&mut self.0.lock().expect("no writer panicked"))
    }

    fn used(&self) -> usize {
        self.with(|disk| disk.used())
    }
}

impl Files {
    fn used(&self) -> usize {
        self.files.values().map(Vec::len).sum()
    }

    fn fits(&mut self, more: usize) -> bool {
        let used = self.used();
        let Some(capacity) = self.capacity else { return true };
        if let Some(others) = &mut self.others {
            *others = (*others).max(capacity.saturating_sub(used));
        }
        used + self.others.unwrap_or(0) + more <= capacity
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Storage for Memory {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        Ok(self
            .with(|disk| disk.files.iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect()))
    }

    fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let bytes = self.with(|disk| disk.files.get(name).cloned()).ok_or_else(missing)?;
        Ok(bytes[..bytes.len().min(limit as usize)].to_vec())
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.with(|disk| {
            let fits = disk.fits(bytes.len());
            let written = if fits { bytes } else { &bytes[..bytes.len() / 2] };
            disk.files.entry(name.to_owned()).or_default().extend_from_slice(written);
            if fits { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
        })
    }

    fn truncate(&mut self, name: &str, length: u64) -> io::Result<()> {
        self.with(|disk| disk.files.get_mut(name).map(|bytes| bytes.truncate(length as usize)))
            .ok_or_else(missing)
    }

    fn replace(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.with(|disk| {
            if disk.fits(bytes.len()) {
                disk.files.insert(name.to_owned(), bytes.to_vec());
                Ok(())
            } else {
                Err(io::ErrorKind::StorageFull.into())
            }
        })
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.with(|disk| disk.files.remove(name).map(drop)).ok_or_else(missing)
    }

    fn set_aside(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        if self.with(|disk| disk.files.contains_key(name)) {
            return Ok(());
        }
        self.replace(name, &vec![0; bytes as usize])
    }
}

/// A time of day.
const START_MS: i64 = 1_800_000_000_000;

/// A machine after `seconds` seconds: CPU 0 is busy for a tenth of the time, and `eth0` receives 1,000 packets a second.
fn machine(second: i64) -> RecordedHost {
    let base = "sys/class/net/eth0";
    let counted = |files: RecordedHost, file: &str, rate: i64| {
        files.with(&format!("{base}/statistics/{file}"), format!("{}\n", second * rate))
    };
    let mut host = RecordedHost::new()
        .with("proc/sys/kernel/random/boot_id", "473d721b-2896-4eb5-a890-2cb48c991713\n")
        .with("proc/stat", format!("cpu  9 9\ncpu0 {} 0 0 {}\nbtime 5\n", second * 10, second * 90))
        .with("proc/softirqs", format!("      CPU0\nNET_TX: 1\nNET_RX: {:>10}\n", second * 700))
        .with("proc/net/softnet_stat", format!("{:08x}{}\n", second * 1_000, " 00000000".repeat(12)))
        .with("sys/devices/system/cpu/online", "0\n")
        .with("sys/devices/system/cpu/present", "0\n")
        .with_link(base, "../../devices/virtual/net/eth0")
        .with(&format!("{base}/queues/rx-0/rps_cpus"), "0\n")
        // Another process every minute.
        .with(&format!("proc/{}/comm", 100 + second / 60), "worker\n");
    for (file, rate) in
        [("rx_packets", 1_000), ("rx_bytes", 64_000), ("tx_packets", 3), ("tx_bytes", 180), ("rx_dropped", 0)]
    {
        host = counted(host, file, rate);
    }
    counted(host, "rx_missed_errors", 0).at_ns(7_000_000_000 + second.unsigned_abs() * 1_000_000_000)
}

fn limits(size: u64) -> Limits {
    Limits { every: Duration::from_secs(1), size }
}

fn begin(disk: &Memory, size: u64) -> Recorder<Memory> {
    Recorder::begin(disk.clone(), limits(size)).expect("begun")
}

fn at(second: i64) -> i64 {
    START_MS + second * 1_000
}

fn record(recorder: &mut Recorder<Memory>, seconds: std::ops::Range<i64>) {
    for second in seconds {
        recorder.tick(&machine(second), at(second)).expect("recorded");
    }
}

fn ring(disk: &Memory) -> Ring<Memory> {
    Ring::open(disk.clone()).expect("listed")
}

/// Every replayed tick is the machine of its second.
fn check(disk: &Memory) -> Vec<i64> {
    let mut seen = Vec::new();
    for tick in ring(disk).replay(i64::MIN, i64::MAX) {
        let tick = tick.expect("readable");
        let second = (tick.at_ms - START_MS) / 1_000;
        let expected = machine(second);
        for path in ["proc/net/softnet_stat", "proc/softirqs", "sys/class/net/eth0/statistics/rx_packets"] {
            assert_eq!(tick.host.read(path), expected.read(path), "{path} at {second}");
        }
        assert_eq!(tick.host.now_ns(), expected.now_ns());
        seen.push(second);
    }
    seen
}

#[test]
fn a_ring_wraps_and_keeps_the_newest() {
    let disk = Memory::default();
    let size = 24_000;
    let mut recorder = begin(&disk, size);
    for second in 0..4_000 {
        recorder.tick(&machine(second), at(second)).expect("recorded");
        assert!(disk.used() <= size as usize, "{second}: {} bytes", disk.used());
    }
    let seen = check(&disk);
    let first = seen[0];
    assert!(first > 0, "the oldest were removed");
    assert_eq!(seen, (first..4_000).collect::<Vec<_>>());
    let span = ring(&disk).span().expect("readable").expect("recorded");
    assert_eq!((span.first_ms, span.last_ms, span.ticks), (at(first), at(3_999), (4_000 - first) as u64));
    let reserved = disk.with(|disk| disk.files[RESERVE].len());
    assert_eq!((span.bytes, span.gaps), ((disk.used() - reserved) as u64, Vec::new()));
}

#[test]
fn commands_read_two_moments() {
    let disk = Memory::default();
    record(&mut begin(&disk, 1 << 20), 0..700);
    let window = |second: i64, length: i64| ring(&disk).window(at(second), length * 1_000);
    // In the second segment, the whole of it, and across both.
    for (second, length, seconds) in [(699, 30, 30.0), (640, 35, 40.0), (605, 300, 300.0)] {
        let (model, rates) = window(second, length).expect("recorded").interval().expect("rates");
        assert_eq!(rates.seconds, seconds);
        assert_eq!(rates.cpu(CpuId(0)).map(|cpu| (cpu.user, cpu.packets)), Some((0.1, 1_000.0)));
        assert_eq!(model.nics.len(), 1);
    }
    assert_eq!(
        window(95, 0).expect("recorded").last().read("proc/101/comm").ok(),
        Some(b"worker\n".to_vec())
    );
    assert!(window(95, 0).expect("recorded").last().read("proc/100/comm").is_err(), "it ended");
    let refused = |second: i64, length: i64| window(second, length).expect_err("not recorded").to_string();
    assert_eq!(
        refused(-5, 30),
        "nothing is recorded at 2027-01-15 07:59:55 UTC: the recording spans 2027-01-15 08:00:00 UTC to \
         2027-01-15 08:11:39 UTC"
    );
    assert!(refused(20, 30).contains("at 2027-01-15 07:59:50 UTC: "), "the window begins too early");
    assert!(refused(900, 30).contains("at 2027-01-15 08:15:00 UTC: "));
    assert_eq!(
        Ring::open(Memory::default()).expect("listed").window(0, 0).expect_err("empty").to_string(),
        "nothing is recorded"
    );
}

#[test]
fn intervals_are_those_of_a_running_machine() {
    let disk = Memory::default();
    record(&mut begin(&disk, 1 << 20), 0..650);
    let ring = ring(&disk);
    let intervals = Intervals::new(ring.replay(at(595), at(605)));
    let rates: Vec<_> = intervals.map(|interval| interval.expect("readable")).collect();
    // 600 is the first full sample, and the first of a segment.
    assert_eq!(
        rates.iter().map(|(at_ms, _)| *at_ms).collect::<Vec<_>>(),
        (601..=605).map(at).collect::<Vec<_>>()
    );
    assert!(rates.iter().all(|(_, rates)| rates.seconds == 1.0 && rates.nics[0].rx_packets == 1_000.0));
}

/// A killed recorder leaves a log, possibly torn, possibly packed already.
#[test]
fn a_log_is_packed_by_the_next_recorder() {
    let disk = Memory::default();
    record(&mut begin(&disk, 1 << 20), 0..20);
    let (name, log) = disk.with(|disk| disk.files.clone().pop_first().expect("a log"));
    assert!(name.ends_with(".log"), "{name}");
    disk.with(|disk| disk.files.get_mut(&name).expect("it").extend_from_slice(&[7; 30]));
    assert_eq!(check(&disk), (0..20).collect::<Vec<_>>(), "the torn end is left out");
    begin(&disk, 1 << 20).finish().expect("packed");
    assert!(!disk.with(|disk| disk.files.contains_key(&name)), "packed");
    let mut next = begin(&disk, 1 << 20);
    disk.with(|disk| disk.files.insert(name, log));
    assert_eq!(check(&disk), (0..20).collect::<Vec<_>>(), "once");
    record(&mut next, 50..60);
    let span = ring(&disk).span().expect("readable").expect("recorded");
    assert_eq!(span.gaps, [Gap { from_ms: at(19), to_ms: at(50) }]);
    next.finish().expect("packed");
    let in_gap = ring(&disk).window(at(45), 0).expect_err("nothing there").to_string();
    assert!(
        in_gap.contains("the recorder paused from 2027-01-15 08:00:19 UTC to 2027-01-15 08:00:50 UTC"),
        "{in_gap}"
    );
    // Rates over a gap would be of a time that was not asked for; over a boot they would be wrong.
    let rebooted = machine(0).with("proc/sys/kernel/random/boot_id", "another\n");
    begin(&disk, 1 << 20).tick(&rebooted, at(61)).expect("recorded");
    let error = ring(&disk).window(at(61), 5_000).expect_err("two boots").to_string();
    assert!(error.starts_with("the machine was booted between "), "{error}");
}

/// Fills the disk but for `room` bytes.
fn fill(disk: &Memory, room: usize) {
    disk.with(|disk| disk.capacity = Some(disk.used() + room));
}

#[test]
fn a_full_disk_costs_samples_and_nothing_else() {
    let disk = Memory::default();
    let mut recorder = begin(&disk, 1 << 20);
    record(&mut recorder, 0..600);
    recorder.finish().expect("packed");
    let mut recorder = begin(&disk, 1 << 20);
    record(&mut recorder, 600..650);
    // What was set aside holds some thousand samples, and the old ones stay.
    fill(&disk, 300);
    record(&mut recorder, 650..1_000);
    assert_eq!(check(&disk), (0..1_000).collect::<Vec<_>>());
    assert!(!disk.with(|disk| disk.files.contains_key(RESERVE)), "it was used");
    // With none at all and nothing to remove, samples are lost; the log stays readable.
    disk.with(|disk| disk.capacity = Some(0));
    for second in 1_000..1_010 {
        let error = recorder.tick(&machine(second), at(second)).expect_err("full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
    assert_eq!(check(&disk), (0..1_000).collect::<Vec<_>>());
    disk.with(|disk| disk.capacity = None);
    record(&mut recorder, 1_010..1_300);
    assert_eq!(check(&disk), (0..1_000).chain(1_010..1_300).collect::<Vec<_>>());
    assert!(disk.with(|disk| disk.files.contains_key(RESERVE)), "set aside again, with a new segment");
}

/// Puts what is being packed in place: the moment of that is chance otherwise.
fn settle(recorder: &mut Recorder<Memory>) {
    while recorder.packing.is_some() {
        std::thread::yield_now();
        recorder.pack(false).expect("written");
    }
}

/// Records these seconds as far as the disk has room; returns those that it had room for.
fn record_what_fits(recorder: &mut Recorder<Memory>, seconds: std::ops::Range<i64>) -> Vec<i64> {
    let mut kept = Vec::new();
    for second in seconds {
        if recorder.tick(&machine(second), at(second)).is_ok() {
            kept.push(second);
        }
        settle(recorder);
    }
    kept
}

/// Bytes of the files with a suffix.
fn bytes_of(disk: &Memory, suffix: &str) -> usize {
    disk.with(|disk| {
        disk.files.iter().filter(|(name, _)| name.ends_with(suffix)).map(|(_, bytes)| bytes.len()).sum()
    })
}

/// A ring of segments of 600 seconds each on a disk that is full from then on, with nothing set aside.
fn full_disk(segments: i64) -> (Memory, Recorder<Memory>) {
    let disk = Memory::default();
    for segment in 0..segments {
        let mut recorder = begin(&disk, 1 << 17);
        record(&mut recorder, segment * 600..segment * 600 + 600);
        recorder.finish().expect("packed");
    }
    disk.with(|disk| disk.files.remove(RESERVE));
    fill(&disk, 0);
    let recorder = begin(&disk, 1 << 17);
    (disk, recorder)
}

/// On a disk that stays full new samples replace old ones, as in a ring that is smaller. A log that had no more room once
/// ended the recording: it was never packed.
#[test]
fn the_oldest_make_room_for_the_newest() {
    let (disk, mut recorder) = full_disk(8);
    for from in (4_800..7_800).step_by(100) {
        let kept = record_what_fits(&mut recorder, from..from + 100);
        assert!(kept.len() > 90, "{} of 100 samples from {from} on", kept.len());
        // What is packed keeps its room: it has several times as many samples as a log of its size.
        let (packed, log) = (bytes_of(&disk, ".packed"), bytes_of(&disk, ".log"));
        assert!(2 * packed > log, "{packed} bytes in front of a log of {log} at {from}");
    }
    let seen = check(&disk);
    assert!(seen.len() > 600 && seen[0] > 6_000 && seen.last() > Some(&7_790), "{seen:?}");
    assert!(seen.windows(2).all(|two| two[1] - two[0] < 10), "no larger gap: {seen:?}");
}

/// A disk that has no room for a log takes no more than the oldest segment.
#[test]
fn the_only_segment_left_is_not_given_up() {
    let (disk, mut recorder) = full_disk(1);
    let newest = *check(&disk).last().expect("recorded");
    assert_eq!(record_what_fits(&mut recorder, 600..1_200), [0; 0]);
    assert_eq!(check(&disk).last(), Some(&newest));
}

/// Another program takes whatever becomes free: nothing that was recorded is given up for it.
#[test]
fn a_disk_that_others_fill_erases_nothing() {
    let disk = Memory::default();
    let mut recorder = begin(&disk, 1 << 20);
    record(&mut recorder, 0..1_250);
    let before = check(&disk);
    fill(&disk, 0);
    disk.with(|disk| disk.others = Some(0));
    for second in 1_250..2_000 {
        recorder.tick(&machine(second), at(second)).expect_err("full");
    }
    assert_eq!(check(&disk), before);
}

/// A log that is packed while samples are taken: each is recorded, before and after.
#[test]
fn samples_do_not_wait_for_packing() {
    let disk = Memory::default();
    let mut recorder = begin(&disk, 64 << 20);
    // The recorder would have to wait for this one: two files that do not compress.
    let noise = |second: i64| {
        let mut state = second.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bytes: Vec<u8> = (0..8_000)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect();
        machine(second).with("proc/interrupts", [&b"0: "[..], &bytes].concat())
    };
    let mut was_packing = 0;
    for second in 0..700 {
        recorder.tick(&noise(second), at(second)).expect("recorded");
        was_packing += usize::from(recorder.packing.is_some());
    }
    assert!(was_packing > 1, "packing took {was_packing} ticks: the test shows nothing");
    recorder.finish().expect("packed");
    assert_eq!(check(&disk), (0..700).collect::<Vec<_>>());
    assert!(disk.with(|disk| disk.files.keys().all(|name| !name.ends_with(".log"))));
}

/// A file that is no recording stays, and is named.
#[test]
fn a_log_of_another_version_stays() {
    let disk = Memory::default();
    let name = format!("{:013}.log", at(0));
    disk.with(|disk| disk.files.insert(name.clone(), b"rxlab recording 9\nwhatever".to_vec()));
    let mut recorder = begin(&disk, 1 << 20);
    record(&mut recorder, 10..12);
    while recorder.packing.is_some() {
        std::thread::yield_now();
        recorder.pack(false).expect("written");
    }
    let unreadable = recorder.take_unreadable();
    assert!(matches!(&unreadable[..], [(found, _)] if *found == name), "{unreadable:?}");
    recorder.finish().expect("packed");
    assert!(disk.with(|disk| disk.files.contains_key(&name)));
}

/// The clock is set back by a minute.
#[test]
fn time_that_repeats_is_another_segment() {
    let disk = Memory::default();
    let mut recorder = begin(&disk, 1 << 20);
    record(&mut recorder, 0..120);
    recorder.tick(&machine(120), at(60)).expect("recorded");
    recorder.tick(&machine(121), at(61)).expect("recorded");
    assert_eq!(ring(&disk).span().expect("readable").map(|span| span.ticks), Some(122));
    let host = ring(&disk).window(at(61), 0).expect("recorded");
    assert_eq!(host.last().now_ns(), machine(120).now_ns(), "the later one counts");
}
