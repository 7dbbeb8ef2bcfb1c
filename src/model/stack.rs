//! How interfaces stand on one another, and what is at the other end of a veth.

use serde::{Deserialize, Serialize};

use crate::units::NicName;

/// The place of one interface among the others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stack {
    /// The kernel's kind of link: `veth`, `bridge`, `bond`, `vlan`, `tun`; `None` for devices.
    pub kind: Option<String>,
    /// Interfaces that this one is made of: members of a bond or a bridge, the parent of a VLAN.
    pub lower: Vec<NicName>,
    /// Interfaces that are made of this one.
    pub upper: Vec<NicName>,
    /// The devices below, through any number of steps; empty for a device itself.
    pub physical: Vec<NicName>,
    /// The other end of a veth.
    pub peer: Option<Peer>,
}

/// The other end of a veth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Peer {
    /// Its interface index in its own namespace.
    pub ifindex: u32,
    /// Its name, when it is in the namespace looked at.
    pub nic: Option<NicName>,
    /// Index into [`super::Model::namespaces`], when it is in another one that is known.
    pub namespace: Option<usize>,
}

/// A network namespace that processes live in, other than the one looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NetNamespace {
    /// Its number in `/proc/PID/ns/net`: `4026532281` of `net:[4026532281]`.
    pub inode: u64,
    /// The process with the lowest number in it.
    pub pid: u32,
    /// That process's name.
    pub command: String,
    /// That process's container, when its control group tells one.
    pub container: Option<Container>,
}

/// A container, by its control group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Container {
    /// Who made it: `docker`, `podman`, `kubepods`, `containerd`, `crio`, `lxc`, `systemd-nspawn`.
    pub engine: String,
    /// Its identity there, as in the control group's path.
    pub id: String,
}
