//! Frequency governors and idle states of the CPUs, and how often those of interrupts entered deep ones.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Inventory, read};
use rxlab_base::units::{CpuId, CpuMask, Fact};
use rxlab_sys::Host;

const FREQUENCY: &str = "sys/devices/system/cpu/cpufreq";
const IDLE: &str = "sys/devices/system/cpu/cpu0/cpuidle";

/// Exit latency in microseconds that a request notices: a round trip in a data centre takes 20 to 100.
pub const DEEP_US: u32 = 20;

/// A state in which an idle CPU waits (C-state): `cpuidle/stateN`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleState {
    /// Its name, such as `C6`.
    pub name: String,
    /// Microseconds until the CPU works again, according to the driver.
    pub exit_us: u32,
    /// True if it was disabled; a request to the kernel for low latency (`/dev/cpu_dma_latency`) is not seen here.
    pub disabled: bool,
}

impl IdleState {
    /// True if a CPU may enter it, and a request notices the exit from it.
    pub fn is_deep(&self) -> bool {
        !self.disabled && self.exit_us >= DEEP_US
    }
}

/// CPUs by cpufreq governor.
pub(super) fn governors(host: &dyn Host) -> Fact<BTreeMap<String, CpuMask>> {
    read::list(host, FREQUENCY).and_then(|entries| {
        let governor = |policy: String| {
            let name = read::text(host, &format!("{FREQUENCY}/{policy}/scaling_governor"));
            Some((name.known()?.trim().to_owned(), policy))
        };
        let policies = entries.into_iter().filter(|entry| entry.starts_with("policy"));
        let policies: Vec<(String, String)> = policies.filter_map(governor).collect();
        let Some((first, _)) = policies.first() else { return Fact::Unsupported };
        // There may be a policy for each CPU: what they share is read once.
        if policies.iter().all(|(name, _)| name == first) {
            let online = read::cpu_list(host, "sys/devices/system/cpu/online");
            return online.map(|online| [(first.clone(), online)].into());
        }
        let mut found: BTreeMap<String, CpuMask> = BTreeMap::new();
        for (name, policy) in &policies {
            let cpus = read::text(host, &format!("{FREQUENCY}/{policy}/affected_cpus"));
            let cpus = cpus.known().map(String::as_str).unwrap_or_default().split_whitespace();
            let cpus: CpuMask = cpus.filter_map(|cpu| cpu.parse().ok()).map(CpuId).collect();
            let all = found.entry(name.clone()).or_default();
            *all = all.union(&cpus);
        }
        Fact::Known(found)
    })
}

/// Idle states of the first CPU, shallowest first: the kernel numbers them without gaps.
pub(super) fn idle_states(host: &dyn Host) -> Fact<Vec<IdleState>> {
    read::list(host, IDLE).and_then(|_| {
        let state = |number: u32| {
            let path = |file: &str| format!("{IDLE}/state{number}/{file}");
            let name = read::text(host, &path("name")).known()?.trim().to_owned();
            let exit_us = *read::number(host, &path("latency")).known()?;
            let disable: Fact<u32> = read::number(host, &path("disable"));
            Some(IdleState { name, exit_us, disabled: disable.known().is_some_and(|value| *value != 0) })
        };
        let states: Vec<IdleState> = (0..).map_while(state).collect();
        if states.is_empty() { Fact::Unsupported } else { Fact::Known(states) }
    })
}

/// Entries of each CPU of a device's interrupts into each deep idle state, by the state's name; CPUs that do not count it
/// are missing.
pub(super) fn deep_entries(host: &dyn Host, inventory: &Inventory) -> BTreeMap<CpuId, BTreeMap<String, u64>> {
    let states = inventory.settings.idle_states.known().into_iter().flatten();
    let deep: Vec<(usize, &IdleState)> = states.enumerate().filter(|(_, state)| state.is_deep()).collect();
    if deep.is_empty() {
        return BTreeMap::new();
    }
    let nics = inventory.nics.known().into_iter().flatten();
    let of_devices: BTreeSet<_> = nics.filter_map(|nic| nic.msi_irqs.known()).flatten().collect();
    let irqs = inventory.irqs.known().into_iter().flatten().filter(|irq| of_devices.contains(&irq.number));
    let cpus = irqs.filter_map(|irq| irq.effective.known()).fold(CpuMask::new(), |all, one| all.union(one));
    let entered = |cpu: CpuId| {
        let usage = |(number, state): &(usize, &IdleState)| {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{number}/usage");
            Some((state.name.clone(), *read::number(host, &path).known()?))
        };
        let entries: BTreeMap<String, u64> = deep.iter().filter_map(usage).collect();
        (!entries.is_empty()).then_some((cpu, entries))
    };
    cpus.iter().filter_map(entered).collect()
}

