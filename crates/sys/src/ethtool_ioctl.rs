//! ethtool by ioctl: commands missing in its netlink family. Unsafe code: an ioctl.
//!
//! An answer is a structure of include/uapi/linux/ethtool.h as a 64-bit kernel fills it, pushed as a
//! message, so that recordings have one form; `parse::ethtool` knows the fields.

#![allow(unsafe_code)] // An ioctl takes a pointer to memory that the kernel reads and writes.

mod change;

use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use rxlab_base::parse::ethtool::queue_coalesce::{COALESCE, MOST_QUEUES, QUEUE_COALESCE, QUEUE_MASK};
use rxlab_base::parse::ethtool::rss::{HASHED, KEY_SIZE, RXNFC_FLOW, TABLE_SIZE};
use rxlab_base::parse::ethtool::rules::LOCATION;
use rxlab_base::parse::one_message;
use rxlab_base::units::NicName;

pub(super) use change::{
    NEW_CONTEXT, delete_rule, insert_rule, set_context, set_fields, set_key, set_queue_delay, set_table,
    set_transform,
};

const SIOCETHTOOL: Opcode = 0x8946;

// Commands.
const GDRVINFO: u32 = 0x03;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GRXFH: u32 = 0x29;
const GRXRINGS: u32 = 0x2d;
const GRXCLSRLCNT: u32 = 0x2e;
const GRXCLSRULE: u32 = 0x2f;
const GRXCLSRLALL: u32 = 0x30;
const GSSET_INFO: u32 = 0x37;
const GRSSH: u32 = 0x46;
const PERQUEUE: u32 = 0x4b;
// Commands within PERQUEUE.
const GCOALESCE: u32 = 0x0e;

/// The string set of the driver's statistics.
const ETH_SS_STATS: u32 = 1;
const STRING: usize = 32;

// Lengths of the structures without trailing data, and offsets of their fields.
const DRVINFO: usize = 196;
const SSET_INFO: usize = 24;
const SSET_MASK: usize = 8;
const SSET_COUNT: usize = 16;
const STRINGS: usize = 12;
const STATS: usize = 8;
const RXFH: usize = 24;
const RXNFC: usize = 192;
const RXNFC_COUNT: usize = 184;
const RXNFC_LOCATIONS: usize = 188;
const QUEUE_COMMAND: usize = 4;

/// Sanity limit of an answer: no driver has this much data.
const MAX_ANSWER: usize = 8 << 20;
/// A multiple of every page size that Linux has.
const GUARD: usize = 64 << 10;

pub(super) fn driver(socket: BorrowedFd<'_>, nic: &NicName) -> Result<Vec<u8>, Errno> {
    let mut info = Fixed::<DRVINFO>::new(GDRVINFO);
    info.fill(socket, nic)?;
    Ok(one_message(&info.0))
}

pub(super) fn stat_names(socket: BorrowedFd<'_>, nic: &NicName) -> Result<Vec<u8>, Errno> {
    let count = stat_count(socket, nic)?;
    let mut names = Region::new(STRINGS + STRING * count as usize)?;
    names.put(0, GSTRINGS);
    names.put(4, ETH_SS_STATS);
    names.put(8, count);
    names.fill(socket, nic)?;
    let count = names.number(8);
    names.message(STRINGS + STRING * count as usize)
}

/// Values of the statistics, in the order of their names.
pub(super) fn stats(socket: BorrowedFd<'_>, nic: &NicName) -> Result<Vec<u8>, Errno> {
    let count = stat_count(socket, nic)?;
    let mut values = Region::new(STATS + 8 * count as usize)?;
    values.put(0, GSTATS);
    values.put(4, count);
    values.fill(socket, nic)?;
    let count = values.number(4);
    values.message(STATS + 8 * count as usize)
}

fn stat_count(socket: impl AsFd, nic: &NicName) -> Result<u32, Errno> {
    let mut info = Fixed::<SSET_INFO>::new(GSSET_INFO);
    info.0[SSET_MASK..SSET_MASK + 8].copy_from_slice(&(1u64 << ETH_SS_STATS).to_ne_bytes());
    info.fill(socket, nic)?;
    // A driver without this set clears its bit.
    let known = info.0[SSET_MASK..SSET_MASK + 8].iter().any(|byte| *byte != 0);
    let count = number(&info.0, SSET_COUNT);
    if known && count > 0 { Ok(count) } else { Err(Errno::OPNOTSUPP) }
}

/// The default RSS table, key and function.
pub(super) fn rss(socket: BorrowedFd<'_>, nic: &NicName) -> Result<Vec<u8>, Errno> {
    let mut sizes = Fixed::<RXFH>::new(GRSSH);
    sizes.fill(socket, nic)?;
    let (table, key) = (number(&sizes.0, TABLE_SIZE), number(&sizes.0, KEY_SIZE));
    let length = RXFH + 4 * table as usize + key as usize;
    let mut rss = Region::new(length)?;
    rss.put(0, GRSSH);
    // The kernel rejects sizes that are not, or no longer, the driver's.
    rss.put(TABLE_SIZE, table);
    rss.put(KEY_SIZE, key);
    rss.fill(socket, nic)?;
    rss.message(length)
}

