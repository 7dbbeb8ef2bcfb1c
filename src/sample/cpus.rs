//! CPUs and who shares what with them, from /sys/devices/system/cpu.

use serde::{Deserialize, Serialize};

use super::read;
use crate::host::Host;
use crate::units::{CpuId, CpuMask, Fact};

/// One present CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawCpu {
    /// Its number.
    pub id: CpuId,
    /// In `online`.
    pub online: bool,
    /// In `isolated`.
    pub isolated: bool,
    /// `topology/core_id`.
    pub core: Fact<u32>,
    /// `topology/physical_package_id`.
    pub package: Fact<u32>,
    /// `topology/thread_siblings_list`.
    pub siblings: Fact<CpuMask>,
    /// `shared_cpu_list` of the cache with the highest level.
    pub last_level_cache: Fact<CpuMask>,
    /// N of the link or directory `nodeN`.
    pub node: Fact<u32>,
}

const BASE: &str = "sys/devices/system/cpu";

pub(super) fn take(host: &dyn Host) -> Fact<Vec<RawCpu>> {
    let online = read::cpu_list(host, &format!("{BASE}/online"));
    let present = match read::cpu_list(host, &format!("{BASE}/present")) {
        Fact::Known(present) => Fact::Known(present),
        _ => online.clone(),
    };
    let Fact::Known(online) = online else { return online.map(|_| Vec::new()) };
    let isolated = read::cpu_list(host, &format!("{BASE}/isolated"));
    let isolated = isolated.known().cloned().unwrap_or_default();
    present.map(|present| present.iter().map(|id| one(host, id, &online, &isolated)).collect())
}

fn one(host: &dyn Host, id: CpuId, online: &CpuMask, isolated: &CpuMask) -> RawCpu {
    let base = format!("{BASE}/cpu{id}");
    RawCpu {
        id,
        online: online.contains(id),
        isolated: isolated.contains(id),
        core: read::number(host, &format!("{base}/topology/core_id")),
        package: read::number(host, &format!("{base}/topology/physical_package_id")),
        siblings: read::cpu_list(host, &format!("{base}/topology/thread_siblings_list")),
        last_level_cache: last_level_cache(host, &base),
        node: node(host, &base),
    }
}

fn last_level_cache(host: &dyn Host, base: &str) -> Fact<CpuMask> {
    let names = match host.list(&format!("{base}/cache")) {
        Ok(names) => names,
        Err(error) => return read::absence(&error),
    };
    let level = |name: &&String| {
        let level: Fact<u32> = read::number(host, &format!("{base}/cache/{name}/level"));
        level.known().copied()
    };
    let last = names.iter().filter(|name| name.starts_with("index")).max_by_key(level);
    last.map_or(Fact::Unsupported, |name| {
        read::cpu_list(host, &format!("{base}/cache/{name}/shared_cpu_list"))
    })
}

fn node(host: &dyn Host, base: &str) -> Fact<u32> {
    match host.list(base) {
        Err(error) => read::absence(&error),
        Ok(names) => {
            let node = names.iter().find_map(|name| name.strip_prefix("node")?.parse().ok());
            node.map_or(Fact::Unsupported, Fact::Known)
        }
    }
}
