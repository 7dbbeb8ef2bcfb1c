//! Lost packets: the truth about them, and what findings and the ledger say.

use rxlab_advise::diagnose::Finding;
use rxlab_advise::doctor::DoctorReport;
use rxlab_base::units::CpuId;
use rxlab_path::ledger::Verdict;

use super::render::received;
use super::truth::{Damage, Nic, Truth};
use crate::random::Random;

/// The place where packets are lost, with the counter that has them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    /// The ring of a device, by these files below `statistics`; two of them have the same packets.
    Ring { nic: String, files: &'static [&'static str] },
    /// A device, by a statistic of its driver.
    Driver { nic: String, statistic: &'static str, counts: Counts },
    /// An interface, by its `rx_dropped`.
    Interface(String),
    /// Filters of the traffic control of an interface.
    Filters(String),
    /// The backlog of a CPU; the kernel also counts it as dropped by the interface that the packets came by.
    Backlog { cpu: CpuId, nic: String },
    /// The buffers of UDP sockets.
    Datagrams,
    /// Accept queues.
    Connections,
    /// The table of tracked connections.
    Tracking,
}

/// Packets or connections that are lost at a place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Loss {
    pub(crate) place: Place,
    pub(crate) per_second: f64,
}

/// Meaning of a statistic of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Packets for which there was no buffer in the ring.
    Ring,
    /// Packets that the device dropped for another reason.
    Device,
    /// Packets that the host delayed or dropped because they exceed its limit.
    Limit,
    /// Nothing that is lost.
    Nothing,
}

use Counts::{Device, Limit, Nothing, Ring};

/// Statistics by driver, as `ethtool -S` shows them for rx-0 or the device, and their meaning in the driver's source.
const STATISTICS: [(&str, &str, Counts); 45] = [
    ("mlx5_core", "rx_out_of_buffer", Ring),
    ("mlx5_core", "rx_discards_phy", Device),
    ("mlx5_core", "rx_steer_missed_packets", Nothing),
    ("mlx5_core", "rx_out_of_range_len_phy", Nothing),
    ("mlx5_core", "rx_buffer_passed_thres_phy", Nothing),
    ("mlx5_core", "rx0_cache_full", Nothing),
    ("mlx5_core", "rx0_pp_recycle_ring_full", Nothing),
    ("mlx5_core", "rx0_xdp_drop", Nothing),
    ("ixgbe", "rx_no_dma_resources", Ring),
    ("ixgbe", "fdir_miss", Nothing),
    ("ixgbe", "rx_csum_offload_errors", Nothing),
    ("ixgbe", "fdir_overflow", Nothing),
    ("igb", "rx_no_buffer_count", Nothing),
    ("igb", "rx_queue_0_csum_err", Nothing),
    ("igb", "rx_long_length_errors", Nothing),
    ("i40e", "port.rx_dropped", Ring),
    ("i40e", "port.rx_csum_bad", Nothing),
    ("i40e", "port.fdir_sb_match", Nothing),
    ("ice", "rx_dropped.nic", Ring),
    ("ice", "rx_oversize.nic", Nothing),
    ("bnxt_en", "rx_total_discard_pkts", Device),
    ("bnxt_en", "[0]: missed_irqs", Nothing),
    ("bnxt_en", "[0]: rx_l4_csum_errors", Nothing),
    ("ena", "rx_overruns", Ring),
    ("ena", "rx_drops", Device),
    ("ena", "bw_in_allowance_exceeded", Limit),
    ("ena", "pps_allowance_exceeded", Limit),
    ("ena", "queue_0_rx_refil_partial", Nothing),
    ("ena", "queue_0_rx_xdp_drop", Nothing),
    ("virtio_net", "rx0_hw_drop_overruns", Ring),
    ("virtio_net", "rx_queue_0_kicks", Nothing),
    ("virtio_net", "rx_queue_0_xdp_drops", Nothing),
    ("vmxnet3", "    drv dropped rx total", Device),
    ("vmxnet3", "    rx buf alloc fail", Nothing),
    ("gve", "rx_no_buffers_posted[0]", Ring),
    ("gve", "rx_xdp_tx_errors[0]", Nothing),
    ("mana", "hc_rx_discards_no_wqe", Ring),
    ("sfc", "port_rx_nodesc_drops", Ring),
    ("sfc", "rx_noskb_drops", Device),
    ("cxgb4", "rx_bg0_frames_dropped", Device),
    ("bnx2x", "[0]: rx_discards", Device),
    ("bnx2x", "[0]: tx_exhaustion_events", Nothing),
    ("be2net", "rxq0: rx_drops_no_frags", Ring),
    ("be2net", "rx_dropped_runt", Nothing),
    ("be2net", "rx_address_filtered", Nothing),
];

