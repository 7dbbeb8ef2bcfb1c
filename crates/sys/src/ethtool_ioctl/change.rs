//! Changes of the tables of a device: RSS and flow rules.

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::{Fixed, QUEUE_COMMAND, RXFH, RXNFC, Region, queue_moderation};
use rxlab_base::parse::ethtool::QueueDelay;
use rxlab_base::parse::ethtool::queue_coalesce::COALESCE;
use rxlab_base::parse::ethtool::rss::{KEY_SIZE, RXNFC_DATA, RXNFC_FLOW, TABLE_SIZE, flow_number};
use rxlab_base::parse::ethtool::rules::LOCATION;
use rxlab_base::units::NicName;

// Commands.
const SRXFH: u32 = 0x2a;
const SRXCLSRLDEL: u32 = 0x31;
const SRXCLSRLINS: u32 = 0x32;
const SRXFHINDIR: u32 = 0x39;
const SRSSH: u32 = 0x47;
const SCOALESCE: u32 = 0x0f;

// `struct ethtool_rxfh_indir`: command, size, table.
const RXFH_INDIR: usize = 8;
const RXFH_INDIR_SIZE: usize = 4;

const RXFH_CONTEXT: usize = 4;
/// Hash function (0 = unchanged), transformation of the input, and two spare bytes.
const RXFH_FUNCTION: usize = 16;
/// "Unchanged" for the transformation, since kernels have one (6.8); they list contexts only since 6.12.
const NO_TRANSFORMATION: [u8; 4] = [0, 0xff, 0, 0];
/// "Unchanged" for the table.
const NO_TABLE: u32 = u32::MAX;
/// `ETH_RXFH_CONTEXT_ALLOC`: asks the kernel for a new context.
pub(crate) const NEW_CONTEXT: u32 = u32::MAX;

/// Sets the default table. An empty one requests the kernel's default. Uses the old command, which leaves
/// key, function and transformation unchanged on every kernel.
pub(crate) fn set_table(socket: impl AsFd, nic: &NicName, queues: &[u32]) -> Result<(), Errno> {
    let mut table = Region::new(RXFH_INDIR + 4 * queues.len())?;
    table.put(0, SRXFHINDIR);
    put_table(&mut table, RXFH_INDIR_SIZE, RXFH_INDIR, queues)?;
    table.fill(socket, nic)
}

/// Gives a context another table, and returns its number. An empty table deletes it; for [`NEW_CONTEXT`] the kernel makes
/// a context and chooses its number.
pub(crate) fn set_context(socket: impl AsFd, nic: &NicName, id: u32, queues: &[u32]) -> Result<u32, Errno> {
    // Context 0 is the default one, which deleting would reset.
    if id == 0 {
        return Err(Errno::INVAL);
    }
    let mut rss = Region::new(RXFH + 4 * queues.len())?;
    rss.put(0, SRSSH);
    rss.put(RXFH_CONTEXT, id);
    rss.put(RXFH_FUNCTION, u32::from_ne_bytes(NO_TRANSFORMATION));
    put_table(&mut rss, TABLE_SIZE, RXFH, queues)?;
    rss.fill(socket, nic)?;
    Ok(rss.number(RXFH_CONTEXT))
}

fn put_table(region: &mut Region, size: usize, start: usize, queues: &[u32]) -> Result<(), Errno> {
    region.put(size, u32::try_from(queues.len()).map_err(|_| Errno::TOOBIG)?);
    for (at, queue) in queues.iter().enumerate() {
        region.put(start + 4 * at, *queue);
    }
    Ok(())
}

/// Sets the key of the default hash; table, function and transformation stay.
pub(crate) fn set_key(socket: impl AsFd, nic: &NicName, key: &[u8]) -> Result<(), Errno> {
    let set = |function: [u8; 4]| {
        let mut rss = Region::new(RXFH + key.len().next_multiple_of(4))?;
        rss.put(0, SRSSH);
        rss.put(TABLE_SIZE, NO_TABLE);
        rss.put(KEY_SIZE, u32::try_from(key.len()).map_err(|_| Errno::TOOBIG)?);
        rss.put(RXFH_FUNCTION, u32::from_ne_bytes(function));
        for (at, part) in key.chunks(4).enumerate() {
            let mut four = [0; 4];
            four[..part.len()].copy_from_slice(part);
            rss.put(RXFH + 4 * at, u32::from_ne_bytes(four));
        }
        rss.fill(&socket, nic)
    };
    // Kernels before 6.8 have no transformation, and refuse anything but 0 in its place.
    match set(NO_TRANSFORMATION) {
        Err(Errno::INVAL) => set([0; 4]),
        done => done,
    }
}

