//! Boots a machine shape, runs a job in it, and parses its output.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rxlab_advise::diagnose::Finding;
use rxlab_advise::doctor::DoctorReport;
use rxlab_base::units::CpuId;
use rxlab_path::model::Model;

use super::interrupts::Interrupts;
use crate::process::Ended;
use crate::{quiet, require};

/// Output of a job, part by part.
pub(super) struct Answer {
    parts: BTreeMap<String, String>,
}

/// Shell functions for every job: `part NAME` begins a part of the output, `ran NAME COMMAND...` creates a part with
/// the output of a command and another, `NAME code`, with its exit code. `pings NIC CPU N` sends pings from a CPU;
/// the replies arrive on the receive queue that belongs to the transmit queue of that CPU. `counts NAME` creates a
/// part with the interrupt counts.
const PRELUDE: &str = r#"
export RXLAB_STATE_DIR=/tmp/state
part() { printf '\n== %s\n' "$1"; }
ran() {
    name=$1 code=0
    shift
    part "$name"
    "$@" 2>&1 || code=$?
    part "$name code"
    echo "$code"
}
pings() { taskset -c "$2" ping -A -q -c "$3" "10.98.$1.1" >&2; }
counts() {
    part "$1"
    cat /proc/interrupts
}
"#;

/// Start of a job on a machine with one queue: its interrupt, whose number is in `part irq`, goes to CPU 2; once the
/// sink is ready, a ping tells a [`flood`] to begin. Continues when packets arrive, which depends on the other load
/// of this machine.
pub(super) const FLOODED: &str = r#"
irq=$(sed -n 's/^ *\([0-9]*\):.*virtio0-input.0$/\1/p' /proc/interrupts)
echo 2 > /proc/irq/$irq/smp_affinity_list
part irq
echo $irq
rxlab target --udp-sink 10.98.0.2:9000 --for 300s > /dev/null 2>&1 &
until grep -q ':2328 ' /proc/net/udp; do sleep 0.2; done
ping -c 1 10.98.0.1 >&2
seconds=0
until [ "$(cat /sys/class/net/eth0/statistics/rx_packets)" -gt 2000 ] || [ $seconds -ge 60 ]; do
    sleep 1
    seconds=$((seconds + 1))
done
sleep 1
"#;

/// A firewall of a hundred rules, none of which matches a packet of the flood; they are evaluated as often as its
/// chain `input` jumps there. The share of a CPU that this takes depends on the machine that emulates the guest:
/// `drown` raises it until CPU 2 spends 40 % of its time in softirqs.
const FIREWALL: &str = r#"
{
    echo 'table ip firewall {'
    echo ' chain blocked {'
    for n in $(seq 0 99); do echo "  ip saddr 192.0.2.$n udp dport $((10000 + n)) drop"; done
    echo ' }'
    echo ' chain input { type filter hook input priority 0; policy accept; }'
    echo '}'
} > rules
nft -f rules >&2
built=0
walls() {
    built=$((built + $1))
    for n in $(seq "$1"); do echo 'add rule ip firewall input jump blocked'; done | nft -f - >&2
}
softirq() {
    set -- $(grep '^cpu2 ' /proc/stat)
    echo $8 $(($2 + $3 + $4 + $5 + $6 + $7 + $8 + $9))
}
drowning() {
    before=$(softirq)
    sleep 2
    set -- $before $(softirq)
    [ $((100 * ($3 - $1))) -gt $((40 * ($4 - $2))) ]
}
drown() {
    for look in $(seq 14); do
        drowning && break
        walls $((2 + built / 3))
    done
    part walls
    echo "$built in $look looks"
}
"#;

/// A peer that sends this many packets per second to a sink in the guest, once it knows its address.
pub(super) fn flood(flows: u32, rate: u32) -> String {
    let rxlab = env!("CARGO_BIN_EXE_rxlab");
    format!(
        "until ip neigh | grep -q '^10.98.0.2 .*lladdr'; do sleep 0.2; done
         exec '{rxlab}' load udp-sink://10.98.0.2:9000 --flows {flows} --rate {rate} --for 300s"
    )
}

/// Ends with the test, even if that is killed; `None` if skipped.
pub(super) fn run(shape: &str, job: &str, peer: Option<&str>) -> Option<Answer> {
    run_with(&[], shape, job, peer)
}

/// The same, with additional programs of this machine in the guest.
pub(super) fn run_with(programs: &[&str], shape: &str, job: &str, peer: Option<&str>) -> Option<Answer> {
    if !require::vm() {
        return None;
    }
    let _guest = quiet::guest();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("job.sh");
    std::fs::write(&file, [PRELUDE, job].concat()).expect("written");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(lab()).args(["--rxlab", env!("CARGO_BIN_EXE_rxlab")]);
    for program in programs {
        command.args(["--with", program]);
    }
    command.arg(shape).arg(&file).stdin(Stdio::null()).env("RXLAB_LAB_SECONDS", "480");
    command.env("RXLAB_LAB_PEER", peer.unwrap_or_default());
    let out = command.output().expect("lab/vm runs");
    let text = String::from_utf8(out.stdout).expect("text");
    assert!(out.status.success(), "{}: {text}\n{}", out.status, String::from_utf8_lossy(&out.stderr));
    Some(Answer::parse(&text))
}

/// A machine with one queue, whose packets walk through a firewall on CPU 2; with these additional commands before the
/// flood.
pub(super) fn run_firewall(walls: &str, job: &str, rate: u32) -> Option<Answer> {
    if !require::nft() {
        return None;
    }
    let job = [FIREWALL, walls, FLOODED, "drown\n", job].concat();
    run_with(&["nft"], "8cpu-firewall", &job, Some(&flood(2048, rate)))
}

/// The lab's own command.
pub(super) fn lab() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("lab/vm")
}

impl Answer {
    fn parse(text: &str) -> Self {
        let parts = text.split("\n== ").skip(1).map(|part| {
            let (name, rest) = part.split_once('\n').expect("a part begins with its name");
            (name.to_owned(), rest.to_owned())
        });
        Self { parts: parts.collect() }
    }

    /// Output of a part of the job.
    pub(super) fn part(&self, name: &str) -> &str {
        self.parts.get(name).unwrap_or_else(|| panic!("no part {name} in {:?}", self.parts.keys()))
    }

    /// Exit code and output of a command.
    pub(super) fn ran(&self, name: &str) -> (i32, &str) {
        let code = self.part(&format!("{name} code")).trim();
        (code.parse().expect("an exit code"), self.part(name))
    }

    /// Output of `rxlab show --json`.
    pub(super) fn model(&self, name: &str) -> Model {
        self.ran(name).json(0)
    }

    /// The doctor's report in the part `doctor`, and its hotspot, which is on CPU 2.
    pub(super) fn hotspot(&self) -> (DoctorReport, Finding) {
        println!("walls {}", self.part("walls"));
        let report: DoctorReport = self.ran("doctor").json(1);
        let hotspot = report.findings.iter().find(|finding| finding.id == "one-core-hotspot");
        let hotspot = hotspot.unwrap_or_else(|| panic!("no hotspot: {report:?}")).clone();
        assert_eq!(hotspot.cpu, Some(CpuId(2)), "{hotspot:?}");
        (report, hotspot)
    }

    /// Interrupts between two parts of `counts`.
    pub(super) fn interrupts(&self, before: &str, after: &str) -> Interrupts {
        Interrupts::parse(self.part(after)).since(&Interrupts::parse(self.part(before)))
    }
}