#[cfg(test)]
mod tests {
    use super::{FREQUENCY, IDLE, IdleState, deep_entries, governors, idle_states};
    use crate::sample::{Inventory, Scope};
    use rxlab_base::units::{CpuId, CpuMask, Fact};
    use rxlab_sys::RecordedHost;

    fn cpus(list: &str) -> CpuMask {
        list.parse().expect("a list")
    }

    fn host(second: &str) -> RecordedHost {
        RecordedHost::new()
            .with("sys/devices/system/cpu/online", "0-3\n")
            .with(&format!("{FREQUENCY}/policy0/scaling_governor"), "performance\n")
            .with(&format!("{FREQUENCY}/policy0/affected_cpus"), "0 1\n")
            .with(&format!("{FREQUENCY}/policy2/scaling_governor"), format!("{second}\n"))
            .with(&format!("{FREQUENCY}/policy2/affected_cpus"), "2 3\n")
            .with(&format!("{FREQUENCY}/boost"), "1\n")
    }

    /// Composed: the virtual machines at hand change no frequency.
    #[test]
    fn cpus_by_governor() {
        let two = [("performance".to_owned(), cpus("0-1")), ("schedutil".to_owned(), cpus("2-3"))];
        assert_eq!(governors(&host("schedutil")), Fact::Known(two.into()));
        let one = [("performance".to_owned(), cpus("0-3"))];
        assert_eq!(governors(&host("performance")), Fact::Known(one.into()));
        assert_eq!(governors(&RecordedHost::new()), Fact::Unsupported);
    }

    /// Composed from a Xeon's states.
    fn xeon() -> RecordedHost {
        let states = [(3, "C6", 170, 1), (2, "C1E", 40, 0), (1, "C1", 2, 0), (0, "POLL", 0, 0)];
        states.into_iter().fold(RecordedHost::new(), |host, (number, name, latency, disable)| {
            host.with(&format!("{IDLE}/state{number}/name"), format!("{name}\n"))
                .with(&format!("{IDLE}/state{number}/latency"), format!("{latency}\n"))
                .with(&format!("{IDLE}/state{number}/disable"), format!("{disable}\n"))
        })
    }

    #[test]
    fn states_in_their_order() {
        let state = |name: &str, exit_us, disabled| IdleState { name: name.to_owned(), exit_us, disabled };
        let shallow = [state("POLL", 0, false), state("C1", 2, false)];
        let all = [&shallow[..], &[state("C1E", 40, false), state("C6", 170, true)]].concat();
        assert_eq!(idle_states(&xeon()), Fact::Known(all));
        assert_eq!(idle_states(&RecordedHost::new()), Fact::Unsupported);
    }

    /// Only states that are deep and enabled, and only CPUs of a device's interrupts.
    #[test]
    fn entries_of_the_cpus_of_interrupts() {
        let mut host = xeon()
            .with_link("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/net/eth0")
            .with("sys/bus/pci/devices/0000:00:03.0/msi_irqs/41", "msix\n")
            .with("proc/interrupts", "   CPU0 CPU1\n41: 1 1 PCI-MSIX-0000:00:03.0 0-edge eth0-rx-0\n")
            .with("proc/irq/41/effective_affinity_list", "1\n");
        for (cpu, state) in [(0, 2), (1, 1), (1, 2), (1, 3)] {
            let usage = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/usage");
            host = host.with(&usage, format!("{}\n", 100 * cpu + state));
        }
        let entries = deep_entries(&host, &Inventory::take(&host, Scope::Counters));
        assert_eq!(entries, [(CpuId(1), [("C1E".to_owned(), 102)].into())].into());
    }
}
