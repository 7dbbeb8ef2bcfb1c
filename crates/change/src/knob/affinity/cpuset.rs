//! Control groups with a cpuset: their location, in either version, and the group of a systemd unit.

use rustix::io::Errno;

use super::DENIED;
use super::members::{self, Pinned};
use crate::journal::Armed;
use crate::knob::error::Meanings;
use crate::knob::{KnobError, Result, Site};
use rxlab_base::number::cpus_text;
use rxlab_base::parse::{self, Mount};
use rxlab_base::units::CpuMask;
use rxlab_setting::Target;
use rxlab_sys::{Cause, Host, HostError};

/// Stands for a group without CPUs of its own.
pub(super) const INHERIT: &str = "inherit";

/// Usual mount points of the versions, for hosts whose mounts cannot be read.
const USUAL: [&str; 3] = ["sys/fs/cgroup/cpuset", "sys/fs/cgroup", "sys/fs/cgroup/unified"];

/// The CPUs of a group.
const FILE: &str = "cpuset.cpus";

/// Units live in slices, and those of users below the user's own manager. Nesting deeper than this is not
/// expected.
const DEPTH: u32 = 16;

/// Reason why a target has no directory.
#[derive(Debug)]
pub(crate) enum NoGroup {
    /// There is no such group, in words.
    Absent(String),
    NoCpuset,
    Unreadable(HostError),
}

/// The file with the CPUs of a group or a unit.
pub(super) fn file(site: Site<'_>) -> Result<String> {
    match directory(site.host, site.target) {
        Ok(directory) => Ok(format!("{directory}/{FILE}")),
        Err(NoGroup::Absent(why)) => Err(site.not_there(why)),
        Err(NoGroup::Unreadable(error)) => Err(site.unreadable(&error)),
        Err(NoGroup::NoCpuset) => Err(site.lacks(
            "the cpuset controller is not enabled for its control group (for a unit, `systemctl \
             set-property --runtime UNIT AllowedCPUs=0-7` enables it, with the CPUs that undo restores); or set \
             its processes by pid:N",
        )),
    }
}

/// The directory of a group or a unit, relative to the root.
pub(crate) fn directory(host: &dyn Host, target: &Target) -> Result<String, NoGroup> {
    directory_and_path(host, target).map(|(directory, _)| directory)
}

/// The same, and the path of the group.
pub(crate) fn directory_and_path(host: &dyn Host, target: &Target) -> Result<(String, String), NoGroup> {
    let absent = || NoGroup::Absent("no such control group".to_owned());
    let path = match target {
        Target::Unit(name) => of_unit(host, name)?,
        Target::Cgroup(path) => path.trim_end_matches('/').to_owned(),
        _ => return Err(absent()),
    };
    let mut found = false;
    for directory in directories(host) {
        let group = format!("{directory}{path}");
        match host.read(&format!("{group}/{FILE}")) {
            Ok(_) => return Ok((group, path)),
            Err(error) if error.cause == Cause::Missing => found |= host.list(&group).is_ok(),
            Err(error) => return Err(NoGroup::Unreadable(error)),
        }
    }
    Err(if found { NoGroup::NoCpuset } else { absent() })
}

pub(super) fn read(site: Site<'_>, file: &str) -> Result<String> {
    list(file, &site.read_text(file)?)
        .map(|cpus| if cpus.is_empty() { INHERIT.to_owned() } else { cpus.to_string() })
}

/// Refuses a canonical value that the kernel would reject, or whose write undo could not revert.
pub(super) fn check(site: Site<'_>, value: &str) -> Result {
    let file = file(site)?;
    let now = read(site, &file)?;
    if now == value {
        return Ok(());
    }
    let directory = directory_of(&file);
    if value == INHERIT && members::keeps_its_list(site, directory)? && members::has_any(site, directory)? {
        return Err(site.bad(value, format!("{KEPT}; name CPUs")));
    }
    // Processes may come to a group that has none: it would have the list past any deadline.
    if now == INHERIT && members::keeps_its_list(site, directory)? {
        let cpus = members::effective(site, directory)?;
        let first = match site.target {
            Target::Unit(name) => format!("systemctl set-property --runtime {name} AllowedCPUs={cpus}"),
            _ => format!("echo {cpus} >/{file}"),
        };
        return Err(site.unrestorable(format!(
            "that it has no CPUs of its own once it has processes: {KEPT}. Give it all that it may use first \
             (`{first}`), which undo restores; or set its processes by pid:N"
        )));
    }
    let Some(Pinned { tid, cpus, of_group, .. }) = members::pinned(site, directory)?.into_iter().next()
    else {
        return Ok(());
    };
    Err(site.unrestorable(format!(
        "the affinity of thread {tid} ({}): Linux before 6.2 replaces it by the CPUs of the group. Give it those first \
         (`taskset -p -c {of_group} {tid}`), or set the processes of the group by pid:N",
        cpus_text(&cpus)
    )))
}

