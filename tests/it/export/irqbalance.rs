//! The real irqbalance runs the policy script.

use std::process::Command;

use rxlab_path::model::{Model, NicKind};
use rxlab_path::sample::{Inventory, Scope};
use rxlab_sys::LiveHost;

use super::exported;
use crate::process::Ended;
use crate::{quiet, require};

#[test]
fn irqbalance_leaves_the_interrupts_of_the_plan_alone() {
    let _alone = quiet::alone_with_irqbalance();
    require::needs!(irqbalance);
    let host = LiveHost::open("/".as_ref()).expect("opened");
    let inventory = Inventory::take(&host, Scope::Path);
    let model = Model::new(&inventory);
    let queue = model.nics.iter().filter(|nic| nic.kind == NicKind::Device).find_map(|nic| {
        let queue = nic.rx.iter().find(|queue| !queue.irqs.is_empty())?;
        Some((format!("{}/rx-{}", nic.name, queue.index), queue.irqs[0].number))
    });
    let Some((target, irq)) = queue else {
        require::have("irqbalance", || Some("no NIC of this machine has interrupts".to_owned()));
        return;
    };
    let policy = exported(None, "irqbalance-policy", &[&format!("irq_affinity {target} = 0")]);
    // All others are banned as well, so the machine is unchanged.
    let all = inventory.irqs.known().expect("known").iter().map(|irq| irq.number);
    let others = all.filter(|other| *other != irq).map(|other| format!("--banirq={other}"));
    let mut command = Command::new("irqbalance");
    command.args(["--oneshot", "--debug"]).args(others);
    command.arg(format!("--policyscript={}", policy.file));
    let (_, text) = command.said();
    let overridden: Vec<&str> = text.lines().filter(|line| line.contains("Override ban to true")).collect();
    assert_eq!(overridden, [format!("IRQ {irq}: Override ban to true")], "{text}");
    assert!(text.contains(&format!("IRQ {irq} was BANNED.")), "{text}");
}
