//! Interrupt delays of devices: fewer interrupts, or no delay.

use crate::diagnose::{INTERRUPTS, moderation_is_off};
use crate::plan::draft::Draft;
use crate::plan::machine::HIGH_LOAD;
use crate::plan::policy::Variable;
use rxlab_base::parse::ethtool::Coalesce;
use rxlab_base::units::{Fact, NicName};
use rxlab_path::evidence::{adapts, queue_packets};
use rxlab_path::model::{Nic, RxQueue};
use rxlab_setting::risk_and_upkeep;
use rxlab_setting::{Risk, Target};

/// Microseconds for devices that raise an interrupt for every packet: at most 50,000 interrupts per second
/// and queue, for a delay that only latency-bound services notice.
const MODERATE: u32 = 20;

/// A fixed small delay if every packet may raise an interrupt and many do.
pub(in crate::plan) fn fixed(draft: &mut Draft<'_>) {
    off_and_busy(draft, |draft, nic, _| {
        let why = "every packet may raise an interrupt: one for several packets takes less time";
        set(draft, nic, "rx_usecs", &MODERATE.to_string(), why);
    });
}

/// The same, only if writing it never stops traffic.
pub(in crate::plan) fn safe(draft: &mut Draft<'_>) {
    let is_safe = |draft: &Draft<'_>, name: &NicName| {
        let driver = draft.model.nic(name).and_then(|nic| nic.driver.as_deref());
        risk_and_upkeep("rx_usecs", driver).is_none_or(|(risk, _)| risk == Risk::Safe)
    };
    let (safe, others): (Vec<NicName>, Vec<NicName>) =
        draft.nics.iter().cloned().partition(|name| is_safe(draft, name));
    draft.for_nics(safe, fixed);
    draft.for_nics(others, |draft| off_and_busy(draft, leave_delay));
}

/// Records that the delay of a device stays because of its driver.
fn leave_delay(draft: &mut Draft<'_>, nic: &Nic, _: &Coalesce) {
    let driver = nic.driver.as_deref().unwrap_or_default();
    draft.leave(Variable::Moderation.because(format!(
        "rx_usecs of {} is left alone: {driver} may reset the link to change it",
        nic.name
    )));
}

/// The driver's own choice if it has one, otherwise [`fixed`].
pub(in crate::plan) fn adaptive(draft: &mut Draft<'_>) {
    const WHY: &str = "the driver adapts the interrupt delay to the load";
    each(draft, |draft, nic, coalesce| {
        if coalesce.adaptive_rx == Some(false) {
            set(draft, nic, "adaptive_rx", "on", WHY);
        }
    });
    off_and_busy(draft, |draft, nic, coalesce| {
        let driver = nic.driver.as_deref().unwrap_or_default();
        if coalesce.adaptive_rx.is_none() && adapts_by_1(nic, coalesce) {
            set(draft, nic, "rx_usecs", "1", &format!("{driver} treats 1 as adaptive: {WHY}"));
        }
    });
    fixed(draft);
}

/// True if the driver treats a delay of 1 microsecond as adaptive moderation.
fn adapts_by_1(nic: &Nic, coalesce: &Coalesce) -> bool {
    let mut then = nic.clone();
    then.hardware.coalesce = Fact::Known(Coalesce { rx_usecs: Some(1), ..*coalesce });
    adapts(&then)
}

/// Devices without any interrupt delay although a queue could raise many interrupts.
fn off_and_busy(draft: &mut Draft<'_>, work: impl Fn(&mut Draft<'_>, &Nic, &Coalesce)) {
    each(draft, |draft, nic, coalesce| {
        // A packet raises one interrupt at most.
        let many = nic.rx.iter().any(|queue| queue_packets(nic, queue, &draft.rates) >= INTERRUPTS);
        if moderation_is_off(nic) && many {
            work(draft, nic, coalesce);
        }
    });
}

/// No delay by the device, its driver or the kernel, where the CPUs of the interrupts have time for more of them.
pub(in crate::plan) fn none(draft: &mut Draft<'_>) {
    let machine = draft.machine();
    let brought = machine.brought(|_, _| true);
    let is_hot = |queue: &RxQueue| {
        let of_home = machine.home(queue).and_then(|cpu| brought.get(&cpu));
        of_home.is_some_and(|time| *time >= HIGH_LOAD)
    };
    let (hot, cool): (Vec<&Nic>, Vec<&Nic>) = draft.planned().partition(|nic| nic.rx.iter().any(is_hot));
    let names = |nics: &[&Nic]| nics.iter().map(|nic| nic.name.clone()).collect::<Vec<NicName>>();
    let (cool, hot) = (names(&cool), names(&hot));
    for name in hot {
        draft.leave(Variable::Moderation.because(format!(
            "delays of {name} are left alone: without them a CPU that receives for half of its time would \
             receive for more"
        )));
    }
    draft.for_nics(cool, without_delay);
}

fn without_delay(draft: &mut Draft<'_>) {
    const WHY: &str = "an interrupt as soon as a packet arrives";
    each(draft, |draft, nic, coalesce| {
        if coalesce.adaptive_rx == Some(true) {
            set(draft, nic, "adaptive_rx", "off", WHY);
        }
        if coalesce.rx_usecs.is_some_and(|delay| delay > 0) {
            set(draft, nic, "rx_usecs", "0", WHY);
        }
    });
    let settings = &draft.model.settings;
    let polls = [&settings.busy_read, &settings.busy_poll]
        .map(|time| time.known().is_some_and(|us| *us > 0))
        .contains(&true);
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name).cloned() else { continue };
        let is_deferred = nic.napi.defer_hard_irqs.known().is_some_and(|polls| *polls > 0);
        let is_delayed = nic.napi.gro_flush_timeout_ns.known().is_some_and(|delay| *delay > 0);
        if polls && (is_deferred || is_delayed) {
            // Documentation/networking/napi.rst: they keep interrupts off while a program polls, which would compete with it.
            let why = "they serve programs that busy-poll (net.core.busy_read, net.core.busy_poll)";
            draft.leave(Variable::Moderation.because(format!(
                "napi_defer_hard_irqs and gro_flush_timeout of {name} are left alone: {why}"
            )));
            continue;
        }
        let why = "the kernel delays packets to merge others with them";
        if is_deferred {
            set(draft, &nic, "napi_defer_hard_irqs", "0", why);
        }
        if is_delayed {
            set(draft, &nic, "gro_flush_timeout", "0", why);
        }
    }
}

fn each(draft: &mut Draft<'_>, work: impl Fn(&mut Draft<'_>, &Nic, &Coalesce)) {
    let may_be_missing = |nic: &Nic| nic.driver_facts().moderation.may_be_missing;
    let first = draft.planned().find(|nic| may_be_missing(nic) && nic.hardware.coalesce.known().is_some());
    if let Some((name, driver)) = first.map(|nic| (nic.name.clone(), nic.driver.clone().unwrap_or_default()))
    {
        let why = format!("{driver} reports moderation even if the device has none");
        draft.leave(Variable::Moderation.because(format!("{name} is left alone: {why}")));
    }
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name).cloned() else { continue };
        let Some(coalesce) = nic.hardware.coalesce.known() else { continue };
        if !may_be_missing(&nic) {
            work(draft, &nic, coalesce);
        }
    }
}

fn set(draft: &mut Draft<'_>, nic: &Nic, knob: &str, value: &str, why: &str) {
    draft.set(knob, Target::Nic(nic.name.clone()), value, why);
}
