//! The device's RSS hash of a flow, and the hash by which the kernel chooses an RPS CPU.

use std::net::SocketAddr;

use super::rules::Rules;
use super::{Certainty, NO_TABLE, Step, is_on};
use crate::model::toeplitz::toeplitz;
use crate::model::{Flow, Nic, NicKind, Transport};
use rxlab_base::parse::ethtool::Rss;

/// The kernel's names of the fields that a flow has, in the order of the packet.
const FIELDS: [&str; 4] = ["ip-src", "ip-dst", "l4-b-0-1", "l4-b-2-3"];

/// The device's hash of the flow, or the reason why it cannot be computed.
pub(super) fn rss_hash(nic: &Nic, flow: &Flow, rss: &Rss, is_redacted: bool) -> Result<Step<u32>, String> {
    let driver = nic.driver.as_deref().unwrap_or_default();
    if rss.table.is_empty() {
        return Err(NO_TABLE.to_owned());
    }
    match (rss.function.as_deref(), rss.transform.as_deref()) {
        (Some("toeplitz"), None | Some("symmetric-xor")) => {}
        (Some("toeplitz"), Some(other)) => return Err(format!("input transform {other}: not computed")),
        (Some(other), _) => return Err(format!("hash function {other}: only toeplitz is computed")),
        (None, _) => return Err("the hash function is not reported".to_owned()),
    }
    let facts = nic.driver_facts().hash;
    if !facts.is_toeplitz {
        return Err(format!("{driver}'s hash is not the standard Toeplitz hash"));
    }
    if facts.hides_symmetry && rss.transform.is_none() {
        return Err(format!("{driver} has a symmetric hash on kernels that do not report it"));
    }
    let key = match &rss.key {
        Some(key) => bytes(key).ok_or_else(|| format!("the key `{key}` is not hexadecimal"))?,
        None if is_redacted => return Err("the key was removed from this snapshot".to_owned()),
        None => return Err("the driver does not report the key".to_owned()),
    };
    if key.iter().all(|byte| *byte == 0) {
        return Err("the driver reports a key of zeros".to_owned());
    }
    let hashed = Hashed::new(nic, flow)?;
    let input = hashed.input(flow, rss.transform.is_some());
    let hash = toeplitz(&key, &input).ok_or_else(|| format!("a key of {} bytes is too short", key.len()))?;
    let transform = rss.transform.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
    let why = format!("Toeplitz, key of {} bytes, {}{transform}", key.len(), hashed.words());
    let assumption = hashed.is_assumed.then(|| "these fields are assumed".to_owned());
    Ok(Step::new([hash], Certainty::Computed, Some(why)).with_doubts(assumption.into_iter().collect()))
}

/// The hash by which RPS chooses (`skb_get_hash`): the device's, or the reason why it is the kernel's own, whose key
/// is random.
pub(super) fn skb_hash(nic: &Nic, flow: &Flow, rules: &Rules<'_>, hash: &Step<u32>) -> Result<u32, String> {
    const KERNEL: &str = "RPS uses the kernel's own hash, whose key is random";
    if nic.kind != NicKind::Device {
        return Err(
            "RPS uses the kernel's own hash or that of the sending socket: both are random".to_owned()
        );
    }
    let driver = nic.driver.as_deref().unwrap_or_default();
    if is_on(nic, "rx-hashing") != Some(true) {
        return Err(format!("rx-hashing is not on: {KERNEL}"));
    }
    let has_ports = nic.driver_facts().hash.has_ports;
    if !has_ports || Hashed::new(nic, flow).is_ok_and(|hashed| !hashed.has_ports()) {
        return Err(format!("{driver} reports no hash of ports: {KERNEL}"));
    }
    if rules.steer() {
        return Err("a device may report no hash for packets that a flow rule steers".to_owned());
    }
    hash.only().ok_or_else(|| "the device's hash is unknown".to_owned())
}

/// Header fields that a device hashes.
struct Hashed<'a> {
    /// Names of header fields, all in [`FIELDS`].
    fields: Vec<&'a str>,
    /// The driver does not report them.
    is_assumed: bool,
}

impl<'a> Hashed<'a> {
    /// The fields for packets of `flow`, or the reason why they cannot be hashed here.
    fn new(nic: &'a Nic, flow: &Flow) -> Result<Self, String> {
        let reported = nic.hardware.hash_fields.known().into_iter().flatten();
        let Some(reported) = reported.into_iter().find(|hashed| hashed.kind == flow.kind()) else {
            // Without ports, fragments of a datagram stay on one queue: many drivers begin like this.
            let count = if flow.transport == Transport::Tcp { 4 } else { 2 };
            return Ok(Self { fields: FIELDS[..count].to_vec(), is_assumed: true });
        };
        let fields: Vec<&str> = reported.fields.iter().map(String::as_str).collect();
        match fields.iter().find(|field| !FIELDS.contains(field)) {
            Some(other) => Err(format!("the device hashes a field that a flow does not have: {other}")),
            None if fields.is_empty() => Err(format!("the device does not hash {} packets", flow.kind())),
            None => Ok(Self { fields, is_assumed: false }),
        }
    }

    fn has_ports(&self) -> bool {
        FIELDS[2..].iter().all(|port| self.fields.contains(port))
    }

    /// `addresses and ports`, or the names of the fields.
    fn words(&self) -> String {
        match self.fields.len() {
            4 => "addresses and ports".to_owned(),
            2 if self.fields == FIELDS[..2] => "addresses".to_owned(),
            _ => self.fields.join(", "),
        }
    }

    /// The fields of a received packet, in its order. A symmetric hash takes both ends combined, twice.
    fn input(&self, flow: &Flow, is_symmetric: bool) -> Vec<u8> {
        let ends = [flow.remote, flow.local];
        let [source, destination] = ends.map(address);
        let [source_port, destination_port] = ends.map(|end| end.port().to_be_bytes().to_vec());
        let pairs = [(source, destination), (source_port, destination_port)];
        let both = pairs.into_iter().flat_map(|(source, destination)| {
            if is_symmetric {
                let combined: Vec<u8> = source.iter().zip(&destination).map(|(a, b)| a ^ b).collect();
                [combined.clone(), combined]
            } else {
                [source, destination]
            }
        });
        let taken = FIELDS.iter().zip(both).filter(|(field, _)| self.fields.contains(*field));
        taken.flat_map(|(_, bytes)| bytes).collect()
    }
}

fn address(end: SocketAddr) -> Vec<u8> {
    match end {
        SocketAddr::V4(end) => end.ip().octets().to_vec(),
        SocketAddr::V6(end) => end.ip().octets().to_vec(),
    }
}

/// The bytes of hexadecimal digits.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}