/// Files that drivers count packets without a buffer in.
const FILES: [&[&str]; 3] =
    [&["rx_missed_errors"], &["rx_fifo_errors"], &["rx_missed_errors", "rx_fifo_errors"]];

/// The same in this order, of drivers that count them as errors as well.
const ERRORS: [&[&str]; 3] = [
    &["rx_missed_errors", "rx_errors"],
    &["rx_fifo_errors", "rx_errors"],
    &["rx_missed_errors", "rx_fifo_errors", "rx_errors"],
];

/// Losses per second.
const RATES: [f64; 6] = [0.3, 4.0, 40.0, 700.0, 5_000.0, 60_000.0];

/// Datagrams and connections that arrive per second.
pub(crate) const ARRIVING: f64 = 20_000.0;

/// Adds losses to some machines, and statistics that grow although nothing is lost.
pub(crate) fn lose(random: &mut Random, truth: &mut Truth) {
    for nic in &mut truth.nics {
        let own = STATISTICS.iter().filter(|(driver, ..)| *driver == nic.driver.name);
        let grows = own.filter(|(.., counts)| *counts == Nothing).filter(|_| random.percent(15));
        nic.harmless = grows.map(|(_, name, _)| *name).collect();
    }
    truth.has_tracking = random.percent(50);
    if random.percent(60) {
        return;
    }
    for _ in 0..1 + random.below(2) {
        let place = place(random, truth);
        let has_nic = |name: &str| truth.losses.iter().any(|loss| loss.place.nic() == Some(name));
        // Counters of one interface may have the same packets: of two losses, only the larger is certain.
        let is_told_apart = place.nic().is_none_or(|name| !has_nic(name));
        if is_told_apart && truth.losses.iter().all(|loss| loss.place != place) {
            truth.losses.push(Loss { place, per_second: random.pick(&RATES) });
        }
    }
}

fn place(random: &mut Random, truth: &Truth) -> Place {
    let nics: Vec<&Nic> = truth.nics.iter().collect();
    let nic = random.pick(&nics);
    let own = STATISTICS.iter().filter(|(driver, ..)| *driver == nic.driver.name);
    let own: Vec<(&str, Counts)> =
        own.filter(|(.., counts)| *counts != Nothing).map(|(_, name, counts)| (*name, *counts)).collect();
    let name = nic.name.clone();
    match random.below(10) {
        0 | 1 => Place::Ring { nic: name, files: random.pick(&FILES) },
        2..=4 if !own.is_empty() => {
            let (statistic, counts) = random.pick(&own);
            Place::Driver { nic: name, statistic, counts }
        }
        5 => {
            let uppers = truth.uppers.iter().filter(|upper| upper.kind != "bond").map(|upper| &upper.name);
            let all: Vec<&String> = uppers.chain([&name]).collect();
            Place::Interface(random.pick(&all).clone())
        }
        6 => Place::Filters(name),
        7 => {
            let cpus: Vec<CpuId> = truth.online().iter().collect();
            Place::Backlog { cpu: random.pick(&cpus), nic: name }
        }
        8 if truth.has_tracking => Place::Tracking,
        8 => Place::Connections,
        _ => Place::Datagrams,
    }
}

