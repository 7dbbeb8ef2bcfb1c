//! The real irqbalance, queried over its socket.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use rustix::process::Signal;
use rxlab_base::units::{CpuMask, IrqId};
use rxlab_change::apply::{Culprit, Likelihood, Suspect, status};
use rxlab_path::model::{Fact, Irqbalance, Nic};
use rxlab_path::sample::{Inventory, Scope};
use rxlab_sys::{Host, LiveHost};

use crate::process::{Ended, Running, rxlab, wait_for};
use crate::settings::setting;
use crate::tree::{Tree, look, model};
use crate::{quiet, require};

/// Every affinity of this machine, restored however the test ends: irqbalance is about to run.
struct Affinities(Vec<(String, Vec<u8>)>);

impl Affinities {
    fn save(host: &LiveHost) -> Self {
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

/// irqbalance with these arguments. It moves interrupts at the end of an interval, long after a test has ended.
fn irqbalance(arguments: impl IntoIterator<Item = String>) -> Command {
    let mut command = Command::new("irqbalance");
    command.args(["--foreground", "--interval", "3600"]).args(arguments).stdin(Stdio::null());
    command
}

/// Ends it with SIGTERM, so that it removes its socket.
fn terminate(irqbalance: Running) {
    irqbalance.signal(Signal::TERM);
    irqbalance.output();
}

/// Starts irqbalance, waits until it answers, ends it, and returns what it said.
fn answer(host: &LiveHost, command: &mut Command) -> Irqbalance {
    let irqbalance = Running::start(command);
    let mut found = None;
    wait_for("irqbalance's answer", || {
        found = look(host, Scope::Path).irqbalance.known().cloned().flatten();
        found.as_ref().is_some_and(|irqbalance| irqbalance.banned_irqs.known().is_some())
    });
    terminate(irqbalance);
    found.expect("it runs")
}

#[test]
fn irqbalance_reports_its_banned_interrupts() {
    let _alone = quiet::alone_with_irqbalance();
    require::needs!(irqbalance);
    let host = LiveHost::open(Path::new("/")).expect("opened");
    let _affinities = Affinities::save(&host);
    let irqs: Vec<IrqId> = all_irqs(&host).into_iter().take(2).collect();
    let mut command = irqbalance(irqs.iter().map(|irq| format!("--banirq={irq}")));
    let found = answer(&host, command.env("IRQBALANCE_BANNED_CPULIST", "1"));
    assert_eq!(found.banned_irqs.known(), Some(&irqs));
    assert_eq!(found.banned_cpus.known(), Some(&"1".parse::<CpuMask>().expect("a list")));
}

/// The interrupts of an interface are banned and unbanned, and the bans of others are unchanged.
#[test]
fn interrupts_are_banned_from_irqbalance() {
    let _alone = quiet::alone_with_irqbalance();
    require::needs!(irqbalance);
    let host = LiveHost::open(Path::new("/")).expect("opened");
    let _affinities = Affinities::save(&host);
    let look = || look(&host, Scope::All);
    let knob = rxlab_change::knob::find("irqbalance").expect("registered");
    let interrupts = |nic: &Nic| {
        let irqs = nic.rx.iter().flat_map(|queue| &queue.irqs).chain(&nic.other_irqs);
        irqs.map(|irq| irq.number).collect::<BTreeSet<_>>()
    };
    let model = look();
    let Some(nic) = model.nics.iter().find(|nic| interrupts(nic).len() > 1) else {
        println!("skipped: no interface here has two interrupts");
        return;
    };
    let own = interrupts(nic);
    let others: Vec<IrqId> = all_irqs(&host).into_iter().filter(|irq| !own.contains(irq)).take(1).collect();
    let one = *own.first().expect("more than one");
    // Banned beforehand: an unrelated interrupt, and one of the interface.
    let banned = others.iter().chain([&one]).map(|irq| format!("--banirq={irq}"));
    let running = Running::start(&mut irqbalance(banned));
    let list = || {
        let running = look().irqbalance.known().cloned().flatten()?;
        running.banned_irqs.known().map(|irqs| irqs.iter().copied().collect::<BTreeSet<_>>())
    };
    wait_for("irqbalance's answer", || list().is_some());
    let before = list().expect("it answers");
    let target = rxlab_setting::Target::Nic(nic.name.clone());
    assert_eq!(knob.read(knob.site(&host, &look(), &target)).expect("told"), "banned:0");
    let state = tempfile::tempdir().expect("a temporary directory");
    let (setting, managed) =
        (format!("irqbalance {target} = banned"), format!("irqbalance {target} = managed"));
    let run = |args: &[&str]| rxlab(state.path(), args).said();
    for (setting, expected) in [(&setting, &before | &own), (&managed, &before - &own)] {
        run(&["apply", "--setting", setting]).exits(0);
        assert_eq!(list().expect("it answers"), expected, "{setting}");
        run(&["undo"]).says(0, "back to banned:0");
        assert_eq!(list().expect("it answers"), before, "{setting}");
    }
    // Without irqbalance its list is gone, and there is nothing to restore.
    assert_eq!(run(&["apply", "--setting", &setting]).0, 0);
    terminate(running);
    let _visible = quiet::all_visible();
    run(&["undo"]).says(0, "gone, and its value with it");
    run(&["apply", "--setting", &setting]).says(2, "irqbalance is not running");
}

/// Every interrupt that has a number.
fn all_irqs(host: &LiveHost) -> Vec<IrqId> {
    let inventory = Inventory::take(host, Scope::All);
    inventory.irqs.known().expect("known").iter().map(|irq| irq.number).collect()
}

/// Suspects, by irqbalance's own report, for a change of the affinity of `irq` while irqbalance runs with these additional arguments. The
/// interrupt has the number of a real one, and everything else about it is from a tree: irqbalance is queried, but moves
/// nothing.
fn suspects(host: &LiveHost, irq: IrqId, arguments: Option<String>) -> Vec<Suspect> {
    let found = answer(host, &mut irqbalance(arguments));
    let tree = Tree::new();
    let affinity = format!("proc/irq/{irq}/smp_affinity");
    tree.write(&affinity, "01\n");
    let mut model = model();
    model.irqbalance = Fact::Known(Some(found));
    let eth0 = model.nics.iter_mut().find(|nic| nic.name.as_str() == "eth0").expect("there");
    eth0.rx[0].irqs[0].number = irq;
    let settings = [setting("irq_affinity eth0/rx-0 = 3")];
    tree.begin().apply(&tree.host(), &model, &settings, &AtomicBool::new(false)).expect("applied");
    tree.write(&affinity, "02\n");
    let root = tree.root();
    let open = tree.store().open_of(&root.to_string_lossy(), &model.identity.boot_id).expect("listed");
    let found = status(&open[0].1, &[], &tree.host(), &model).expect("begun");
    found.values[0].suspects.clone()
}

#[test]
fn irqbalance_is_suspected_unless_the_interrupt_is_banned() {
    let _alone = quiet::alone_with_irqbalance();
    require::needs!(irqbalance);
    let host = LiveHost::open(Path::new("/")).expect("opened");
    let _affinities = Affinities::save(&host);
    let irq = *all_irqs(&host).first().expect("a machine has one");
    let free = suspects(&host, irq, None);
    let [suspect] = &free[..] else { panic!("{free:?}") };
    assert_eq!((suspect.who, suspect.likelihood), (Culprit::Irqbalance, Likelihood::Probable));
    assert!(suspect.evidence[0].starts_with("running (pid "), "{suspect:?}");
    assert_eq!(suspect.evidence[1], format!("interrupt {irq} is not banned there"));
    assert_eq!(suspects(&host, irq, Some(format!("--banirq={irq}"))), []);
}
