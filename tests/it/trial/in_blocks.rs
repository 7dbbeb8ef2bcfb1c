//! Trials in blocks: the values of every cell, the order, the way back, and the verdict on planted effects.

use std::path::Path;

use rustix::process::Signal;
use rxlab_stats::design::block;
use rxlab_trial::blocks::{BlocksRecord, Effects, End};
use rxlab_trial::store::TrialDir;

use super::on_the_range::Stage;
use super::{moving_workload, queues};
use crate::process::{Ended, Running, end_guards, mentioning, one_line, wait_for};
use crate::tree::Tree;

const ID: &str = "0001-masks";

fn record(state: &Path, id: &str) -> Option<BlocksRecord> {
    TrialDir::open(state, id).ok()?.blocks().ok()?
}

/// Writes the specification of a factorial trial of two masks whose workload takes `pause` seconds. Returns its path.
fn masks(tree: &Tree, pause: &str) -> String {
    let factors = "[[factor]]\nname = \"first\"\nset = [\"rps eth0/rx-0 = 2-3\"]\n\
         [[factor]]\nname = \"second\"\nset = [\"rps eth0/rx-1 = 3\"]\n";
    specification(tree, pause, factors, "factorial")
}

/// Writes a specification with these tables of factors or arms. The workload takes `pause` seconds, notes the masks of two
/// queues, and prints 100 plus at most 3: 120 with one mask, 90 with both, and 130 with CPU 2 alone. Returns its path.
fn specification(tree: &Tree, pause: &str, tables: &str, kind: &str) -> String {
    let command = moving_workload(
        tree,
        pause,
        "masks=$(cat sys/class/net/eth0/queues/rx-0/rps_cpus),$(cat sys/class/net/eth0/queues/rx-1/rps_cpus)\n\
         echo $masks >> ../seen\n\
         case $masks in\n\
         4,*) echo $((130 + n / 100 % 3)) ;;\n\
         c,8) echo $((90 + n / 100 % 3)) ;;\n\
         c,*|*,8) echo $((120 + n / 100 % 3)) ;;\n\
         *) echo $((100 + n / 100 % 3)) ;;\n\
         esac",
    );
    let text = format!(
        "name = \"masks\"\n\
         {tables}\
         [workload]\ncommand = \"{command}\"\n\
         [design]\nkind = \"{kind}\"\nblocks = 6\nseed = 11\nwashout = \"0s\"\n"
    );
    tree.file("spec.toml", &text)
}

#[test]
fn every_cell_has_its_values_and_an_interaction_replaces_the_main_effects() {
    let tree = Tree::new();
    let spec = masks(&tree, "0");
    let text = tree.rxlab(&["trial", "run", &spec]).exits(0);
    assert!(text.starts_with("factorial trial masks: factors interact\n"), "{text}");
    let words = one_line(&text);
    for part in ["first and second interact", "first without second helps", "first with second hurts"] {
        assert!(words.contains(part), "{part}: {text}");
    }
    assert!(text.contains("the machine is as it was before the trial"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80 || line.starts_with("record: ")), "{text}");
    let record = record(&tree.state(), ID).expect("on disk");
    let cells: Vec<usize> = record.slots.iter().map(|slot| slot.cell).collect();
    let wanted: Vec<usize> = (0..6).flat_map(|number| block(11, number, 4)).collect();
    assert_eq!(cells, wanted, "the order of the seed");
    let masks = ["0,0", "c,0", "0,8", "c,8"];
    let wanted: Vec<&str> = cells.iter().map(|cell| masks[*cell]).collect();
    let seen = std::fs::read_to_string(tree.path().join("seen")).expect("seen");
    assert_eq!(seen.lines().map(|line| line.replace("00", "0")).collect::<Vec<_>>(), wanted);
    assert_eq!(queues(&tree), ["0", "0"]);
    let Some(Effects::Factorial(factorial)) = record.conclusion.expect("concluded").found else {
        panic!("{text}")
    };
    assert!(factorial.main.is_empty() && factorial.simple.len() == 4, "{factorial:?}");

    tree.rxlab(&["trial", "list"]).says_all(0, &[ID, "factors interact"]);
    tree.rxlab(&["history"]).exits(0);
    tree.rxlab(&["trial", "show", ID]).says(0, "as it was");
    let json: serde_json::Value = tree.rxlab(&["--json", "trial", "show", ID]).json(0);
    assert_eq!(json["conclusion"]["end"], "complete");
    tree.rxlab(&["trial", "run", "--keep", &spec]).says(2, "no single change to keep");
}

const ARMS: &str = "[[arm]]\nname = \"both\"\nset = [\"rps eth0/rx-0 = 2-3\"]\n\
     [[arm]]\nname = \"two\"\nset = [\"rps eth0/rx-0 = 2\"]\n\
     [[arm]]\nname = \"three\"\nset = [\"rps eth0/rx-0 = 3\", \"rps eth0/rx-1 = 3\"]\n";

#[test]
fn a_search_confirms_its_winner_and_offers_it() {
    let tree = Tree::new();
    let text = tree.rxlab(&["trial", "run", &specification(&tree, "0", ARMS, "search")]).exits(0);
    assert!(text.starts_with("search masks: the winner helps\n"), "{text}");
    let words = text.split_whitespace().filter(|word| *word != "\\").collect::<Vec<_>>().join(" ");
    assert!(words.contains("two is the best of 3 candidates, ahead of the others by "), "{text}");
    assert!(words.contains(" or more. In 6 fresh blocks: throughput +"), "{text}");
    assert!(words.contains("apply --set 'rps eth0/rx-0 = 2' --confirm 60s"), "{text}");
    assert!(text.contains("the machine is as it was before the trial"), "{text}");
    let record = record(&tree.state(), ID).expect("on disk");
    let Some(Effects::Search(search)) = record.conclusion.expect("concluded").found else { panic!("{text}") };
    assert_eq!((search.winner, search.left.len()), (1, 2));
    // Three candidates and the baseline twice, then two of them, then the winner and the baseline six times.
    let stages = |stage: usize| record.slots.iter().filter(|slot| slot.stage == stage).count();
    assert_eq!([0, 1, 2].map(stages), [8, 9, 12]);
    assert_eq!(queues(&tree), ["0", "0"]);
    tree.rxlab(&["trial", "list"]).says(0, "the winner helps");
}

