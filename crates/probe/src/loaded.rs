//! The programs of one object in the kernel: all that this kernel accepts, attached, and their cost.
//! They end with the value that holds them, or with this process, however it ends: nothing is pinned.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libbpf_rs::{ErrorKind, Link, Map, MapCore, MapHandle, Object, ObjectBuilder, OpenObject};
use thiserror::Error;

use super::run_time::{self, CostSoFar, Rare, RunTime};
use rxlab_base::units::{Fact, Need};
use rxlab_sys::Host;

/// Optional parts that this kernel may lack, in the order in which they are dropped.
const VARIANTS: [(bool, bool); 4] = [(true, true), (false, true), (true, false), (false, false)];

/// The optional programs to load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Variant {
    /// Reads whether it is in an interrupt: needs the kernel's variables in its symbol table.
    count: bool,
    /// Tracepoints of x86's inter-processor and timer interrupts.
    vectors: bool,
    /// Sees polling threads come and go, at each switch between any two tasks.
    threads: bool,
}

impl Variant {
    fn loads(self, program: &str) -> bool {
        match program {
            "raised" => self.count,
            "raised_no_count" => !self.count,
            "polled" | "switched" => self.threads,
            "polled_untimed" => !self.threads,
            "ipi_entry" | "ipi_exit" | "timer_entry" | "timer_exit" => self.vectors,
            _ => true,
        }
    }
}

/// Reason why receive work cannot be watched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Missing {
    #[error("eBPF needs CAP_BPF and CAP_PERFMON, which root has")]
    Privilege,
    #[error(
        "the kernel is PREEMPT_RT, where tasks preempt softirqs: a softirq's duration is not its CPU time"
    )]
    RealTime,
    #[error("the kernel has no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)")]
    Types,
    #[error("the kernel rejected the eBPF programs: {0}")]
    Refused(String),
}

/// Programs that need not run all the time.
#[derive(Clone, Copy)]
pub(super) struct RarePrograms {
    pub(super) names: &'static [&'static str],
    /// Name of the map that shows whether one is needed all the time.
    pub(super) map: &'static str,
    pub(super) is_needed: fn(&str, &MapHandle) -> bool,
}

impl RarePrograms {
    /// For an object whose programs all run all the time.
    pub(super) const NONE: Self = Self { names: &[], map: "", is_needed: |_, _| true };
}

#[derive(Debug)]
pub(super) struct Loaded {
    // Detached first.
    links: Vec<Link>,
    /// Of programs meant to run rarely, if they have to stay attached.
    plain_links: Vec<OwnedFd>,
    rare: &'static [&'static str],
    object: Object,
    /// `None` if counting is not allowed.
    run_time: Option<RunTime>,
    variant: Variant,
}

