//! The machine that the global options speak of.

use std::path::PathBuf;

use crate::cli::Global;
use crate::error::{CommandError, Kind};
use crate::host::{LiveHost, netns_path};
use crate::model::{Model, Nic};
use crate::sample::Inventory;
use crate::units::NicName;

/// Opens the host of `--root` and `--netns`.
pub(super) fn open(global: &Global) -> Result<LiveHost, CommandError> {
    let host = match namespace(global) {
        None => LiveHost::open(&global.root),
        Some(path) => LiveHost::open_in_namespace(&global.root, &path),
    };
    host.map_err(|error| {
        if error.is_denied() {
            CommandError::new(Kind::Denied, error).hint("another network namespace needs root")
        } else {
            CommandError::usage(error)
        }
    })
}

/// The namespace file that `--netns` means.
pub(super) fn namespace(global: &Global) -> Option<PathBuf> {
    global.netns.as_deref().map(netns_path)
}

/// The receive path of the host, now.
pub(super) fn model(host: &LiveHost) -> Result<Model, CommandError> {
    let inventory = Inventory::take(host);
    if inventory.cpus.known().is_none() && inventory.nics.known().is_none() {
        return Err(CommandError::usage("neither CPUs nor interfaces are to be seen below this root")
            .hint("a root needs proc/ and sys/, as on a running machine"));
    }
    Ok(Model::new(&inventory))
}

/// The interface called `name`, or an error that lists those that are there.
pub(super) fn nic<'a>(model: &'a Model, name: &NicName) -> Result<&'a Nic, CommandError> {
    model.nic(name).ok_or_else(|| {
        let names: Vec<&str> = model.nics.iter().map(|nic| nic.name.as_str()).collect();
        CommandError::usage(format!("there is no interface `{name}`"))
            .hint(format!("interfaces here: {}", names.join(", ")))
    })
}
