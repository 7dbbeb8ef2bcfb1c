//! A machine as its kernel shows it: files of procfs and sysfs, and answers over netlink and ioctls.

mod counters;
mod cpus;
mod irqs;
mod losses;
mod netlink;
mod nics;

use rxlab_base::units::CpuMask;
use rxlab_sys::{Cause, RecordedHost};

use super::truth::{Irqbalance, Kernel, Told, Truth};

pub(crate) use counters::{at, received};

/// PID of irqbalance.
const IRQBALANCE: u32 = 700;

/// Everything but the counters.
pub(crate) fn machine(truth: &Truth) -> RecordedHost {
    let host = kernel(RecordedHost::new(), truth);
    let host = cpus::render(host, truth);
    let host = irqs::render(host, truth);
    let host = nics::render(host, truth);
    let host = netlink::render(host, truth);
    processes(host, truth)
}

fn kernel(host: RecordedHost, truth: &Truth) -> RecordedHost {
    let release = truth.kernel.release();
    let mut host = host
        .with("proc/sys/kernel/hostname", "random\n")
        .with("proc/sys/kernel/osrelease", format!("{release}\n"))
        .with("proc/sys/kernel/random/boot_id", "00000000-0000-4000-8000-000000000001\n")
        .with("proc/self/mountinfo", cpus::mounts(truth))
        .with("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")
        .with("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm \n");
    for (name, value) in [
        ("rps_sock_flow_entries", truth.sock_flows),
        ("netdev_budget", 300),
        ("netdev_budget_usecs", 2000),
        ("netdev_max_backlog", 1000),
        ("busy_poll", 0),
        ("busy_read", 0),
    ] {
        host = host.with(&format!("proc/sys/net/core/{name}"), format!("{value}\n"));
    }
    if truth.kernel >= Kernel::V6_18 {
        host = host.with("proc/sys/net/core/rps_default_mask", "0\n");
    }
    let accounting = format!("CONFIG_IRQ_TIME_ACCOUNTING={}\n", if truth.is_exact { "y" } else { "n" });
    match truth.kernel {
        Kernel::V5_15 => host.with(&format!("boot/config-{release}"), accounting),
        _ if truth.is_exact => host.with("proc/pressure/cpu", "\n").with("proc/pressure/irq", "\n"),
        _ => host.with("proc/pressure/cpu", "\n"),
    }
}

fn processes(host: RecordedHost, truth: &Truth) -> RecordedHost {
    let mut pids = vec![1, 2, 3];
    let mut host = host
        .with("proc/1/comm", "systemd\n")
        .with("proc/2/comm", "kthreadd\n")
        .with("proc/2/task/2/children", "3 ")
        .with("proc/3/comm", "pool_workqueue_release\n");
    if let Some(Irqbalance { banned, banned_cpus, told }) = &truth.irqbalance {
        pids.push(IRQBALANCE);
        let path = |file: &str| format!("proc/{IRQBALANCE}/{file}");
        let arguments: String = banned.iter().map(|irq| format!("--banirq={irq}\0")).collect();
        host = host
            .with(&path("comm"), "irqbalance\n")
            .with(&path("cmdline"), format!("/usr/sbin/irqbalance\0--foreground\0{arguments}"));
        let socket = format!("socket/irqbalance/{IRQBALANCE}/setup");
        let list = format!("IRQBALANCE_BANNED_CPULIST={banned_cpus}");
        host = match told {
            Told::Socket => {
                let irqs: String =
                    banned.iter().map(|irq| format!("IRQ {irq} LOAD 0 DIFF 0 CLASS 5 ")).collect();
                host.with(&socket, format!("SLEEP 10 {irqs}BANNED {}", banned_cpus.to_hex()))
            }
            Told::Environment => host.with(&path("environ"), format!("LANG=C\0{list}\0")),
            Told::Configuration => host
                .with_failure(&socket, Cause::Denied)
                .with_failure(&path("environ"), Cause::Denied)
                .with("etc/default/irqbalance", format!("# Options\n{list}\n")),
            Told::Nowhere => host,
        };
    }
    host.with_list("proc", pids.iter().map(ToString::to_string).collect())
}

/// A mask as sysfs and procfs show it: as wide as the machine.
pub(crate) fn mask(truth: &Truth, cpus: &CpuMask) -> String {
    let width = truth.cpus.iter().map(|cpu| cpu.id.0 + 1).max().unwrap_or(1);
    let digits = cpus.to_hex();
    let wanted = digits.len().max(width.min(32).div_ceil(4) as usize);
    format!("{digits:0>wanted$}\n")
}
