//! A machine with 8 CPUs under load, second by second, on a simulated clock: the captured one of
//! `fixtures/hosts/virtio-8cpu-8queue` with programs added, whose counters move as those of a web server that receives
//! 50,000 packets a second. The load swings over the day, and each counter has noise of its own.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use rxlab_base::parse::{one_message, words};
use rxlab_record::snapshot::Snapshot;
use rxlab_sys::{Host, RecordedHost};

/// CPUs and queues of the machine.
const CPUS: usize = 8;
/// Programs that use CPU time, and those that sleep.
const BUSY: usize = 12;
const SLEEPING: usize = 100;
/// Threads of a busy program.
const THREADS: usize = 4;
/// Numbers of the added processes start here.
const PIDS: usize = 2_000;

/// The machine and the counters that move.
pub(crate) struct Machine {
    base: RecordedHost,
    random: ChaCha8Rng,
    second: u64,
    /// user, system, idle, softirq.
    stat: [[u64; 4]; CPUS],
    /// TIMER, NET_TX, NET_RX, SCHED, RCU.
    softirqs: [[u64; 5]; CPUS],
    /// processed, time_squeeze and received_rps of each CPU.
    softnet: [[u64; 3]; CPUS],
    /// Input and output of each queue.
    interrupts: [[u64; 2]; CPUS],
    /// rx_packets, rx_bytes, tx_packets, tx_bytes.
    nic: [u64; 4],
    /// The same of each queue.
    queues: [[u64; 4]; CPUS],
    ksoftirqd: [u64; CPUS],
    /// Run time and wait time of each thread of the busy programs, in nanoseconds.
    threads: [[[u64; 2]; THREADS]; BUSY],
}

impl Machine {
    /// The machine, from its captured file.
    pub(crate) fn new(seed: u64) -> Self {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/hosts/virtio-8cpu-8queue/host.tar.zst");
        let file = std::fs::File::open(file).expect("a fixture");
        let snapshot = Snapshot::read(file).expect("a snapshot");
        let (files, rest) = snapshot.last().parts();
        let mut rest = rest.clone();
        let pids = (PIDS..PIDS + BUSY + SLEEPING).map(|pid| pid.to_string());
        rest.lists.get_mut("proc").expect("listed").extend(pids);
        let mut base = RecordedHost::from_parts(files, rest);
        for index in 0..SLEEPING {
            let pid = PIDS + BUSY + index;
            base = base
                .with(&format!("proc/{pid}/comm"), format!("service-{index}\n"))
                .with(&format!("proc/{pid}/stat"), stat(pid, "service", [3, 2], 1, index % CPUS));
        }
        for index in 0..BUSY {
            let pid = PIDS + index;
            let tasks = (0..THREADS).map(|thread| (pid + 1_000 * thread).to_string()).collect();
            base = base
                .with(&format!("proc/{pid}/comm"), format!("worker-{index}\n"))
                .with(&format!("proc/{pid}/status"), "Name:\tworker\nCpus_allowed_list:\t0-7\n")
                .with_list(&format!("proc/{pid}/task"), tasks);
        }
        Self {
            base,
            random: ChaCha8Rng::seed_from_u64(seed),
            second: 0,
            stat: [[40_000, 30_000, 9_000_000, 5_000]; CPUS],
            softirqs: [[90_000; 5]; CPUS],
            softnet: [[7_000_000, 20, 0]; CPUS],
            interrupts: [[3_000_000, 700_000]; CPUS],
            nic: [56_000_000, 30_000_000_000, 40_000_000, 90_000_000_000],
            queues: [[7_000_000, 4_000_000_000, 5_000_000, 11_000_000_000]; CPUS],
            ksoftirqd: [900_000_000; CPUS],
            threads: [[[5_000_000_000, 90_000_000]; THREADS]; BUSY],
        }
    }

    /// About `mean`, mostly within a fifth.
    fn noisy(&mut self, mean: f64) -> u64 {
        let uniform: f64 = (0..4).map(|_| f64::from(self.random.next_u32()) / f64::from(u32::MAX)).sum();
        (mean * (1.0 + 0.17 * (uniform - 2.0))).round().max(0.0) as u64
    }