/// Writes a canonical value.
pub(super) fn write(site: Site<'_>, value: &str, armed: &Armed) -> Result {
    let file = file(site)?;
    if let Some(group) = armed.group()
        && site.host.inode(directory_of(&file)).map_err(|error| site.unreadable(&error))? != group.inode
    {
        return Err(site.not_there("it was made again, and is another control group now"));
    }
    // Programs may have pinned threads since the check.
    let pinned = members::pinned(site, directory_of(&file))?;
    if !pinned.is_empty() {
        site.numbered()?;
    }
    // An empty write would be ignored.
    let text = if value == INHERIT { "\n" } else { value };
    let written = site.host.write(&file, text.as_bytes());
    written.map_err(|error| site.failed(Some(value), &error, DENIED, MEANINGS))?;
    members::pin_again(site, pinned, value)
}

/// The directory of the file with the CPUs of a group.
pub(super) fn directory_of(file: &str) -> &str {
    file.strip_suffix(FILE).unwrap_or(file).trim_end_matches('/')
}

/// The CPUs that the parent groups withhold, if any.
pub(super) fn remark(host: &dyn Host, file: &str, value: &str) -> Option<String> {
    let wanted: CpuMask = value.parse().ok()?;
    let group = file.strip_suffix(FILE)?;
    let text = members::EFFECTIVE.iter().find_map(|name| host.read_text(&format!("{group}{name}")).ok())?;
    let lost = wanted.difference(&list(file, &text).ok()?);
    (!lost.is_empty()).then(|| format!("its parent groups or other partitions withhold {}", cpus_text(&lost)))
}

const KEPT: &str = "this kernel empties the list only of a group without processes (version 2: since Linux 7.0 of any group)";

const MEANINGS: Meanings = &[
    (Errno::NOSPC, KEPT),
    (Errno::BUSY, "a group below it uses other CPUs (version 1), or deadline tasks need more of them"),
    (Errno::INVAL, "another group has exclusive use of these CPUs, or this kernel has none of them"),
    (Errno::RANGE, "this kernel has no such CPU"),
    (Errno::OVERFLOW, "this kernel has no such CPU"),
];

pub(super) fn list(file: &str, text: &str) -> Result<CpuMask> {
    text.trim().parse().map_err(|_| KnobError::broken(file, text, "a CPU list"))
}

/// Control group mounts, relative to the root; those that can have a cpuset come first.
fn directories(host: &dyn Host) -> Vec<String> {
    let text = host.read_text("proc/self/mountinfo").ok();
    let Some(mounts) = text.and_then(|text| parse::mounts(&text).ok()) else {
        return USUAL.map(str::to_owned).to_vec();
    };
    let rank = |mount: &Mount| match mount.kind.as_str() {
        "cgroup" if mount.options.iter().any(|option| option == "cpuset") => Some(0),
        "cgroup2" => Some(1),
        "cgroup" if mount.options.iter().any(|option| option == "name=systemd") => Some(2),
        _ => None,
    };
    let mut found: Vec<(u8, String)> = mounts
        .iter()
        .filter_map(|mount| Some((rank(mount)?, mount.point.trim_matches('/').to_owned())))
        .collect();
    found.sort();
    found.into_iter().map(|(_, point)| point).collect()
}

/// The control group of a unit: the one with its name, below slices.
fn of_unit(host: &dyn Host, name: &str) -> Result<String, NoGroup> {
    for directory in directories(host) {
        let mut found = Vec::new();
        let mut open = vec![String::new()];
        for _ in 0..DEPTH {
            let mut below = Vec::new();
            for path in open {
                let children = match host.list(&format!("{directory}{path}")) {
                    Ok(children) => children,
                    // A group that was removed meanwhile, or a usual mount point without a file system.
                    Err(error) if error.cause == Cause::Missing => continue,
                    Err(error) => return Err(NoGroup::Unreadable(error)),
                };
                for child in children {
                    if child == name {
                        found.push(format!("{path}/{child}"));
                    }
                    if child.ends_with(".slice")
                        || (child.starts_with("user@") && child.ends_with(".service"))
                    {
                        below.push(format!("{path}/{child}"));
                    }
                }
            }
            open = below;
        }
        match &found[..] {
            [] => {}
            [one] => return Ok(one.clone()),
            several => {
                let names = several.join(", cgroup:");
                let why = format!("several units have this name; use one of cgroup:{names}");
                return Err(NoGroup::Absent(why));
            }
        }
    }
    Err(NoGroup::Absent("no control group has this unit's name: the unit is not running".to_owned()))
}
