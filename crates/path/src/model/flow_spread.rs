//! Source ports of flows, chosen so that their packets land where they should.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use thiserror::Error;

use super::{Flow, FlowPath, Model, Nic, Transport};
use rxlab_base::units::{CpuId, Direction, NicName, QueueId};

/// Ports to choose from: below those that Linux gives to connections that ask for none, one of which may be in use.
const PORTS: RangeInclusive<u16> = 10_000..=32_767;

/// So many flows show every place that the device leads to: one with an entry of 128 in the table is missed once in
/// 10^13 choices.
const SEEN: usize = 4096;

/// Place where the packets of flows should land.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landing {
    /// The same number of flows on every receive queue that the device leads to; with one queue, on every CPU of RPS.
    Even,
    /// All flows on one receive queue.
    Queue(u32),
    /// All flows on one CPU: that of RPS, or that of the interrupt.
    Cpu(CpuId),
}

impl FromStr for Landing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let queue = || text.parse::<QueueId>().ok().filter(|queue| queue.direction == Direction::Rx);
        let cpu = || text.strip_prefix("cpu:")?.parse().ok().map(CpuId);
        match text {
            "even" => Ok(Landing::Even),
            _ => queue()
                .map(|queue| Landing::Queue(queue.index))
                .or_else(|| cpu().map(Landing::Cpu))
                .ok_or_else(|| {
                    "expected even, a receive queue such as rx-3, or a CPU such as cpu:2".to_owned()
                }),
        }
    }
}

impl fmt::Display for Landing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Landing::Even => f.write_str("even"),
            Landing::Queue(queue) => write!(f, "{}", QueueId::rx(*queue)),
            Landing::Cpu(cpu) => write!(f, "cpu:{cpu}"),
        }
    }
}

/// No source ports lead there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SpreadError {
    /// The way of a flow is not known.
    #[error("cannot tell where {flow} lands on {nic}: {why}")]
    NotKnown {
        /// The flow whose path is unknown.
        flow: Flow,
        /// The interface that receives it.
        nic: NicName,
        /// Everything that is missing, in words.
        why: String,
    },
    /// No flow or too few lead to a place.
    #[error("{found} of the {wanted} flows needed lead to {place} of {nic}")]
    TooFew {
        /// The interface that receives the flows.
        nic: NicName,
        /// A queue or a CPU.
        place: Landing,
        /// Flows that must lead there.
        wanted: usize,
        /// Flows that lead there from the given addresses.
        found: usize,
    },
}

/// Source ends of `count` flows from the addresses `sources` to `local`, whose packets `nic` receives. Neighbours land on
/// different places if several are wanted, so that every part of the list is spread.
pub fn source_ends(
    model: &Model,
    nic: &Nic,
    (transport, local): (Transport, SocketAddr),
    sources: &[IpAddr],
    count: usize,
    landing: Landing,
) -> Result<Vec<SocketAddr>, SpreadError> {
    let by_cpu = matches!(landing, Landing::Cpu(_)) || (landing == Landing::Even && nic.rx.len() == 1);
    // An echo does not answer its own port, which may be another echo.
    let ports = PORTS.filter(|port| *port != local.port());
    let ends = ports.flat_map(|port| sources.iter().map(move |source| SocketAddr::new(*source, port)));
    let mut found: BTreeMap<u32, Vec<SocketAddr>> = BTreeMap::new();
    for (at, remote) in ends.enumerate() {
        if at >= SEEN && is_enough(&found, count, landing) {
            break;
        }
        let flow = Flow { transport, local, remote };
        let place = place(&FlowPath::new(model, nic, &flow, false), by_cpu)
            .map_err(|why| SpreadError::NotKnown { flow, nic: nic.name.clone(), why })?;
        found.entry(place).or_default().push(remote);
    }
    if let Landing::Queue(one) | Landing::Cpu(CpuId(one)) = landing {
        let there = found.remove(&one).unwrap_or_default();
        found = BTreeMap::from([(one, there)]);
    }
    let places = found.len();
    for (turn, (place, ends)) in found.iter().enumerate() {
        let wanted = share(count, places, turn);
        if ends.len() < wanted {
            let place = if by_cpu { Landing::Cpu(CpuId(*place)) } else { Landing::Queue(*place) };
            return Err(SpreadError::TooFew { nic: nic.name.clone(), place, wanted, found: ends.len() });
        }
    }
    let all: Vec<Vec<SocketAddr>> = found.into_values().collect();
    Ok((0..count).map(|turn| all[turn % places][turn / places]).collect())
}

/// Flows of place number `turn` out of `places`.
fn share(count: usize, places: usize, turn: usize) -> usize {
    count / places + usize::from(turn < count % places)
}

fn is_enough(found: &BTreeMap<u32, Vec<SocketAddr>>, count: usize, landing: Landing) -> bool {
    match landing {
        Landing::Even => {
            found.values().enumerate().all(|(turn, ends)| ends.len() >= share(count, found.len(), turn))
        }
        Landing::Queue(one) | Landing::Cpu(CpuId(one)) => {
            found.get(&one).is_some_and(|ends| ends.len() >= count)
        }
    }
}

