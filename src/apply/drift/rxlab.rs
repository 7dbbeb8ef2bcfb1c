//! Another rxlab that changes values and keeps its journal elsewhere: our own lock excludes others.
//! One that has ended is not visible.

use super::{Culprit, Scene, Suspect};
use crate::parse::thread_name;

/// Commands that change values.
const VERBS: [&str; 6] = ["apply", "undo", "reapply", "trial", "demo", "guard"];

pub(super) fn suspect(scene: &Scene<'_>) -> Option<Suspect> {
    scene.live?;
    let own = scene.host.link("proc/self").ok();
    let processes = scene.host.list("proc").ok()?;
    let pids = processes.into_iter().filter(|name| name.parse::<u32>().is_ok() && Some(name) != own.as_ref());
    let evidence = pids.filter_map(|pid| {
        let comm = scene.host.read_text(&format!("proc/{pid}/comm")).ok()?;
        if thread_name(&comm) != "rxlab" {
            return None;
        }
        let line = scene.host.read_text(&format!("proc/{pid}/cmdline")).ok()?;
        let words: Vec<&str> = line.split('\0').collect();
        let verb = words.iter().find(|word| VERBS.contains(word))?;
        // The transaction's own guard reverts the value, but no sooner than due.
        (!words.contains(&scene.id)).then(|| format!("`rxlab {verb}` is running (pid {pid})"))
    });
    Suspect::of(Culprit::AnotherRxlab, false, evidence.collect())
}

#[cfg(test)]
mod tests {
    use super::super::in_words;
    use super::super::scene::{Case, ID};

    #[test]
    fn one_that_changes_values_and_is_not_this_one() {
        let own_guard = format!("rxlab\0guard\0{ID}\0");
        let case = Case::new("rps eth0/rx-0 = 2")
            .live("3")
            .process(7, "rxlab", "rxlab\0reapply\0")
            .process(8, "rxlab", "rxlab\0--state-dir\0/tmp/x\0trial\0run\0")
            .process(9, "rxlab", "rxlab\0snapshot\0")
            .process(10, "rxlab", &own_guard)
            .process(11, "sh", "sh\0-c\0rxlab apply\0")
            .itself(7);
        assert_eq!(
            in_words(&case.suspects()),
            "possibly another rxlab process: `rxlab trial` is running (pid 8)"
        );
    }
}