/// `struct ethtool_rxnfc` with the number of flow rules and of their slots.
pub(super) fn rule_slots(socket: BorrowedFd<'_>, nic: &NicName) -> Result<Vec<u8>, Errno> {
    let mut count = Fixed::<RXNFC>::new(GRXCLSRLCNT);
    count.fill(socket, nic)?;
    Ok(one_message(&count.0))
}

/// The flow rules, one message each.
pub(super) fn rules(socket: BorrowedFd<'_>, nic: &NicName) -> Result<Vec<u8>, Errno> {
    let mut count = Fixed::<RXNFC>::new(GRXCLSRLCNT);
    count.fill(socket, nic)?;
    let count = number(&count.0, RXNFC_COUNT);
    let mut rules = Vec::new();
    if count == 0 {
        return Ok(rules);
    }
    let mut all = Region::new(RXNFC_LOCATIONS + 4 * count as usize)?;
    all.put(0, GRXCLSRLALL);
    all.put(RXNFC_COUNT, count);
    all.fill(socket, nic)?;
    // The kernel answers with at most as many as it was given room for.
    let count = all.number(RXNFC_COUNT).min(count);
    for index in 0..count as usize {
        let mut rule = Fixed::<RXNFC>::new(GRXCLSRULE);
        let location = all.number(RXNFC_LOCATIONS + 4 * index);
        rule.0[LOCATION..LOCATION + 4].copy_from_slice(&location.to_ne_bytes());
        match rule.fill(socket, nic) {
            Ok(()) => rules.extend(one_message(&rule.0)),
            // Removed since the list was made.
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(rules)
}

/// Number of queues the default RSS table spreads over.
pub(super) fn rx_rings(socket: BorrowedFd<'_>, nic: &NicName) -> Result<Vec<u8>, Errno> {
    let mut rings = Fixed::<RXNFC>::new(GRXRINGS);
    rings.fill(socket, nic)?;
    Ok(one_message(&rings.0))
}

/// The hashed header fields, one message for each kind of flow that the driver reports.
pub(super) fn hash_fields(socket: BorrowedFd<'_>, nic: &NicName) -> Result<Vec<u8>, Errno> {
    let mut all = Vec::new();
    let mut refused = None;
    for (flow, _) in HASHED {
        let mut fields = Fixed::<RXNFC>::new(GRXFH);
        fields.0[RXNFC_FLOW..RXNFC_FLOW + 4].copy_from_slice(&flow.to_ne_bytes());
        match fields.fill(socket, nic) {
            Ok(()) => all.extend(one_message(&fields.0)),
            // The driver has no such kind of flow.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => refused = Some(Errno::OPNOTSUPP),
            Err(errno) => return Err(errno),
        }
    }
    refused.filter(|_| all.is_empty()).map_or(Ok(all), Err)
}

/// Interrupt moderation of each queue, one message each.
pub(super) fn queue_coalesce(socket: BorrowedFd<'_>, nic: &NicName) -> Result<Vec<u8>, Errno> {
    let mut all = Vec::new();
    for queue in 0..MOST_QUEUES {
        match queue_moderation(socket, nic, queue) {
            Ok(found) => all.extend(one_message(&found.0)),
            // Drivers refuse the first queue that they do not have.
            Err(_) if queue > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(all)
}

fn queue_moderation(socket: impl AsFd, nic: &NicName, queue: u32) -> Result<Fixed<QUEUE_COALESCE>, Errno> {
    let mut found = Fixed::<QUEUE_COALESCE>::new(PERQUEUE);
    found.0[QUEUE_COMMAND..QUEUE_COMMAND + 4].copy_from_slice(&GCOALESCE.to_ne_bytes());
    let word = QUEUE_MASK + 4 * (queue / u32::BITS) as usize;
    let place = found.0[..COALESCE].get_mut(word..word + 4).ok_or(Errno::INVAL)?;
    place.copy_from_slice(&(1u32 << (queue % u32::BITS)).to_ne_bytes());
    found.fill(socket, nic)?;
    Ok(found)
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(*bytes[at..].first_chunk().expect("every field lies within its structure"))
}

/// `struct ifreq`: 40 bytes on 64-bit machines, and no less than it is on others.
#[repr(C)]
struct Request {
    name: [u8; 16],
    data: *mut c_void,
    rest: [u64; 2],
}

/// One ioctl. The command is the first number of what `data` points to.
///
/// # Safety
///
/// `data` must point to writable memory of the length of this command's structure; for
/// commands whose answers are longer than that, it must be a [`Region`].
unsafe fn call(socket: impl AsFd, nic: &NicName, data: *mut c_void) -> Result<(), Errno> {
    let mut request = Request { name: [0; 16], data, rest: [0; 2] };
    // A name has at most 15 bytes, so the last byte stays NUL.
    let name = nic.as_str().as_bytes();
    request.name[..name.len()].copy_from_slice(name);
    // SAFETY: SIOCETHTOOL takes a `struct ifreq`, which `Request` is; the caller answers for `data`.
    unsafe { ioctl(socket, Updater::<SIOCETHTOOL, Request>::new(&mut request)) }
}

/// A structure of a length that the kernel never exceeds.
#[repr(C, align(8))]
struct Fixed<const N: usize>([u8; N]);

impl<const N: usize> Fixed<N> {
    fn new(command: u32) -> Self {
        let mut bytes = [0; N];
        bytes[..4].copy_from_slice(&command.to_ne_bytes());
        Self(bytes)
    }

    fn fill(&mut self, socket: impl AsFd, nic: &NicName) -> Result<(), Errno> {
        // SAFETY: N is the length of the structure of the command that `new` was given, and all callers
        // pair them; GRSSH and GRXCLSRLCNT write no more when they are given no room for tables, and PERQUEUE no more
        // than one structure for each queue of the mask, which has one.
        unsafe { call(socket, nic, ptr::from_mut(&mut self.0).cast()) }
    }
}

/// Memory for answers of any length, followed by an inaccessible page.
///
/// GSTRINGS and GSTATS write as many entries as the driver has at that moment, ignoring the room they were
/// given, and queues may have been added since the driver reported the number. The kernel's copy then ends at
/// that page, with EFAULT.
struct Region {
    start: *mut c_void,
    length: usize,
}

impl Region {
    fn new(length: usize) -> Result<Self, Errno> {
        if length > MAX_ANSWER {
            return Err(Errno::TOOBIG);
        }
        let length = length.next_multiple_of(GUARD);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at an address of the kernel's choice.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), length + GUARD, access, MapFlags::PRIVATE) }?;
        let region = Self { start, length };
        // SAFETY: the last GUARD bytes of that mapping, which nothing refers to.
        unsafe { mprotect(start.byte_add(length), GUARD, MprotectFlags::empty()) }?;
        Ok(region)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the readable part of the mapping, zeroed by the kernel, alive as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.length) }
    }

    fn put(&mut self, at: usize, value: u32) {
        // SAFETY: as in `bytes`, and `self` is borrowed for writing.
        let bytes: &mut [u8] = unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.length) };
        bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    fn number(&self, at: usize) -> u32 {
        number(self.bytes(), at)
    }

    fn fill(&mut self, socket: impl AsFd, nic: &NicName) -> Result<(), Errno> {
        // SAFETY: a Region, as `call` requires.
        unsafe { call(socket, nic, self.start) }
    }

    /// The first `length` bytes as an answer; the kernel may report more than there was room for.
    fn message(&self, length: usize) -> Result<Vec<u8>, Errno> {
        self.bytes().get(..length).map(one_message).ok_or(Errno::BADMSG)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the whole mapping that `new` made; no reference outlives `self`.
        let unmapped = unsafe { munmap(self.start, self.length + GUARD) };
        debug_assert_eq!(unmapped, Ok(()), "a mapping of our own");
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketType, socket};

    use super::{GSTRINGS, GUARD, MAX_ANSWER, Region, call, driver};

    /// The string set of offloads, which every interface has.
    const ETH_SS_FEATURES: u32 = 4;

    #[test]
    fn the_kernel_cannot_write_beyond_a_region() {
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).expect("a socket");
        let lo = "lo".parse().expect("a name");
        let ask = |at: usize| {
            let mut region = Region::new(100).expect("mapped");
            assert_eq!(region.bytes().len(), GUARD);
            region.put(at, GSTRINGS);
            region.put(at + 4, ETH_SS_FEATURES);
            // SAFETY: memory of a region, up to whose guard there is room for the structure itself.
            let asked = unsafe { call(&socket, &lo, region.start.byte_add(at)) };
            asked.map(|()| region.number(at + 8))
        };
        assert!(ask(0).is_ok_and(|count| count > 8), "{:?}", ask(0));
        // Room for the names of eight, ignoring the requested number.
        assert_eq!(ask(GUARD - 12 - 8 * 32), Err(Errno::FAULT));
    }

    #[test]
    fn what_no_driver_has_to_say_is_refused() {
        assert_eq!(Region::new(MAX_ANSWER + 1).map(|_| ()), Err(Errno::TOOBIG));
    }

    #[test]
    fn an_interface_that_is_not_there() {
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).expect("a socket");
        let missing = "no-such-nic".parse().expect("a name");
        assert_eq!(driver(socket.as_fd(), &missing), Err(Errno::NODEV));
    }
}