    /// Lets a second pass.
    pub(crate) fn advance(&mut self) {
        self.second += 1;
        let hour = self.second as f64 / 3_600.0;
        let load = 1.0 + 0.6 * (hour / 24.0 * std::f64::consts::TAU).sin();
        for cpu in 0..CPUS {
            let packets = self.noisy(load * 6_250.0);
            let sent = self.noisy(load * 4_500.0);
            let [user, system, softirq] = [load * 22.0, load * 14.0, load * 9.0].map(|mean| self.noisy(mean));
            let idle = 100u64.saturating_sub(user + system + softirq);
            for (sum, more) in self.stat[cpu].iter_mut().zip([user, system, idle, softirq]) {
                *sum += more;
            }
            let runs = [250.0, load * 20.0, load * 2_100.0, 320.0, 410.0].map(|mean| self.noisy(mean));
            for (sum, more) in self.softirqs[cpu].iter_mut().zip(runs) {
                *sum += more;
            }
            self.softnet[cpu][0] += packets;
            self.softnet[cpu][1] += u64::from(self.random.next_u32().is_multiple_of(40));
            self.interrupts[cpu][0] += self.noisy(load * 1_900.0);
            self.interrupts[cpu][1] += self.noisy(load * 300.0);
            let bytes = self.noisy(packets as f64 * 540.0);
            let sent_bytes = self.noisy(sent as f64 * 2_200.0);
            for (at, more) in [packets, bytes, sent, sent_bytes].into_iter().enumerate() {
                self.queues[cpu][at] += more;
                self.nic[at] += more;
            }
            self.ksoftirqd[cpu] += self.noisy(load * 200_000.0);
        }
        for program in 0..BUSY {
            for thread in 0..THREADS {
                let [ran, waited] = [load * 40_000_000.0, 900_000.0].map(|mean| self.noisy(mean));
                self.threads[program][thread][0] += ran;
                self.threads[program][thread][1] += waited;
            }
        }
    }

    /// The machine at this second.
    pub(crate) fn host(&self) -> RecordedHost {
        let (files, rest) = self.base.parts();
        let mut host =
            RecordedHost::from_parts(files, rest.clone()).at_ns(50_000_000_000 + self.second * 1_000_000_000);
        host = host
            .with("proc/stat", self.stat_text())
            .with("proc/softirqs", self.softirqs_text())
            .with("proc/net/softnet_stat", self.softnet_text())
            .with("proc/interrupts", self.interrupts_text())
            .with("ioctl/ethtool/gstrings/eth0", queue_names())
            .with("ioctl/ethtool/gstats/eth0", self.queue_values());
        for (file, value) in ["rx_packets", "rx_bytes", "tx_packets", "tx_bytes"].iter().zip(self.nic) {
            host = host.with(&format!("sys/class/net/eth0/statistics/{file}"), format!("{value}\n"));
        }
        let threads: Vec<String> = (0..CPUS).map(|cpu| format!("ksoftirqd/{cpu}\n")).collect();
        for pid in self.base.list("proc").expect("listed") {
            let name = self.base.read_text(&format!("proc/{pid}/comm")).unwrap_or_default();
            if let Some(cpu) = threads.iter().position(|thread| *thread == name) {
                let text = format!("{} {} 4000\n", self.ksoftirqd[cpu], self.ksoftirqd[cpu] / 10);
                host = host.with(&format!("proc/{pid}/schedstat"), text);
            }
        }
        for (index, threads) in self.threads.iter().enumerate() {
            let pid = PIDS + index;
            let ticks: u64 = threads.iter().map(|[ran, _]| ran / 10_000_000).sum();
            let cpu = (index + self.second as usize / 7) % CPUS;
            host = host.with(
                &format!("proc/{pid}/stat"),
                stat(pid, "worker", [ticks / 3, ticks - ticks / 3], THREADS, cpu),
            );
            for (thread, [ran, waited]) in threads.iter().enumerate() {
                let task = format!("proc/{pid}/task/{}", pid + 1_000 * thread);
                host = host
                    .with(&format!("{task}/schedstat"), format!("{ran} {waited} {}\n", ran / 3_000_000))
                    .with(
                        &format!("{task}/stat"),
                        stat(pid, "worker", [1, 1], THREADS, (cpu + thread) % CPUS),
                    );
            }
        }
        host
    }

