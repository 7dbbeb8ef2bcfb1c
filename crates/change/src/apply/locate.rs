//! Finds the machine of a transaction and the devices of its values again: under another name, in another
//! network namespace, a control group at another path; or proves that they no longer exist.
//!
//! A list that cannot be read proves nothing. A device counts as gone only after all network namespaces
//! were searched for it, a control group only after its file system said so.

use std::fmt;
use std::ops::Deref;

use rustix::io::Errno;

use super::check::{device_of, process_of};
use super::groups;
use super::search::{Search, Sought};
use crate::journal::{Begin, History, Object, Outcome, SysfsIds, Touched};
use crate::knob::{self, Knob, Site};
use rxlab_base::parse;
use rxlab_base::units::{NicName, QueueId};
use rxlab_path::model::{DeviceAddress, Model};
use rxlab_path::sample::{Inventory, Scope, pci_function};
use rxlab_setting::{Target, tunable};
use rxlab_sys::{Cause, Entry, Hidden, Host, HostError, Namespace, Operation, is_namespaced_sysctl};

pub(super) const INTERFACES: &str = "sys/class/net";

/// Passes over the interfaces of a namespace until one that went meanwhile counts.
const PASSES: u32 = 5;

/// The machine as the process of a transaction saw it; `None` if that is `host`, seen from our own network
/// namespace. The home namespace replaces an entered one that no longer exists. An error if the
/// namespace was not found and some may be hidden, or if it is not known which one the files of `host` are of.
pub fn reach(host: &dyn Host, begin: &Begin) -> Result<Option<Box<dyn Host>>, Hidden> {
    let reached = elsewhere(host, begin)?;
    if reached.is_none() {
        host.check_view().map_err(|view| Hidden(view.to_string()))?;
    }
    Ok(reached)
}

fn elsewhere(host: &dyn Host, begin: &Begin) -> Result<Option<Box<dyn Host>>, Hidden> {
    let is_ours = |namespace: &Namespace| host.namespace().is_some_and(|own| own.is_same(namespace));
    let Some(wanted) = begin.namespace().filter(|_| host.namespace().is_some()) else {
        return Ok(None);
    };
    let home = match begin.home.as_ref().filter(|home| !is_ours(home)) {
        Some(home) => find(host, home, None)?.and_then(|found| found.namespace().cloned()),
        None => None,
    };
    if home.is_none() && is_ours(wanted) {
        return Ok(None);
    }
    match (find(host, wanted, home.as_ref())?, &home) {
        (Some(found), _) => Ok(Some(found)),
        (None, Some(home)) => find(host, home, Some(home)),
        (None, None) => Ok(None),
    }
}

/// The machine seen from `namespace`; `None` if that no longer exists.
fn find(
    host: &dyn Host,
    namespace: &Namespace,
    home: Option<&Namespace>,
) -> Result<Option<Box<dyn Host>>, Hidden> {
    let is_it = |opened: &dyn Host| opened.namespace().is_some_and(|found| found.is_same(namespace));
    // The file it was entered through may be gone while the namespace remains: `/proc/PID/ns/net` goes with
    // its process, while others live on in there.
    if let Some(opened) = host.seen_from(namespace, home).ok().filter(|opened| is_it(&**opened)) {
        return Ok(Some(opened));
    }
    let all = host.namespaces();
    let Some(same) = all.seen.iter().find(|other| other.is_same(namespace)) else {
        return all.are_all().map(|()| None);
    };
    match host.seen_from(same, home) {
        Ok(opened) if is_it(&*opened) => Ok(Some(opened)),
        Ok(_) => Err(Hidden(format!("{} leads to another one by now", same.path.display()))),
        Err(error) => Err(Hidden(error.to_string())),
    }
}

/// Current location of a value's target.
pub(super) enum Place {
    /// On this machine, by its current name.
    Here(Target),
    /// In another network namespace.
    There(Box<dyn Host>, Box<Model>, Target),
    /// Gone: its device or process no longer exists.
    Gone,
    Unknown(String),
}