impl Place {
    /// Counts what a ring loses as errors, too.
    pub(crate) fn count_as_error(&mut self) {
        if let Place::Ring { files, .. } = self
            && let Some(at) = FILES.iter().position(|plain| plain == files)
        {
            *files = ERRORS[at];
        }
    }

    /// The interface that counts it.
    pub(crate) fn nic(&self) -> Option<&str> {
        match self {
            Place::Ring { nic, .. }
            | Place::Driver { nic, .. }
            | Place::Backlog { nic, .. }
            | Place::Interface(nic)
            | Place::Filters(nic) => Some(nic),
            Place::Datagrams | Place::Connections | Place::Tracking => None,
        }
    }
}

impl Loss {
    /// What a file below the `statistics` of an interface counts of it.
    pub(crate) fn in_file(&self, name: &str, file: &str) -> f64 {
        let is_there = self.place.nic() == Some(name)
            && match &self.place {
                Place::Ring { files, .. } => files.contains(&file),
                Place::Interface(_) | Place::Backlog { .. } => file == "rx_dropped",
                _ => false,
            };
        if is_there { self.per_second } else { 0.0 }
    }

    /// True if it can be seen from this machine.
    fn is_visible(&self, truth: &Truth) -> bool {
        match &self.place {
            Place::Driver { .. } => truth.damage != Damage::EthtoolDenied,
            Place::Filters(_) => truth.damage != Damage::NetlinkDenied,
            _ => true,
        }
    }

    /// True if packets are lost: those over a limit may only be delayed.
    fn is_lost(&self) -> bool {
        !matches!(self.place, Place::Driver { counts: Limit, .. })
    }

    /// The rule that has to report it, if it is large enough; `None` as well where the threshold is near.
    fn rule(&self, truth: &Truth) -> Option<&'static str> {
        let lost = self.per_second;
        let reaches = |least: f64| lost >= least * 1.02;
        let packets = self.place.nic().map_or(0.0, |name| received(truth, name));
        let of_interface =
            || (reaches(10.0) && reaches((lost + packets) * 1e-3)).then_some("interface-drops");
        match &self.place {
            Place::Ring { .. } | Place::Driver { counts: Ring, .. } if lost + packets >= 1_020.0 => {
                reaches(1.0).then_some("ring-overruns")
            }
            Place::Ring { .. } | Place::Driver { counts: Ring, .. } if lost + packets >= 980.0 => None,
            Place::Driver { counts: Limit, .. } => reaches(1.0).then_some("limited-by-the-host"),
            Place::Ring { .. } | Place::Driver { .. } | Place::Filters(_) => of_interface(),
            // A full backlog may have dropped them.
            Place::Interface(_) => of_interface().filter(|_| !has_backlog(truth)),
            Place::Backlog { .. } if truth.damage == Damage::SoftnetBroken => of_interface(),
            Place::Backlog { .. } => reaches(1.0).then_some("backlog-drops"),
            Place::Datagrams => (reaches(1.0) && reaches(ARRIVING * 1e-4)).then_some("socket-drops"),
            Place::Connections => {
                (reaches(1.0) && reaches((lost + ARRIVING) * 1e-3)).then_some("listen-overflow")
            }
            Place::Tracking => reaches(1.0).then_some("conntrack-full"),
        }
    }

    /// The rules that may report it.
    fn rules(&self) -> &'static [&'static str] {
        match self.place {
            Place::Driver { counts: Limit, .. } => &["limited-by-the-host"],
            Place::Ring { .. } | Place::Driver { counts: Ring, .. } => &["ring-overruns", "interface-drops"],
            Place::Driver { .. } | Place::Interface(_) | Place::Filters(_) => &["interface-drops"],
            Place::Backlog { .. } => &["backlog-drops", "interface-drops"],
            Place::Datagrams => &["socket-drops"],
            Place::Connections => &["listen-overflow"],
            Place::Tracking => &["conntrack-full"],
        }
    }

    /// True if it is the CPU that loses the packets or that empties the ring.
    fn names(&self, truth: &Truth, cpu: Option<CpuId>) -> bool {
        let nic = self.place.nic().and_then(|name| truth.nic(name));
        let is_home = |cpu| nic.is_none_or(|nic| nic.rx.iter().any(|queue| nic.home(queue) == Some(cpu)));
        match self.place {
            // Of several backlogs, the worst is named.
            Place::Backlog { .. } => cpu.is_none_or(|cpu| drops(truth, cpu)),
            _ => cpu.is_none_or(is_home),
        }
    }

    /// True if a finding may be about it.
    fn explains(&self, truth: &Truth, finding: &Finding) -> bool {
        let is_there = match self.place.nic() {
            // The backlog is a CPU's.
            Some(name) if finding.id != "backlog-drops" => {
                finding.nic.as_ref().is_some_and(|nic| nic.as_str() == name)
            }
            _ => true,
        };
        is_there && self.names(truth, finding.cpu) && self.rules().contains(&finding.id.as_str())
    }
}

