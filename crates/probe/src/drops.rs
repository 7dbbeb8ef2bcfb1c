//! The kernel's reasons for freeing packets, counted for a moment: its tracepoint `kfree_skb` (since 5.17 with the reason).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Enum;
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder};

use super::budget::Budget;
use super::loaded::{self, Missing};
use rxlab_base::units::{CpuId, Fact, Need, NicName};
use rxlab_path::drop_reasons::{DropReasons, FreedPackets};
use rxlab_path::model::Model;
use rxlab_sys::Host;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/drops.bpf.o"));

/// Upper limit of the CPU time that the program adds to a freed packet, in nanoseconds: 85 to 108 were measured
/// (bench/results/probe_cost.txt).
const PACKET_NS: f64 = 300.0;
/// Longest count.
const LONGEST: Duration = Duration::from_secs(1);
/// Time between two looks at how much was counted.
const SLICE: Duration = Duration::from_millis(10);

/// Reasons of the packets that are freed in the namespace of `host` during a second; less if the machine frees so many that
/// counting them has taken `budget` of a CPU's time during the `sample` that showed losses, or if `stop` is set.
pub fn drop_reasons(
    host: &dyn Host,
    model: &Model,
    (sample, budget): (Duration, Budget),
    stop: &AtomicBool,
) -> Fact<DropReasons> {
    let Some(namespace) = host.namespace() else { return Fact::NotAsked };
    let Ok(namespace) = u32::try_from(namespace.inode) else { return Fact::Unsupported };
    let is_enough = |runs: u64| {
        let spent = Duration::from_secs_f64(runs as f64 * PACKET_NS / 1e9);
        budget.period(spent) >= sample || stop.load(Ordering::SeqCst)
    };
    count(host, namespace, is_enough).map(|(counted, seconds)| {
        let nics = if counted.is_empty() { BTreeMap::new() } else { by_index(host, model) };
        DropReasons { seconds, packets: named(&nics, &counted) }
    })
}

/// `struct key` of the source.
type Key = [u32; 3];

/// Freed packets of a namespace, and the seconds in which they were counted: until so many runs of the program are enough.
fn count(
    host: &dyn Host,
    namespace: u32,
    is_enough: impl Fn(u64) -> bool,
) -> Fact<(BTreeMap<Key, u64>, f64)> {
    if let Err(missing) = loaded::refuse_real_time(host) {
        return absent(missing);
    }
    let counted = (|| {
        let mut open = ObjectBuilder::default().open_memory(OBJECT)?;
        loaded::set_constants(&mut open, &[namespace]);
        let object = open.load()?;
        let links = object.progs_mut().map(|program| program.attach()).collect::<Result<Vec<_>, _>>()?;
        let began = Instant::now();
        while began.elapsed() < LONGEST && !is_enough(runs(&object)) {
            std::thread::sleep(SLICE);
        }
        let seconds = began.elapsed().as_secs_f64();
        drop(links);
        let map = loaded::map(&object, "drops");
        let read = |key: Vec<u8>| Some((parse(&key)?, map.lookup(&key, MapFlags::ANY).ok()??));
        let counts = map
            .keys()
            .filter_map(read)
            .filter_map(|(key, count)| Some((key, u64::from_ne_bytes(count.try_into().ok()?))));
        Ok((counts.collect(), seconds))
    })();
    counted.map_or_else(|error| absent(loaded::refusal(host, &error)), Fact::Known)
}

/// Runs of the program on all CPUs.
fn runs(object: &Object) -> u64 {
    let cpus = loaded::map(object, "runs").lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
    let cpus = cpus.ok().flatten().unwrap_or_default();
    cpus.iter().filter_map(|bytes| bytes.first_chunk().copied().map(u64::from_ne_bytes)).sum()
}

fn absent<T>(missing: Missing) -> Fact<T> {
    match missing {
        Missing::Privilege => Fact::Denied(Need::Root),
        Missing::RealTime | Missing::Types => Fact::Unsupported,
        Missing::Refused(why) => Fact::Broken(why),
    }
}

fn parse(bytes: &[u8]) -> Option<Key> {
    let (numbers, []) = bytes.as_chunks::<4>() else { return None };
    let numbers: [[u8; 4]; 3] = numbers.try_into().ok()?;
    Some(numbers.map(u32::from_ne_bytes))
}

/// The interfaces by their number.
fn by_index(host: &dyn Host, model: &Model) -> BTreeMap<u32, NicName> {
    let index =
        |name: &NicName| host.read_text(&format!("sys/class/net/{name}/ifindex")).ok()?.trim().parse().ok();
    model.nics.iter().filter_map(|nic| Some((index(&nic.name)?, nic.name.clone()))).collect()
}

fn named(nics: &BTreeMap<u32, NicName>, counted: &BTreeMap<Key, u64>) -> Vec<FreedPackets> {
    let names = Btf::from_vmlinux().map(|types| reason_names(&types)).unwrap_or_default();
    let entry = |(&[cpu, ifindex, reason], &packets): (&Key, &u64)| FreedPackets {
        nic: nics.get(&ifindex).cloned(),
        cpu: CpuId(cpu),
        // Modules have reasons of their own above 65,535 (SKB_DROP_REASON_SUBSYS_SHIFT), such as Open vSwitch.
        reason: names.get(&reason).cloned().unwrap_or_else(|| format!("reason {reason:#x}")),
        packets,
    };
    let mut packets: Vec<FreedPackets> = counted.iter().map(entry).collect();
    packets.sort_by_key(|entry| std::cmp::Reverse(entry.packets));
    packets
}

const PREFIX: &str = "SKB_DROP_REASON_";

/// Names differ in their numbers from kernel to kernel: the running one has the right ones.
fn reason_names(types: &Btf<'_>) -> BTreeMap<u32, String> {
    let Some(reasons) = types.type_by_name::<Enum<'_>>("skb_drop_reason") else { return BTreeMap::new() };
    let name = |member: libbpf_rs::btf::types::EnumMember<'_>| {
        let name = member.name?.to_string_lossy().into_owned();
        let name = name.strip_prefix(PREFIX).unwrap_or(&name).to_owned();
        Some((u32::try_from(member.value).ok()?, name))
    };
    reasons.iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_layout_of_the_source() {
        let bytes: Vec<u8> = [2u32, 7, 6].iter().flat_map(|field| field.to_ne_bytes()).collect();
        assert_eq!(parse(&bytes), Some([2, 7, 6]));
        assert_eq!(parse(&bytes[..8]), None);
    }
}
