//! Queue and RPS CPU of 10,000 random flows on a device that hashes and passes its hash on, computed from its key, fields
//! and table, compared with the packets that the driver counts by queue and the kernel by CPU.
//!
//! The guest shows itself to the test, which sorts the flows by the queue and the CPU that it computes for them, and then
//! sends a packet of each, batch by batch: all packets of a batch have to be counted in one queue and on one CPU.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rxlab_path::model::{Certainty, Flow, FlowPath, Model};
use rxlab_sys::enter_netns;
use serde::Deserialize;
use socket2::{Domain, Protocol, Socket, Type};

use super::guest::{self, Answer};
use crate::packets::{Sender, random_flows};
use crate::process::{Ended, PATIENCE};
use crate::require;

const FLOWS: usize = 10_000;

/// Fewer than a receive ring has room for, and than the backlog of a CPU.
const BATCH: usize = 128;

/// Flows whose packets are expected in one place.
struct Batch {
    queue: u32,
    cpu: u32,
    flows: Vec<Flow>,
}

/// The peer lets the test into its namespace, whose packets all go to the guest and which sends nothing by itself: no
/// neighbour discovery, and no answers to the pings that ask for the next batch.
fn peer(file: &Path) -> String {
    format!(
        "set -e
         ip link set tap0 down
         ip link set tap0 addrgenmode none
         ip link set tap0 up
         echo 1 >/proc/sys/net/ipv4/icmp_echo_ignore_all
         ip -6 address add fd98::1/128 dev lo
         for via in 10.98.0.2 fe80::2; do
             ip neigh add $via lladdr 52:54:00:98:00:00 dev tap0 nud permanent
             ip route add default via $via dev tap0
         done
         read -r pid rest </proc/self/stat
         echo $pid >'{file}.new'
         mv '{file}.new' '{file}'
         exec sleep 600",
        file = file.display()
    )
}

/// Asks for a batch with a ping of as many bytes as its number, and waits for its packets; some more time shows those
/// that are too many.
const JOB: &str = r#"
ran table rxlab apply --setting 'rss eth0 = weights 1,2,1,3,1,1,2,1'
ran hashing ethtool -K eth0 rxhash on
for queue in 0 1 2 3 4 5 6 7; do echo ff >/sys/class/net/eth0/queues/rx-$queue/rps_cpus; done
ran shown rxlab show --nic eth0 --json
rxlab show --nic eth0 --json | nc 10.98.0.1 9000 >batches
arp -s 10.98.0.1 $(awk '$1 == "10.98.0.1" { print $4 }' /proc/net/arp)
sleep 2
received() { cat /sys/class/net/eth0/statistics/rx_packets; }
counted() {
    part "after $1"
    ethtool -S eth0 | sed -n 's/^ *rx_queue_\([0-9]*\)_packets: /queue \1 /p'
    awk '{ print "cpu", $13, $1 }' /proc/net/softnet_stat
}
batch=0
counted 0
while read -r size; do
    batch=$((batch + 1)) tries=0
    until=$(($(received) + size))
    ping -c 1 -W 1 -s $batch 10.98.0.1 >/dev/null &
    while [ "$(received)" -lt $until ] && [ $tries -lt 200 ]; do
        tries=$((tries + 1))
        usleep 50000
    done
    usleep 100000
    counted $batch
done <batches
"#;

