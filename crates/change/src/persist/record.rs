//! The systemd unit of `rxlab record`. Pure.

use super::folder::{Installed, wanted_by};
use super::seal::{RECORD, sealed_with};
use super::texts::{Restore, condition, mounts};
use rxlab_base::grammar::systemd::argument;

/// Name of the unit.
pub const RECORD_UNIT: &str = "rxlab-record.service";

/// The files of the unit, in the order of installation. `arguments` follow `record`. For removal only the paths matter.
pub fn record_files(arguments: &[String], restore: &Restore) -> Vec<Installed> {
    let arguments: String = arguments.iter().map(|one| format!(" {}", argument(one))).collect();
    let text = format!(
        "[Unit]\nDescription=Recorder of the receive path (rxlab)\n\
         # Without the program it would be tried again every ten seconds.\n{}\
         {}\n\
         [Service]\nExecStart={} record{arguments}\nRestart=on-failure\nRestartSec=10\n\
         # It must not take CPU time from what it records.\nNice=10\nIOSchedulingClass=idle\n\n\
         [Install]\nWantedBy=multi-user.target\n",
        condition("ConditionFileIsExecutable", &restore.program),
        mounts(&[&restore.state]),
        restore.command(),
    );
    vec![
        Installed::File { path: format!("systemd/system/{RECORD_UNIT}"), text: sealed_with(&text, RECORD) },
        wanted_by("multi-user.target", RECORD_UNIT),
    ]
}

#[cfg(test)]
mod tests {
    use super::{Restore, record_files};
    use crate::persist::folder::shown;

    #[test]
    fn the_unit() {
        let files = record_files(&["--every".to_owned(), "1s".to_owned()], &Restore::sample());
        insta::assert_snapshot!(shown(&files));
    }
}
