//! Machines that lose packets behind their rings and backlogs.

use super::Host;
use rxlab_base::units::Fact;
use rxlab_path::model::{Rates, Transport};
use rxlab_path::sketch::Sketch;

pub(super) fn hosts() -> Vec<Host> {
    let host = || Sketch::new(4).device("eth0", &[0]).traffic("eth0", 5e4).receives(0, 0.2, 5e4);
    let kind = || Some("wireguard".to_owned());
    let tunnel = |rate| {
        let sketch = host().veth("wg0").edit("wg0", |nic| nic.stack.kind = kind());
        sketch.traffic("wg0", 5e4).dropped("wg0", rate)
    };
    let datagrams = |lost| {
        let sketch = host().lost("UdpRcvbufErrors", lost).lost("UdpInDatagrams", 4e4);
        sketch.losing(Transport::Udp, 8125, lost, "statsd")
    };
    let connections = |lost| {
        let sketch = host().lost("TcpExtListenOverflows", lost).lost("TcpExtListenDrops", lost);
        sketch.lost("TcpPassiveOpens", 2e3).losing(Transport::Tcp, 80, lost, "nginx")
    };
    let tracked = |lost| {
        let sketch = host().lost("drop", lost).lost("entries", 65_500.0);
        sketch.set(|settings| settings.nf_conntrack_max = Fact::Known(65_536))
    };
    vec![
        Host::new("a tunnel that drops", tunnel(900.0), &[]),
        Host::new("a tunnel that drops a few", tunnel(20.0), &["interface-drops"]).lacks(
            "interface-drops",
            "it drops 900 packets/s",
            |_, rates| {
                let nic = rates.nics.iter_mut().find(|nic| nic.name.as_str() == "wg0").expect("there");
                nic.losses.insert("rx_dropped".to_owned(), 900.0);
            },
        ),
        Host::new("a UDP socket that loses datagrams", datagrams(900.0), &[]),
        Host::new("a UDP socket that loses a few", datagrams(2.0), &["socket-drops"]).lacks(
            "socket-drops",
            "it loses 900 datagrams/s",
            |_, rates| lose(rates, "UdpRcvbufErrors", 900.0),
        ),
        Host::new("a full accept queue", connections(40.0), &[]),
        Host::new("an accept queue that was full once", connections(0.2), &["listen-overflow"]).lacks(
            "listen-overflow",
            "40 connections/s find it full",
            |_, rates| lose(rates, "TcpExtListenOverflows", 40.0),
        ),
        Host::new("a full table of connections", tracked(50.0), &[]),
        Host::new("a table of connections that is nearly full", tracked(0.0), &["conntrack-full"]).lacks(
            "conntrack-full",
            "packets are dropped",
            |_, rates| lose(rates, "drop", 50.0),
        ),
    ]
}

fn lose(rates: &mut Rates, counter: &str, rate: f64) {
    let Fact::Known(losses) = &mut rates.losses else { panic!("known") };
    losses.rates.insert(counter.to_owned(), rate);
}
