//! The gain of each family of settings when receive work matters: a view of the candidates for the interface that keeps
//! the busiest CPU busy.
//!
//! A family is worth a trial if its plan is offered and nothing speaks against it here, or a finding asks for it. The order:
//! settings that keep the link before those that reset it, and of equals that of [`Family::ALL`].

use std::collections::BTreeSet;

use super::{CpuRegime, FamilyGain};
use crate::decision::{Candidate, Decisions};
use crate::diagnose::Finding;
use crate::diagnose::hash_imbalance::{PARTLY, may_be_one_flow, maybe_one_flow, recipient, table_part};
use crate::diagnose::places::{against_rfs, cores, handed_over, irqs_of, loaded_of, with_part};
use crate::diagnose::queues_share_a_cpu::{Crowd, ROOM, movable};
use crate::diagnose::workload::processing;
use crate::family::{Family, PlanName};
use rxlab_base::number::{count, cpus_text, percent, plural};
use rxlab_base::units::CpuMask;
use rxlab_path::constraints::{is_movable, queue_limit, slow};
use rxlab_path::drivers::Kind;
use rxlab_path::evidence::{adapts, busy, by_threads, carrier, defers, irq_cpus, is_counted, is_redirected};
use rxlab_path::model::{CpuRates, Function, Model, Nic, NicKind, Rates, RxQueue};
use rxlab_setting::{Risk, risk_and_upkeep};

/// Packets per interrupt from which moderation has little left to save.
const MODERATED: f64 = 8.0;

/// Time in processes from which a CPU counts as shared with the application.
const SHARED: f64 = 0.1;

/// No family is worth a trial, for one reason.
pub(super) fn none(why: &str) -> Vec<FamilyGain> {
    Family::ALL.map(|knob| no(knob, why.to_owned())).to_vec()
}

fn no(knob: Family, why: String) -> FamilyGain {
    FamilyGain { knob, trial: false, by_hand: false, plan: None, cpus: None, why }
}

/// What a setting would help here, or what speaks against it.
type Judged = Result<String, String>;

/// The busiest CPU, and the interface and queue that bring its packets.
struct Place<'a> {
    model: &'a Model,
    rates: &'a Rates,
    hot: &'a CpuRegime,
    nic: &'a Nic,
    queue: &'a RxQueue,
    /// The queues that share the CPU, if one of them can move.
    crowd: Option<Crowd<'a>>,
}

/// The verdict on each family.
pub(super) fn judged(
    model: &Model,
    rates: &Rates,
    findings: &[Finding],
    (hot, has_full_thread): (&CpuRegime, bool),
    decisions: &mut Decisions<'_>,
) -> Vec<FamilyGain> {
    let Some((nic, queue)) = carrier(model, rates, hot.cpu) else {
        return none("it is not known which interface brings these packets");
    };
    if has_full_thread {
        let why = "it would move the packets to the CPU of a thread that has no time left";
        decisions.reject(&nic.name, PlanName::Rfs, why);
    }
    let crowd = movable(model, rates).find(|crowd| crowd.cpu == hot.cpu);
    let place = Place { model, rates, hot, nic, queue, crowd };
    let gain = |family| {
        let mut name = decisions.of_family(findings, &nic.name, family);
        let asks = findings.iter().find(|finding| name.is_some_and(|name| finding.asks(&nic.name, name)));
        if family == Family::IrqPlacement && asks.is_none() && place.may_leave_slow_core() {
            // The other plans move only interrupts that share a CPU.
            name = Some(PlanName::NearIrqs);
        }
        let mut gain = place.gain(family, name.map(|name| (name, decisions.of(&nic.name, name))), asks);
        let isolate = PlanName::IsolateIrqs;
        let leaves = || findings.iter().any(|finding| finding.asks(&nic.name, isolate));
        if family == Family::IrqPlacement
            && !gain.trial
            && leaves()
            && decisions.of(&nic.name, isolate).is_offered()
        {
            gain.why = format!("nothing more than {isolate}, which clears isolated CPUs");
        }
        gain
    };
    let mut gains: Vec<FamilyGain> = Family::ALL.into_iter().map(gain).collect();
    gains.sort_by_key(|gain| (!gain.trial, gain.by_hand, resets_link(nic, gain.knob)));
    gains
}

