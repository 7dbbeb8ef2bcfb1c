//! The real irqbalance as a suspect, according to its own report.
//!
//! The interrupt with the changed affinity has the number of a real interrupt, and everything else about it is from a
//! tree: irqbalance is queried, but moves nothing.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use rxlab::apply::{BeginInfo, Culprit, Likelihood, Suspect, Transaction, status};
use rxlab::host::LiveHost;
use rxlab::sample::{Inventory, Scope};
use rxlab::units::IrqId;

use crate::irqbalance::{Affinities, answer, irqbalance};
use crate::require;
use crate::tree::{Tree, model};

/// Suspects for a change of the affinity of `irq` while irqbalance runs with these additional arguments.
fn suspects(host: &LiveHost, irq: IrqId, arguments: Option<String>) -> Vec<Suspect> {
    let found = answer(host, &mut irqbalance(arguments));
    let tree = Tree::new();
    let affinity = format!("proc/irq/{irq}/smp_affinity");
    tree.write(&affinity, "01\n");
    let mut model = model();
    model.irqbalance = rxlab::model::Fact::Known(Some(found));
    let eth0 = model.nics.iter_mut().find(|nic| nic.name.as_str() == "eth0").expect("there");
    eth0.rx[0].irqs[0].number = irq;
    let (identity, root) = (model.identity.clone(), tree.root());
    let info = BeginInfo { root: &root, what: "a test".into(), ..BeginInfo::new(&identity) };
    let transaction = Transaction::begin(&tree.store(), info).expect("begun");
    let settings = ["irq_affinity eth0/rx-0 = 3".parse().expect("a setting")];
    transaction.apply(&tree.host(), &model, &settings, &AtomicBool::new(false)).expect("applied");
    tree.write(&affinity, "02\n");
    let open = tree.store().open_of(&root.to_string_lossy(), &identity.boot_id).expect("listed");
    let found = status(&open[0].1, &[], &tree.host(), &model).expect("begun");
    found.values[0].suspects.clone()
}

#[test]
fn irqbalance_is_suspected_unless_the_interrupt_is_banned() {
    let _alone = require::alone_with_irqbalance();
    require::needs!(irqbalance);
    let host = LiveHost::open(Path::new("/")).expect("opened");
    let _affinities = Affinities::save(&host);
    let irqs = Inventory::take(&host, Scope::All).irqs;
    let irq = irqs.known().and_then(|irqs| irqs.first()).expect("a machine has one").number;
    let free = suspects(&host, irq, None);
    let [suspect] = &free[..] else { panic!("{free:?}") };
    assert_eq!((suspect.who, suspect.likelihood), (Culprit::Irqbalance, Likelihood::Probable));
    assert!(suspect.evidence[0].starts_with("running (pid "), "{suspect:?}");
    assert_eq!(suspect.evidence[1], format!("interrupt {irq} is not banned there"));
    assert_eq!(suspects(&host, irq, Some(format!("--banirq={irq}"))), []);
}
