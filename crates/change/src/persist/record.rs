//! The systemd unit of `rxlab record`. Pure.

use std::path::Path;

use super::folder::{Installed, wanted_by};
use super::seal::{RECORD, sealed_with};
use super::texts::{Restore, condition, mounts};
use rxlab_base::grammar::systemd::{self, argument};

pub const RECORD_UNIT: &str = "rxlab-record.service";

/// It reads the machine, and writes to the state directory only. Of the privileges of root it keeps the one to see which
/// processes have sockets and namespaces.
const SANDBOX: &str = "\
CapabilityBoundingSet=CAP_SYS_PTRACE
NoNewPrivileges=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
PrivateDevices=yes
PrivateMounts=yes
DevicePolicy=closed
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_NETLINK AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources process_vm_readv process_vm_writev
IPAddressDeny=any
UMask=0077
LimitNOFILE=1024
TasksMax=64
MemoryMax=512M
";

/// Directories that a sandbox would hide, unless the program or its files are there.
fn hidden(restore: &Restore) -> String {
    let is_used =
        |folder: &str| [&restore.program, &restore.state].iter().any(|path| path.starts_with(folder));
    let mut lines = String::new();
    for (line, folders) in [
        ("ProtectHome=yes\n", &["/home", "/root", "/run/user"][..]),
        ("PrivateTmp=yes\n", &["/tmp", "/var/tmp"]),
    ] {
        if !folders.iter().any(|folder| is_used(folder)) {
            lines += line;
        }
    }
    lines
}

/// A file system that is read-only but for the state directory; none of this if the line cannot say its path.
fn read_only(state: &Path) -> String {
    let path = systemd::path(&state.to_string_lossy());
    path.map(|path| format!("ProtectSystem=strict\nReadWritePaths={path}\n")).unwrap_or_default()
}

/// The files of the unit, in the order of installation. `arguments` follow `record`. For removal only the paths matter.
pub fn record_files(arguments: &[String], restore: &Restore) -> Vec<Installed> {
    let arguments: String = arguments.iter().map(|one| format!(" {}", argument(one))).collect();
    let text = format!(
        "[Unit]\nDescription=Recorder of the receive path (rxlab)\n\
         # Without the program it would be tried again every ten seconds.\n{}\
         {}\n\
         [Service]\nExecStart={} record{arguments}\nRestart=on-failure\nRestartSec=10\n\
         # It must not take CPU time from what it records.\nNice=10\nIOSchedulingClass=idle\n\
         {SANDBOX}{}{}\n\
         [Install]\nWantedBy=multi-user.target\n",
        condition("ConditionFileIsExecutable", &restore.program),
        mounts(&[&restore.state]),
        restore.command(),
        hidden(restore),
        read_only(&restore.state),
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
