//! The real irqbalance, asked over its socket.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use rxlab::host::{Host, LiveHost};
use rxlab::model::Model;
use rxlab::sample::{Inventory, Scope};
use rxlab::units::{CpuMask, IrqId};

use crate::process::{Running, wait_for};
use crate::require;

/// Every affinity of this machine, put back at the end, however it comes: irqbalance is about to run.
pub(crate) struct Affinities(Vec<(String, Vec<u8>)>);

impl Affinities {
    pub(crate) fn save(host: &LiveHost) -> Self {
        let irqs =
            host.list("proc/irq").expect("listed").into_iter().filter(|name| name.parse::<u32>().is_ok());
        let paths = irqs.map(|irq| format!("proc/irq/{irq}/smp_affinity"));
        Self(paths.filter_map(|path| host.read(&path).ok().map(|value| (path, value))).collect())
    }
}

impl Drop for Affinities {
    fn drop(&mut self) {
        let host = LiveHost::open(Path::new("/")).expect("opened");
        for (path, value) in &self.0 {
            if host.read(path).is_ok_and(|now| now != *value) {
                host.write(path, value).expect("written");
            }
        }
    }
}

#[test]
fn irqbalance_tells_what_it_leaves_alone() {
    let _alone = require::alone_with_irqbalance();
    if !require::irqbalance() {
        return;
    }
    let host = LiveHost::open(Path::new("/")).expect("opened");
    let _affinities = Affinities::save(&host);
    let irqs: Vec<IrqId> = Inventory::take(&host, Scope::All)
        .irqs
        .known()
        .expect("known")
        .iter()
        .take(2)
        .map(|irq| irq.number)
        .collect();
    // It moves interrupts at the end of an interval, and this test ends long before.
    let mut command = Command::new("irqbalance");
    command.args(["--foreground", "--interval", "3600"]).stdin(Stdio::null());
    command.args(irqs.iter().map(|irq| format!("--banirq={irq}"))).env("IRQBALANCE_BANNED_CPULIST", "1");
    let irqbalance = Running::start(&mut command);
    let mut found = None;
    wait_for("irqbalance's answer", || {
        found = Model::new(&Inventory::take(&host, Scope::Path)).irqbalance.known().cloned().flatten();
        found.as_ref().is_some_and(|irqbalance| irqbalance.banned_irqs.known().is_some())
    });
    // Asked to end, it takes its socket away; killed, it would not.
    irqbalance.signal(Signal::TERM);
    irqbalance.output();
    let found = found.expect("it runs");
    assert_eq!(found.banned_irqs.known(), Some(&irqs));
    assert_eq!(found.banned_cpus.known(), Some(&"1".parse::<CpuMask>().expect("a list")));
}
