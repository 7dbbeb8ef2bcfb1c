//! The identity of a device or a process, by which undo finds it again.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sample::{RawNic, pci_function};
use rxlab_sys::ProcessId;

/// A device identity that survives renames and reboots: `pci:0000:00:03.0`, with `/port-1` and so on for
/// further ports of one function, or `virtual:veth0` without a bus address. Unique among the interfaces of a
/// machine. `process:812@5137/4026531836` is a process by its number, its start and the PID namespace of the number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct DeviceAddress(pub String);

impl DeviceAddress {
    /// The address of the device with this path in sysfs.
    pub(super) fn of_nic(raw: &RawNic, path: Option<&str>) -> Self {
        let physical = path.filter(|path| !path.contains("/virtual/"));
        let port = raw.dev_port.known().filter(|port| **port > 0);
        match (physical.and_then(pci_function), physical) {
            (Some(function), _) => {
                let port = port.map_or_else(String::new, |port| format!("/port-{port}"));
                Self(format!("pci:{function}{port}"))
            }
            // Not PCI: the device path without the interface's name, which may change.
            (None, Some(path)) => {
                let device = path.split("/net/").next().unwrap_or(path);
                Self(format!("dev:{}", device.trim_start_matches("../")))
            }
            (None, None) => Self(format!("virtual:{}", raw.name)),
        }
    }

    /// Identity of a process: its number may be reused in the same boot, but not with the same start (in
    /// clock ticks since boot). Without a numbering, as in recordings, it is `process:812@5137`.
    pub fn of_process(process: ProcessId) -> Self {
        let ProcessId { pid, start, numbering } = process;
        let numbering = numbering.map_or_else(String::new, |numbering| format!("/{numbering}"));
        Self(format!("process:{pid}@{start}{numbering}"))
    }

    /// Number and start of a process, and what [`DeviceAddress::numbering`] returns.
    fn process(&self) -> Option<(&str, Option<&str>)> {
        let text = self.0.strip_prefix("process:")?;
        Some(text.split_once('/').map_or((text, None), |(process, numbering)| (process, Some(numbering))))
    }

    /// The namespaces that the number and the start of a process depend on, as [`Numbering`] prints them; `None` for other
    /// devices, in recordings, and in files of earlier versions.
    pub fn numbering(&self) -> Option<&str> {
        self.process()?.1
    }

    /// True if both are one device. A process in a file of an earlier version has no numbering: its number and start
    /// decide.
    pub fn is_same(&self, other: &Self) -> bool {
        let is_one = || {
            let ((mine, here), (theirs, there)) = self.process().zip(other.process())?;
            Some(mine == theirs && (here.is_none() || there.is_none()))
        };
        self == other || is_one().unwrap_or(false)
    }

    /// True for numbers of two PID namespaces whose processes started in the same clock tick.
    pub fn may_be_same_process(&self, other: &Self) -> bool {
        let parts = |address: &Self| {
            let (process, numbering) = address.process()?;
            Some((process.split_once('@')?.1.to_owned(), numbering?.to_owned()))
        };
        parts(self).zip(parts(other)).is_some_and(|(one, other)| one.0 == other.0 && one.1 != other.1)
    }

    /// True for an interface without hardware, whose values are lost when it is removed.
    pub fn is_virtual(&self) -> bool {
        self.0.starts_with("virtual:")
    }

    /// True for an interface of a device, which keeps its address.
    pub fn is_hardware(&self) -> bool {
        !self.is_virtual() && !self.0.starts_with("process:")
    }

    /// Its PCI function, `0000:03:00.0`, which several ports may share; `None` on other buses.
    pub fn pci_function(&self) -> Option<&str> {
        self.0.strip_prefix("pci:")?.split('/').next()
    }
}

impl fmt::Display for DeviceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
