//! What ethtool sets: on veths of the real kernel, and stopped at every operation on composed answers.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rxlab::apply::{BeginInfo, Transaction};
use rxlab::host::{EthtoolGet, FlakyHost, Fuse, Host, LiveHost, Question};
use rxlab::journal::{Disk, FlakyStorage, Store};
use rxlab::knob::find;
use rxlab::lab::Namespace;
use rxlab::model::Model;
use rxlab::parse::ethtool::flow_bytes;
use rxlab::parse::{push_attribute, push_message};
use rxlab::plan::Setting;
use rxlab::sample::{Inventory, Scope};

use crate::require;
use crate::tree::{model, said};

fn setting(text: &str) -> Setting {
    text.parse().expect("a setting")
}

fn read(host: &dyn Host, model: &Model, setting: &Setting) -> String {
    let knob = find(&setting.knob).expect("a knob");
    knob.read(host, model, &setting.target).expect("readable")
}

/// A veth has offloads and queues. What is set is read back from the kernel, and so is what it was.
#[test]
fn a_veth_is_changed_and_changed_back() {
    if !require::netns() {
        return;
    }
    let namespace = Namespace::new().expect("made");
    namespace.ip("link add kv0 numrxqueues 4 numtxqueues 4 type veth peer name kv1").expect("added");
    namespace.ip("link set kv1 up").expect("up");
    namespace.ip("link set kv0 up").expect("up");
    let settings = ["channels kv0 = rx 2 tx 2", "gro kv0 = on", "rx_checksum kv0 = off"].map(setting);
    let host = LiveHost::open_in_namespace(Path::new("/"), &namespace.path()).expect("opened");
    let values = || {
        let model = Model::new(&Inventory::take(&host, Scope::All));
        settings.each_ref().map(|setting| read(&host, &model, setting))
    };
    let before = values();
    assert_eq!(before, ["rx 4 tx 4", "off", "on"]);

    let state = tempfile::tempdir().expect("a temporary directory");
    let rxlab = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rxlab"));
        command.arg("--netns").arg(namespace.path()).arg("--state-dir").arg(state.path()).args(arguments);
        said(&command.output().expect("rxlab runs"))
    };
    let all: Vec<String> = settings.iter().map(Setting::to_string).collect();
    let arguments: Vec<&str> = all.iter().flat_map(|setting| ["--setting", setting]).collect();
    let (code, text) = rxlab(&[&["apply"], &arguments[..]].concat());
    assert_eq!(code, 0, "{text}");
    assert_eq!(values(), settings.each_ref().map(|setting| setting.value.clone()));
    for (refused, why) in [
        ("lro kv0 = on", "kv0 has no lro: the device has no rx-lro"),
        ("ring_rx kv0 = 64", "has no ring_rx on kv0"),
        ("ntuple_rule kv0/rule-1 = tcp4 action 1", "the driver has no flow rules"),
    ] {
        let (code, text) = rxlab(&["apply", "--setting", refused]);
        assert!(code == 3 && text.contains(why), "{refused}: {code}: {text}");
    }
    let (code, text) = rxlab(&["undo"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(values(), before);
}

/// A value for each knob that goes through ethtool and is no number of queues; places and contexts that are
/// there, and those that are not.
const SETTINGS: [&str; 20] = [
    "ring_rx eth0 = 512",
    "ring_tx eth0 = 1024",
    "rss eth0 = weights 1,3",
    "rss_context eth0/context-1 = equal 1",
    "rss_context eth0/context-2 = equal 2",
    "rss_context eth0/context-3 = none",
    "ntuple eth0 = on",
    "ntuple_rule eth0/rule-3 = tcp4 dst-ip 10.0.0.2 dst-port 443 action 1",
    "ntuple_rule eth0/rule-7 = ether dst 02:fc:00:00:00:01 action 0",
    "ntuple_rule eth0/rule-8 = none",
    "adaptive_rx eth0 = off",
    "adaptive_tx eth0 = off",
    "rx_usecs eth0 = 50",
    "rx_frames eth0 = 64",
    "tx_usecs eth0 = 60",
    "tx_frames eth0 = 32",
    "gro eth0 = off",
    "lro eth0 = on",
    "rx_checksum eth0 = off",
    "rss eth0 = default",
];

fn message(attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut message = Vec::new();
    attributes.iter().for_each(|(kind, value)| push_attribute(&mut message, *kind, value));
    message
}

fn answer(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut answer = Vec::new();
    messages.iter().for_each(|message| push_message(&mut answer, message));
    answer
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn bits(names: &[&str]) -> Vec<u8> {
    let bit = |name: &&str| message(&[(2, format!("{name}\0").as_bytes()), (3, &[])]);
    let bits: Vec<Vec<u8>> = names.iter().map(bit).collect();
    let bits: Vec<(u16, &[u8])> = bits.iter().map(|bit| (1, &bit[..])).collect();
    message(&[(3, &message(&bits))])
}

/// A directory whose content is in memory where that can be had: the journal syncs hundreds of times.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary directory")
}

/// A machine of answers about one interface, and the journal of what is done to it.
struct Machine {
    directory: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { directory: directory() };
        for (path, bytes) in answers() {
            let path = machine.root().join(path);
            std::fs::create_dir_all(path.parent().expect("a file has a directory")).expect("created");
            std::fs::write(path, bytes).expect("written");
        }
        machine
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    fn host(&self) -> LiveHost {
        LiveHost::open(&self.root()).expect("opened")
    }

    fn store(&self) -> Store {
        Store::new(Disk::new(self.directory.path().join("state")))
    }

    /// Machine and store with `fuse` in every operation.
    fn fused(&self, fuse: &Arc<Fuse>) -> (FlakyHost<LiveHost>, Store) {
        let disk = Disk::new(self.directory.path().join("state"));
        let store = Store::new(FlakyStorage::new(disk, fuse.clone(), None));
        (FlakyHost::new(self.host(), Vec::new(), fuse.clone()), store)
    }
}

/// Composed: no machine at hand has contexts and rules.
fn answers() -> Vec<(String, Vec<u8>)> {
    let (all, on) = (["rx-gro", "rx-lro", "rx-checksum", "rx-ntuple-filter"], ["rx-gro", "rx-checksum"]);
    let [eight, size, most] = [8u32, 256, 4096].map(u32::to_ne_bytes);
    let rule = |location, text| flow_bytes(location, text).expect("a rule");
    let table = |context: u32, queues: &[u32]| message(&[(2, &context.to_ne_bytes()), (4, &numbers(queues))]);
    let answers = [
        (EthtoolGet::Features, answer(&[message(&[(2, &bits(&all)), (4, &bits(&on)), (5, &bits(&[]))])])),
        (EthtoolGet::Rings, answer(&[message(&[(2, &most), (5, &most), (6, &size), (9, &size)])])),
        (
            EthtoolGet::Coalesce,
            answer(&[message(&[(2, &eight), (3, &eight), (6, &eight), (7, &eight), (11, &[1]), (12, &[1])])]),
        ),
        (EthtoolGet::Rss, answer(&[message(&[(4, &numbers(&[0, 1, 0, 1]))])])),
        (EthtoolGet::RssContexts, answer(&[table(1, &[1, 1, 1, 1]), table(3, &[0, 0, 1, 1])])),
        (EthtoolGet::Rules, answer(&[rule(7, "udp4 dst-port 53 action 1"), rule(8, "ip6 action -1")])),
    ];
    let path = |get| Question::Ethtool(get, "eth0".parse().expect("a name")).path();
    answers.into_iter().map(|(get, bytes)| (path(get), bytes)).collect()
}

fn values(host: &dyn Host, model: &Model) -> Vec<String> {
    SETTINGS.iter().map(|text| read(host, model, &setting(text))).collect()
}

/// Applies everything.
fn apply(machine: &Machine, fuse: &Arc<Fuse>) {
    let ((host, store), model, root) = (machine.fused(fuse), model(), machine.root());
    let info = BeginInfo {
        identity: &model.identity,
        root: &root,
        netns: None,
        what: "a test".into(),
        confirm: None,
    };
    let settings: Vec<Setting> = SETTINGS.iter().map(|text| setting(text)).collect();
    let transaction = Transaction::begin(&store, info).expect("begun");
    let applied = transaction.apply(&host, &model, &settings, &AtomicBool::new(false));
    let kept = applied.unwrap_or_else(|failure| panic!("{}", failure.error));
    assert!(kept.iter().all(|kept| kept.changed), "each is another value than before");
}

/// Puts away what never began, and everything else back.
fn undo(machine: &Machine, fuse: &Arc<Fuse>) {
    let ((host, store), root) = (machine.fused(fuse), machine.root());
    let lock = store.lock(Duration::ZERO).expect("nobody holds it");
    store.sweep(&lock, &root.to_string_lossy(), "boot-1").expect("swept");
    drop(lock);
    for id in machine.store().open_ids().expect("listed") {
        let undo = Transaction::resume(&store, &id, Duration::ZERO).expect("resumed").undo(&host, &model());
        assert!(undo.is_clean(), "{undo:?}");
    }
}

/// Ends the work as a crash does, without the noise of a panic.
fn stop() {
    resume_unwind(Box::new("stopped"));
}

#[test]
fn stopped_at_every_operation_everything_goes_back() {
    let never = || Fuse::new(None, || ());
    let original = values(&Machine::new().host(), &model());
    for (work, name) in [(apply as fn(&Machine, &Arc<Fuse>), "apply"), (undo, "undo")] {
        let prepared = || {
            let machine = Machine::new();
            if name == "undo" {
                apply(&machine, &never());
            }
            machine
        };
        let fuse = never();
        work(&prepared(), &fuse);
        let points = fuse.count();
        assert!(points > 100, "only {points} operations seen: the fuse itself is broken");
        for at in 1..=points {
            let machine = prepared();
            let stopped = catch_unwind(AssertUnwindSafe(|| work(&machine, &Fuse::new(Some(at), stop))));
            assert!(stopped.is_err(), "{name}: not stopped at operation {at}");
            undo(&machine, &never());
            let after = values(&machine.host(), &model());
            assert_eq!(after, original, "{name}: stopped at operation {at} of {points}");
            assert_eq!(
                machine.store().open_ids().expect("listed"),
                [""; 0],
                "{name}: {at}: the journal is clean"
            );
        }
        println!("ethtool, {name}: {points} stop points, {points} recovered, 0 lost");
    }
}