/// Finds the target of a value again. `host` and `model` must be the machine of the transaction, from [`reach`].
pub(super) fn locate(
    host: &dyn Host,
    model: &Model,
    history: &History,
    touched: &Touched,
    search: &Search,
) -> Place {
    let begin = history.begin();
    if let Some(group) = touched.group {
        return groups::locate(host, &touched.target, group);
    }
    let Some(device) = &touched.device else {
        return match touched.target.nic() {
            // The machine is seen from another namespace only if that of the transaction has ended.
            None if is_of_namespace(touched)
                && begin
                    .and_then(Begin::namespace)
                    .zip(host.namespace())
                    .is_some_and(|(a, b)| !a.is_same(b)) =>
            {
                Place::Gone
            }
            None => Place::Here(touched.target.clone()),
            Some(nic) => Place::Unknown(format!("the journal does not say which device {nic} was")),
        };
    };
    if touched.target.nic().is_none() {
        return process(host, &touched.target, device);
    }
    let is_home = begin.is_none_or(|begin| match (begin.namespace(), host.namespace()) {
        (Some(then), Some(now)) => then.is_same(now),
        // An earlier version did not record its own namespace.
        (None, Some(_)) => false,
        (_, None) => true,
    });
    // Only its id tells an interface in another namespace from ours, unless it is hardware.
    let is_known = touched.ids.is_some() || !device.is_virtual();
    if is_home || is_known {
        match in_one(host, &model, device, touched.ids) {
            Ok(Some(name)) => return Place::Here(touched.target.of_nic(&name)),
            Ok(None) => {}
            Err(error) => return Place::Unknown(in_words(&error)),
        }
    }
    if !is_known && host.namespace().is_some() {
        return Place::Unknown(
            "written by an earlier version, which did not record its inode in sysfs".to_owned(),
        );
    }
    match search.find(host, Sought { begin, device, ids: touched.ids }) {
        Ok(Some((host, model, name))) => Place::There(host, model, touched.target.of_nic(&name)),
        Ok(None) => Place::Gone,
        Err(hidden) => Place::Unknown(hidden.to_string()),
    }
}

/// [`locate`] for a process.
fn process(host: &dyn Host, target: &Target, device: &DeviceAddress) -> Place {
    let here = match host.numbering() {
        Ok(own) => own.map(|own| own.numbering.to_string()),
        Err(other) => return Place::Unknown(other.to_string()),
    };
    match process_of(host, target) {
        Ok(Some(now)) if now.is_same(device) => return Place::Here(target.clone()),
        Ok(_) => {}
        Err(error) => return Place::Unknown(error.to_string()),
    }
    // By numbers or start times of other namespaces, no process is gone.
    match (device.numbering(), here) {
        (None, Some(_)) => {
            Place::Unknown("written by an earlier version, which did not record its PID namespace".to_owned())
        }
        (Some(then), Some(here)) if then != here => Place::Unknown(differing(then, &here)),
        (Some(_), Some(_)) => Place::Gone,
        _ => match host.namespaces().are_all() {
            Ok(()) => Place::Gone,
            Err(hidden) => Place::Unknown(hidden.to_string()),
        },
    }
}

/// Which namespace of a process is not the one here; both as [`Numbering`](rxlab_sys::Numbering) prints them.
fn differing(then: &str, here: &str) -> String {
    let pid_namespace = |numbering: &str| numbering.split('+').next().unwrap_or_default().to_owned();
    let [of_it, ours] = [then, here].map(pid_namespace);
    let differs = if of_it == ours {
        format!("its start is of another time namespace ({then}, here {here})")
    } else {
        format!("its number is of another PID namespace ({of_it}, here {ours})")
    };
    format!("{differs}: run `rxlab undo` there, or give it up with --forget once it has ended")
}

/// True for a value of no device that each network namespace has, and that ends with it.
pub(super) fn is_of_namespace(touched: &Touched) -> bool {
    let file = tunable(&touched.knob).and_then(|row| row.owner.file(&touched.target));
    file.is_some_and(|file| is_namespaced_sysctl(&file[1..]))
}

/// The current receive path.
pub fn look(host: &dyn Host) -> Model {
    Model::new(&Inventory::take(host, Scope::Path))
}

/// The device's name in this namespace; `None` if it is not there. An error if that
/// cannot be determined. `model` is used only where inodes do not decide.
pub(super) fn in_one(
    host: &dyn Host,
    model: &dyn Deref<Target = Model>,
    device: &DeviceAddress,
    ids: Option<SysfsIds>,
) -> Result<Option<NicName>, HostError> {
    in_passes(|| interfaces(host).and_then(|entries| among(&entries, host, model, device, ids)))
}

/// What `look` returns, as soon as that is not EAGAIN: anybody's interfaces may come and go meanwhile.
pub(super) fn in_passes<T>(look: impl Fn() -> Result<T, HostError>) -> Result<T, HostError> {
    let mut found = look();
    for _ in 1..PASSES {
        if !matches!(&found, Err(error) if error.cause == Errno::AGAIN.into()) {
            break;
        }
        found = look();
    }
    found
}

