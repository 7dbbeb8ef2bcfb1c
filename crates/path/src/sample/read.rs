//! From a file to a [`Fact`]: maps errno to the kind of absence.

use std::fmt::Display;
use std::str::FromStr;

use rxlab_base::units::{CpuMask, Fact, Need};
use rxlab_sys::{Cause, Host, HostError, Query};

/// Turns an error of the host into an absence.
pub(super) fn absence<T>(error: &HostError) -> Fact<T> {
    match error.cause {
        Cause::Missing => Fact::Unsupported,
        Cause::Denied => Fact::Denied(need(&error.path)),
        Cause::NotText
        | Cause::Withheld
        | Cause::Command
        | Cause::OtherView
        | Cause::NotInProc
        | Cause::Errno(_) => Fact::Broken(error.to_string()),
    }
}

/// The privilege that a path or a query needs.
fn need(path: &str) -> Need {
    let of_process = path.strip_prefix("proc/").and_then(|rest| rest.split_once('/'));
    let inside = |(pid, file): (&str, &str)| {
        pid.parse::<u32>().is_ok() && ["fd", "ns", "net"].iter().any(|name| file.starts_with(name))
    };
    if path.starts_with("netlink/") || path.starts_with("ioctl/") {
        Need::NetAdmin
    } else if of_process.is_some_and(inside) {
        Need::SysPtrace
    } else {
        Need::Root
    }
}

pub(super) fn text(host: &dyn Host, path: &str) -> Fact<String> {
    host.read_text(path).map_or_else(|error| absence(&error), Fact::Known)
}

/// The names in a directory.
pub(super) fn list(host: &dyn Host, path: &str) -> Fact<Vec<String>> {
    host.list(path).map_or_else(|error| absence(&error), Fact::Known)
}

/// The target of a symbolic link.
pub(super) fn link(host: &dyn Host, path: &str) -> Fact<String> {
    host.link(path).map_or_else(|error| absence(&error), Fact::Known)
}

/// A file parsed by `parser`; errors name the file.
pub(super) fn parsed<T, E: Display>(
    host: &dyn Host,
    path: &str,
    parser: impl FnOnce(&str) -> Result<T, E>,
) -> Fact<T> {
    text(host, path).parse(|text| parser(&text).map_err(|error| format!("/{path}: {error}")))
}

/// `/proc/interrupts`, parsed by `parser`. Every Linux has it, so one that is missing is hidden (`subset=pid` of procfs).
/// Container runtimes mask it: podman and Moby bind /dev/null or an empty file over it. A file without its last line
/// break was cut.
pub(super) fn interrupts<T, E: Display>(
    host: &dyn Host,
    parser: impl FnOnce(&str) -> Result<T, E>,
) -> Fact<T> {
    const PATH: &str = "proc/interrupts";
    // A device in its place is not read.
    const EINVAL: Cause = Cause::Errno(22);
    match host.read_text(PATH) {
        Err(error) if error.cause == EINVAL => {
            Fact::Broken(format!("/{PATH} is masked: not a regular file, as in a container"))
        }
        Err(error) if error.cause == Cause::Missing => {
            Fact::Broken(format!("/{PATH} is missing: hidden, as by ProcSubset=pid"))
        }
        Err(error) => absence(&error),
        Ok(text) if text.is_empty() => Fact::Broken(format!("/{PATH} is empty: masked, as in a container")),
        Ok(text) if !text.ends_with('\n') => {
            Fact::Broken(format!("/{PATH} is cut: its last line has no end"))
        }
        Ok(text) => {
            Fact::Known(text).parse(|text| parser(&text).map_err(|error| format!("/{PATH}: {error}")))
        }
    }
}

/// A file that holds one number.
pub(super) fn number<T: FromStr>(host: &dyn Host, path: &str) -> Fact<T> {
    parsed(host, path, |text| {
        text.trim().parse().map_err(|_| format!("`{}` is not a number in range", text.trim()))
    })
}

/// A file that holds a CPU list (`0-3,8`).
pub(super) fn cpu_list(host: &dyn Host, path: &str) -> Fact<CpuMask> {
    parsed(host, path, str::parse)
}

/// A file that holds a CPU mask (`ff,00000000`).
pub(super) fn cpu_mask(host: &dyn Host, path: &str) -> Fact<CpuMask> {
    parsed(host, path, CpuMask::from_hex)
}

/// The answer to a query, parsed by `parser`; errors name the query.
pub(super) fn asked<T, E: Display>(
    host: &dyn Host,
    query: &Query,
    parser: impl FnOnce(&[u8]) -> Result<T, E>,
) -> Fact<T> {
    let answer = host.query(query).map_or_else(|error| absence(&error), Fact::Known);
    answer.parse(|bytes| parser(&bytes).map_err(|error| format!("{}: {error}", query.path())))
}