/// True if a setting of a family resets the link of an interface.
fn resets_link(nic: &Nic, family: Family) -> bool {
    let knob = match family {
        Family::Moderation => "rx_usecs",
        Family::Rss => "rss",
        Family::Queues => "channels",
        Family::VirtualFunction | Family::IrqPlacement | Family::Rps | Family::Rfs => return false,
    };
    risk_and_upkeep(knob, nic.driver.as_deref()).is_some_and(|(risk, _)| risk == Risk::LinkReset)
}

/// The name of a family in a list of things to try; RPS with its CPUs, or off.
pub(super) fn called(worth: &FamilyGain) -> String {
    match &worth.cpus {
        _ if worth.by_hand => format!("{} by hand", worth.knob.name()),
        Some(cpus) if cpus.is_empty() => format!("{} off", worth.knob.name()),
        Some(cpus) => format!("{} on {}", worth.knob.name(), cpus_text(cpus)),
        None => worth.knob.name().to_owned(),
    }
}

impl Place<'_> {
    /// The gain of a family with its plan: what speaks against it does not count where a finding asks for the plan.
    fn gain(
        &self,
        knob: Family,
        planned: Option<(PlanName, &Candidate)>,
        asks: Option<&Finding>,
    ) -> FamilyGain {
        let judged = match knob {
            Family::VirtualFunction => self.virtual_function(),
            Family::Moderation => self.moderation(),
            Family::Rss => self.rss(),
            Family::Queues => self.queues(),
            Family::IrqPlacement => self.placement(),
            Family::Rps => self.rps(planned),
            Family::Rfs => self.rfs(),
        };
        let offered = planned.filter(|(_, candidate)| candidate.is_offered());
        let why = match (judged, asks) {
            // Another node costs each packet, wherever else its interrupts could be.
            (_, Some(finding)) if planned.is_some_and(|(name, _)| name == PlanName::NearIrqs) => {
                finding.title.clone()
            }
            (Ok(why), _) => why,
            (Err(_), Some(finding)) if offered.is_some() => finding.title.clone(),
            (Err(against), _) => return no(knob, against),
        };
        match (offered, planned) {
            (Some((name, candidate)), _) => {
                let cpus = candidate.masks().filter(|_| knob == Family::Rps && self.has_known_interrupt());
                FamilyGain { trial: true, plan: Some(name), cpus, ..no(knob, why) }
            }
            // These may help more than what can be planned.
            _ if matches!(knob, Family::VirtualFunction | Family::Moderation) => {
                FamilyGain { trial: true, by_hand: true, ..no(knob, why) }
            }
            (None, planned) => {
                let why_not = planned.and_then(|(_, candidate)| candidate.why_not());
                no(knob, why_not.unwrap_or_default().to_owned())
            }
        }
    }

    fn virtual_function(&self) -> Judged {
        let nic = self.nic;
        let driver = nic.driver.as_deref().unwrap_or("no driver");
        let has_one = self
            .model
            .nics
            .iter()
            .any(|nic| nic.up && matches!(nic.hardware.function, Function::Virtual { .. }));
        if has_one {
            Err("the machine has one".to_owned())
        } else if nic.driver_facts().kind == (Kind::Paravirtual { has_virtual_functions: true }) {
            Ok(format!("{driver} passes each packet through the hypervisor; ask the provider for SR-IOV"))
        } else {
            Err(format!("no known virtual functions for {} ({driver})", nic.name))
        }
    }

    fn moderation(&self) -> Judged {
        let (nic, hot) = (self.nic, self.hot);
        let Some(coalesce) = nic.hardware.coalesce.known() else {
            return Err(format!("not reported by {}", nic.name));
        };
        if coalesce.adaptive_rx.is_none() && coalesce.rx_usecs.is_none() {
            return Err(format!("the driver of {} does not support it", nic.name));
        }
        let each = hot.interrupts.filter(|rate| *rate > 0.0).map(|rate| hot.packets / rate);
        if adapts(nic) {
            return Err("already adaptive".to_owned());
        }
        let made_up = nic.hardware.function == Function::Paravirtual
            && coalesce.rx_usecs.is_none_or(|usecs| usecs == 0);
        let now = match (made_up, coalesce.rx_usecs) {
            (true, _) if defers(nic) => return Err("interrupts are already deferred in software".to_owned()),
            // Few hypervisors offer moderation.
            (true, _) => "in software (napi_defer_hard_irqs, gro_flush_timeout)".to_owned(),
            (false, Some(usecs)) => format!("fixed at {usecs} us"),
            (false, None) => "not adaptive".to_owned(),
        };
        match each {
            Some(each) if each >= MODERATED => {
                Err(format!("{each:.0} packets per interrupt: little left to save"))
            }
            Some(each) => Ok(format!(
                "{now}, {each:.1} packets per interrupt, {} interrupts/s on CPU {}",
                count(hot.interrupts.unwrap_or_default()),
                hot.cpu
            )),
            None => Ok(now),
        }
    }

    fn rss(&self) -> Judged {
        let (nic, queue) = (self.nic, self.queue);
        let Some(part) = table_part(nic, queue.index) else {
            return Err(format!("{} reports no RSS table", nic.name));
        };
        let (all, index) = (part.reach, queue.index);
        match (part.own, all.saturating_sub(part.queues)) {
            // No entry leads there, so an even table would bring it more.
            (0.0, _) => Err(format!("no part of the table leads to rx-{index}")),
            (_, left_out) if left_out > 0 => Ok(format!("the table leaves out {left_out} of {all} queues")),
            (own, _) if part.is_uneven() => Ok(format!("{} of the table leads to rx-{index}", percent(own))),
            _ => Err("the table is even".to_owned()),
        }
    }

    fn queues(&self) -> Judged {
        let (model, nic, queue) = (self.model, self.nic, self.queue);
        if nic.kind != NicKind::Device {
            return Err(format!("{} has no hardware queues", nic.name));
        }
        // Hyper-threads showed no benefit (Documentation/networking/scaling.rst).
        let (now, cores) = (nic.rx.len(), cores(model, &model.usable()));
        if now >= cores {
            return Err(format!("{} for {}", plural(now, "queue"), plural(cores, "core")));
        }
        if let Some(crowd) = &self.crowd {
            return Err(format!("several queues share CPU {}: first move one", crowd.cpu));
        }
        if may_be_one_flow(self.rates, nic, queue) {
            return Err(format!("{}: more queues do not split a flow", maybe_one_flow(nic, queue)));
        }
        let Some(limit) = queue_limit(nic) else {
            return Err(format!("{} does not report its maximum", nic.name));
        };
        if usize::try_from(limit.most).is_ok_and(|most| most > now) {
            Ok(format!("{}, up to {} are of use", plural(now, "queue"), limit.most))
        } else {
            Err(limit.why.unwrap_or_else(|| format!("the driver supports at most {}", plural(now, "queue"))))
        }
    }

    fn placement(&self) -> Judged {
        let (model, rates, nic, hot) = (self.model, self.rates, self.nic, self.hot);
        if let Some(crowd) = &self.crowd {
            return Ok(format!("{} busy queues share CPU {}", crowd.queues.len(), crowd.cpu));
        }
        // Queues may share one.
        let interrupts = |queues: &mut dyn Iterator<Item = &RxQueue>| {
            queues.filter_map(|queue| Some(queue.irqs.first()?.number)).collect::<BTreeSet<_>>().len()
        };
        let lands = |queue: &&RxQueue| irq_cpus(queue, model, rates).contains(hot.cpu);
        let all = interrupts(&mut nic.rx.iter());
        let landing = interrupts(&mut nic.rx.iter().filter(lands));
        let here = loaded_of(model, rates, nic).into_iter().filter(|one| one.cpu == hot.cpu).collect();
        let bringing = irqs_of(&with_part(here, rates, hot.packets));
        let are_bound = || {
            let mut landing = nic.rx.iter().filter(lands).flat_map(|queue| &queue.irqs);
            landing.all(|irq| !is_movable(nic, irq))
        };
        let time = |of: fn(&CpuRates) -> f64| rates.cpu(hot.cpu).map_or(0.0, of);
        let application = time(processing);
        match (bringing, landing) {
            (_, 0) if nic.rx.iter().any(|queue| nic.hides_interrupt(queue)) => {
                Err(format!("it is unknown where the interrupts of {} land", nic.name))
            }
            (_, 0) => Err(format!("no interrupt of {} lands on CPU {}", nic.name, hot.cpu)),
            (0, _) if !nic.rx.iter().all(|queue| is_counted(nic, queue, rates)) => Err(format!(
                "{} counts no packets by queue, so it is unknown which interrupt brings them",
                nic.name
            )),
            (0, _) => Err(format!("the interrupts of {} bring CPU {} hardly any packets", nic.name, hot.cpu)),
            _ if are_bound() => Err(format!("interrupts of {} cannot be moved", nic.name)),
            _ if self.may_leave_slow_core() => {
                Ok(format!("CPU {} is slow: a fast one needs less time", hot.cpu))
            }
            _ if all == 1 => Err("a single interrupt: the hotspot moves with it".to_owned()),
            (2.., _) => Ok(format!("{bringing} of {all} interrupts bring CPU {} its packets", hot.cpu)),
            _ if application >= SHARED => Ok(format!(
                "CPU {} spends {} of its time on the application, which could run elsewhere",
                hot.cpu,
                percent(application)
            )),
            (_, 1) => {
                let lands = nic.rx.iter().map(|queue| irq_cpus(queue, model, rates));
                let cpus = lands.fold(CpuMask::new(), |all, one| all.union(&one));
                let cores = cores(model, &cpus);
                let own = "each interrupt has its own CPU";
                Err(if cores < cpus.len() {
                    format!("{own}, {} on {}", cpus_text(&cpus), plural(cores, "core"))
                } else {
                    own.to_owned()
                })
            }
            _ => Err(format!(
                "one interrupt brings CPU {} nearly all its packets: the hotspot moves with it",
                hot.cpu
            )),
        }
    }

    /// True if the busiest CPU is a slow core and a fast one has room for its interrupt.
    fn may_leave_slow_core(&self) -> bool {
        let slow = slow(self.model);
        let has_room = |cpu| self.rates.cpu(cpu).is_some_and(|cpu| busy(cpu) <= ROOM);
        slow.contains(self.hot.cpu) && self.model.usable().difference(&slow).iter().any(has_room)
    }

    /// The reason not to steer, if threads poll.
    fn polled(&self) -> Option<String> {
        let hot = self.rates.cpu(self.hot.cpu);
        if hot.is_some_and(is_redirected) {
            return Some(format!("an XDP program redirects packets to CPU {}", self.hot.cpu));
        }
        let is_polled = self.nic.napi.threaded.known() == Some(&true) || hot.is_some_and(by_threads);
        is_polled.then(|| "kernel threads poll the queues: the scheduler chooses their CPUs".to_owned())
    }

    fn rps(&self, planned: Option<(PlanName, &Candidate)>) -> Judged {
        let (nic, queue) = (self.nic, self.queue);
        let now = queue.rps_cpus.known().cloned().unwrap_or_default();
        if let Some(why) = self.polled() {
            return Err(why);
        }
        if let Some(cpu) = recipient(self.model, self.rates, queue) {
            return Err(format!(
                "already on ({now}), but CPU {cpu} takes most: a mask cannot split one flow"
            ));
        }
        if self.is_polled_only() {
            return Err(format!("already on ({now}): only polling the queue is left"));
        }
        let is_off = planned.is_some_and(|(name, _)| name == PlanName::RpsOff);
        let masks = planned.and_then(|(_, candidate)| candidate.masks()).unwrap_or_default();
        Ok(if is_off {
            format!("each CPU has a queue, and the masks of {} only cost time", nic.name)
        } else if nic.hides_interrupt(queue) {
            format!("hands packets to {}, away from CPU {}", cpus_text(&masks), self.hot.cpu)
        } else if !self.has_known_interrupt() && nic.receives_where_sent() != Some(false) {
            "packets are received on the CPUs that send them".to_owned()
        } else if masks.is_empty() {
            format!("the masks of {} relieve no CPU", nic.name)
        } else if may_be_one_flow(self.rates, nic, queue) {
            format!("hands packets to {}; {PARTLY}", cpus_text(&masks))
        } else {
            format!("hands packets to {}", cpus_text(&masks))
        })
    }

    /// True if the CPU of the queue's interrupt is known: masks are chosen around it.
    fn has_known_interrupt(&self) -> bool {
        let is_seen = || !irq_cpus(self.queue, self.model, self.rates).is_empty();
        !self.nic.hides_interrupt(self.queue) && (self.queue.channel_cpu.is_some() || is_seen())
    }

    /// True if the busiest CPU only polls the queue: RPS hands its packets to others.
    fn is_polled_only(&self) -> bool {
        let is_handed = self.queue.rps_cpus.known().is_some_and(|mask| mask.contains(self.hot.cpu));
        handed_over(self.model, self.rates, self.queue) && !is_handed
    }

    fn rfs(&self) -> Judged {
        if let Some(why) = self.polled() {
            return Err(why);
        }
        if self.is_polled_only() {
            return Err("RPS already moves that work: RFS would only choose other CPUs for it".to_owned());
        }
        match against_rfs(self.rates, self.hot.cpu) {
            Some(why) => Err(why),
            None => Ok("the CPU that reads a connected socket also processes its packets".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Family, FamilyGain, PlanName};
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_base::units::{CpuMask, Fact};
    use rxlab_path::model::Function;

    fn worth(sketch: Sketch, family: Family) -> FamilyGain {
        let regime = sketch.receives(0, 0.9, 6e4).regime();
        regime.knobs.into_iter().find(|knob| knob.knob == family).expect("all are judged")
    }

    fn host(cpus: u32, irqs: &[u32]) -> Sketch {
        Sketch::new(cpus).device("eth0", irqs).traffic("eth0", 6e4)
    }

    #[test]
    fn more_queues_are_for_cores_that_may_work() {
        let with = |sketch: Sketch| worth(sketch.queues_at_most("eth0", 16), Family::Queues);
        assert!(with(host(8, &[0, 1, 2, 3])).trial);
        let threads = with(host(8, &[0, 1, 2, 3]).smt());
        assert_eq!((threads.trial, threads.why.as_str()), (false, "4 queues for 4 cores"));
        assert!(!with(host(8, &[0, 1, 2, 3]).isolate("4-7")).trial, "the others are set apart");
    }

    #[test]
    fn a_table_that_is_uneven_or_leaves_queues_out() {
        let with = |table: &[u32]| {
            let worth = worth(host(8, &[0, 1, 2, 3]).table("eth0", table), Family::Rss);
            (worth.trial, worth.why)
        };
        assert_eq!(with(&[0, 1].repeat(64)), (true, "the table leaves out 2 of 4 queues".to_owned()));
        let uneven = [0, 0, 0, 0, 0, 1, 2, 3].repeat(16);
        assert_eq!(with(&uneven), (true, "62 % of the table leads to rx-0".to_owned()));
        assert_eq!(with(&[1, 2, 3, 1]), (false, "no part of the table leads to rx-0".to_owned()));
        assert_eq!(with(&[0, 1, 2, 3].repeat(32)), (false, "the table is even".to_owned()));
        assert_eq!(worth(host(8, &[0]), Family::Rss).why, "eth0 reports no RSS table");
    }

    #[test]
    fn moderation_as_the_driver_can() {
        let with = |driver: &str, usecs, function| {
            let sketch = host(4, &[0]).driven_by("eth0", driver, function);
            sketch.moderation("eth0", usecs, false).interrupts("eth0", 3e4)
        };
        let why = |sketch| worth(sketch, Family::Moderation).why;
        assert!(why(with("mlx5_core", 8, Function::Plain)).starts_with("fixed at 8 us"));
        assert_eq!(why(with("ixgbe", 1, Function::Plain)), "already adaptive");
        let made_up = || with("virtio_net", 0, Function::Paravirtual);
        assert!(why(made_up()).starts_with("in software (napi_defer_hard_irqs"), "{}", why(made_up()));
        let deferred = made_up().edit("eth0", |nic| {
            nic.napi.defer_hard_irqs = Fact::Known(2);
            nic.napi.gro_flush_timeout_ns = Fact::Known(20_000);
        });
        assert_eq!(why(deferred), "interrupts are already deferred in software");
    }

    #[test]
    fn no_mask_splits_few_flows() {
        let rps = |packets| {
            let sketch = host(8, &[0]).rps("eth0", "0,4-7").all_receive("4-7", 0.1, 6e4);
            worth(sketch.receives(5, 0.3, packets), Family::Rps)
        };
        assert!(rps(6e4).trial, "CPU 0 takes packets that others could");
        let few = rps(9e5);
        assert!(!few.trial && few.why.contains("CPU 5 takes most"), "{few:?}");
    }

    /// Once "no remaining setting moves it" next to a plan of RFS.
    #[test]
    fn the_one_cpu_of_a_mask_can_be_relieved() {
        for family in [Family::Rps, Family::Rfs] {
            assert!(worth(host(8, &[1]).rps("eth0", "0"), family).trial, "CPU 0 takes all packets");
            assert!(!worth(host(8, &[0]).rps("eth0", "1"), family).trial, "CPU 0 polls the queue");
        }
    }

    /// ravb: the interrupt of a queue with 1 % of the packets was to be moved before RPS.
    #[test]
    fn an_interrupt_with_few_packets_is_not_worth_moving() {
        let with =
            |packets: &[f64]| worth(host(4, &[0, 0]).queue_traffic("eth0", packets), Family::IrqPlacement);
        assert!(with(&[3e4, 3e4]).trial);
        let few = with(&[5.9e4, 1e3]);
        let why = "one interrupt brings CPU 0 nearly all its packets: the hotspot moves with it";
        assert_eq!((few.trial, few.why.as_str()), (false, why));
        // Each of many brings little, all together bring all.
        let many = host(8, &[0; 12]).queue_traffic("eth0", &[5e3; 12]).all_work("1-7", 0.95);
        assert!(!worth(many, Family::IrqPlacement).why.contains("hardly any"));
    }

    /// Published: an interrupt moved from a slow core to a fast one received three times as much. "The hotspot moves with it" was said.
    #[test]
    fn an_interrupt_leaves_a_slow_core() {
        let host = |slow: u32| {
            host(8, &[0]).tune(|model| {
                for cpu in &mut model.cpus {
                    cpu.capacity = Some(if cpu.id.0 < slow { 377 } else { 1024 });
                }
            })
        };
        let moves = worth(host(4), Family::IrqPlacement);
        assert_eq!(
            (moves.plan, moves.why.as_str()),
            (Some(PlanName::NearIrqs), "CPU 0 is slow: a fast one needs less time")
        );
        for stays in [host(0), host(4).all_work("4-7", 0.9)] {
            let why = worth(stays, Family::IrqPlacement).why;
            assert_eq!(why, "a single interrupt: the hotspot moves with it");
        }
    }

    /// "Interrupt 39 cannot be moved" was said of eth0: 39 was that of a radio on the same CPU.
    #[test]
    fn what_another_interface_cannot_move_is_no_reason() {
        let host = host(4, &[0]).device("wlan0", &[0]).traffic("wlan0", 2e4).edit("wlan0", |nic| {
            nic.rx[0].irqs.iter_mut().for_each(|irq| irq.effective = Fact::Known(CpuMask::new()));
        });
        let worth = worth(host, Family::IrqPlacement);
        assert!(worth.trial, "{worth:?}");
    }

    /// "No interrupt lands on CPU 0" and "received on the CPUs that send them" were once said of a device whose
    /// interrupts are masked.
    #[test]
    fn an_unknown_interrupt_is_not_none() {
        let masked = |family| worth(host(8, &[0]).edit("eth0", |nic| nic.rx[0].irqs.clear()), family);
        assert_eq!(masked(Family::IrqPlacement).why, "it is unknown where the interrupts of eth0 land");
        let rps = masked(Family::Rps);
        assert_eq!((rps.trial, rps.why.as_str()), (true, "hands packets to CPUs 1-7, away from CPU 0"));
        let signalled = worth(host(8, &[0]).channels("eth0", &[0]), Family::Rps).why;
        assert_eq!(signalled, "hands packets to CPUs 1-7");
    }

    /// RPS was once advised to CPUs that the thread itself may run on.
    #[test]
    fn nothing_is_steered_where_threads_poll() {
        let threaded = || host(8, &[0]).edit("eth0", |nic| nic.napi.threaded = Fact::Known(true));
        for family in [Family::Rps, Family::Rfs] {
            assert!(worth(host(8, &[0]), family).trial);
            for worth in [worth(threaded(), family), worth(host(8, &[0]).polls(0, 0.95), family)] {
                assert!(!worth.trial && worth.why.starts_with("kernel threads poll"), "{worth:?}");
            }
        }
    }

    #[test]
    fn no_rfs_to_cpus_without_time() {
        assert!(worth(host(4, &[0]).works(3, 0.5), Family::Rfs).trial);
        let full = worth(host(4, &[0]).works(3, 0.99), Family::Rfs);
        assert_eq!((full.trial, full.why.as_str()), (false, "no time left on CPU 3, where programs run"));
    }
}