/// Path of the peer's namespace, once it is ready; `None` if the test has ended.
fn namespace(file: &Path) -> Option<PathBuf> {
    while file.parent().is_some_and(Path::exists) {
        if let Ok(pid) = std::fs::read_to_string(file) {
            return Some(format!("/proc/{}/ns/net", pid.trim()).into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    None
}

/// Sorts the flows by what the guest shows, and sends each batch when it is asked for.
fn serve(file: &Path) -> Option<Vec<Batch>> {
    enter_netns(&namespace(file)?).expect("entered");
    let listener = TcpListener::bind("10.98.0.1:9000").expect("the peer's own address");
    let pings = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).expect("root");
    pings.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let (mut guest, _) = listener.accept().expect("the guest connects");
    let read = Model::deserialize(&mut serde_json::Deserializer::from_reader(BufReader::new(&guest)));
    let batches = batches(&read.expect("a model"));
    let sizes: String = batches.iter().map(|batch| format!("{}\n", batch.flows.len())).collect();
    guest.write_all(sizes.as_bytes()).expect("sent");
    drop(guest);
    let sender = Sender::new();
    for (batch, number) in batches.iter().zip(1..) {
        // The headers of IP and ICMP take 28 bytes.
        while (&pings).read(&mut [0; 2048]).expect("the guest asks for every batch") != 28 + number {}
        batch.flows.iter().for_each(|flow| sender.send(flow));
    }
    Some(batches)
}

fn batches(model: &Model) -> Vec<Batch> {
    let mut places: BTreeMap<(u32, u32), Vec<Flow>> = BTreeMap::new();
    for flow in random_flows(FLOWS) {
        let path = FlowPath::new(model, &model.nics[0], &flow, false);
        assert_eq!(path.hash.certainty, Certainty::Computed, "{path:?}");
        let place = path.queue.only().zip(path.rps_cpu.only());
        let (queue, cpu) = place.unwrap_or_else(|| panic!("no single queue and CPU: {path:?}"));
        places.entry((queue, cpu.0)).or_default().push(flow);
    }
    let batch = |((queue, cpu), flows): ((u32, u32), Vec<Flow>)| {
        let parts: Vec<Vec<Flow>> = flows.chunks(BATCH).map(<[Flow]>::to_vec).collect();
        parts.into_iter().map(move |flows| Batch { queue, cpu, flows })
    };
    places.into_iter().flat_map(batch).collect()
}

/// Packets by queue and by CPU, up to the end of a batch.
fn counted(answer: &Answer, batch: usize) -> [BTreeMap<u32, u32>; 2] {
    let text = answer.part(&format!("after {batch}"));
    ["queue", "cpu"].map(|kind| {
        let radix = if kind == "cpu" { 16 } else { 10 };
        let number = |text: &str| u32::from_str_radix(text, radix).expect("a number");
        let row = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
            [first, index, count] if first == kind => Some((number(index), number(count))),
            _ => None,
        };
        text.lines().filter_map(row).collect()
    })
}

#[test]
fn ten_thousand_flows_land_where_they_are_computed_to() {
    require::needs!(ethtool);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("peer");
    let serving = std::thread::spawn({
        let file = file.clone();
        move || serve(&file)
    });
    let Some(answer) = guest::run_with(&["ethtool"], "8cpu-8queue-rss", JOB, Some(&peer(&file))) else {
        return;
    };
    for step in ["table", "hashing", "shown"] {
        answer.ran(step).exits(0);
    }
    let batches = serving.join().expect("served").expect("the guest was there");
    let mut kinds: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let mut before = counted(&answer, 0);
    for (batch, number) in batches.iter().zip(1..) {
        let after = counted(&answer, number);
        let size = u32::try_from(batch.flows.len()).expect("a small batch");
        let [in_queue, on_cpu] = [(0, batch.queue), (1, batch.cpu)].map(|(at, place)| {
            let grown = |(index, count): (&u32, &u32)| (*index, count - before[at][index]);
            let counts: BTreeMap<u32, u32> = after[at].iter().map(grown).collect();
            assert_eq!(counts.len(), 8);
            let is_exact =
                counts.iter().all(|(index, count)| *count == if *index == place { size } else { 0 });
            if !is_exact {
                println!("batch {number}: {size} packets expected in {place}, counted: {counts:?}");
            }
            is_exact
        });
        for flow in &batch.flows {
            let [all, queue, cpu] = kinds.entry(flow.kind()).or_default();
            *all += 1;
            *queue += usize::from(in_queue);
            *cpu += usize::from(on_cpu);
        }
        before = after;
    }
    println!("flows of {} places in {} batches", places(&batches), batches.len());
    println!("kind  flows  right queue  right RPS CPU");
    for (kind, [all, queue, cpu]) in &kinds {
        println!("{kind:<5} {all:5}  {queue:11}  {cpu:13}");
    }
    assert_eq!(places(&batches), 64, "every queue and every CPU");
    assert_eq!(kinds.len(), 4);
    assert_eq!(kinds.values().map(|[all, ..]| all).sum::<usize>(), FLOWS);
    assert!(kinds.values().all(|[all, queue, cpu]| all == queue && all == cpu), "{kinds:?}");
}

/// Number of pairs of a queue and a CPU.
fn places(batches: &[Batch]) -> usize {
    batches.iter().map(|batch| (batch.queue, batch.cpu)).collect::<std::collections::BTreeSet<_>>().len()
}
