//! Interrupts and CPUs that a running irqbalance leaves alone.

use serde::{Deserialize, Serialize};

use super::read;
use rxlab_base::parse::{self, IrqbalanceArguments};
use rxlab_base::units::{CpuMask, Fact, IrqId};
use rxlab_sys::{Host, Query};

/// A running irqbalance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Irqbalance {
    /// Its process id.
    pub pid: u32,
    /// Interrupts that its socket reports as banned by number. `Unsupported` = it was built without a socket, or started
    /// before it had one.
    pub banned_irqs: Fact<Vec<IrqId>>,
    /// CPUs that it assigns no interrupts to.
    pub banned_cpus: Fact<CpuMask>,
    /// The file that `banned_cpus` was read from: the environment of the process, or else the configuration of its service,
    /// which may have changed since it started. Empty for its socket.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub banned_cpus_file: String,
    /// Interrupts that its command line excludes.
    #[serde(default)]
    pub arguments: Fact<IrqbalanceArguments>,
}

impl Irqbalance {
    /// True if it is known to leave an interrupt with this action name alone.
    pub fn leaves(&self, irq: IrqId, action: &str) -> bool {
        let by_arguments = |arguments: &IrqbalanceArguments| {
            // It compares the last word of the line in /proc/interrupts.
            let name = action.rsplit(' ').next().unwrap_or(action);
            arguments.banned_irqs.contains(&irq)
                || arguments.banned_names.iter().any(|part| name.contains(part.as_str()))
        };
        self.banned_irqs.known().is_some_and(|banned| banned.contains(&irq))
            || self.arguments.known().is_some_and(by_arguments)
    }

    /// The script that decides about each interrupt, if it has one: it may leave any alone.
    pub fn policy_script(&self) -> Option<&str> {
        self.arguments.known()?.policy_script.as_deref()
    }
}

/// Configurations of its service that distributions read into its environment (Debian, Red Hat).
const CONFIGURATIONS: [&str; 2] = ["etc/default/irqbalance", "etc/sysconfig/irqbalance"];

pub(super) fn take(host: &dyn Host, pid: u32) -> Irqbalance {
    let setup = read::asked(host, &Query::IrqbalanceSetup { pid }, parse::irqbalance_setup);
    let arguments = read::text(host, &format!("proc/{pid}/cmdline"));
    let mut found = Irqbalance {
        pid,
        banned_irqs: setup.clone().map(|setup| setup.banned_irqs),
        banned_cpus: setup.map(|setup| setup.banned_cpus),
        banned_cpus_file: String::new(),
        arguments: arguments.map(|line| parse::irqbalance_arguments(&line)),
    };
    if found.banned_cpus.known().is_none()
        && let Some((cpus, path)) = by_variables(host, pid)
    {
        (found.banned_cpus, found.banned_cpus_file) = (Fact::Known(cpus), format!("/{path}"));
    }
    found
}

/// The CPUs that its variables name, and where: in its environment; where that cannot be read, in its configuration.
fn by_variables(host: &dyn Host, pid: u32) -> Option<(CpuMask, String)> {
    let cpus = |path: &str| {
        let text = host.read(path).ok()?;
        let text = String::from_utf8_lossy(&text).into_owned();
        Some(parse::irqbalance_variables(text.split(['\0', '\n'])).ok().flatten())
    };
    let environment = format!("proc/{pid}/environ");
    match cpus(&environment) {
        Some(named) => Some((named?, environment)),
        None => CONFIGURATIONS.iter().find_map(|path| Some((cpus(path)??, (*path).to_owned()))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Irqbalance, take};
    use rxlab_base::units::{Fact, IrqId, Need};
    use rxlab_sys::{Cause, RecordedHost};

    const SOCKET: &str = "socket/irqbalance/7/setup";

    #[test]
    fn an_answer_and_its_absence() {
        let host = || RecordedHost::new();
        let found = take(&host().with(SOCKET, "SLEEP 10 IRQ 3 LOAD 0 DIFF 0 CLASS 0 BANNED 2"), 7);
        assert_eq!(found.banned_irqs, Fact::Known(vec![IrqId(3)]));
        assert_eq!(found.banned_cpus, Fact::Known("1".parse().expect("a list")));
        assert_eq!(found.banned_cpus_file, "");
        let none = Irqbalance {
            pid: 7,
            banned_irqs: Fact::Unsupported,
            banned_cpus: Fact::Unsupported,
            arguments: Fact::Unsupported,
            ..Irqbalance::default()
        };
        assert_eq!(take(&host(), 7), none);
        let denied = take(&host().with_failure(SOCKET, Cause::Denied), 7);
        assert_eq!(denied.banned_irqs, Fact::Denied(Need::Root));
        assert!(matches!(take(&host().with(SOCKET, "x"), 7).banned_cpus, Fact::Broken(_)));
    }

    /// The socket's word, then the process's environment, then files that it may have been started with.
    #[test]
    fn banned_cpus_by_the_first_source_that_can_be_read() {
        let debian = || RecordedHost::new().with("etc/default/irqbalance", "IRQBALANCE_BANNED_CPUS=8\n");
        let both = || debian().with("proc/7/environ", "LANG=C\0IRQBALANCE_BANNED_CPULIST=1-2\0");
        let said = |host: &RecordedHost| {
            let found = take(host, 7);
            (found.banned_cpus.known().map(ToString::to_string), found.banned_cpus_file)
        };
        let cpus = |list: &str, file: &str| (Some(list.to_owned()), file.to_owned());
        assert_eq!(said(&both().with(SOCKET, "SLEEP 10 BANNED 1")), cpus("0", ""));
        assert_eq!(said(&both()), cpus("1-2", "/proc/7/environ"));
        let closed = || debian().with_failure("proc/7/environ", Cause::Denied);
        assert_eq!(said(&closed()), cpus("3", "/etc/default/irqbalance"));
        // It was started without: the file has changed since.
        let started = debian().with("proc/7/environ", "LANG=C\0");
        assert_eq!(said(&started), (None, String::new()));
        let red_hat = RecordedHost::new().with("etc/sysconfig/irqbalance", "IRQBALANCE_BANNED_CPULIST=4\n");
        assert_eq!(said(&red_hat), cpus("4", "/etc/sysconfig/irqbalance"));
        let broken = RecordedHost::new().with("etc/sysconfig/irqbalance", "IRQBALANCE_BANNED_CPULIST=x\n");
        assert_eq!(said(&broken), (None, String::new()));
    }

    #[test]
    fn interrupts_that_its_command_line_excludes() {
        let line = "irqbalance\0--banirq=40\0--banmod=virtio0\0";
        let found = take(&RecordedHost::new().with("proc/7/cmdline", line), 7);
        let leaves = |irq, action| found.leaves(IrqId(irq), action);
        assert!(leaves(40, "eth0-TxRx-0") && leaves(41, "virtio0-input.0"));
        assert!(!leaves(41, "virtio1-input.0") && found.policy_script().is_none());
        assert!(!leaves(42, "virtio0 (queue 3)"), "the last word counts");
        let hidden = take(&RecordedHost::new(), 7);
        assert!(!hidden.leaves(IrqId(40), "virtio0-input.0"));
    }
}