/// Sets the transformation of the hash's input; 0 for none. Table, key and function stay.
pub(crate) fn set_transform(socket: impl AsFd, nic: &NicName, bits: u8) -> Result<(), Errno> {
    let mut rss = Region::new(RXFH)?;
    rss.put(0, SRSSH);
    rss.put(TABLE_SIZE, NO_TABLE);
    rss.put(RXFH_FUNCTION, u32::from_ne_bytes([0, bits, 0, 0]));
    rss.fill(socket, nic)
}

/// Sets the header fields that the default hash covers for one kind of flow.
pub(crate) fn set_fields(socket: impl AsFd, nic: &NicName, kind: &str, fields: u64) -> Result<(), Errno> {
    let flow = flow_number(kind).ok_or(Errno::INVAL)?;
    let mut bytes = Fixed::<RXNFC>::new(SRXFH);
    bytes.0[RXNFC_FLOW..RXNFC_FLOW + 4].copy_from_slice(&flow.to_ne_bytes());
    bytes.0[RXNFC_DATA..RXNFC_DATA + 8].copy_from_slice(&fields.to_ne_bytes());
    bytes.fill(socket, nic)
}

/// Sets a value of the interrupt moderation of one queue; the others keep what the driver reports.
pub(crate) fn set_queue_delay(
    socket: impl AsFd,
    nic: &NicName,
    queue: u32,
    which: QueueDelay,
    value: u32,
) -> Result<(), Errno> {
    let mut wanted = queue_moderation(&socket, nic, queue)?;
    for (at, number) in [(QUEUE_COMMAND, SCOALESCE), (COALESCE, SCOALESCE), (which.offset(), value)] {
        wanted.0[at..at + 4].copy_from_slice(&number.to_ne_bytes());
    }
    wanted.fill(socket, nic)
}

/// Inserts a rule, given as the structure of the command.
pub(crate) fn insert_rule(socket: impl AsFd, nic: &NicName, rule: &[u8]) -> Result<(), Errno> {
    let mut bytes = Fixed::<RXNFC>::new(SRXCLSRLINS);
    let fields = rule.get(4..RXNFC).ok_or(Errno::INVAL)?;
    bytes.0[4..].copy_from_slice(fields);
    bytes.fill(socket, nic)
}

/// Deletes the rule at a location.
pub(crate) fn delete_rule(socket: impl AsFd, nic: &NicName, location: u32) -> Result<(), Errno> {
    let mut bytes = Fixed::<RXNFC>::new(SRXCLSRLDEL);
    bytes.0[LOCATION..LOCATION + 4].copy_from_slice(&location.to_ne_bytes());
    bytes.fill(socket, nic)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketType, socket};

    use super::{
        NEW_CONTEXT, delete_rule, insert_rule, set_context, set_fields, set_key, set_queue_delay, set_table,
        set_transform,
    };
    use rxlab_base::parse::ethtool::QueueDelay;
    use rxlab_base::units::NicName;

    /// The loopback interface has no such tables: the kernel checks the command, and no more.
    #[test]
    fn what_the_kernel_says_of_a_device_without_tables() {
        let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).expect("a socket");
        let lo: NicName = "lo".parse().expect("a name");
        let answers = [
            set_table(&socket, &lo, &[]),
            set_table(&socket, &lo, &[0; 128]),
            set_key(&socket, &lo, &[7; 41]),
            set_transform(&socket, &lo, 1),
            set_fields(&socket, &lo, "udp4", 0xf0),
            set_queue_delay(&socket, &lo, 0, QueueDelay::RxUsecs, 50),
            set_context(&socket, &lo, NEW_CONTEXT, &[0; 128]).map(drop),
            set_context(&socket, &lo, 1, &[]).map(drop),
            insert_rule(&socket, &lo, &[0; 192]),
            delete_rule(&socket, &lo, 1),
        ];
        for answer in answers {
            assert!(matches!(answer, Err(Errno::OPNOTSUPP | Errno::PERM)), "{answer:?}");
        }
        let beyond = set_queue_delay(&socket, &lo, 4096, QueueDelay::RxUsecs, 50);
        assert_eq!(beyond, Err(Errno::INVAL), "the mask has no room for it");
        assert_eq!(set_context(&socket, &lo, 0, &[]), Err(Errno::INVAL), "that is the default table");
        assert_eq!(insert_rule(&socket, &lo, &[0; 100]), Err(Errno::INVAL), "not a whole rule");
    }
}
