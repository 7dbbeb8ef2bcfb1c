//! Files for /etc/systemd/network: udev sets an interface up by the first one that matches it
//! (systemd.link(5)), so each also repeats what the default file sets for names and addresses.

use std::collections::BTreeMap;

use super::expression::{Expression, Word};
use super::{Draft, ExportFile, Said, nic_of};
use crate::{Setting, Target};
use rxlab_base::grammar::is_plain_name;
use rxlab_base::units::{CpuMask, NicName, QueueId};
use rxlab_path::model::{Model, Nic, NicKind};

/// Settings that udev applies to every interface by 99-default.link; it reads only the first file that
/// matches.
const DEFAULTS: &str = "NamePolicy=keep kernel database onboard slot path\n\
                        AlternativeNamesPolicy=database onboard slot path\n\
                        MACAddressPolicy=persistent\n";

/// Options by ethtool's option and word.
const OPTIONS: [(&str, &str, &str); 15] = [
    ("-G", "rx", "RxBufferSize"),
    ("-G", "tx", "TxBufferSize"),
    ("-L", "combined", "CombinedChannels"),
    ("-L", "rx", "RxChannels"),
    ("-L", "tx", "TxChannels"),
    ("-C", "adaptive-rx", "UseAdaptiveRxCoalesce"),
    ("-C", "adaptive-tx", "UseAdaptiveTxCoalesce"),
    ("-C", "rx-usecs", "RxCoalesceSec"),
    ("-C", "rx-frames", "RxMaxCoalescedFrames"),
    ("-C", "tx-usecs", "TxCoalesceSec"),
    ("-C", "tx-frames", "TxMaxCoalescedFrames"),
    ("-K", "gro", "GenericReceiveOffload"),
    ("-K", "lro", "LargeReceiveOffload"),
    ("-K", "rx", "ReceiveChecksumOffload"),
    ("-K", "ntuple", "NTupleFilter"),
];

pub(super) fn files(draft: &mut Draft<'_>, model: &Model) -> Vec<ExportFile> {
    let rps = same_rps(draft, model);
    let options = draft.pick(|said| {
        if said.setting.target.nic().is_none() {
            return Err("a .link file configures one interface, and this value belongs to none".to_owned());
        }
        let nic = nic_of(said.setting, model).ok_or("its interface is not on this machine")?;
        Ok((nic.name.clone(), matched(nic)?, option(said, &rps)?))
    });
    let mut links: BTreeMap<NicName, (String, Vec<String>)> = BTreeMap::new();
    for (_, (nic, matched, option)) in options {
        let (_, lines) = links.entry(nic).or_insert((matched, Vec::new()));
        // Queues with the same RPS are one line.
        if !lines.contains(&option) {
            lines.push(option);
        }
    }
    let file = |(nic, (matched, lines)): (&NicName, &(String, Vec<String>))| {
        let mut head = draft.head(&format!("{nic}, for /etc/systemd/network (systemd.link(5))"));
        if lines.iter().any(|line| line.starts_with(RPS)) {
            head += &format!("#\n# {RPS} needs systemd 256; older versions log that they ignore it.\n");
        }
        let lines = lines.concat();
        let text = format!("{head}\n[Match]\n{matched}\n[Link]\n# As in 99-default.link.\n{DEFAULTS}{lines}");
        ExportFile { name: format!("10-rxlab-{nic}.link"), text, executable: false }
    };
    links.iter().map(file).collect()
}

/// Match by which udev finds the interface again.
fn matched(nic: &Nic) -> Result<String, String> {
    if nic.kind == NicKind::Loopback {
        return Err("udev does not set up lo".to_owned());
    }
    match nic.address.0.strip_prefix("pci:") {
        // Several ports of one function have one path.
        Some(address) if !address.contains('/') => Ok(format!("Path=pci-{address}\n")),
        _ if is_plain_name(nic.name.as_str()) => Ok(format!("OriginalName={}\n", nic.name)),
        _ => Err("the name of the interface has characters with a special meaning there".to_owned()),
    }
}

const RPS: &str = "ReceivePacketSteeringCPUMask";

fn option(said: &Said<'_>, rps: &BTreeMap<NicName, CpuMask>) -> Result<String, String> {
    if said.setting.knob == "rps" {
        let mask = said.setting.target.nic().and_then(|nic| rps.get(nic));
        let mask =
            mask.ok_or("a .link file can only give all queues of an interface the same, non-empty RPS mask")?;
        return Ok(format!("{RPS}={mask}\n"));
    }
    let none = "a .link file has no option for it";
    let Expression::Ethtool { group, values, .. } = &said.expression else { return Err(none.to_owned()) };
    let mut lines = String::new();
    for (Word { word, .. }, value) in values {
        let found = OPTIONS.iter().find(|(set, known, _)| (*set, *known) == (group.set, *word));
        let (_, _, key) = found.ok_or(none)?;
        lines += &match value.as_str() {
            "on" => format!("{key}=yes\n"),
            "off" => format!("{key}=no\n"),
            number if word.ends_with("-usecs") => format!("{key}={number}us\n"),
            number => format!("{key}={number}\n"),
        };
    }
    Ok(lines)
}

/// RPS of the interfaces for which the plan gives every receive queue the same, non-empty mask.
fn same_rps(draft: &Draft<'_>, model: &Model) -> BTreeMap<NicName, CpuMask> {
    let settings: Vec<&Setting> =
        draft.said.iter().map(|said| said.setting).filter(|setting| setting.knob == "rps").collect();
    let link_of = |nic: &Nic| {
        let mut masks = nic.steering_queues().iter().map(|rx| {
            let target = Target::queue(&nic.name, QueueId::rx(rx.index));
            settings.iter().find(|setting| setting.target == target)?.value.parse::<CpuMask>().ok()
        });
        let first = masks.next()??;
        (!first.is_empty() && masks.all(|mask| mask.as_ref() == Some(&first))).then_some(first)
    };
    model.nics.iter().filter_map(|nic| Some((nic.name.clone(), link_of(nic)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::sketch::{exported, text};

    #[test]
    fn one_file_for_each_interface() {
        let settings = [
            "rx_usecs eth0 = 50",
            "adaptive_rx eth0 = off",
            "channels eth0 = combined 2",
            "rps eth0/rx-0 = 1-3",
            "rps eth0/rx-1 = 1-3",
            "threaded eth0 = on",
        ];
        insta::assert_snapshot!(text(Format::SystemdLink, &settings));
        let both = exported(Format::SystemdLink, &["gro eth0 = off", "gro veth0 = off"]).files;
        let names: Vec<&str> = both.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["10-rxlab-eth0.link", "10-rxlab-veth0.link"]);
        assert!(both[1].text.contains("OriginalName=veth0\n"));
    }

    #[test]
    fn values_of_no_interface_are_left_out() {
        for setting in ["rps_default_mask host = 1", "netdev_budget host = 600"] {
            let export = exported(Format::SystemdLink, &[setting]);
            let why = "a .link file configures one interface, and this value belongs to none";
            assert!(export.files.is_empty() && export.left_out[0].why == why, "{:?}", export.left_out);
        }
    }

    #[test]
    fn queues_that_differ_have_no_words() {
        for settings in [
            &["rps eth0/rx-0 = 1-3"][..],
            &["rps eth0/rx-0 = 1", "rps eth0/rx-1 = 2"],
            &["rps eth0/rx-0 = off", "rps eth0/rx-1 = off"],
        ] {
            let export = exported(Format::SystemdLink, settings);
            assert!(export.files.is_empty() && export.left_out.len() == settings.len(), "{settings:?}");
        }
    }
}