/// The queue or the CPU where a flow lands, or the reason why it is not known.
fn place(path: &FlowPath, by_cpu: bool) -> Result<u32, String> {
    let (only, why) = if by_cpu {
        (path.rps_cpu.only().map(|cpu| cpu.0), &path.rps_cpu.why)
    } else {
        (path.queue.only(), &path.queue.why)
    };
    only.ok_or_else(|| {
        let reasons: Vec<&str> =
            [&path.hash.why, &path.queue.why, why].into_iter().flatten().map(String::as_str).collect();
        reasons.first().copied().unwrap_or("the device does not report enough").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::{IpAddr, SocketAddr};

    use super::{Landing, source_ends};
    use crate::model::flow_path::tests::{machine, rss};
    use crate::model::{Flow, FlowPath, Model, Transport};
    use rxlab_base::units::Fact;

    const LOCAL: &str = "161.142.100.80:1766";
    const SOURCES: [&str; 2] = ["66.9.149.187", "66.9.149.188"];

    fn ends(model: &Model, count: usize, landing: &str) -> Result<Vec<SocketAddr>, String> {
        let sources: Vec<IpAddr> = SOURCES.iter().map(|source| source.parse().expect("an address")).collect();
        let to = (Transport::Udp, LOCAL.parse().expect("an end"));
        let landing: Landing = landing.parse().expect("a place");
        source_ends(model, &model.nics[0], to, &sources, count, landing).map_err(|error| error.to_string())
    }

    /// Flows by queue and by CPU.
    fn landed(model: &Model, ends: &[SocketAddr]) -> [BTreeMap<u32, usize>; 2] {
        let (mut queues, mut cpus) = (BTreeMap::new(), BTreeMap::new());
        for remote in ends {
            let local = LOCAL.parse().expect("an end");
            let flow = Flow { transport: Transport::Udp, local, remote: *remote };
            let path = FlowPath::new(model, &model.nics[0], &flow, false);
            *queues.entry(path.queue.only().expect("one queue")).or_default() += 1;
            *cpus.entry(path.rps_cpu.only().expect("one CPU").0).or_default() += 1;
        }
        [queues, cpus]
    }

    fn with_rps(queues: usize) -> Model {
        let mut model = machine();
        model.nics[0].rx.truncate(queues);
        for queue in &mut model.nics[0].rx {
            queue.rps_cpus = Fact::Known("4-7".parse().expect("a list"));
        }
        model
    }

    #[test]
    fn places_have_names() {
        for text in ["even", "rx-3", "cpu:2"] {
            assert_eq!(text.parse::<Landing>().expect(text).to_string(), text);
        }
        for bad in ["one", "tx-1", "cpu:x", ""] {
            assert!(bad.parse::<Landing>().is_err(), "{bad}");
        }
    }

    #[test]
    fn every_part_of_the_flows_is_spread_over_the_queues() {
        let model = machine();
        let all = ends(&model, 63, "even").expect("there are enough");
        assert_eq!(landed(&model, &all)[0], BTreeMap::from([(0, 16), (1, 16), (2, 16), (3, 15)]));
        for part in all[..60].chunks(4) {
            assert_eq!(landed(&model, part)[0].len(), 4);
        }
        let distinct: std::collections::BTreeSet<SocketAddr> = all.into_iter().collect();
        assert_eq!(distinct.len(), 63);
    }

    /// The table has no entry of rx-3.
    #[test]
    fn a_queue_that_the_table_does_not_name_gets_none() {
        let mut model = machine();
        rss(&mut model.nics[0]).table = vec![0, 1, 2, 2];
        let all = ends(&model, 9, "even").expect("there are enough");
        assert_eq!(landed(&model, &all)[0], BTreeMap::from([(0, 3), (1, 3), (2, 3)]));
        let none = ends(&model, 9, "rx-3").expect_err("no flow leads there");
        assert_eq!(none, "0 of the 9 flows needed lead to rx-3 of eth0");
    }

    #[test]
    fn all_flows_land_on_one_queue_or_cpu() {
        let model = with_rps(4);
        let all = ends(&model, 200, "rx-2").expect("there are enough");
        assert_eq!(landed(&model, &all)[0], BTreeMap::from([(2, 200)]));
        let all = ends(&model, 200, "cpu:5").expect("there are enough");
        assert_eq!(landed(&model, &all)[1], BTreeMap::from([(5, 200)]));
    }

    #[test]
    fn a_device_with_one_queue_is_spread_by_rps() {
        let model = with_rps(1);
        let all = ends(&model, 8, "even").expect("there are enough");
        assert_eq!(landed(&model, &all)[1], BTreeMap::from([(4, 2), (5, 2), (6, 2), (7, 2)]));
    }

    #[test]
    fn what_cannot_be_had_is_named() {
        let too_many = ends(&machine(), 60_000, "rx-0").expect_err("two addresses have 45536 ports in all");
        assert!(too_many.ends_with("of the 60000 flows needed lead to rx-0 of eth0"), "{too_many}");
        let mut model = machine();
        model.nics[0].driver = Some("ena".into());
        let error = ends(&model, 8, "even").expect_err("its hash is not standard");
        assert!(error.contains("lands on eth0: ena's hash is not the standard Toeplitz hash"), "{error}");
    }
}
