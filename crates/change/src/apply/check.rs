//! Everything that can be checked before the first write.

use std::borrow::Cow;

use super::ApplyError;
use super::groups::group_of;
use crate::knob::{self, KNOBS, Knob, KnobError};
use rxlab_base::parse;
use rxlab_base::units::Direction;
use rxlab_path::constraints::{Binds, Constraints};
use rxlab_path::model::{DeviceAddress, Model};
use rxlab_setting::{Plan, PlannedSetting, Setting, Target, forbids, sent_elsewhere};
use rxlab_sys::{Cause, Host, HostError, Operation, ProcessId, unless_ended};

pub(super) fn knob_of(name: &str) -> Result<&'static dyn Knob, ApplyError> {
    knob::find(name).ok_or_else(|| ApplyError::UnknownKnob { name: name.to_owned() })
}

/// The persistent address of a target's device or process; `None` for the whole machine and its permanent
/// parts, and for a missing interface or process.
pub(super) fn device_of(host: &dyn Host, model: &Model, target: &Target) -> Option<DeviceAddress> {
    match target {
        Target::Process(_) => process_of(host, target).ok()?,
        _ => model.nic(target.nic()?).map(|nic| nic.address.clone()),
    }
}

/// The persistent address of the process that a target names; `None` when there is none, and for other
/// targets. An error when it cannot be determined, as where `/proc` does not show it. It has no numbering in recordings, and
/// where that is not known.
pub(super) fn process_of(host: &dyn Host, target: &Target) -> Result<Option<DeviceAddress>, HostError> {
    let Target::Process(pid) = target else { return Ok(None) };
    let path = format!("proc/{pid}/stat");
    let Some(stat) = unless_ended(host, *pid, host.read_text(&path))? else { return Ok(None) };
    let stat =
        parse::process_stat(&stat).map_err(|_| HostError::new(Operation::Read, &path, Cause::NotText))?;
    let own = host.numbering().ok().flatten();
    let start = own.map_or(stat.began_ticks, |own| own.start(stat.began_ticks));
    let numbering = own.map(|own| own.numbering);
    Ok(Some(DeviceAddress::of_process(ProcessId { pid: *pid, start, numbering })))
}

/// The process of a thread: procfs shows it under the number of each of its threads, which would be other names of one
/// target. `None` if unknown.
fn thread_group_of(host: &dyn Host, thread: u32) -> Option<u32> {
    parse::thread_group(&host.read_text(&format!("proc/{thread}/status")).ok()?)
}