/// The interfaces of a namespace, and files next to them. EAGAIN if the inode of one is not known: it may be any.
pub(super) fn interfaces(host: &dyn Host) -> Result<Vec<Entry>, HostError> {
    let entries = host.entries(INTERFACES)?;
    // Every network namespace has a loopback interface: an empty list is incomplete.
    if entries.is_empty() && host.namespace().is_some() {
        return Err(HostError::new(Operation::List, INTERFACES, Errno::AGAIN));
    }
    let names = entries.iter().filter(|entry| entry.inode.is_none());
    let mut nics = names.filter_map(|entry| entry.name.parse::<NicName>().ok());
    match nics.find(|nic| vanished(host, nic)) {
        Some(nic) => Err(changed(nic)),
        None => Ok(entries),
    }
}

/// [`in_one`], among these interfaces. Any user may make one whose name leads nowhere: it is the device only if it has
/// its inode.
fn among(
    entries: &[Entry],
    host: &dyn Host,
    model: &dyn Deref<Target = Model>,
    device: &DeviceAddress,
    ids: Option<SysfsIds>,
) -> Result<Option<NicName>, HostError> {
    let wanted = ids.map(|ids| ids.interface);
    let mut there = Vec::new();
    for Entry { name, is_text, inode } in entries {
        if !is_text && inode.is_some() {
            if *inode == wanted {
                let path = format!("{INTERFACES}/{name}");
                return Err(HostError::new(Operation::List, &path, Cause::NotText));
            }
            continue;
        }
        // Files such as bonding_masters are listed next to the interfaces.
        let Ok(nic) = name.parse::<NicName>() else { continue };
        // In recordings the model alone tells the interfaces from the files.
        if inode.is_some() || (host.namespace().is_none() && model.nic(&nic).is_some()) {
            there.push((nic, *inode));
        }
    }
    // Two names for one directory: they were swapped in the meantime.
    let twice = |(at, (_, inode)): (usize, &(NicName, Option<u64>))| {
        inode.is_some() && there[..at].iter().any(|(_, other)| other == inode)
    };
    if there.iter().enumerate().any(twice) {
        return Err(changed(""));
    }
    if let Some((name, _)) = there.iter().find(|(_, inode)| inode.is_some() && *inode == wanted) {
        // Interrupts are found through the model, which may predate a rename.
        let is_known = model.nic(name).is_some_and(|nic| is_alike(&nic.address, device));
        return if is_known { Ok(Some(name.clone())) } else { Err(changed(name)) };
    }
    for (name, inode) in &there {
        // A virtual interface with another id is a different one, whatever its name.
        if device.is_virtual() && ids.is_some() && inode.is_some() {
            continue;
        }
        if !device.is_virtual() && is_virtual(host, name) == Some(true) {
            continue;
        }
        match model.nic(name) {
            Some(nic) if nic.address == *device => return Ok(Some(name.clone())),
            Some(_) => {}
            // Not read, or added since: it may be the one.
            None => return Err(changed(name)),
        }
    }
    Ok(None)
}

/// Reason for an unknown place.
fn in_words(error: &HostError) -> String {
    match error.cause {
        Cause::NotText => {
            let name = error.path.rsplit('/').next().unwrap_or_default();
            format!("its interface is now named {name}, which is not UTF-8: rename it")
        }
        _ => error.to_string(),
    }
}

/// Interfaces came, went or were renamed between two listings.
fn changed(name: impl fmt::Display) -> HostError {
    HostError::new(Operation::Read, &format!("{INTERFACES}/{name}"), Errno::AGAIN)
}

/// True if a listed name without a directory belonged to an interface that is gone, renamed or unreadable.
/// Plain files such as bonding_masters can be read.
fn vanished(host: &dyn Host, nic: &NicName) -> bool {
    host.namespace().is_some() && host.read(&format!("{INTERFACES}/{nic}")).is_err()
}

/// Part of the path of a device without hardware.
const VIRTUAL: &str = "/virtual/";

/// True if an interface has no hardware; `None` if that is not known.
fn is_virtual(host: &dyn Host, nic: &NicName) -> Option<bool> {
    Some(host.link(&format!("{INTERFACES}/{nic}")).ok()?.contains(VIRTUAL))
}

/// True if both may be addresses of one device: both virtual, or both of one PCI function. The part after the
/// function distinguishes its interfaces, and may have been recorded during a rename.
fn is_alike(one: &DeviceAddress, other: &DeviceAddress) -> bool {
    let hardware = |address: &DeviceAddress| address.0.split('/').next().map(str::to_owned);
    match (one.is_virtual(), other.is_virtual()) {
        (true, true) => true,
        (false, false) if one.0.starts_with("pci:") => hardware(one) == hardware(other),
        _ => one == other,
    }
}

