//! Time to flip a safe knob there and back, as a trial does it: read the machine, journal,
//! sync, write, read back. `cargo run --release --example flip [FLIPS]`, 200 by default.
//!
//! The knob is `rps` of a veth pair in namespaces that this program creates, on the running kernel; the
//! journal is in the directory for temporary files. Needs root.

use std::time::{Duration, Instant};

use rxlab::lab::{Range, RangeSpec};
use rxlab_change::apply::{BeginInfo, Transaction};
use rxlab_change::journal::{Disk, Store};
use rxlab_path::model::Model;
use rxlab_path::sample::{Inventory, Scope};
use rxlab_setting::Setting;
use rxlab_sys::LiveHost;

fn main() {
    let flips: usize = std::env::args().nth(1).map_or(200, |text| text.parse().expect("a number"));
    let range = Range::build(&RangeSpec::default()).expect("root");
    let host = LiveHost::open_in_namespace("/".as_ref(), &range.server.path()).expect("it was just made");
    let state = tempfile::tempdir().expect("a temporary directory");
    let store = Store::new(Disk::new(state.path()));
    let look = || Model::new(&Inventory::take(&host, Scope::Path));
    let identity = look().identity;
    let mut transaction = Transaction::begin(&store, BeginInfo::new(&identity)).expect("its own journal");
    let setting: Setting = format!("rps {}/rx-0 = 0", Range::server_nic()).parse().expect("a setting");
    let (mut there, mut back) = (Vec::new(), Vec::new());
    for _ in 0..flips {
        let begin = Instant::now();
        let set = transaction.set(&host, &mut look(), &setting).expect("set");
        assert!(set.changed);
        there.push(begin.elapsed());
        let begin = Instant::now();
        transaction.set_back(&host, &mut look(), &setting.knob, &setting.target).expect("set back");
        back.push(begin.elapsed());
    }
    let undo = transaction.undo(&host, &look());
    assert!(undo.is_clean() && undo.closed, "{:?}", undo.outcomes);
    println!("{setting}, {flips} flips there and back, wall time in ms");
    report("there", there);
    report("back", back);
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e3;
    println!("{name:<6} median {:6.2}  p90 {:6.2}  max {:6.2}", at(50), at(90), at(100));
}