/// Checks a whole plan against the machine: host, devices, every target, every value, and the constraints that bind
/// everyone.
/// Returns the settings in the order of applying, with canonical values. A value for a queue that another
/// setting will create is unchanged: it can only be checked once the queue exists. The same holds for the RSS
/// table of an interface whose queues another setting changes.
pub fn check(host: &dyn Host, model: &Model, plan: &Plan) -> Result<Vec<Setting>, ApplyError> {
    host.check_view()?;
    if let Some(host) = plan.host.as_ref().filter(|host| **host != model.identity.hostname) {
        let here = model.identity.hostname.clone();
        return Err(ApplyError::OtherHost { plan: host.clone(), here });
    }
    let mut planned: Vec<&PlannedSetting> = Vec::new();
    for one in &plan.settings {
        let Setting { knob: name, target, .. } = &one.set;
        knob_of(name)?;
        let mut same = planned.iter().filter(|p| p.set.knob == *name);
        if same.clone().any(|p| p.set.target == *target) {
            return Err(ApplyError::Twice { knob: name.clone(), target: target.clone() });
        }
        if let Some(other) = same.find(|p| is_one_group(host, &p.set.target, target)) {
            return Err(ApplyError::OneGroup { other: other.set.target.clone(), target: target.clone() });
        }
        planned.push(one);
    }
    // The registry is in the order of applying; the sort is stable.
    planned.sort_by_key(|planned| KNOBS.iter().position(|knob| knob.name() == planned.set.knob));
    let constraints = Constraints::new(model);
    let mut settings: Vec<Setting> = Vec::new();
    // The machine as foreseen at the setting's turn.
    let mut foreseen = Cow::Borrowed(model);
    for planned in planned {
        let Setting { knob: name, target, value } = &planned.set;
        let knob = knob_of(name)?;
        if let Target::Process(thread) = target
            && let Some(process) = thread_group_of(host, *thread).filter(|process| process != thread)
        {
            let why = format!("it is a thread of process {process}; use pid:{process}");
            return Err(KnobError::NotThere { target: target.clone(), why }.into());
        }
        if let Some(expected) = &planned.device {
            let here = device_of(host, model, target);
            if here.as_ref() != Some(expected) {
                return Err(ApplyError::OtherDevice {
                    target: target.clone(),
                    plan: expected.clone(),
                    here: here.map_or_else(|| "missing".to_owned(), |address| address.to_string()),
                });
            }
        }
        // A future queue can only be checked once it exists.
        let value = if has(&foreseen, target) && !has(model, target) {
            value.clone()
        } else {
            let canonical = knob.check(knob.site(host, &foreseen, target), value)?;
            // The canonical form of an interface value may depend on its queues, so wait for them.
            let by_queues = matches!(target, Target::Nic(_)) && is_made_anew(&settings, name, target);
            if by_queues { value.clone() } else { canonical }
        };
        if !knob.discards().is_empty() {
            knob.foresee(foreseen.to_mut(), target, &value);
        }
        let setting = Setting { knob: name.clone(), target: target.clone(), value };
        if let Some(constraint) = forbids(&constraints, &foreseen, &setting, Binds::Everyone) {
            let (setting, constraint) = (Box::new(setting), Box::new(constraint));
            return Err(ApplyError::Forbidden { setting, constraint });
        }
        if let Some((other, irq)) = sent_elsewhere(&foreseen, &settings, &setting) {
            let target = other.target.clone();
            return Err(ApplyError::OneInterrupt { other: setting.target, target, irq });
        }
        settings.push(setting);
    }
    Ok(settings)
}

/// True for two names of one control group, such as a unit and a path.
fn is_one_group(host: &dyn Host, one: &Target, other: &Target) -> bool {
    group_of(host, one).zip(group_of(host, other)).is_some_and(|(one, other)| one.is_same(other))
}

/// Reason why `setting` has to wait: its process or thread does not exist, cannot be found or is not visible yet, and no
/// other of `settings` creates it. `None` for settings that can be tried and for permanent targets.
pub fn awaits(host: &dyn Host, model: &Model, setting: &Setting, settings: &[Setting]) -> Option<KnobError> {
    let Setting { knob, target, value } = setting;
    let knob = knob::find(knob).filter(|knob| knob.is_fleeting())?;
    let absent = |error: &KnobError| {
        matches!(error, KnobError::NotThere { .. } | KnobError::Unknown { .. } | KnobError::Down { .. })
    };
    let site = knob.site(host, model, target);
    match knob.check(site, value) {
        Err(error) => absent(&error).then_some(error),
        Ok(_) if is_made_anew(settings, knob.name(), target) => None,
        Ok(_) => knob.read(site).err().filter(absent),
    }
}

/// True if one of `settings` may reset the value of knob `name` on `target`, as changing queues does.
pub(super) fn is_made_anew(settings: &[Setting], name: &str, target: &Target) -> bool {
    settings.iter().any(|other| {
        other.target.nic() == target.nic()
            && knob::find(&other.knob).is_some_and(|knob| knob.discards().contains(&name))
    })
}

/// True for an existing queue and for all other targets.
pub(super) fn has(model: &Model, target: &Target) -> bool {
    let Target::Queue { nic, queue } = target else { return true };
    model.nic(nic).is_some_and(|nic| match queue.direction {
        Direction::Rx => nic.rx.iter().any(|rx| rx.index == queue.index),
        Direction::Tx => nic.tx.iter().any(|tx| tx.index == queue.index),
    })
}

