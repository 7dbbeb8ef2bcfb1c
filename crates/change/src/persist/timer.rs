//! The systemd timer of the checkpoints of a trial: a unit that takes those that are due, and a timer with all their times.
//! Pure.

use std::fmt::Write;

use super::folder::{Installed, wanted_by};
use super::seal::{CHECKPOINT, sealed_with};
use super::texts::{Restore, mounts};
use rxlab_base::grammar::systemd::{argument, value};

/// The files of the timer of the trial `id`, in the order of installation. `times`: in the form of systemd.time(7).
/// Times that pass while the machine is off are made up for at the next boot. With no times only the paths matter.
pub fn timer_files(id: &str, times: &[String], restore: &Restore) -> Vec<Installed> {
    let name = unit_name(id);
    // Ids are of letters, digits, dashes and plus signs.
    let of_id = value(id).unwrap_or_default();
    let service = format!(
        "[Unit]\nDescription=Checkpoint of the rxlab trial {of_id}\n{}\
         Wants=network-online.target\nAfter=network-online.target rxlab.service\n\n\
         [Service]\nType=oneshot\nExecStart={} trial checkpoint {} --due\n\
         # 1: the effect is gone, or the change is not set; `rxlab status` has what failed.\nSuccessExitStatus=1\n",
        mounts(&[&restore.state]),
        restore.command(),
        argument(id),
    );
    let mut timer = format!("[Unit]\nDescription=Checkpoints of the rxlab trial {of_id}\n\n[Timer]\n");
    for time in times {
        let _ = writeln!(timer, "OnCalendar={time}");
    }
    timer += "AccuracySec=1s\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n";
    let file = |kind: &str, text: &str| Installed::File {
        path: format!("systemd/system/{name}.{kind}"),
        text: sealed_with(text, CHECKPOINT),
    };
    vec![
        file("service", &service),
        file("timer", &timer),
        wanted_by("timers.target", &format!("{name}.timer")),
    ]
}

/// Name of the units without their suffix. Ids have one character that unit names must escape.
pub fn unit_name(id: &str) -> String {
    format!("rxlab-checkpoint-{}", id.replace('+', r"\x2b"))
}

#[cfg(test)]
mod tests {
    use super::{Restore, timer_files, unit_name};
    use crate::persist::folder::shown;

    #[test]
    fn the_units() {
        let times = ["2026-11-24 11:00:00 UTC", "2026-11-25 10:00:00 UTC"].map(str::to_owned);
        let files = timer_files("0003-rps+rfs", &times, &Restore::sample());
        insta::assert_snapshot!(shown(&files));
        assert_eq!(unit_name("0003-rps"), "rxlab-checkpoint-0003-rps");
    }
}
