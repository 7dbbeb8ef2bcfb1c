//! The surroundings of an interface, on the real kernel: bridges, the namespace at the other end of a veth pair, and
//! listeners.

use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rxlab::lab::{Namespace, Range};
use rxlab_base::units::NicName;
use rxlab_load::servers::{Spec, Target};
use rxlab_path::model::{Fact, Model, NicKind, Peer, Transport};
use rxlab_path::sample::{Inventory, Scope};
use rxlab_sys::LiveHost;

use crate::lab::{host_in, inside, range};
use crate::process::{Running, wait_for};
use crate::{quiet, require};

fn look(namespace: &Namespace) -> Model {
    crate::tree::look(&host_in(namespace), Scope::All)
}

fn name(text: &str) -> NicName {
    text.parse().expect("a name")
}

#[test]
fn the_other_end_of_a_veth_pair_is_found_in_its_namespace() {
    let Some(range) = range(1) else { return };
    let stack = || look(&range.server).nic(&Range::server_nic()).expect("there").stack.clone();
    // The peer exists even if no process runs in its namespace.
    let Some(Peer { ifindex, nic: None, namespace: None }) = stack().peer else {
        panic!("{:?}", stack());
    };
    assert_eq!(stack().kind.as_deref(), Some("veth"));
    assert!(stack().lower.is_empty() && stack().physical.is_empty());

    let _inhabitant = Running::start(inside(&range.client, "sleep").arg("600"));
    // Waits until nsenter has executed it.
    let sleeps = |model: &Model| {
        let namespaces = model.namespaces.known();
        namespaces.is_some_and(|seen| seen.iter().any(|namespace| namespace.command == "sleep"))
    };
    wait_for("a process in the client's namespace", || sleeps(&look(&range.server)));
    let model = look(&range.server);
    let peer = model.nics.iter().find_map(|nic| nic.stack.peer.clone()).expect("a peer");
    let namespaces = model.namespaces.known().expect("some were seen");
    let client = &namespaces[peer.namespace.expect("known")];
    assert_eq!((client.command.as_str(), client.container.as_ref()), ("sleep", None));
    assert_eq!(client.inode, std::fs::metadata(range.client.path()).expect("there").ino());
    assert_eq!(peer.ifindex, ifindex);
    // From the client's side, the ifindex of the peer belongs to the server.
    let back = look(&range.client);
    assert_eq!(back.nic(&name("cli0")).expect("there").stack.peer.as_ref().expect("a peer").nic, None);
    // Other namespaces are those that differ from the namespace sampled, so ours is among them.
    let own = std::fs::metadata("/proc/self/ns/net").expect("there").ino();
    assert!(namespaces.iter().any(|namespace| namespace.inode == own));
    let server = std::fs::metadata(range.server.path()).expect("there").ino();
    assert!(namespaces.iter().all(|namespace| namespace.inode != server));
}

#[test]
fn both_ends_in_one_namespace_with_a_bridge() {
    require::needs!(netns);
    let namespace = Namespace::new().expect("made");
    namespace.ip("link add left0 type veth peer name right0").expect("made");
    namespace.ip("link add br0 type bridge").expect("made");
    namespace.ip("link set left0 master br0").expect("set");
    namespace.ip("link add mac0 link right0 type macvlan").expect("made");
    let model = look(&namespace);
    let stack = |text: &str| model.nic(&name(text)).expect("there").stack.clone();
    let peer = stack("left0").peer.expect("a peer");
    assert_eq!((peer.nic, peer.namespace), (Some(name("right0")), None));
    assert_eq!(stack("right0").peer.and_then(|peer| peer.nic), Some(name("left0")));
    assert_eq!(stack("left0").upper, [name("br0")]);
    assert!(stack("left0").lower.is_empty());
    assert_eq!((stack("mac0").lower, stack("right0").upper), (vec![name("right0")], vec![name("mac0")]));
    let bridge = stack("br0");
    assert_eq!((bridge.kind.as_deref(), bridge.lower), (Some("bridge"), vec![name("left0")]));
    assert!(bridge.physical.is_empty() && bridge.peer.is_none());
    assert!(model.nics.iter().all(|nic| nic.kind != NicKind::Device));
}

#[test]
fn a_listener_s_owner_is_this_process() {
    let Some(range) = range(1) else { return };
    let [http, udp_sink] = [9080, 9000].map(|port| Some((Range::SERVER, port).into()));
    let target = Spec { http, udp_sink, netns: Some(range.server.path()), ..Spec::default() };
    let _target = Target::start(&target).expect("started");
    let model = look(&range.server);
    let listeners = model.listeners.known().expect("known");
    let shown: Vec<_> = listeners.iter().map(|l| (l.transport, l.address, l.port)).collect();
    let address = IpAddr::V4(Range::SERVER);
    assert_eq!(shown, [(Transport::Tcp, address, 9080), (Transport::Udp, address, 9000)]);
    for listener in listeners {
        let owners = listener.owners.known().expect("known");
        let [owner] = owners.as_slice() else { panic!("{owners:?}") };
        assert_eq!(owner.pid, std::process::id());
        let comm = std::fs::read_to_string("/proc/self/comm").expect("readable");
        assert_eq!(owner.command, comm.trim_end());
        assert_eq!(owner.container, None);
        let (allowed, ran_on) = (owner.allowed.known().expect("known"), owner.ran_on.known().expect("known"));
        assert!(!allowed.is_empty() && !ran_on.is_empty());
        assert!(ran_on.difference(&model.online()).is_empty(), "{ran_on}");
    }
    // Our own namespace has other sockets.
    let host = LiveHost::open(Path::new("/")).expect("opened");
    let inventory = Inventory::take(&host, Scope::All);
    let sockets = &inventory.listeners.known().expect("known").sockets;
    assert!(sockets.iter().all(|socket| socket.address != address));
    let held = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
    let port = held.local_addr().expect("bound").port();
    // A process that another test starts has a copy of the socket until it runs its program.
    wait_for("this process as the only owner", || {
        let model = crate::tree::look(&host, Scope::All);
        let own = model.listeners.known().expect("known").iter().find(|listener| listener.port == port);
        let owners = own.expect("it listens").owners.known().expect("known");
        owners.iter().map(|owner| owner.pid).eq([std::process::id()])
    });
}

/// A sysfs mount for another namespace has no control groups below it.
#[test]
fn machine_wide_settings_are_shown_in_every_namespace() {
    require::needs!(netns);
    let _settings = quiet::settings();
    let host = LiveHost::open(Path::new("/")).expect("opened");
    let here = Inventory::take(&host, Scope::All).settings;
    assert!(matches!(here.netdev_budget, Fact::Known(1..)));
    assert_eq!(look(&Namespace::new().expect("made")).settings, here);
}