/// True if the backlog of a CPU drops packets.
fn drops(truth: &Truth, cpu: CpuId) -> bool {
    let here = |loss: &Loss| matches!(loss.place, Place::Backlog { cpu: at, .. } if at == cpu);
    truth.losses.iter().any(here)
}

fn has_backlog(truth: &Truth) -> bool {
    truth.losses.iter().any(|loss| matches!(loss.place, Place::Backlog { .. }))
}

/// The rules about losses.
pub(crate) const RULES: [&str; 7] = [
    "ring-overruns",
    "interface-drops",
    "backlog-drops",
    "socket-drops",
    "listen-overflow",
    "conntrack-full",
    "limited-by-the-host",
];

/// Each loss that is large enough has its finding, no finding is about a loss that there is not, and "no drops" is said of
/// machines without losses.
pub(crate) fn check(truth: &Truth, report: &DoctorReport) -> Result<(), String> {
    let findings = || report.findings.iter().filter(|finding| RULES.contains(&finding.id.as_str()));
    for loss in truth.losses.iter().filter(|loss| loss.is_visible(truth)) {
        let Some(id) = loss.rule(truth) else { continue };
        if !findings().any(|finding| finding.id == id && loss.explains(truth, finding)) {
            let ids: Vec<&str> = findings().map(|finding| finding.id.as_str()).collect();
            return Err(format!("no {id} for {loss:?}: {ids:?}"));
        }
    }
    if let Some(finding) = findings().find(|one| !truth.losses.iter().any(|loss| loss.explains(truth, one))) {
        return Err(format!("{} without such a loss: {}", finding.id, finding.title));
    }
    let lost = || truth.losses.iter().filter(|loss| loss.is_lost());
    let is_seen = lost().any(|loss| loss.is_visible(truth));
    let is_whole = truth.damage == Damage::Nothing && truth.veths.is_empty();
    let is_quiet = truth.nics.iter().all(|nic| nic.harmless.is_empty());
    match report.load.ledger.verdict() {
        Verdict::Lost(rate) if !is_seen => Err(format!("{rate} drops/s, and nothing is lost")),
        Verdict::None if lost().next().is_some() => Err("no drops, and packets are lost".to_owned()),
        Verdict::None | Verdict::Unknown if is_seen => {
            Err("no drops counted, and they can be seen".to_owned())
        }
        Verdict::Unknown if is_whole && is_quiet && lost().next().is_none() => {
            Err(format!("no drops is not said, although all was read: {:?}", report.load.ledger.gaps()))
        }
        _ => Ok(()),
    }
}

/// Statistics of a device's driver besides those of its queues, with their growth per second.
pub(crate) fn statistics(truth: &Truth, nic: &Nic) -> Vec<(&'static str, f64)> {
    let of_driver = truth.losses.iter().filter_map(|loss| match &loss.place {
        Place::Driver { nic: name, statistic, .. } if *name == nic.name => {
            Some((*statistic, loss.per_second))
        }
        _ => None,
    });
    let mut all: Vec<(&str, f64)> = nic.harmless.iter().map(|name| (*name, 500.0)).collect();
    all.extend(of_driver);
    all
}