impl Loaded {
    /// Attaches the programs of `bytes`, or returns what is missing in one line. Tries instead of asking,
    /// since kernels do not always report what they support. `size` returns the size of each map whose size
    /// is not that of its source. `threads` must be true if any NAPI may get a thread: only then threads are timed.
    ///
    /// The programs run until [`Loaded::detach`] or until this is dropped; the caller should keep it no longer
    /// than it measures.
    pub(super) fn attach(
        host: &dyn Host,
        bytes: &[u8],
        threads: bool,
        rare: RarePrograms,
        size: impl Fn(&str) -> Option<u32>,
    ) -> Result<Self, Missing> {
        refuse_real_time(host)?;
        let mut first = None;
        for (count, vectors) in VARIANTS {
            let variant = Variant { count, vectors, threads };
            match Self::try_attach(bytes, &size, variant, rare) {
                Ok(loaded) => return Ok(loaded),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(refusal(host, &first.expect("there are variants, and none was attached")))
    }

    fn try_attach(
        bytes: &[u8],
        size: &impl Fn(&str) -> Option<u32>,
        variant: Variant,
        rare: RarePrograms,
    ) -> Result<Self, libbpf_rs::Error> {
        let mut open = ObjectBuilder::default().open_memory(bytes)?;
        for mut map in open.maps_mut() {
            let entries = size(&map.name().to_string_lossy());
            entries.map_or(Ok(()), |entries| map.set_max_entries(entries))?;
        }
        for mut program in open.progs_mut() {
            let loads = variant.loads(&program.name().to_string_lossy());
            program.set_autoload(loads);
        }
        let object = open.load()?;
        let mut links = Vec::new();
        let mut rarely = Vec::new();
        // Ends before beginnings: no piece of work begins whose end would not be seen.
        for ends in [true, false] {
            for program in object.progs_mut() {
                let name = program.name().to_string_lossy().into_owned();
                if !variant.loads(&name) || name.ends_with("_exit") != ends {
                    continue;
                }
                if rare.names.contains(&name.as_str()) {
                    let map = MapHandle::try_from(&map(&object, rare.map))?;
                    let program = program.as_fd().try_clone_to_owned().map_err(libbpf_rs::Error::from)?;
                    let is_needed = move || (rare.is_needed)(&name, &map);
                    rarely.push(Rare { program, is_needed: Box::new(is_needed) });
                } else {
                    links.push(program.attach()?);
                }
            }
        }
        let (run_time, plain_links) = match RunTime::start(rarely) {
            Ok(run_time) => (Some(run_time), Vec::new()),
            Err(all) => (None, all.iter().filter_map(|rare| run_time::attach(&rare.program)).collect()),
        };
        Ok(Self { links, plain_links, rare: rare.names, object, run_time, variant })
    }

    /// Detaches the programs; their records and cost can still be read.
    pub(super) fn detach(&mut self) {
        if let Some(run_time) = &mut self.run_time {
            run_time.stop();
        }
        self.links.clear();
        self.plain_links.clear();
    }

    /// Distinctions that this kernel does not allow.
    pub(super) fn limits(&self) -> Vec<String> {
        let mut limits = Vec::new();
        if !self.variant.vectors {
            limits.push(
                "this kernel has no tracepoints for inter-processor interrupts: work handed over by RPS \
                 counts as `other IRQ`, or as the task's own"
                    .to_owned(),
            );
        } else if !self.variant.count {
            limits.push(
                "this kernel does not show when it is in an interrupt without a number (a hypervisor's): \
                 packets from such an interrupt count as the task's own"
                    .to_owned(),
            );
        }
        limits
    }

    /// CPU time of the programs themselves since they were attached.
    pub(super) fn cost(&self) -> Fact<CostSoFar> {
        let Some(run_time) = &self.run_time else { return Fact::Denied(Need::Root) };
        let mut counted = CostSoFar::default();
        for program in
            self.object.progs().filter(|program| self.variant.loads(&program.name().to_string_lossy()))
        {
            match info(program.as_fd().as_raw_fd()) {
                Ok(info) => {
                    let (ns, runs) = if self.rare.iter().any(|rare| program.name() == *rare) {
                        (&mut counted.rare_ns, &mut counted.rare_runs)
                    } else {
                        (&mut counted.ns, &mut counted.runs)
                    };
                    *ns += info.run_time_ns;
                    *runs += info.run_cnt;
                    counted.missed += info.recursion_misses;
                }
                Err(error) => return Fact::Broken(format!("run time of the eBPF programs: {error}")),
            }
        }
        Fact::Known(run_time.so_far(counted))
    }

    /// A map from the programs' source.
    pub(super) fn map(&self, name: &str) -> Map<'_> {
        map(&self.object, name)
    }
}

/// Sets the 32-bit constants of an object, in the order of its source; they must be its first ones.
pub(super) fn set_constants(open: &mut OpenObject, values: &[u32]) {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    for mut map in open.maps_mut() {
        if map.name().to_string_lossy().ends_with(".rodata")
            && let Some(constants) = map.initial_value_mut()
        {
            constants[..bytes.len()].copy_from_slice(&bytes);
        }
    }
}

/// A map of an object, from the programs' source.
pub(super) fn map<'a>(object: &'a Object, name: &str) -> Map<'a> {
    object.maps().find(|map| map.name() == name).expect("the source has this map")
}

/// An error if tasks interrupt softirqs. Else tells libbpf not to write to standard error.
pub(super) fn refuse_real_time(host: &dyn Host) -> Result<(), Missing> {
    if host.read_text("sys/kernel/realtime").is_ok_and(|text| text.trim() == "1") {
        return Err(Missing::RealTime);
    }
    libbpf_rs::set_print(None);
    Ok(())
}

/// Reason why the kernel rejected the programs.
pub(super) fn refusal(host: &dyn Host, error: &libbpf_rs::Error) -> Missing {
    match error.kind() {
        // root is refused as well on a locked down kernel or in a container.
        ErrorKind::PermissionDenied if !rustix::process::geteuid().is_root() => Missing::Privilege,
        _ if host.list("sys/kernel/btf").is_err() => Missing::Types,
        _ => Missing::Refused(error.to_string()),
    }
}

/// Upper limit of the number of CPUs.
pub(super) fn possible_cpus() -> Result<u32, Missing> {
    let cpus = libbpf_rs::num_possible_cpus().map_err(|error| Missing::Refused(error.to_string()))?;
    Ok(u32::try_from(cpus).expect("a kernel has thousands of CPUs at most"))
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
    use super::Variant;

    #[test]
    fn one_of_two_programs_sees_a_raise() {
        for count in [true, false] {
            let variant = Variant { count, vectors: false, threads: count };
            assert!(variant.loads("raised") != variant.loads("raised_no_count"));
            assert!(variant.loads("run_exit") && !variant.loads("ipi_entry"));
            assert!(variant.loads("polled") != variant.loads("polled_untimed"));
        }
    }
}
