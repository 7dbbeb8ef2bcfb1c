//! Interrupts and CPUs that a running irqbalance reports to leave alone.

use serde::{Deserialize, Serialize};

use super::read;
use rxlab_base::parse;
use rxlab_base::units::{CpuMask, Fact, IrqId};
use rxlab_sys::{Host, Query};

/// A running irqbalance. `Unsupported` = it was built without a socket, or started before it had one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Irqbalance {
    /// Its process id.
    pub pid: u32,
    /// Interrupts that were banned by number: on its command line, or over its socket. It does not report
    /// those excluded by policy script or module.
    pub banned_irqs: Fact<Vec<IrqId>>,
    /// CPUs that it assigns no interrupts to.
    pub banned_cpus: Fact<CpuMask>,
}

pub(super) fn take(host: &dyn Host, pid: u32) -> Irqbalance {
    let setup = read::asked(host, &Query::IrqbalanceSetup { pid }, parse::irqbalance_setup);
    Irqbalance {
        pid,
        banned_irqs: setup.clone().map(|setup| setup.banned_irqs),
        banned_cpus: setup.map(|setup| setup.banned_cpus),
    }
}

#[cfg(test)]
mod tests {
    use super::{Irqbalance, take};
    use rxlab_base::units::{Fact, IrqId, Need};
    use rxlab_sys::{Cause, RecordedHost};

    #[test]
    fn an_answer_and_its_absence() {
        let path = "socket/irqbalance/7/setup";
        let host = || RecordedHost::new();
        let found = take(&host().with(path, "SLEEP 10 IRQ 3 LOAD 0 DIFF 0 CLASS 0 BANNED 2"), 7);
        assert_eq!(found.banned_irqs, Fact::Known(vec![IrqId(3)]));
        assert_eq!(found.banned_cpus, Fact::Known("1".parse().expect("a list")));
        let none = Irqbalance { pid: 7, banned_irqs: Fact::Unsupported, banned_cpus: Fact::Unsupported };
        assert_eq!(take(&host(), 7), none);
        let denied = take(&host().with_failure(path, Cause::Denied), 7);
        assert_eq!(denied.banned_irqs, Fact::Denied(Need::Root));
        assert!(matches!(take(&host().with(path, "x"), 7).banned_cpus, Fact::Broken(_)));
    }
}
