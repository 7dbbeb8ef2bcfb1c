//! Frequency governors and idle states of the CPUs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::read;
use crate::host::Host;
use crate::units::{CpuId, CpuMask, Fact};

const FREQUENCY: &str = "sys/devices/system/cpu/cpufreq";
const IDLE: &str = "sys/devices/system/cpu/cpu0/cpuidle";

/// A state in which an idle CPU waits (C-state): `cpuidle/stateN`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IdleState {
    /// Its name, such as `C6`.
    pub name: String,
    /// Microseconds until the CPU works again, according to the driver.
    pub exit_us: u32,
    /// True if it was disabled; a request to the kernel for low latency (`/dev/cpu_dma_latency`) is not seen here.
    pub disabled: bool,
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

/// Idle states of the first CPU, shallowest first.
pub(super) fn idle_states(host: &dyn Host) -> Fact<Vec<IdleState>> {
    read::list(host, IDLE).and_then(|entries| {
        let mut numbers: Vec<u32> =
            entries.iter().filter_map(|entry| entry.strip_prefix("state")?.parse().ok()).collect();
        numbers.sort_unstable();
        let state = |number: &u32| {
            let path = |file: &str| format!("{IDLE}/state{number}/{file}");
            let name = read::text(host, &path("name")).known()?.trim().to_owned();
            let exit_us = *read::number(host, &path("latency")).known()?;
            let disable: Fact<u32> = read::number(host, &path("disable"));
            Some(IdleState { name, exit_us, disabled: disable.known().is_some_and(|value| *value != 0) })
        };
        let states: Vec<IdleState> = numbers.iter().filter_map(state).collect();
        if states.is_empty() { Fact::Unsupported } else { Fact::Known(states) }
    })
}

#[cfg(test)]
mod tests {
    use super::{FREQUENCY, IDLE, IdleState, governors, idle_states};
    use crate::host::RecordedHost;
    use crate::units::{CpuMask, Fact};

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
    #[test]
    fn states_in_their_order() {
        let mut host = RecordedHost::new();
        for (number, name, latency, disable) in [(10, "C6", 170, 1), (1, "C1", 2, 0), (0, "POLL", 0, 0)] {
            host = host
                .with(&format!("{IDLE}/state{number}/name"), format!("{name}\n"))
                .with(&format!("{IDLE}/state{number}/latency"), format!("{latency}\n"))
                .with(&format!("{IDLE}/state{number}/disable"), format!("{disable}\n"));
        }
        let state = |name: &str, exit_us, disabled| IdleState { name: name.to_owned(), exit_us, disabled };
        let all = vec![state("POLL", 0, false), state("C1", 2, false), state("C6", 170, true)];
        assert_eq!(idle_states(&host), Fact::Known(all));
        assert_eq!(idle_states(&RecordedHost::new()), Fact::Unsupported);
    }
}
