//! One search of all network namespaces, for every device that an undo misses.

use std::cell::{LazyCell, RefCell};

use super::locate::{in_one, in_passes, interfaces, look};
use crate::journal::{Begin, SysfsIds};
use rxlab_base::units::NicName;
use rxlab_path::model::{DeviceAddress, Model};
use rxlab_sys::{Entry, Hidden, Host, HostError, Namespace};

/// A device that was found: the machine seen from its network namespace, the receive path there, its name.
pub(super) type Found = (Box<dyn Host>, Box<Model>, NicName);

/// Searches for a namespace that is listed, but under a path that leads nowhere by then.
const ROUNDS: u32 = 5;

/// A device that a transaction misses.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a> {
    /// Beginning of the transaction.
    pub(super) begin: Option<&'a Begin>,
    pub(super) device: &'a DeviceAddress,
    pub(super) ids: Option<SysfsIds>,
}

/// Devices that have left their network namespace.
///
/// The interfaces of all namespaces are listed once, with the first device that is missed: an inode that is not among
/// them is gone for good. Hardware that was recreated has another inode, so it is searched for in each transaction.
#[derive(Default)]
pub(super) struct Search {
    scan: RefCell<Option<Scan>>,
    /// Hardware that was not found, with the transaction that missed it.
    missed: RefCell<Vec<(String, DeviceAddress)>>,
}

/// Inodes of all interfaces.
struct Scan {
    seen: Vec<(Namespace, Vec<u64>)>,
    /// Reason why there may be others.
    hidden: Option<Hidden>,
}

impl Search {
    /// Finds a device; `None` if no network namespace has it. An error if it was not found and may be hidden.
    pub(super) fn find(&self, host: &dyn Host, sought: Sought<'_>) -> Result<Option<Found>, Hidden> {
        let Some(ids) = sought.ids.filter(|_| sought.device.is_virtual()) else {
            return self.find_hardware(host, sought);
        };
        let mut scan = self.scan.borrow_mut();
        // A device that has moved since the scan is not where that has it.
        for _ in 0..2 {
            let Scan { seen, hidden } = scan.get_or_insert_with(|| Scan::new(host));
            let with_it: Vec<&Namespace> = seen
                .iter()
                .filter(|(_, inodes)| inodes.contains(&ids.interface))
                .map(|(namespace, _)| namespace)
                .collect();
            if with_it.is_empty() {
                return hidden.clone().map_or(Ok(None), Err);
            }
            for namespace in with_it {
                if let Ok(Some(found)) = enter(host, sought, namespace) {
                    return Ok(Some(found));
                }
            }
            *scan = None;
        }
        Err(Hidden(format!("{} is moving from one network namespace to another", sought.device)))
    }

    fn find_hardware(&self, host: &dyn Host, sought: Sought<'_>) -> Result<Option<Found>, Hidden> {
        let of = (sought.begin.map_or_else(String::new, |begin| begin.id.clone()), sought.device.clone());
        if self.missed.borrow().contains(&of) {
            return Ok(None);
        }
        let found = in_all(host, |namespace| enter(host, sought, namespace))?;
        if found.is_none() {
            self.missed.borrow_mut().push(of);
        }
        Ok(found)
    }
}

impl Scan {
    fn new(host: &dyn Host) -> Self {
        let mut seen = Vec::new();
        let inodes = |namespace: &Namespace| {
            let opened = open(host, None, namespace)?;
            let entries = in_passes(|| interfaces(&*opened)).map_err(Failure::from)?;
            seen.push((namespace.clone(), entries.iter().filter_map(|Entry { inode, .. }| *inode).collect()));
            Ok(None::<()>)
        };
        let hidden = in_all(host, inodes).err();
        Self { seen, hidden }
    }
}

/// Reason why a namespace was not searched.
enum Failure {
    /// Its file leads nowhere.
    Ended,
    Hidden(String),
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        Self::Hidden(error.to_string())
    }
}

/// Calls `visit` with each network namespace until one has what is sought. One that cannot be searched hides it only
/// if no other has it.
fn in_all<T>(
    host: &dyn Host,
    mut visit: impl FnMut(&Namespace) -> Result<Option<T>, Failure>,
) -> Result<Option<T>, Hidden> {
    // A device that moves during the search, from an unsearched namespace to a searched one, is missed: search again in
    // reverse order, and once more for one that was moved back meanwhile.
    let (forth, back) = (host.namespaces(), host.namespaces());
    let mut hidden = forth.hidden.or(back.hidden);
    let mut all = [forth.seen, back.seen.iter().rev().cloned().collect(), back.seen].concat();
    for _ in 0..ROUNDS {
        let mut ended = Vec::new();
        for namespace in all {
            match visit(&namespace) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                // If it has ended, its contents ended too, or the second search finds them.
                Err(Failure::Ended) => ended.push(namespace),
                Err(Failure::Hidden(why)) => {
                    hidden.get_or_insert(Hidden(format!("{}: {why}", namespace.path.display())));
                }
            }
        }
        if ended.is_empty() {
            return hidden.map_or(Ok(None), Err);
        }
        // The process that it was found by may have ended, and others may be in it.
        let later = host.namespaces();
        hidden = hidden.or(later.hidden);
        all = later.seen;
        all.retain(|left| ended.iter().any(|one| one.is_same(left)));
    }
    let closed = || all.first().map(|closed| Hidden(format!("cannot enter {}", closed.path.display())));
    hidden.or_else(closed).map_or(Ok(None), Err)
}

/// The machine seen from a namespace.
fn open(host: &dyn Host, begin: Option<&Begin>, namespace: &Namespace) -> Result<Box<dyn Host>, Failure> {
    let home = begin.and_then(|begin| begin.home.as_ref());
    match host.seen_from(namespace, home) {
        Ok(opened) if opened.namespace().is_none_or(|entered| entered.is_same(namespace)) => Ok(opened),
        // Another one may have its path by now.
        Ok(_) => Err(Failure::Ended),
        Err(error) if error.leads_nowhere() => Err(Failure::Ended),
        Err(error) => Err(Failure::Hidden(error.to_string())),
    }
}

/// The device in a namespace.
fn enter(host: &dyn Host, sought: Sought<'_>, namespace: &Namespace) -> Result<Option<Found>, Failure> {
    let opened = open(host, sought.begin, namespace)?;
    let model = LazyCell::new(|| look(&*opened));
    let Some(name) = in_one(&*opened, &model, sought.device, sought.ids)? else { return Ok(None) };
    let model = Box::new((*model).clone());
    Ok(Some((opened, model, name)))
}
