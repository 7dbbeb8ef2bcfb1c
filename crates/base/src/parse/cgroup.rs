//! Control groups: `/proc/PID/cgroup`, one line per hierarchy (cgroups(7)); `cpu.stat` and `cpu.max` of a group.

use super::ParseError;

/// Control groups of one process that identify its owner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ControlGroups {
    /// In the unified hierarchy (version 2).
    pub unified: Option<String>,
    /// Of the controller cpuset (version 1).
    pub cpuset: Option<String>,
    /// Of systemd's own hierarchy (version 1).
    pub systemd: Option<String>,
}

impl ControlGroups {
    /// The most informative one. With both versions side by side, one of them may hold every process in its
    /// root, or all containers in the group of the daemon that started them: one that names a container
    /// comes first.
    pub fn telling(&self) -> Option<&str> {
        let all = || [&self.unified, &self.cpuset, &self.systemd].into_iter().flatten().map(String::as_str);
        let contained = all().find(|path| super::container(path).is_some());
        contained.or_else(|| all().find(|path| *path != "/")).or_else(|| all().next())
    }
}

/// Parses `/proc/PID/cgroup`; hierarchies of other controllers are skipped.
pub fn control_groups(text: &str) -> Result<ControlGroups, ParseError> {
    let mut groups = ControlGroups::default();
    for (number, line) in (1..).zip(text.lines()) {
        let mut fields = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            return Err(ParseError::at(number, "expected ID:CONTROLLERS:PATH"));
        };
        super::counter(number, id)?;
        if !path.starts_with('/') {
            return Err(ParseError::at(number, format!("`{path}` is not the path of a control group")));
        }
        // The process has outlived its group.
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        let place = match controllers {
            "" => &mut groups.unified,
            "name=systemd" => &mut groups.systemd,
            list if list.split(',').any(|controller| controller == "cpuset") => &mut groups.cpuset,
            _ => continue,
        };
        *place = Some(path.to_owned());
    }
    Ok(groups)
}

/// Throttling of a control group since its creation, of `cpu.stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Throttling {
    /// Periods in which the group had something to run.
    pub periods: u64,
    /// Those in which it used up its quota and had to wait.
    pub throttled: u64,
    /// Time that it waited, in microseconds, summed over CPUs.
    pub waited_us: u64,
}

/// CPU time that a control group may use, of `cpu.max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuLimit {
    /// Microseconds of CPU time in each period.
    pub quota_us: u64,
    /// Length of a period in microseconds.
    pub period_us: u64,
}

/// Parses `cpu.stat`; `None` for a group without the controller, which has no periods.
pub fn throttling(text: &str) -> Result<Option<Throttling>, ParseError> {
    let (mut found, mut has_periods) = (Throttling::default(), false);
    for (number, line) in (1..).zip(text.lines()) {
        let (name, value) =
            line.split_once(' ').ok_or_else(|| ParseError::at(number, "expected NAME VALUE"))?;
        let place = match name {
            "nr_periods" => &mut found.periods,
            "nr_throttled" => &mut found.throttled,
            "throttled_usec" => &mut found.waited_us,
            _ => continue,
        };
        has_periods |= name == "nr_periods";
        *place = super::counter(number, value)?;
    }
    Ok(has_periods.then_some(found))
}

/// Parses `cpu.max`; `None` for no limit.
pub fn cpu_limit(text: &str) -> Result<Option<CpuLimit>, ParseError> {
    let expected = || ParseError::at(1, "expected QUOTA PERIOD");
    let (quota, period) = text.trim_end().split_once(' ').ok_or_else(expected)?;
    let period_us = super::counter(1, period)?;
    match quota {
        _ if period_us == 0 => Err(expected()),
        "max" => Ok(None),
        quota => Ok(Some(CpuLimit { quota_us: super::counter(1, quota)?, period_us })),
    }
}