#[cfg(test)]
mod tests {
    use super::{ApplyError, check};
    use crate::apply::testbed::setting;
    use crate::knob::testbed::{channels_answer, model};
    use rxlab_base::parse::ethtool::{Channels, Count};
    use rxlab_base::parse::{attribute, one_message};
    use rxlab_base::units::Fact;
    use rxlab_path::model::DeviceAddress;
    use rxlab_setting::Plan;
    use rxlab_sys::{EthtoolGet, Query, RecordedHost};

    fn plan(settings: &[&str]) -> Plan {
        Plan::new("test", &settings.iter().map(|text| setting(text)).collect::<Vec<_>>())
    }

    #[test]
    fn settings_come_in_the_order_of_applying() {
        let plan = plan(&[
            "rfs eth0/rx-0 = 2048",
            "rps eth0/rx-1 = 1",
            "rfs_entries host = 4096",
            "rps eth0/rx-0 = 2,1",
            "irq_affinity eth0/rx-0 = 0",
        ]);
        let settings: Vec<String> = check(&RecordedHost::new(), &model(), &plan)
            .expect("sound")
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            settings,
            [
                "irq_affinity eth0/rx-0 = 0",
                "rps eth0/rx-1 = 1",
                "rps eth0/rx-0 = 1-2",
                "rfs_entries host = 4096",
                "rfs eth0/rx-0 = 2048"
            ]
        );
    }

    #[test]
    fn a_plan_for_another_machine_is_refused() {
        let mut other = plan(&["rps eth0/rx-0 = 1"]);
        other.host = Some("web1".into());
        assert!(matches!(check(&RecordedHost::new(), &model(), &other), Err(ApplyError::OtherHost { .. })));
        other.host = Some("testbed".into());
        other.settings[0].device = Some(DeviceAddress("pci:0000:00:09.0".into()));
        let error = check(&RecordedHost::new(), &model(), &other).expect_err("another device");
        assert_eq!(error.kind(), rxlab_base::error::Kind::Changed);
        assert!(error.to_string().contains("but here it is pci:0000:00:03.0"), "{error}");
        other.settings[0].device = Some(DeviceAddress("pci:0000:00:03.0".into()));
        assert!(check(&RecordedHost::new(), &model(), &other).is_ok());
    }

    /// The kernel shows a process under the number of each of its threads.
    #[test]
    fn a_thread_is_not_another_name_of_its_process() {
        let stat = |pid: u32| format!("{pid} (x) S 1 {}0 5137\n", "0 ".repeat(17));
        let host = [812, 813].into_iter().fold(RecordedHost::new(), |host, pid| {
            let status = "Name:\tx\nTgid:\t812\nCpus_allowed_list:\t0-3\n";
            host.with(&format!("proc/{pid}/status"), status)
                .with(&format!("proc/{pid}/stat"), stat(pid))
                .with(&format!("proc/{pid}/task/812/status"), status)
                .with(&format!("proc/{pid}/task/813/status"), status)
        });
        let checked = |set: &str| check(&host, &model(), &plan(&[set])).map_err(|error| error.to_string());
        assert!(checked("affinity pid:812 = 1").is_ok());
        let refused = checked("affinity pid:813 = 1").expect_err("a thread");
        assert_eq!(refused, "pid:813: it is a thread of process 812; use pid:812");
    }

    /// CPU 3 of the test machine is isolated: the kernel drops it from masks silently, and lets interrupts go there.
    #[test]
    fn reserved_cpus_are_refused() {
        let refused = |set: &str| {
            let error = check(&RecordedHost::new(), &model(), &plan(&[set])).expect_err(set);
            assert_eq!(error.kind(), rxlab_base::error::Kind::Usage);
            error.to_string()
        };
        assert_eq!(
            refused("rps eth0/rx-0 = 2-4"),
            "rps eth0/rx-0 = 2-4: CPU 3 is isolated at boot (isolcpus=); choose others"
        );
        assert_eq!(
            refused("irq_affinity eth0/rx-0 = 3"),
            "irq_affinity eth0/rx-0 = 3: CPU 3 is isolated at boot (isolcpus=); choose others"
        );
        let mut named = model();
        named.settings.irqaffinity = Fact::Known("0,3".parse().expect("a list"));
        let sent = plan(&["irq_affinity eth0/rx-0 = 3"]);
        assert!(check(&RecordedHost::new(), &named, &sent).is_ok(), "named at boot for interrupts");
    }

    #[test]
    fn one_value_for_each_target_and_known_knobs_only() {
        let twice = plan(&["rps eth0/rx-0 = 1", "rps eth0/rx-0 = 2"]);
        assert_eq!(
            check(&RecordedHost::new(), &model(), &twice).expect_err("twice").to_string(),
            "rps eth0/rx-0 is set twice"
        );
        let unknown = |set: &str| {
            check(&RecordedHost::new(), &model(), &plan(&[set])).expect_err("unknown").to_string()
        };
        assert_eq!(unknown("rpx eth0/rx-0 = 1"), "unknown knob `rpx` (did you mean `rps`?)");
        // Its nearest name is xps_cpus, which would change what is sent.
        assert_eq!(unknown("rps_cpus eth0/rx-0 = 1"), "unknown knob `rps_cpus` (its knob is `rps`)");
        assert_eq!(unknown("rx-usecs eth0 = 1"), "unknown knob `rx-usecs` (its knob is `rx_usecs`)");
        let names: Vec<&str> = crate::knob::KNOBS.iter().map(|knob| knob.name()).collect();
        assert_eq!(unknown("speed eth0 = 1"), format!("unknown knob `speed` (known: {})", names.join(", ")));
    }

    /// Field: two cards on one line. Both settings were made, and one was said to have drifted.
    #[test]
    fn one_interrupt_is_sent_to_one_place() {
        let mut model = model();
        let first = model.nics[0].rx[0].irqs.clone();
        model.nics[0].rx[1].irqs = first;
        let checked = |cpu: &str| {
            let plan = plan(&["irq_affinity eth0/rx-0 = 1", &format!("irq_affinity eth0/rx-1 = {cpu}")]);
            check(&RecordedHost::new(), &model, &plan)
        };
        assert_eq!(
            checked("2").expect_err("two places").to_string(),
            "eth0/rx-1 is interrupt 24, as eth0/rx-0, which is sent elsewhere: set one of them"
        );
        assert!(checked("1").is_ok());
    }

    /// The table `equal 2` is the default of the two current queues, but not of the four future ones: it was
    /// once applied as the default.
    #[test]
    fn a_table_for_other_queues_keeps_its_words() {
        let table = attribute(4, [0u32, 1, 0, 1].map(u32::to_ne_bytes).concat());
        let mut rings = vec![0; 192];
        rings[8] = 2;
        let channels = Channels { combined: Some(Count { now: 2, max: 4 }), ..Channels::default() };
        let mut host = RecordedHost::new();
        for (get, message) in [(EthtoolGet::Rss, table), (EthtoolGet::RxRings, rings)] {
            let answer = one_message(&message);
            host = host.with(&Query::Ethtool(get, "eth0".parse().expect("a name")).path(), answer);
        }
        let question = Query::Ethtool(EthtoolGet::Channels, "eth0".parse().expect("a name"));
        let host = host.with(&question.path(), channels_answer(&channels));
        let checked = |settings: &[&str]| -> Result<Vec<String>, String> {
            let settings = check(&host, &model(), &plan(settings)).map_err(|error| error.to_string())?;
            Ok(settings.into_iter().map(|setting| setting.value).collect())
        };
        for (table, alone) in [("equal 2", Ok("default")), ("equal 1", Ok("equal 1")), ("equal 4", Err(()))] {
            let setting = format!("rss eth0 = {table}");
            let with = checked(&["channels eth0 = 4", &setting]).expect("sound");
            assert_eq!(with, ["combined 4", table]);
            let without = checked(&[&setting]);
            assert_eq!(without.as_ref().map(|values| &values[0][..]).map_err(|_| ()), alone);
        }
        let error = checked(&["channels eth0 = 1", "rss eth0 = equal 2"]).expect_err("one is too few");
        assert!(error.ends_with("eth0 has 1 receive queues, and no rx-1"), "{error}");
    }
}
