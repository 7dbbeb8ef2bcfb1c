//! `clocksource`: the hardware that tells the kernel the time.

use super::number::exists;
use super::{Doc, Knob, KnobError, Risk, value};
use crate::host::Host;
use crate::journal::Armed;
use crate::model::Model;
use crate::plan::Target;

const PATH: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The clock of the whole machine.
///
/// Kernel: `Documentation/timers/timekeeping.rst`. A name that is not on offer is taken without a word, and then
/// the kernel chooses for itself.
pub(super) struct ClocksourceKnob;

static DOC: Doc = Doc {
    summary: "What the kernel reads the time from. Every packet with a timestamp and every timer reads it: `tsc` takes \
              nanoseconds, `hpet` and `acpi_pm` a microsecond.",
    target: "`host`",
    values: "one of `available_clocksource`",
    example: "clocksource host = tsc",
    path: "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    source: "Documentation/timers/timekeeping.rst",
    since: "2.6.18",
    risk: Risk::BriefStall,
    lost: "The kernel leaves a clock that it finds unstable, at any time.",
    beware: "All CPUs stop for the change, for microseconds. A name that is not available is taken without a word and \
             the kernel then chooses for itself; rxlab refuses it. A clock chosen by hand stays chosen, also when it \
             is the one that was there before: a better one that appears later is not switched to.",
};

impl Knob for ClocksourceKnob {
    fn name(&self) -> &'static str {
        "clocksource"
    }

    fn doc(&self) -> &'static Doc {
        &DOC
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        if exists(&model.settings.clocksource) { vec![Target::Host] } else { Vec::new() }
    }

    fn check(
        &self,
        _host: &dyn Host,
        model: &Model,
        target: &Target,
        value: &str,
    ) -> Result<String, KnobError> {
        value::only_host(self.name(), target)?;
        let known = model.settings.clocksource.known().map(|clock| clock.available.as_slice());
        let known = known.unwrap_or_default();
        if known.iter().any(|name| name == value) {
            return Ok(value.to_owned());
        }
        let why = match known {
            [] => "the available clocks cannot be read here".to_owned(),
            _ => format!("available: {}", known.join(", ")),
        };
        Err(KnobError::BadValue { knob: self.name(), value: value.to_owned(), why })
    }

    fn locate(&self, _model: &Model, target: &Target) -> Result<Vec<String>, KnobError> {
        value::only_host(self.name(), target)?;
        Ok(vec![PATH.to_owned()])
    }

    fn read(&self, host: &dyn Host, _model: &Model, target: &Target) -> Result<String, KnobError> {
        value::only_host(self.name(), target)?;
        let text = value::read_plain(self.name(), host, target, PATH)?;
        match text.trim() {
            "" => Err(KnobError::Broken { path: PATH.to_owned(), text, expected: "name of a clock" }),
            name => Ok(name.to_owned()),
        }
    }

    fn write(
        &self,
        host: &dyn Host,
        _model: &Model,
        target: &Target,
        value: &str,
        _armed: &Armed,
    ) -> Result<(), KnobError> {
        value::only_host(self.name(), target)?;
        host.write(PATH, value.as_bytes()).map_err(|error| {
            KnobError::from_host(self.name(), target, Some(value), &error, " (it needs root)", |_| None)
        })
    }

    fn difference(&self, want: &str, got: &str) -> String {
        format!("asked for {want}, the kernel chose {got}: it does not take {want} for its clock")
    }
}

#[cfg(test)]
mod tests {
    use super::{ClocksourceKnob, Knob, PATH};
    use crate::host::RecordedHost;
    use crate::knob::testbed::{model, target};
    use crate::model::Fact;

    #[test]
    fn only_what_is_available() {
        let check =
            |value: &str| ClocksourceKnob.check(&RecordedHost::new(), &model(), &target("host"), value);
        assert_eq!(check("hpet").as_deref(), Ok("hpet"));
        let error = check("tcs").expect_err("a typing error");
        assert_eq!(error.to_string(), "`tcs` is no value for clocksource: available: tsc, hpet");
        let host = RecordedHost::new().with(PATH, "tsc\n");
        assert_eq!(ClocksourceKnob.read(&host, &model(), &target("host")).as_deref(), Ok("tsc"));
        assert!(ClocksourceKnob.read(&host, &model(), &target("eth0")).is_err());
        let empty = RecordedHost::new().with(PATH, "\n");
        assert!(ClocksourceKnob.read(&empty, &model(), &target("host")).is_err());
        let mut blind = model();
        blind.settings.clocksource = Fact::Unsupported;
        assert!(ClocksourceKnob.targets(&blind).is_empty());
        assert!(ClocksourceKnob.check(&RecordedHost::new(), &blind, &target("host"), "tsc").is_err());
    }
}
