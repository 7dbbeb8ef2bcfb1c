//! Packets sent by one CPU and possibly received by another, on the real kernel.

use std::io::ErrorKind;
use std::net::SocketAddr;

use rxlab::lab::{Range, RangeSpec};
use rxlab_load::Session;
use rxlab_load::servers::{Spec, Target, TargetError};
use rxlab_sys::Host;

use crate::lab::{host_in, inside};
use crate::process::{Running, rxlab, wait_for, weighty};
use crate::{quiet, require};

/// A sink of datagrams on these CPUs of the server.
pub(crate) fn sink(range: &Range, cpus: &str) -> Target {
    let spec = Spec {
        udp_sink: Some(SocketAddr::from((Range::SERVER, 9000))),
        cpus: cpus.parse().expect("a list"),
        netns: Some(range.server.path()),
        ..Spec::default()
    };
    let mut target = Target::start(&spec);
    // A process that another test starts has a copy of the previous sink's socket until it is another program.
    wait_for("the port", || {
        let is_taken =
            matches!(&target, Err(TargetError::Bind { error, .. }) if error.kind() == ErrorKind::AddrInUse);
        if is_taken {
            target = Target::start(&spec);
        }
        !is_taken
    });
    target.expect("started")
}

/// A sender on these CPUs, flat out to the sink.
pub(crate) fn sender(range: &Range, cpus: &str) -> Session {
    let url = format!("udp-sink://{}:9000", Range::SERVER).parse().expect("a URL");
    let mut load = rxlab_load::Spec::new(url);
    (load.cpus, load.netns) = (cpus.parse().expect("a list"), Some(range.client.path()));
    Session::start(&load).expect("started")
}

/// A flood from CPU 1 to a sink on CPU 1, for the lifetime of the value.
pub(crate) struct Flood {
    pub(crate) directory: tempfile::TempDir,
    _load: Running,
    _target: Target,
    pub(crate) range: Range,
    _alone: quiet::Held,
}

impl Flood {
    /// `None` if skipped. `rps` is the mask of the server's only queue; `pace` are the load's arguments for its rate.
    pub(crate) fn start(rps: &str, pace: &[&str]) -> Option<Self> {
        Self::through_rules(0, rps, pace)
    }

    /// The same, with this number of policy routing rules that each packet goes through.
    pub(crate) fn through_rules(rules: u32, rps: &str, pace: &[&str]) -> Option<Self> {
        if !require::netns() || !require::bpf() {
            return None;
        }
        let alone = quiet::alone();
        let range = Range::build(&RangeSpec { rules, ..RangeSpec::default() }).expect("built");
        let host = host_in(&range.server);
        host.write("sys/class/net/srv0/queues/rx-0/rps_cpus", rps.as_bytes()).expect("written");
        let target = sink(&range, "1");
        let directory = tempfile::tempdir().expect("a temporary directory");
        let url = format!("udp-sink://{}:9000", Range::SERVER);
        let mut command = rxlab(directory.path(), &["load", &url, "--cpus", "1", "--connections", "1"]);
        // Longer than any sample here.
        command.args(pace).args(["--for", "120s", "--netns"]).arg(range.client.path());
        let mut load = Running::start(&mut weighty(&command));
        let received = || {
            let path = "sys/class/net/srv0/statistics/rx_packets";
            host.read_text(path).expect("readable").trim().parse::<u64>().expect("a number")
        };
        wait_for("packets", || received() > 1_000 || load.has_ended());
        if load.has_ended() {
            panic!("the load has ended: {:?}", load.output());
        }
        Some(Self { directory, _load: load, _target: target, range, _alone: alone })
    }

    /// A veth has a NAPI only with GRO, and UDP goes through it only with this kind of GRO. `false` if skipped.
    pub(crate) fn has_napi(&self) -> bool {
        let mut command = inside(&self.range.server, "ethtool");
        command.args(["-K", "srv0", "gro", "on", "rx-udp-gro-forwarding", "on"]);
        let gro = command.output().expect("nsenter runs");
        let why = String::from_utf8_lossy(&gro.stderr).trim().to_owned();
        require::have("netns", || (!gro.status.success()).then_some(why))
    }
}
