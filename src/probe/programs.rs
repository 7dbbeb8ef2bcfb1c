//! The programs in the kernel: loaded, attached, read. They end with the value that holds them, or with
//! this process, however it ends: nothing is pinned.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::{ErrorKind, Link, Map, MapCore, MapFlags, Object, ObjectBuilder};
use rustix::time::{ClockId, clock_gettime};
use thiserror::Error;

use super::raw::{CpuRecord, Reading, Record, key};
use super::steal::Cost;
use crate::host::Host;
use crate::units::{CpuId, Fact, Need};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/net_rx.bpf.o"));

/// What this kernel may lack, in the order in which the probe goes without it.
const VARIANTS: [Variant; 4] = [
    Variant { count: true, vectors: true },
    Variant { count: false, vectors: true },
    Variant { count: true, vectors: false },
    Variant { count: false, vectors: false },
];

/// Which of the programs that not every kernel takes are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Variant {
    /// Reads whether it is in an interrupt: needs the kernel's variables in its symbol table.
    count: bool,
    /// The tracepoints of x86's inter-processor and timer interrupts.
    vectors: bool,
}

impl Variant {
    fn loads(self, program: &str) -> bool {
        match program {
            "raised" => self.count,
            "raised_no_count" => !self.count,
            "ipi_entry" | "ipi_exit" | "timer_entry" | "timer_exit" => self.vectors,
            _ => true,
        }
    }
}

/// Why receive time cannot be measured here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Missing {
    /// A privilege.
    #[error("eBPF needs CAP_BPF and CAP_PERFMON, as root has them")]
    Privilege,
    /// Softirqs of this kernel are interrupted by tasks.
    #[error("the kernel is PREEMPT_RT, where tasks interrupt softirqs: their length is not their time")]
    RealTime,
    /// No type information, so no offsets.
    #[error("the kernel has no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)")]
    Types,
    /// The kernel said no.
    #[error("the kernel refuses the eBPF programs: {0}")]
    Refused(String),
}

/// Attached programs.
#[derive(Debug)]
pub struct Programs {
    // Detached first.
    _links: Vec<Link>,
    object: Object,
    // While it is open, the kernel counts the run time of all programs.
    statistics: Option<OwnedFd>,
    variant: Variant,
    cpus: u32,
}

impl Programs {
    /// Attaches the programs, or says in one line what is missing. Tried, not guessed: what kernels say
    /// they can do and what they do are two things.
    pub fn attach(host: &dyn Host) -> Result<Self, Missing> {
        if host.read_text("sys/kernel/realtime").is_ok_and(|text| text.trim() == "1") {
            return Err(Missing::RealTime);
        }
        // libbpf would write to standard error.
        libbpf_rs::set_print(None);
        let mut first = None;
        for variant in VARIANTS {
            match Self::try_attach(variant) {
                Ok(programs) => return Ok(programs),
                Err(error) => first = first.or(Some(error)),
            }
        }
        let error = first.expect("there are variants, and none was attached");
        let permission = error.kind() == ErrorKind::PermissionDenied;
        Err(match permission {
            // The superuser of a locked down kernel or of a container is refused as well.
            true if !rustix::process::geteuid().is_root() => Missing::Privilege,
            _ if host.list("sys/kernel/btf").is_err() => Missing::Types,
            _ => Missing::Refused(error.to_string()),
        })
    }

    /// The same, or nothing at all where that is wanted.
    pub(super) fn attach_unless(unwanted: bool, host: &dyn Host) -> Result<Option<Self>, Missing> {
        if unwanted { Ok(None) } else { Self::attach(host).map(Some) }
    }

    fn try_attach(variant: Variant) -> Result<Self, libbpf_rs::Error> {
        let cpus = libbpf_rs::num_possible_cpus()?;
        let cpus = u32::try_from(cpus).expect("a kernel has thousands of CPUs at most");
        let mut open = ObjectBuilder::default().open_memory(OBJECT)?;
        for mut map in open.maps_mut().filter(|map| map.name() == "cpus") {
            map.set_max_entries(cpus)?;
        }
        for mut program in open.progs_mut() {
            let loads = variant.loads(&program.name().to_string_lossy());
            program.set_autoload(loads);
        }
        let object = open.load()?;
        let statistics = enable_statistics();
        let mut links = Vec::new();
        // The ends before the beginnings: no piece of work is begun that nobody would end.
        for ends in [true, false] {
            for program in object.progs_mut() {
                let name = program.name().to_string_lossy().into_owned();
                if variant.loads(&name) && name.ends_with("_exit") == ends {
                    links.push(program.attach()?);
                }
            }
        }
        Ok(Self { _links: links, object, statistics, variant, cpus })
    }

