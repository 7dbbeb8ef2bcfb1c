//! Open transactions without the boot ID, paths and text of their first line.

use super::guids::Guids;
use super::{BOOT_ID, WITHHELD};
use rxlab_change::journal::{Outcome, Record};

/// The file with stand-ins; `None` if a line does not match the format.
pub(super) fn redacted(file: &[u8], guids: &mut Guids) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for line in file.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let mut record = Record::from_line(line)?;
        match &mut record {
            Record::Begin(begin) => {
                begin.boot_id = BOOT_ID.to_owned();
                begin.root = "/".to_owned();
                begin.what = WITHHELD.to_owned();
                if let Some(netns) = &mut begin.netns {
                    netns.path = WITHHELD.into();
                }
                (begin.home, begin.applier) = (None, None);
            }
            Record::Intent(intent) => {
                if let Some(device) = &mut intent.device {
                    device.0 = guids.text(&device.0);
                }
            }
            Record::Environment(around) => {
                for then in &mut around.devices {
                    then.device.0 = guids.text(&then.device.0);
                }
            }
            Record::Command(command) => {
                command.back = WITHHELD.to_owned();
                (command.directory, command.directory_id) = (None, None);
            }
            Record::CommandUndone { outcome: Outcome::Failed { why } } => WITHHELD.clone_into(why),
            _ => {}
        }
        out.extend(record.to_line());
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::redacted;
    use crate::snapshot::redact::guids::Guids;
    use rxlab_change::journal::{BackCommand, Begin, DeviceThen, Environment, History, Outcome, Record};
    use rxlab_path::model::DeviceAddress;
    use rxlab_sys::DirectoryId;

    #[test]
    fn it_still_reads_and_names_nothing() {
        let begin = Begin {
            id: "000001-abcd".into(),
            boot_id: "473d721b-2896-4eb5-a890-2cb48c991713".into(),
            root: "/home/alice/root".into(),
            started: "2026-01-01T00:00:00Z".into(),
            what: "apply /home/alice/rps.toml".into(),
            ..Begin::sample()
        };
        let guid = "vmbus:000d3a12-3456-000d-3a12-3456000d3a12";
        let then = DeviceThen {
            device: DeviceAddress(guid.into()),
            ifindex: Some(2),
            carrier_downs: None,
            rx_queues: None,
            tx_queues: None,
        };
        let around = Record::Environment(Environment { online: None, devices: vec![then] });
        let back = || "sh /home/alice/back.sh".to_owned();
        let command = Record::Command(BackCommand {
            back: back(),
            directory: Some("/home/alice".into()),
            directory_id: Some(DirectoryId { inode: 7, owner: 1000 }),
        });
        let failed = Record::CommandUndone { outcome: Outcome::Failed { why: back() } };
        let records = [Record::Begin(begin), around, command, failed, Record::Complete];
        let file: Vec<u8> = records.iter().flat_map(Record::to_line).collect();
        let clean = redacted(&file, &mut Guids::default()).expect("a journal");
        let text = String::from_utf8(clean.clone()).expect("text");
        assert!(
            ["alice", "473d721b", "000d3a12", "directory"].iter().all(|name| !text.contains(name)),
            "{text}"
        );
        let history = History::parse(&clean).expect("a journal");
        assert!(history.is_complete() && history.pending_command().is_some());
        assert_eq!(redacted(b"nonsense\n", &mut Guids::default()), None);
    }
}