/// True if the name of a target now belongs to other hardware than `device`, according to sysfs, or its number to another
/// process.
pub(super) fn is_another(host: &dyn Host, target: &Target, device: Option<&DeviceAddress>) -> bool {
    if matches!(target, Target::Process(_)) {
        let now = process_of(host, target).ok().flatten();
        return now.is_some_and(|now| !device.is_some_and(|device| now.is_same(device)));
    }
    let (Some(nic), Some(address)) = (target.nic(), device) else { return false };
    let Ok(path) = host.link(&format!("{INTERFACES}/{nic}")) else { return false };
    let is_virtual = path.contains(VIRTUAL);
    if is_virtual || address.is_virtual() {
        return is_virtual != address.is_virtual();
    }
    match (pci_function(&path), address.pci_function()) {
        (Some(here), Some(wanted)) => wanted != here,
        _ => false,
    }
}

/// [`object_id`] of the target of a value; `None` if its name now belongs to another interface, process or control group, or
/// if that is not known.
pub(super) fn object_now(host: &dyn Host, touched: &Touched, target: &Target) -> Option<Option<u64>> {
    let device = touched.device.as_ref();
    let found = object_id(host, target);
    let is_other_virtual = device.is_some_and(DeviceAddress::is_virtual)
        && touched.ids.zip(interface_id(host, target)).is_some_and(|(then, now)| then.interface != now);
    let is_other_group = touched.group.is_some_and(|then| Some(then.inode) != found);
    // Without the inode it may be any interface; a recording has none.
    let is_unknown = touched.ids.is_some() && found.is_none() && host.namespace().is_some();
    let is_other = is_other_virtual || is_other_group || is_unknown || is_another(host, target, device);
    (!is_other).then_some(found)
}

/// sysfs inodes of the interface and queue of a target; `None` for other targets and if unknown.
pub(super) fn ids_of(host: &dyn Host, target: &Target) -> Option<SysfsIds> {
    let (nic, interface) = (target.nic()?, interface_id(host, target)?);
    let queue = match target {
        Target::Queue { queue, .. } => host.inode(&queue_path(nic, *queue)).ok(),
        _ => None,
    };
    Some(SysfsIds { interface, queue })
}

/// The object that a target's value lives in, as far as it is known.
pub(super) fn object_of(host: &dyn Host, model: &Model, target: &Target) -> Object {
    Object {
        device: device_of(host, model, target),
        ids: ids_of(host, target),
        group: groups::group_of(host, target),
    }
}

/// Number of what a target's name stands for now, which nothing else of its kind has before the next boot: the inode of an
/// interface or a control group, the start of a process.
pub fn object_id(host: &dyn Host, target: &Target) -> Option<u64> {
    if let Target::Process(pid) = target {
        let stat = host.read_text(&format!("proc/{pid}/stat")).ok()?;
        return parse::process_stat(&stat).ok().map(|stat| stat.began_ticks);
    }
    interface_id(host, target).or_else(|| groups::group_of(host, target).map(|group| group.inode))
}

/// sysfs inode of the interface of a target.
pub(super) fn interface_id(host: &dyn Host, target: &Target) -> Option<u64> {
    host.inode(&format!("{INTERFACES}/{}", target.nic()?)).ok()
}

/// True if the queue of a target exists. An error if that cannot be determined.
pub(super) fn has_queue(host: &dyn Host, target: &Target) -> Result<bool, HostError> {
    let Target::Queue { nic, queue } = target else { return Ok(true) };
    match host.list(&queue_path(nic, *queue)) {
        Ok(_) => Ok(true),
        Err(error) if error.cause == Cause::Missing => {
            // The interface itself may be gone or renamed.
            host.list(&format!("{INTERFACES}/{nic}/queues")).map(|_| false)
        }
        Err(error) => Err(error),
    }
}

fn queue_path(nic: &NicName, queue: QueueId) -> String {
    format!("{INTERFACES}/{nic}/queues/{queue}")
}

/// True if a value lives in the object of its queue and so is freed only with it. A driver may keep
/// or reset an interrupt whatever happens to the queue.
pub(super) fn is_of_queue(knob: &str) -> bool {
    ["rps", "rfs", "xps_cpus", "xps_rxqs"].contains(&knob)
}

/// True if a value is in an object that is older than a transaction which `began` then: no write of it, and nothing since, has had
/// the kernel make the object again.
pub(super) fn is_as_old(knob: &dyn Knob, site: Site<'_>, began: Option<u64>) -> bool {
    knob.began_ns(site).zip(began).is_some_and(|(object, transaction)| object < transaction)
}