    /// What this kernel does not let the probe tell apart.
    pub fn limits(&self) -> Vec<String> {
        let mut limits = Vec::new();
        if !self.variant.vectors {
            limits.push(
                "this kernel has no tracepoints for inter-processor interrupts: what RPS hands over counts as \
                 `other IRQ`, or as the task's own"
                    .to_owned(),
            );
        } else if !self.variant.count {
            limits.push(
                "this kernel does not tell when it is in an interrupt without a number (a hypervisor's): \
                 packets that come by such count as the task's own"
                    .to_owned(),
            );
        }
        limits
    }

    /// Everything that was counted so far.
    pub fn read(&self) -> Result<Reading, libbpf_rs::Error> {
        let cpus = self.map("cpus");
        let mut by_cpu = BTreeMap::new();
        for cpu in 0..self.cpus {
            if let Some(bytes) = cpus.lookup(&cpu.to_ne_bytes(), MapFlags::ANY)? {
                by_cpu.insert(CpuId(cpu), record::<CpuRecord>(&bytes));
            }
        }
        let now = clock_gettime(ClockId::Monotonic);
        Ok(Reading {
            // The clock counts from the start of the machine: neither part is negative.
            at_ns: now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs(),
            cpus: by_cpu,
            irqs: self.table("irqs")?,
            napis: self.table("napis")?,
            victims: self.table("victims")?,
        })
    }

    /// CPU time of the programs themselves, since they were attached.
    pub fn cost(&self) -> Fact<Cost> {
        if self.statistics.is_none() {
            return Fact::Denied(Need::Root);
        }
        let mut cost = Cost::default();
        for program in
            self.object.progs().filter(|program| self.variant.loads(&program.name().to_string_lossy()))
        {
            match info(program.as_fd().as_raw_fd()) {
                Ok(info) => {
                    cost.ns += info.run_time_ns;
                    cost.runs += info.run_cnt;
                    cost.missed += info.recursion_misses;
                }
                Err(error) => return Fact::Broken(format!("run time of the eBPF programs: {error}")),
            }
        }
        Fact::Known(cost)
    }

    fn map(&self, name: &str) -> Map<'_> {
        self.object.maps().find(|map| map.name() == name).expect("records.bpf.h has this map")
    }

    fn table<R: Record>(&self, name: &str) -> Result<BTreeMap<(CpuId, u32), R>, libbpf_rs::Error> {
        let map = self.map(name);
        let mut all = BTreeMap::new();
        for bytes in map.keys() {
            let Some(value) = map.lookup(&bytes, MapFlags::ANY)? else { continue };
            all.insert(key(&bytes).expect("a key has 8 bytes"), record(&value));
        }
        Ok(all)
    }
}

fn record<R: Record>(bytes: &[u8]) -> R {
    R::parse(bytes).expect("the kernel gives values of the map's own size")
}

/// `None` where that is not allowed; then the programs run all the same.
#[allow(unsafe_code)]
fn enable_statistics() -> Option<OwnedFd> {
    // SAFETY: a plain system call; it takes a number and gives a descriptor or a negative errno.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    // SAFETY: not negative, so it is a descriptor that was just made and has no other owner.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

#[allow(unsafe_code)]
fn info(fd: i32) -> Result<libbpf_sys::bpf_prog_info, std::io::Error> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = u32::try_from(size_of_val(&info)).expect("some hundred bytes");
    // SAFETY: both pointers are to values that outlive the call, and the length is that of the first,
    // whose zeroed pointers ask for no further output.
    let code = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd, &raw mut info, &raw mut length) };
    if code < 0 { Err(std::io::Error::from_raw_os_error(-code)) } else { Ok(info) }
}

#[cfg(test)]
mod tests {
    use super::{Missing, Programs, Variant};
    use crate::host::RecordedHost;

    #[test]
    fn one_of_two_programs_sees_a_raise() {
        for count in [true, false] {
            let variant = Variant { count, vectors: false };
            assert!(variant.loads("raised") != variant.loads("raised_no_count"));
            assert!(variant.loads("run_exit") && !variant.loads("ipi_entry"));
        }
    }

    #[test]
    fn preemptible_softirqs_are_not_measured() {
        let host = RecordedHost::new().with("sys/kernel/realtime", "1\n");
        assert_eq!(Programs::attach(&host).err(), Some(Missing::RealTime));
    }
}
