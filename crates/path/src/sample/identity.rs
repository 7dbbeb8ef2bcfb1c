//! Identity of the machine and boot, and its kernel's accounting of softirq time.

use serde::{Deserialize, Serialize};

use super::read;
use rxlab_base::parse;
use rxlab_base::units::Fact;
use rxlab_sys::Host;

/// Identity of a machine and of its boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Identity {
    /// `/proc/sys/kernel/hostname`.
    pub hostname: String,
    /// `/proc/sys/kernel/osrelease`.
    pub kernel: String,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
}

impl Identity {
    /// The identity of a machine; names that cannot be read are empty.
    pub fn take(host: &dyn Host) -> Self {
        let line = |path: &str| {
            read::text(host, path).known().map(|text| text.trim().to_owned()).unwrap_or_default()
        };
        Self {
            hostname: line("proc/sys/kernel/hostname"),
            kernel: line("proc/sys/kernel/osrelease"),
            boot_id: line("proc/sys/kernel/random/boot_id"),
        }
    }
}

impl Identity {
    /// First two numbers of the kernel's release: `6.12`. `None` if it does not begin with them.
    pub fn kernel_series(&self) -> Option<String> {
        version(&self.kernel).map(|(major, minor)| format!("{major}.{minor}"))
    }
}

/// Model of the CPUs, from `/proc/cpuinfo`; `None` if it is not there, or names none. Some kernels interrupt every CPU for
/// this file: it must not be read in a sample.
pub fn cpu_model(host: &dyn Host) -> Option<String> {
    parse::cpu_model(read::text(host, "proc/cpuinfo").known()?)
}

/// Since 6.1 a kernel with pressure accounting has `/proc/pressure/irq` exactly when it has
/// `CONFIG_IRQ_TIME_ACCOUNTING` (kernel/sched/psi.c); elsewhere the build configuration shows it, if
/// the distribution keeps it below /boot.
pub(super) fn exact_softirq_time(host: &dyn Host) -> Fact<bool> {
    let release = read::text(host, "proc/sys/kernel/osrelease");
    let Some(release) = release.known().map(|text| text.trim()) else {
        return release.map(|_| false);
    };
    let pressure = host.list("proc/pressure").unwrap_or_default();
    if pressure.iter().any(|name| name == "irq") {
        return Fact::Known(true);
    }
    if !pressure.is_empty() && version(release).is_some_and(|version| version >= (6, 1)) {
        return Fact::Known(false);
    }
    read::text(host, &format!("boot/config-{release}"))
        .map(|config| config.lines().any(|line| line == "CONFIG_IRQ_TIME_ACCOUNTING=y"))
}

/// The first two numbers of a kernel release.
pub(crate) fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Identity, cpu_model, exact_softirq_time};
    use rxlab_base::units::Fact;
    use rxlab_sys::RecordedHost;

    fn kernel(release: &str) -> RecordedHost {
        RecordedHost::new().with("proc/sys/kernel/osrelease", release)
    }

    #[test]
    fn pressure_tells_since_6_1() {
        let psi = |host: RecordedHost| host.with("proc/pressure/cpu", "");
        assert_eq!(exact_softirq_time(&psi(kernel("6.18.44\n"))), Fact::Known(false));
        assert_eq!(
            exact_softirq_time(&psi(kernel("6.1.0-40-amd64\n")).with("proc/pressure/irq", "")),
            Fact::Known(true)
        );
        assert_eq!(exact_softirq_time(&psi(kernel("5.10.0-8-amd64\n"))), Fact::Unsupported);
    }

    #[test]
    fn the_series_of_a_kernel_and_the_model_of_its_cpus() {
        let host = kernel("5.15.0-91-generic\n").with("proc/cpuinfo", "model name\t: QEMU Virtual CPU\n");
        assert_eq!(Identity::take(&host).kernel_series().as_deref(), Some("5.15"));
        assert_eq!(cpu_model(&host).as_deref(), Some("QEMU Virtual CPU"));
        let odd = kernel("mainline");
        assert_eq!((Identity::take(&odd).kernel_series(), cpu_model(&odd)), (None, None));
    }

    #[test]
    fn else_the_configuration_below_boot() {
        let host = kernel("5.10.0\n").with("boot/config-5.10.0", "CONFIG_IRQ_TIME_ACCOUNTING=y\n");
        assert_eq!(exact_softirq_time(&host), Fact::Known(true));
        let host = kernel("5.10.0\n").with("boot/config-5.10.0", "# CONFIG_IRQ_TIME_ACCOUNTING is not set\n");
        assert_eq!(exact_softirq_time(&host), Fact::Known(false));
    }
}
