//! `clocksource`: the hardware clock that the kernel reads.

use super::file::exists;
use super::{Doc, Knob, KnobError, value};
use crate::host::Host;
use crate::journal::Armed;
use crate::model::Model;
use crate::plan::Target;

const PATH: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The clock of the whole machine.
///
/// Kernel: `Documentation/timers/timekeeping.rst`. The kernel accepts an unavailable name without an error,
/// and then chooses a clock itself.
pub(super) struct ClocksourceKnob;

static DOC: Doc = Doc {
    summary: "Clock that the kernel reads. Every timer and every packet with a timestamp reads it: `tsc` \
              takes nanoseconds, `hpet` and `acpi_pm` a microsecond.",
    target: "`host`",
    values: "one of `available_clocksource`",
    example: "clocksource host = tsc",
    source: "Documentation/timers/timekeeping.rst",
    since: "2.6.18",
    lost: "The kernel may abandon a clock that it finds unstable, at any time.",
    beware: "All CPUs stop for microseconds during the change. The kernel accepts an unavailable name \
             without an error and then chooses a clock itself; rxlab refuses such a name. A clock that was \
             chosen stays chosen, even if it was already in use: the kernel does not switch to a better one \
             that appears later.",
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
            "" => Err(KnobError::Broken { path: PATH.to_owned(), text, expected: "a clock name" }),
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
            KnobError::from_host(self.name(), target, Some(value), &error, " (needs root)", |_| None)
        })
    }

    fn difference(&self, want: &str, got: &str) -> String {
        format!("asked for {want}, the kernel chose {got}: it does not accept {want} as its clock")
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
        assert_eq!(error.to_string(), "invalid value `tcs` for clocksource: available: tsc, hpet");
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