/// True if the owner of a value was recreated since its last intent, so that the kernel or driver has
/// reset it: another interface or queue took its place, or the queue counts of `then` and `now` differ. What undo itself may have
/// recreated shows nothing: it sets again what it finds there.
pub(super) fn was_made_again(host: &dyn Host, touched: &Touched, target: &Target, history: &History) -> bool {
    let (Some(then), Some(now)) = (touched.ids, ids_of(host, target)) else { return false };
    if then.interface != now.interface {
        return true;
    }
    if history.touched().iter().any(|other| may_have_remade(other, touched)) {
        return false;
    }
    if let (Some(then), Some(now)) = (then.queue, now.queue)
        && (then != now || is_of_queue(&touched.knob))
    {
        return then != now;
    }
    let Some((nic, device)) = target.nic().zip(touched.device.as_ref()) else { return false };
    let then = history.environment().and_then(|around| around.device(device));
    then.is_some_and(|then| super::environment::has_other_queues(host, then, nic))
}

/// True if an undo of `other` has recreated what `touched` lives in, or was about to.
fn may_have_remade(other: &Touched, touched: &Touched) -> bool {
    let is_discarded =
        || knob::find(&other.knob).is_some_and(|knob| knob.discards().contains(&touched.knob.as_str()));
    let is_begun = other.held.is_some() || matches!(other.outcome, Some(Outcome::Restored));
    is_begun && other.is_on_same_device(touched) && is_discarded()
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::{Place, interfaces, process};
    use crate::apply::testbed::RunningHost;
    use rxlab_path::model::DeviceAddress;
    use rxlab_sys::{Host, OtherNumbers, OwnNumbering, RecordedHost};

    /// A machine whose process 812 started at tick 5137, seen from PID namespace 7 of a time namespace.
    struct NumberedHost(RecordedHost);

    impl Host for NumberedHost {
        rxlab_sys::pass_on!([0] read, write, list, link, query, act, now_ns);

        fn numbering(&self) -> Result<Option<OwnNumbering>, OtherNumbers> {
            Ok(Some(OwnNumbering::new(7, 100_000_000_000)))
        }
    }

    /// A living process once counted as gone where its number or start is another one.
    #[test]
    fn a_process_is_gone_only_by_numbers_of_its_own_namespace() {
        let stat = format!("812 (x) S 1 {}15137\n", "0 ".repeat(17));
        let host = RecordedHost::new().with("proc/812/stat", stat);
        let host = NumberedHost(host.with("syscall/sched_getattr/814", [0; 16]));
        let found = |pid: u32, device: &str| {
            let target = format!("pid:{pid}").parse().expect("a target");
            match process(&host, &target, &DeviceAddress(device.to_owned())) {
                Place::Here(_) => "here".to_owned(),
                Place::Gone => "gone".to_owned(),
                Place::Unknown(why) => why,
                Place::There(..) => unreachable!("a process has no interface"),
            }
        };
        assert_eq!(found(812, "process:812@5137/7"), "here");
        assert_eq!([found(812, "process:812@5136/7"), found(813, "process:813@5137/7")], ["gone", "gone"]);
        for (other, differs) in [
            ("8", "its number is of another PID namespace (8, here 7): run "),
            ("8+5000000", "its number is of another PID namespace (8, here 7): run "),
            ("7+5000000", "its start is of another time namespace (7+5000000, here 7): run "),
        ] {
            let why = found(812, &format!("process:812@5137/{other}"));
            assert!(why.starts_with(differs), "{why}");
        }
        // Hidden by procfs, and known to the kernel. A process with this number once counted as gone.
        let why = found(814, "process:814@5137/7");
        assert!(why.starts_with("cannot read /proc/814/stat: /proc does not show this process"), "{why}");
        // Of an earlier version.
        assert_eq!(found(812, "process:812@5137"), "here");
        assert!(found(813, "process:813@5137").starts_with("written by an earlier version"));
    }

    /// An interface that is listed, and whose directory was missing for a moment, was once taken for none.
    #[test]
    fn a_listed_interface_without_an_inode_may_be_any() {
        let host = || RecordedHost::new().with("sys/class/net/bonding_masters", "\n");
        let there = interfaces(&RunningHost::new(host())).expect("a file");
        assert_eq!(there.len(), 1);
        let listed = host().with("sys/class/net/eth0/mtu", "1500\n");
        assert_eq!(interfaces(&listed).expect("a recording").len(), 2);
        let error = interfaces(&RunningHost::new(listed)).expect_err("which one?");
        assert_eq!(error.cause, Errno::AGAIN.into());
    }
}
