//! The threads and daemons that matter to steering: ksoftirqd of each CPU, irqbalance.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::read;
use crate::host::Host;
use crate::parse;
use crate::units::{CpuId, Fact};

/// Process ids by role.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Processes {
    /// `ksoftirqd/N` by CPU.
    pub ksoftirqd: BTreeMap<CpuId, u32>,
    /// irqbalance, when it runs.
    pub irqbalance: Option<u32>,
}

pub(super) fn take(host: &dyn Host) -> Fact<Processes> {
    let names = match host.list("proc") {
        Ok(names) => names,
        Err(error) => return read::absence(&error),
    };
    let mut found = Processes::default();
    for pid in names.iter().filter_map(|name| name.parse::<u32>().ok()) {
        // A process may end between the listing and the reading: that is no error.
        let Ok(comm) = host.read(&format!("proc/{pid}/comm")) else { continue };
        let comm = String::from_utf8_lossy(&comm);
        let name = parse::thread_name(&comm);
        if let Some(cpu) = name.strip_prefix("ksoftirqd/").and_then(|cpu| cpu.parse().ok()) {
            found.ksoftirqd.insert(CpuId(cpu), pid);
        } else if name == "irqbalance" {
            found.irqbalance.get_or_insert(pid);
        }
    }
    Fact::Known(found)
}

#[cfg(test)]
mod tests {
    use super::take;
    use crate::host::RecordedHost;
    use crate::units::{CpuId, Fact};

    #[test]
    fn roles_by_name() {
        let host = RecordedHost::new()
            .with("proc/15/comm", "ksoftirqd/0\n")
            .with("proc/23/comm", "ksoftirqd/11\n")
            .with("proc/700/comm", "irqbalance\n")
            .with("proc/701/comm", "irqbalance-ui\n")
            .with("proc/self/comm", "irqbalance\n");
        let Fact::Known(found) = take(&host) else { panic!("proc is there") };
        assert_eq!(found.irqbalance, Some(700));
        assert_eq!(found.ksoftirqd.get(&CpuId(11)), Some(&23));
        assert_eq!(found.ksoftirqd.len(), 2);
    }
}