    fn stat_text(&self) -> String {
        let row = |(cpu, [user, system, idle, softirq]): (usize, &[u64; 4])| {
            format!("cpu{cpu} {user} 0 {system} {idle} 0 0 {softirq} 0 0 0\n")
        };
        self.stat.iter().enumerate().map(row).collect()
    }

    fn softirqs_text(&self) -> String {
        let names =
            ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
        let moving = [None, Some(0), Some(1), Some(2), None, None, None, Some(3), None, Some(4)];
        let header: String = (0..CPUS).map(|cpu| format!("{:>11}", format!("CPU{cpu}"))).collect();
        let row = |(name, at): (&str, Option<usize>)| {
            let value = |cpu: &[u64; 5]| format!(" {:>10}", at.map_or(0, |at| cpu[at]));
            format!("{name:>12}:{}\n", self.softirqs.iter().map(value).collect::<String>())
        };
        format!("            {header}\n{}", names.into_iter().zip(moving).map(row).collect::<String>())
    }

    fn softnet_text(&self) -> String {
        let row = |(cpu, [processed, squeezed, rps]): (usize, &[u64; 3])| {
            let zeros = "00000000 ".repeat(6);
            let processed = *processed as u32;
            format!("{processed:08x} 00000000 {squeezed:08x} {zeros}{rps:08x} 00000000 00000000 {cpu:08x}\n")
        };
        self.softnet.iter().enumerate().map(row).collect()
    }

    /// The captured text with other counts for the queues.
    fn interrupts_text(&self) -> String {
        let text = self.base.read_text("proc/interrupts").expect("captured");
        let row = |line: &str| {
            let queue = |kind: &str| line.rsplit_once(kind)?.1.parse::<usize>().ok();
            let count = match (queue("virtio0-input."), queue("virtio0-output.")) {
                (Some(queue), _) => Some((queue, self.interrupts[queue][0])),
                (_, Some(queue)) => Some((queue, self.interrupts[queue][1])),
                _ => None,
            };
            let Some((queue, count)) = count else { return format!("{line}\n") };
            let cells: String =
                (0..CPUS).map(|cpu| format!(" {:>10}", if cpu == queue { count } else { 0 })).collect();
            let name = line.split("PCI-MSI").nth(1).expect("a queue's line");
            format!("{}{cells}   PCI-MSI{name}\n", line.split_inclusive(':').next().expect("a number"))
        };
        text.lines().map(row).collect()
    }

    fn queue_values(&self) -> Vec<u8> {
        let mut answer = words(&[0x1d, (CPUS * 4) as u32]);
        answer.extend(self.queues.iter().flatten().flat_map(|value| value.to_ne_bytes()));
        one_message(&answer)
    }
}

fn queue_names() -> Vec<u8> {
    let mut answer = words(&[0x1b, 1, (CPUS * 4) as u32]);
    for queue in 0..CPUS {
        for counter in ["rx_QUEUE_packets", "rx_QUEUE_bytes", "tx_QUEUE_packets", "tx_QUEUE_bytes"] {
            let mut name = [0; 32];
            let text = counter.replace("QUEUE", &format!("queue_{queue}"));
            name[..text.len()].copy_from_slice(text.as_bytes());
            answer.extend(name);
        }
    }
    one_message(&answer)
}

/// `/proc/PID/stat` with these ticks in user and kernel mode.
fn stat(pid: usize, name: &str, [user, system]: [u64; 2], threads: usize, cpu: usize) -> String {
    let zeros = "0 ".repeat(14);
    format!(
        "{pid} ({name}) S 1 {pid} {pid} 0 -1 4194560 900 0 0 0 {user} {system} 0 0 20 0 {threads} 0 5000 90000000 800 \
         {zeros}{cpu} 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
    )
}