#[test]
fn a_sweep_shows_where_its_curve_bends() {
    let tree = Tree::new();
    let text = tree.rxlab(&["trial", "run", &specification(&tree, "0", ARMS, "sweep")]).exits(0);
    assert!(text.starts_with("sweep masks: better up to a level\n"), "{text}");
    let words = one_line(&text);
    assert!(words.contains("The last step that helps is that to two"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80 || line.starts_with("record: ")), "{text}");
    let record = record(&tree.state(), ID).expect("on disk");
    let cells: Vec<usize> = record.slots.iter().map(|slot| slot.cell).collect();
    assert_eq!(
        cells,
        (0..6).flat_map(|number| block(11, number, 4)).collect::<Vec<_>>(),
        "the order of the seed"
    );
    assert_eq!(queues(&tree), ["0", "0"]);
}

#[test]
fn a_killed_factorial_trial_is_undone_and_resumed_in_the_same_order() {
    let tree = Tree::new();
    let spec = masks(&tree, "0.1");
    let trial = Running::start(&mut tree.command(&["trial", "run", &spec]));
    wait_for("both masks after a block", || {
        let slots = record(&tree.state(), ID).map_or(0, |record| record.slots.len());
        slots >= 5 && trial.stops_while(|| tree.rps("eth0", 0) == "c")
    });
    end_guards(tree.path());
    trial.signal(Signal::KILL);
    assert_eq!(trial.output().status.code(), None);
    wait_for("the workload's end", || mentioning(&tree.path().join("work.sh")).is_empty());
    assert_eq!(tree.rps("eth0", 0), "c", "not restored yet");
    let before = record(&tree.state(), ID).expect("saved after every slot");
    assert!(before.conclusion.is_none());
    // Otherwise the cell that was set would be taken for the machine as it was.
    tree.rxlab(&["trial", "resume", ID]).says(0, "was left behind by a killed process");
    let after = record(&tree.state(), ID).expect("saved");
    assert_eq!((after.seed, &after.slots[..before.slots.len()]), (11, &before.slots[..]));
    let resumed = before.slots.last().expect("five or more").block + 1;
    let order: Vec<usize> = after.slots[before.slots.len()..].iter().map(|slot| slot.cell).collect();
    let wanted: Vec<usize> = (resumed..).flat_map(|number| block(11, number, 4)).take(order.len()).collect();
    assert_eq!(order, wanted);
    assert_eq!((after.valid().len(), after.conclusion.expect("concluded").end), (6, End::Complete));
    assert_eq!(queues(&tree), ["0", "0"]);
    tree.rxlab(&["trial", "resume", ID]).says(2, "is finished");
}

/// The candidates become the arms of the record, so that a resumed search has the same.
#[test]
fn a_search_makes_its_candidates_from_the_topology() {
    let tree = Tree::new();
    let flags = ["trial", "run", "--search", "rps", "--nic", "eth0", "--live", "--plan-only"];
    let text = tree.rxlab(&flags).says(0, "  design: a search\n");
    assert!(text.contains("  node-6 sets: rps eth0/rx-0 = 0-5; rps eth0/rx-1 = 0-5\n"), "{text}");
    assert!(!text.contains("off sets"), "it is off: {text}");
    tree.rxlab(&["trial", "run", "--search", "queues", "--nic", "veth0", "--live"])
        .says(2, "veth0 does not report its numbers of queues");
    let tables = "[candidates]\nof = \"rps\"\nnic = \"eth0\"\n";
    tree.rxlab(&["trial", "run", &specification(&tree, "0", tables, "search")]).exits(0);
    let record = record(&tree.state(), ID).expect("on disk");
    let names: Vec<&str> = record.settings.iter().map(|named| named.name.as_str()).collect();
    assert!(names.len() >= 4 && names.contains(&"node-6"), "{names:?}");
    assert_eq!(record.conclusion.expect("concluded").end, End::Complete);
    assert_eq!(queues(&tree), ["0", "0"]);
}

/// On the real kernel: the mask moves the packets in the cell of the mask alone, and everything goes back.
#[test]
fn the_cells_of_rps_and_rfs_are_set_on_the_kernel() {
    let Some(stage) = Stage::new("1") else { return };
    let factors = "[[factor]]\nname = \"rps\"\nset = [\"rps srv0/rx-0 = 1\"]\n\
                   [[factor]]\nname = \"rfs\"\nset = [\"rfs srv0/rx-0 = 4096\"]";
    let design = "kind = \"factorial\"\nblocks = 6\nseed = 5";
    let text = stage.sink(factors, design).measures();
    let record = record(&stage.state(), "0001-rps").expect("on disk");
    assert_eq!(record.valid().len(), 6, "{text}");
    for slot in record.slots.iter().filter(|slot| slot.void.is_none() && slot.cell < 2) {
        let moved = slot.net_rx.get(&rxlab_base::units::CpuId(1)).copied().unwrap_or(0.0);
        let all: f64 = slot.net_rx.values().sum();
        assert_eq!(moved > 0.25 * all, slot.cell == 1, "{:?}", slot.net_rx);
    }
    stage.is_restored();
}