/// Number of the hierarchy that has a controller, from `/proc/cgroups`: 0 is version 2. `None` if the controller is not
/// listed.
pub fn hierarchy(text: &str, controller: &str) -> Option<u32> {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.find(|fields| fields.clone().next() == Some(controller))?.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{CpuLimit, Throttling, control_groups, cpu_limit, hierarchy, throttling};

    /// `cpu.stat` of Linux 6.18 with the controller, and without.
    #[test]
    fn throttled_periods() {
        let text = "usage_usec 5124\nuser_usec 3000\nsystem_usec 2124\nnice_usec 0\nnr_periods 40\nnr_throttled 12\n\
                    throttled_usec 90417\nnr_bursts 0\nburst_usec 0\n";
        let expected = Throttling { periods: 40, throttled: 12, waited_us: 90_417 };
        assert_eq!(throttling(text), Ok(Some(expected)));
        assert_eq!(throttling("usage_usec 5124\nuser_usec 3000\nsystem_usec 2124\n"), Ok(None));
        assert_eq!(throttling("nr_periods\n").expect_err("no value").line, 1);
        assert_eq!(throttling("usage_usec 1\nnr_periods x\n").expect_err("no number").line, 2);
    }

    #[test]
    fn limits() {
        let limit = |quota_us| Ok(Some(CpuLimit { quota_us, period_us: 100_000 }));
        assert_eq!(cpu_limit("150000 100000\n"), limit(150_000));
        assert_eq!(cpu_limit("max 100000\n"), Ok(None));
        for bad in ["", "max\n", "1 0\n", "x 100000\n", "1 2 3\n"] {
            assert!(cpu_limit(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_group_that_tells_most() {
        let telling = |text: &str| control_groups(text).expect("valid").telling().map(str::to_owned);
        let is = |path: &str| Some(path.to_owned());
        assert_eq!(telling("0::/system.slice/nginx.service\n"), is("/system.slice/nginx.service"));
        let version_1 = "9:cpu,cpuacct:/x\n8:cpuset:/docker/1\n1:name=systemd:/docker/1\n";
        assert_eq!(telling(version_1), is("/docker/1"));
        let hybrid = "3:cpuset:/\n1:name=systemd:/system.slice/a.service\n0::/system.slice/a.service\n";
        assert_eq!(telling(hybrid), is("/system.slice/a.service"));
        assert_eq!(telling("3:cpuset:/\n0::/\n"), is("/"));
        // Docker without systemd creates groups in the hierarchies of version 1 only.
        let docker = format!("/docker/{}", "4f".repeat(32));
        let text =
            format!("8:cpuset:{docker}\n1:name=systemd:{docker}\n0::/system.slice/containerd.service\n");
        assert_eq!(telling(&text), is(&docker));
        assert_eq!(telling("0::/a.service (deleted)\n"), is("/a.service"));
        assert_eq!(telling("4:memory:/x\n"), None);
        assert_eq!(telling(""), None, "a kernel without control groups");
    }

    #[test]
    fn bad_lines_are_named() {
        assert_eq!(control_groups("0::/\nx::/\n").expect_err("no number").line, 2);
        assert!(control_groups("0:/\n").is_err());
        assert!(control_groups("0::x\n").is_err());
    }

    #[test]
    fn a_controller_has_one_hierarchy() {
        let text = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t3\t9\t1\ncpu\t0\t1\t1\n";
        assert_eq!((hierarchy(text, "cpuset"), hierarchy(text, "cpu")), (Some(3), Some(0)));
        assert_eq!((hierarchy(text, "pids"), hierarchy("cpuset x\n", "cpuset")), (None, None));
    }

    proptest! {
        #[test]
        fn round_trip(path in "/[a-z:.@]{0,20}") {
            let text = format!("5:cpuset:{path}\n0::{path}\n");
            let groups = control_groups(&text).expect("valid");
            prop_assert_eq!((groups.unified.as_ref(), groups.cpuset.as_ref()), (Some(&path), Some(&path)));
        }
    }
}
