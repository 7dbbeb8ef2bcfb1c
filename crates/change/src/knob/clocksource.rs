//! `clocksource`: the hardware clock that the kernel reads.

use super::file::{At, FileKnob, Value, exists};

/// The clock of the whole machine.
///
/// Kernel: `Documentation/timers/timekeeping.rst`. The kernel accepts an unavailable name without an error,
/// and then chooses a clock itself.
pub(super) static CLOCKSOURCE: FileKnob =
    FileKnob::new("clocksource", At::Host(|model| exists(&model.settings.clocksource)), Value::Clock);

#[cfg(test)]
mod tests {
    use super::CLOCKSOURCE;
    use crate::knob::Knob;
    use crate::knob::testbed::{check, model, read, target};
    use rxlab_path::model::Fact;
    use rxlab_sys::RecordedHost;

    const PATH: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";

    #[test]
    fn only_what_is_available() {
        let check = |value: &str| check(&CLOCKSOURCE, &RecordedHost::new(), "host", value);
        assert_eq!(check("hpet").as_deref(), Ok("hpet"));
        let error = check("tcs").expect_err("a typing error");
        assert_eq!(error.to_string(), "invalid value `tcs` for clocksource: available: tsc, hpet");
        let host = RecordedHost::new().with(PATH, "tsc\n");
        assert_eq!(read(&CLOCKSOURCE, &host, "host").as_deref(), Ok("tsc"));
        assert!(read(&CLOCKSOURCE, &host, "eth0").is_err());
        let empty = RecordedHost::new().with(PATH, "\n");
        assert!(read(&CLOCKSOURCE, &empty, "host").is_err());
        let mut blind = model();
        blind.settings.clocksource = Fact::Unsupported;
        assert!(CLOCKSOURCE.targets(&blind).is_empty());
        assert!(CLOCKSOURCE.check(CLOCKSOURCE.site(&host, &blind, &target("host")), "tsc").is_err());
    }
}
