//! Ethtool settings of veths on the real kernel.

use rxlab::lab::Namespace;
use rxlab_change::knob::find;
use rxlab_path::model::Model;
use rxlab_path::sample::Scope;
use rxlab_setting::Setting;
use rxlab_sys::Host;

use crate::lab::host_in;
use crate::process::{Ended, rxlab};
use crate::require;
use crate::settings::setting;
use crate::tree::look;

fn read(host: &dyn Host, model: &Model, setting: &Setting) -> String {
    let knob = find(&setting.knob).expect("a knob");
    knob.read(knob.site(host, model, &setting.target)).expect("readable")
}

/// A veth has offloads and queues. The new value is read back from the kernel, and so is the original.
#[test]
fn a_veth_is_changed_and_changed_back() {
    require::needs!(netns);
    let namespace = Namespace::new().expect("made");
    namespace.ip("link add kv0 numrxqueues 4 numtxqueues 4 type veth peer name kv1").expect("added");
    namespace.ip("link set kv1 up").expect("up");
    namespace.ip("link set kv0 up").expect("up");
    let settings =
        ["channels kv0 = rx 2 tx 2", "gro kv0 = on", "rx_checksum kv0 = off", "udp_gro_forwarding kv0 = on"]
            .map(setting);
    let host = host_in(&namespace);
    let values = || {
        let model = look(&host, Scope::All);
        settings.each_ref().map(|setting| read(&host, &model, setting))
    };
    let before = values();
    assert_eq!(before, ["rx 4 tx 4", "off", "on", "off"]);

    let state = tempfile::tempdir().expect("a temporary directory");
    let rxlab = |args: &[&str]| rxlab(state.path(), args).arg("--netns").arg(namespace.path()).said();
    let all: Vec<String> = settings.iter().map(Setting::to_string).collect();
    let arguments: Vec<&str> = all.iter().flat_map(|setting| ["--setting", setting]).collect();
    rxlab(&[&["apply"], &arguments[..]].concat()).exits(0);
    assert_eq!(values(), settings.each_ref().map(|setting| setting.value.clone()));
    for (refused, why) in [
        ("gro_hw kv0 = on", "kv0 has no gro_hw: the device has no rx-gro-hw"),
        ("lro kv0 = on", "kv0 has no lro: the device has no rx-lro"),
        ("ring_rx kv0 = 64", "does not support ring_rx on kv0"),
        ("ntuple_rule kv0/rule-1 = tcp4 action 1", "the driver does not support flow rules"),
    ] {
        rxlab(&["apply", "--setting", refused]).says(3, why);
    }
    rxlab(&["undo"]).exits(0);
    assert_eq!(values(), before);
}
