//! The machine that the command line names, opened and described.

use std::path::PathBuf;

use crate::commands::Global;
use crate::error::{CommandError, Kind};
use crate::host::{LiveHost, Namespace, netns_path};
use crate::model::{Identity, Model, Nic};
use crate::sample::{Inventory, Scope};
use crate::units::{CpuMask, NicName};

/// An open machine.
pub(crate) struct Machine {
    /// Its files.
    pub(crate) host: LiveHost,
    /// Its CPUs, interfaces and settings.
    pub(crate) inventory: Inventory,
    /// Its receive path.
    pub(crate) model: Model,
    /// The selected network namespace, unless it is our own.
    pub(crate) netns: Option<Namespace>,
}

/// Opens the machine and network namespace that the command line selects.
pub(super) fn open(global: &Global) -> Result<Machine, CommandError> {
    let (host, path) = host(global)?;
    let inventory = Inventory::take(&host, Scope::Counters);
    let model = describe(&inventory)?;
    let netns = path.and_then(|path| Namespace::of(&path).ok());
    Ok(Machine { host, inventory, model, netns })
}

/// Returns the machine's files, and the path of the network namespace if it is not ours.
pub(super) fn host(global: &Global) -> Result<(LiveHost, Option<PathBuf>), CommandError> {
    let path = global.netns.as_deref().map(netns_path);
    let opened = match &path {
        Some(path) => LiveHost::open_in_namespace(&global.root, path),
        None => LiveHost::open(&global.root),
    };
    let host = opened.map_err(|error| {
        if error.is_denied() {
            CommandError::new(Kind::Denied, error).hint(privilege("another network namespace"))
        } else {
            CommandError::usage(error)
        }
    })?;
    Ok((host, path))
}

/// Returns the machine as seen from our own network namespace, and its identity.
pub(super) fn own(global: &Global) -> Result<(LiveHost, Identity), CommandError> {
    let (own, _) = host(&Global { netns: None, ..global.clone() })?;
    let identity = describe(&Inventory::take(&own, Scope::Path))?.identity;
    Ok((own, identity))
}

/// Hint for a denial: `what` needs root, or capabilities that root lacks here.
pub(super) fn privilege(what: &str) -> String {
    match rustix::process::geteuid().is_root() {
        false => format!("{what} needs root"),
        true => format!("{what} needs capabilities that root has outside of containers"),
    }
}

/// Returns the receive path of a machine, or an error if none is found.
pub(super) fn describe(inventory: &Inventory) -> Result<Model, CommandError> {
    if inventory.cpus.known().is_none() && inventory.nics.known().is_none() {
        return Err(CommandError::usage("no CPUs or interfaces found")
            .hint("a root needs proc/ and sys/, as on a running machine"));
    }
    Ok(Model::new(inventory))
}

/// Returns the interface `name`, or an error that lists the existing ones.
pub(super) fn nic<'a>(model: &'a Model, name: &NicName) -> Result<&'a Nic, CommandError> {
    model.nic(name).ok_or_else(|| {
        let names: Vec<&str> = model.nics.iter().map(|nic| nic.name.as_str()).collect();
        CommandError::usage(format!("there is no interface `{name}`"))
            .hint(format!("interfaces here: {}", names.join(", ")))
    })
}

/// Returns `cpus`, or an error that lists the existing ones.
pub(super) fn cpus<'a>(model: &Model, cpus: &'a CpuMask) -> Result<&'a CpuMask, CommandError> {
    let there: CpuMask = model.cpus.iter().map(|cpu| cpu.id).collect();
    let missing = cpus.difference(&there);
    if cpus.is_empty() {
        return Err(CommandError::usage("--cpu names no CPU").hint(format!("CPUs here: {there}")));
    }
    match missing.len() {
        0 => Ok(cpus),
        1 => Err(format!("there is no CPU {missing}")),
        _ => Err(format!("there are no CPUs {missing}")),
    }
    .map_err(|message| CommandError::usage(message).hint(format!("CPUs here: {there}")))
}
