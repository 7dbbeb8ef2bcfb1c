//! Processes selected by name: a program, a systemd unit, a container, a pod.

use std::collections::{BTreeMap, BTreeSet};

use rxlab_base::parse;
use rxlab_path::sample::control_group;
use rxlab_sys::Host;

/// Bytes of a process name that the kernel keeps.
const NAME_MAX: usize = 15;
/// Digits of a container ID that its engine shows.
const SHORT: usize = 12;

/// Visible processes, by each of `names` that matches them.
pub fn named(host: &dyn Host, names: &[&str]) -> BTreeMap<String, BTreeSet<u32>> {
    let mut found: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    if names.is_empty() {
        return found;
    }
    let pids = host.list("proc").unwrap_or_default();
    for pid in pids.iter().filter_map(|name| name.parse::<u32>().ok()) {
        // A process that has ended since has no name.
        let Ok(command) = host.read(&format!("proc/{pid}/comm")) else { continue };
        let command = String::from_utf8_lossy(&command);
        let group = control_group(host, pid);
        let group = group.known().map(String::as_str).unwrap_or_default();
        for name in names.iter().filter(|name| goes_by(name, command.trim_end(), group)) {
            found.entry((*name).to_owned()).or_default().insert(pid);
        }
    }
    found
}

fn goes_by(name: &str, command: &str, group: &str) -> bool {
    // The kernel truncates names of programs.
    let cut = name.len() > NAME_MAX && name.as_bytes().get(..NAME_MAX) == Some(command.as_bytes());
    let contained = || {
        let container = parse::container(group)?;
        let short = name.len() >= SHORT && container.id.starts_with(name);
        Some(container.id == name || short || container.pod.as_deref() == Some(name))
    };
    command == name || cut || parse::unit(group) == Some(name) || contained() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::{goes_by, named};
    use rxlab_sys::RecordedHost;

    #[test]
    fn one_name_may_mean_several_processes() {
        let host = RecordedHost::new()
            .with("proc/7/comm", "nginx\n")
            .with("proc/7/cgroup", "0::/system.slice/web.service\n")
            .with("proc/8/comm", "nginx\n")
            .with("proc/9/comm", "php\n")
            .with("proc/9/cgroup", "0::/system.slice/web.service\n")
            .with("proc/uptime", "1 1\n");
        let found = named(&host, &["nginx", "web.service", "redis"]);
        assert_eq!(found["nginx"], [7, 8].into());
        assert_eq!(found["web.service"], [7, 9].into());
        assert!(!found.contains_key("redis"));
    }

    #[test]
    fn what_something_goes_by() {
        let uid = "1d5f0c9a-55b1-4a7c-9d39-0a6f6a1c7e11";
        let group = format!("/kubepods/pod{uid}/{}", "4f".repeat(32));
        assert!(goes_by("prometheus-node-exporter", "prometheus-node", "/"));
        assert!(goes_by("4f4f4f4f4f4f", "sh", &group) && goes_by(uid, "sh", &group));
        assert!(!goes_by("4f4f", "sh", &group) && !goes_by("s", "sh", &group) && !goes_by("", "sh", "/"));
    }
}
