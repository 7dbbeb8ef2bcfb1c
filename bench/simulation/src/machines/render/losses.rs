//! Counters of losses that belong to no CPU and no interface, and those of traffic control.

use rxlab_base::parse::{attribute, one_message, words};
use rxlab_sys::{Cause, Query, RecordedHost};

use super::super::losses::{ARRIVING, Place};
use super::super::truth::{Damage, Nic, Truth};
use super::counters::BEFORE;

/// Growth per second at a place.
fn lost(truth: &Truth, is_there: impl Fn(&Place) -> bool) -> f64 {
    truth.losses.iter().filter(|loss| is_there(&loss.place)).map(|loss| loss.per_second).sum()
}

pub(super) fn at(host: RecordedHost, truth: &Truth, seconds: f64) -> RecordedHost {
    let count = |rate: f64| BEFORE + (rate * seconds).round() as u64;
    let datagrams = lost(truth, |place| *place == Place::Datagrams);
    let connections = lost(truth, |place| *place == Place::Connections);
    let tracked = lost(truth, |place| *place == Place::Tracking);
    let (read, failed) = (count(ARRIVING - datagrams.min(ARRIVING)), count(datagrams));
    let (arrived, refused) = (count(ARRIVING), count(connections));
    let snmp = format!(
        "Tcp: RtoMin MaxConn PassiveOpens InSegs\nTcp: 200 -1 {arrived} {arrived}\n\
         Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors MemErrors\n\
         Udp: {read} {arrived} {failed} 9 {failed} 0 0 0\n"
    );
    let netstat = format!(
        "TcpExt: SyncookiesSent TW ListenOverflows ListenDrops RcvPruned PruneCalled TCPBacklogDrop PFMemallocDrop \
         TCPReqQFullDoCookies TCPReqQFullDrop TCPOFODrop TCPMemoryPressures TCPRcvQDrop\n\
         TcpExt: 3 {arrived} {refused} {refused} 0 0 0 0 0 0 0 0 0\nIpExt: InOctets\nIpExt: {arrived}\n"
    );
    let snmp6 = "Udp6InDatagrams 7\nUdp6RcvbufErrors 0\nUdp6MemErrors 0\n";
    let drops = (datagrams * seconds).round() as u64;
    let udp = format!(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n \
         1361: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000   998        0 6123 2 0000000000000000 \
         {drops}\n"
    );
    let host = host
        .with("proc/net/snmp", snmp)
        .with("proc/net/netstat", netstat)
        .with("proc/net/snmp6", snmp6)
        .with("proc/net/udp", udp)
        .with_list("proc/net/stat", vec!["rt_cache".to_owned()]);
    let path = Query::Qdiscs.path();
    let host = match truth.damage {
        Damage::NetlinkDenied => host.with_failure(&path, Cause::Denied),
        _ => host.with(&path, qdiscs(truth, seconds)),
    };
    if !truth.has_tracking {
        return host;
    }
    // Counts of 32 bits, one row for each CPU.
    let dropped = (tracked * seconds).round() as u64;
    host.with("proc/sys/net/netfilter/nf_conntrack_max", "262144\n").with(
        "proc/net/stat/nf_conntrack",
        format!(
            "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error \
             expect_new expect_create expect_delete search_restart\n\
             0003ff00 00000000 00000000 00000000 00000007 00000000 00000000 00000000 00000000 00000000 {dropped:08x} 00000000 \
             00000000 00000000 00000000 00000000 00000000\n"
        ),
    )
}

/// A queueing discipline of each device, and the filters that drop what it receives. What devices drop of what they send
/// is no loss of received packets.
fn qdiscs(truth: &Truth, seconds: f64) -> Vec<u8> {
    let one = |ifindex: u32, kind: &str, drops: f64| {
        let queue = words(&[0, 0, (drops * seconds).round() as u32, 0, 0]);
        let statistics = attribute(7, attribute(3, queue));
        let fixed = words(&[0, ifindex, 0, 0, 0]);
        one_message(&[fixed, attribute(1, format!("{kind}\0")), statistics].concat())
    };
    let of_nic = |nic: &Nic| {
        let filtered = lost(truth, |place| matches!(place, Place::Filters(name) if *name == nic.name));
        [one(nic.ifindex, "mq", 50.0), one(nic.ifindex, "clsact", filtered)].concat()
    };
    truth.nics.iter().flat_map(of_nic).collect()
}
