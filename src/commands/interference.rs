//! `rxlab interference`: time lost to received packets, by CPU and by process.

mod compare;

use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;

use super::look::ended;
use super::{Global, machine, output, place, progress};
use crate::error::{CommandError, Kind, Result};
use rxlab_base::units::{CpuId, parse_duration};
use rxlab_faces::report::interference;
use rxlab_probe::{LookError, Method, Missing, OpensslError, SampleOptions, Tier, look};
use rxlab_sys::Host;

/// Find out who pays for received packets: CPUs, and the processes that lose time to them
///
/// Uses eBPF where it is available (root), /proc otherwise, and says which.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Length of the sample; with --compare that of each slot [default: 3s, 1s with --compare]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    length: Option<Duration>,
    /// CPU for --probe and --with; with --compare the CPU whose interference counts
    #[arg(long, value_name = "CPU")]
    cpu: Option<u32>,
    /// Keep the CPU busy with integer work, and print how much time that work lost next to the measured loss
    #[arg(long, requires = "cpu", conflicts_with = "with")]
    probe: bool,
    /// Like --probe, but with this program, for a whole number of seconds
    #[arg(long, requires = "cpu", value_name = "PROGRAM")]
    with: Option<With>,
    /// Measure only in this way, and fail if it is unavailable
    #[arg(long, value_name = "TIER")]
    tier: Option<TierName>,
    #[command(flatten)]
    pair: compare::Pair,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum With {
    Openssl,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TierName {
    Ebpf,
    Procfs,
}

/// /proc counts in ticks of 10 ms, and openssl in whole seconds.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3600);

pub(super) fn run(global: &Global, args: &Args) -> Result {
    let comparing = args.pair.is_asked();
    let default = Duration::from_secs(if comparing { 1 } else { 3 });
    let length = args.length.unwrap_or(default);
    if length < SHORTEST || length > LONGEST {
        return Err(CommandError::usage("--for must be 100ms to 1h"));
    }
    if global.root != Path::new("/") {
        return Err(CommandError::usage("interference measures this machine: --root is not supported"));
    }
    let cpu = args.cpu.map(CpuId);
    if comparing {
        return compare::run(global, &args.pair, length, cpu, args.probe);
    }
    if cpu.is_some() && !args.probe && args.with.is_none() {
        return Err(CommandError::usage("--cpu says where --probe or --with runs: give one of them"));
    }
    let host = machine::readable(global)?;
    if let Some(cpu) = cpu {
        let inventory = rxlab_path::sample::Inventory::take(&host, rxlab_path::sample::Scope::Path);
        machine::cpus(&machine::describe(&inventory)?, &cpu.into())?;
    }
    let (method, length) = match args.with {
        Some(With::Openssl) => {
            (Method::Openssl, Duration::from_secs(length.as_nanos().div_ceil(1_000_000_000) as u64))
        }
        None => (Method::Spin, length),
    };
    let options = SampleOptions {
        tier: args.tier.map(|tier| match tier {
            TierName::Ebpf => Tier::Ebpf,
            TierName::Procfs => Tier::Procfs,
        }),
        witness: cpu.map(|cpu| (method, cpu, length.as_secs())),
    };
    let stop = place::stop_flag()?;
    let host: &dyn Host = &host;
    let found = look(host, &options, || progress::wait("measuring interference", length, &stop), &stop)
        .map_err(explain)?;
    ended(&stop, output::print(global, &found, || interference::text(&found)))
}

fn explain(error: LookError) -> CommandError {
    let (kind, hint) = match &error {
        LookError::Missing(Missing::Privilege) => {
            let privilege = machine::privilege("measuring with eBPF");
            (Kind::Denied, Some(format!("{privilege}; --tier procfs does not")))
        }
        LookError::Missing(_) => (Kind::Denied, Some("--tier procfs needs no eBPF".to_owned())),
        LookError::Pin(..) | LookError::Openssl(OpensslError::Pin(..)) => (Kind::Usage, None),
        LookError::Openssl(OpensslError::Start(_)) => {
            (Kind::Failed, Some("on Debian: apt-get install openssl; or use --probe".to_owned()))
        }
        LookError::Read(_) | LookError::Openssl(_) => (Kind::Failed, None),
    };
    CommandError::new(kind, error).hint_all(hint)
}
