//! Machines whose interrupts are linked by each source, by several, and by none.

use super::{Others, Polls, attach};
use crate::model::{Contradiction, DeviceAddress, Irq, Model, Nic, NicKind, RxQueue, Source};
use crate::sample::{Inventory, Scope};
use rxlab_base::parse::{Link, NetdevNapi, NetdevQueue};
use rxlab_base::units::{Fact, IrqId, QueueId};
use rxlab_sys::RecordedHost;

/// The same interface with another driver.
fn of_driver(driver: &str, mut inventory: Inventory) -> Inventory {
    let Fact::Known(nics) = &mut inventory.nics else { panic!("read") };
    nics[0].driver = Fact::Known(driver.to_owned());
    inventory
}

/// An interface of igb with this many receive queues, its MSI list 30-39, and these interrupts.
fn inventory(queues: u32, interrupts: &[(u32, &str)]) -> Inventory {
    let mut host = RecordedHost::new()
        .with_link("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/net/eth0")
        .with_link("sys/class/net/eth0/device/driver", "../../../bus/pci/drivers/igb")
        .with("sys/class/net/eth0/ifindex", "4\n");
    for queue in 0..queues {
        host = host.with(&format!("sys/class/net/eth0/queues/rx-{queue}/rps_cpus"), "0\n");
    }
    for irq in 30..40 {
        host = host.with(&format!("sys/bus/pci/devices/0000:00:03.0/msi_irqs/{irq}"), "msix\n");
    }
    let mut table = "  CPU0\n".to_owned();
    for (irq, action) in interrupts {
        table += &format!(" {irq}: 0 PCI-MSIX 0-edge {action}\n");
    }
    Inventory::take(&host.with("proc/interrupts", table), Scope::All)
}

/// The kernel reports that these NAPIs poll these queues, with these interrupts.
fn told(inventory: &mut Inventory, queues: &[(u32, u32)], napis: &[(u32, Option<u32>)]) {
    let queue = |(queue, napi): &(u32, u32)| NetdevQueue {
        ifindex: 4,
        queue: QueueId::rx(*queue),
        napi: Some(*napi),
        held_by: None,
    };
    inventory.queues = Fact::Known(queues.iter().map(queue).collect());
    let napi = |(id, irq): &(u32, Option<u32>)| NetdevNapi {
        id: *id,
        ifindex: 4,
        irq: irq.map(IrqId),
        ..NetdevNapi::default()
    };
    inventory.napis = Fact::Known(napis.iter().map(napi).collect());
}

/// Interrupts of each queue with their source, those of no queue, and contradictions.
type Attached = (Vec<Vec<(u32, Source)>>, Vec<u32>, Vec<Contradiction>);

fn attached(inventory: &Inventory) -> Attached {
    let nic = &inventory.nics.known().expect("read")[0];
    let polls = Polls::new(inventory);
    let count = nic.rx.len();
    let mut rx: Vec<RxQueue> = (0..)
        .take(count)
        .map(|index| RxQueue { index, napi: polls.napi(4, index), ..RxQueue::default() })
        .collect();
    let path = nic.device_path.known().map(String::as_str);
    let irqs = inventory.irqs.known().expect("read");
    let listed = (30..40).chain([50]).map(IrqId).collect();
    let others = Others { listed: &listed, neighbours: None, may_span: false, are_misnamed: false };
    let (others, contradictions) = attach(&mut rx, nic, path, irqs, &others);
    let pair = |irq: &Irq| (irq.number.0, irq.source);
    let by_queue = rx.iter().map(|queue| queue.irqs.iter().map(pair).collect()).collect();
    (by_queue, others.iter().map(|irq| irq.number.0).collect(), contradictions)
}

/// As on Linux 6.18, where the kernel lists NAPIs from the last to the first.
#[test]
fn napis_of_a_veth_are_in_the_order_of_its_queues() {
    let mut inventory = inventory(2, &[]);
    let link = |kind: &str| {
        let eth0 = Link::new(4, "eth0".parse().expect("a name"));
        Fact::Known(vec![Link { kind: Some(kind.to_owned()), ..eth0 }])
    };
    told(&mut inventory, &[], &[(259, None), (258, None)]);
    let queue = |index| NetdevQueue { ifindex: 4, queue: QueueId::rx(index), napi: None, held_by: None };
    inventory.queues = Fact::Known([0, 1].map(queue).to_vec());
    let ids = |inventory: &Inventory| {
        let polls = Polls::new(inventory);
        [0, 1, 2].map(|queue| polls.napi(4, queue).map(|napi| napi.id))
    };
    inventory.links = link("veth");
    assert_eq!(ids(&inventory), [Some(258), Some(259), None]);
    let one =
        Inventory { napis: inventory.napis.clone().map(|napis| napis[..1].to_vec()), ..inventory.clone() };
    assert_eq!(ids(&one), [None; 3], "one of them is missing");
    inventory.links = link("bond");
    assert_eq!(ids(&inventory), [None; 3]);
}

#[test]
fn a_name_counts_only_without_an_msi_list() {
    let interrupts = [(30, "eth0-TxRx-0"), (41, "eth0-TxRx-1"), (42, "eth1-TxRx-0")];
    assert_eq!(
        attached(&inventory(2, &interrupts)),
        (vec![vec![(30, Source::MsiName)], vec![]], vec![], vec![])
    );
    // In no list: the name of the interface in a form of its driver, once for each queue.
    let named = |more: &[(u32, &str)]| {
        attached(&inventory(2, &[&[(40, "eth0-TxRx-0"), (41, "eth0-TxRx-1")], more].concat()))
    };
    assert_eq!(named(&[]).0, [[(40, Source::Name)], [(41, Source::Name)]]);
    assert_eq!(named(&[(43, "eth0-TxRx-1")]).0, [vec![(40, Source::Name)], vec![]], "which of the two");
}

#[test]
fn the_kernel_is_believed_and_the_name_reported() {
    let mut inventory = inventory(2, &[(30, "eth0-TxRx-0"), (31, "eth0-TxRx-1"), (32, "eth0-TxRx-2")]);
    told(&mut inventory, &[(0, 7), (1, 8)], &[(7, Some(30)), (8, Some(32))]);
    let (queues, others, contradictions) = attached(&inventory);
    assert_eq!(queues, [[(30, Source::Netlink)], [(32, Source::Netlink)]]);
    assert_eq!(others, [31]);
    let expected = Contradiction {
        queue: QueueId::rx(1),
        what: "IRQ".to_owned(),
        believed: "netlink: 32".to_owned(),
        other: "name eth0-TxRx-1: 31".to_owned(),
    };
    assert_eq!(contradictions, [expected]);
}

#[test]
fn one_interrupt_of_several_queues() {
    let mut shared = inventory(2, &[(30, "driver-vector-0")]);
    told(&mut shared, &[(0, 7), (1, 7)], &[(7, Some(30))]);
    assert_eq!(attached(&shared), (vec![vec![(30, Source::Netlink)]; 2], vec![], vec![]));
    // A device with one vector: it serves all of its queues.
    let legacy = inventory(2, &[(30, "eth0")]);
    assert_eq!(attached(&legacy), (vec![vec![(30, Source::Only)]; 2], vec![], vec![]));
}

/// The numbers of mlx4 are those of no queue: the other interrupt was taken for the only one.
#[test]
fn a_name_that_says_nothing_may_be_that_of_a_queue() {
    let actions = [(30, "mlx4-1@0000:00:03.0"), (31, "mlx4-async@pci:0000:00:03.0")];
    let (queues, others, _) = attached(&of_driver("mlx4_core", inventory(1, &actions)));
    assert_eq!((queues, others), (vec![vec![]], vec![30, 31]));
}

/// Numbers in the names mean nothing, the order means nothing: 24 queues, no link.
#[test]
fn a_driver_without_a_row_is_unknown() {
    let actions = [(30, "eth0-TxRx-0"), (31, "eth0-TxRx-1")];
    let unknown = attached(&of_driver("no-such-driver", inventory(2, &actions)));
    assert_eq!(unknown, (vec![vec![]; 2], vec![30, 31], vec![]));
}

#[test]
fn numbers_that_count_vectors() {
    let numbers = |driver: &str, queues, interrupts: &[(u32, &str)]| {
        let (queues, ..) = attached(&of_driver(driver, inventory(queues, interrupts)));
        queues.iter().flatten().map(|(number, _)| *number).collect::<Vec<_>>()
    };
    let by_two = [(30, "hns3-0000:00:03.0-TxRx-0"), (31, "hns3-0000:00:03.0-TxRx-2")];
    assert_eq!(numbers("hns3", 2, &by_two), [30, 31]);
    let behind = [(30, "eth0-tx-0"), (31, "eth0-tx-1"), (32, "eth0-rx-2"), (33, "eth0-rx-3")];
    assert_eq!(numbers("vmxnet3", 2, &behind), [32, 33]);
    let from_one = [
        (30, "mlx5_async0@pci:0000:00:03.0"),
        (31, "mlx5_comp1@pci:0000:00:03.0"),
        (32, "mlx5_comp2@pci:0000:00:03.0"),
    ];
    assert_eq!(numbers("mlx5_core", 2, &from_one), [31, 32]);
    assert_eq!(numbers("ice", 4, &[(30, "ice-eth0-TxRx-0-1"), (31, "ice-eth0-TxRx-2-3")]), [30, 30, 31, 31]);
}

#[test]
fn one_interrupt_for_every_queue() {
    let of = |driver: &str, interrupts: &[(u32, &str)]| {
        let (queues, ..) = attached(&of_driver(driver, inventory(2, interrupts)));
        queues.iter().map(|irqs| irqs.iter().map(|irq| irq.0).collect()).collect::<Vec<Vec<u32>>>()
    };
    let virtio = [(30, "virtio0-config"), (31, "virtio0-virtqueues")];
    assert_eq!(of("virtio_net", &virtio), [[31], [31]]);
    let gianfar = [(30, "eth0_g0_tx"), (31, "eth0_g0_rx"), (32, "eth0_g0_er"), (33, "eth0_g1_rx")];
    assert_eq!(of("fsl-gianfar", &gianfar[..3]), [[31], [31]]);
    // Two groups: the name does not say which queue is in which.
    assert_eq!(of("fsl-gianfar", &gianfar), [[0; 0]; 2]);
}

/// hns has room for 15 characters: that of queue 10 ends like that of queue 1.
#[test]
fn numbers_that_were_cut_off_mean_nothing() {
    let names: Vec<String> =
        (0..12).map(|rx| format!("enahisic2i0-rx{rx}").chars().take(15).collect()).collect();
    let interrupts: Vec<(u32, &str)> = (28..).zip(names.iter().map(String::as_str)).collect();
    let (queues, ..) = attached(&of_driver("hns-nic", inventory(12, &interrupts[2..])));
    let linked: Vec<usize> = (0..12).filter(|at| !queues[*at].is_empty()).collect();
    assert_eq!(linked, (2..10).collect::<Vec<usize>>());
    let cut = [(30, "eth0-TxRx-1"), (31, "eth0-TxRx-2"), (32, "eth0-TxRx-1")];
    let (queues, ..) = attached(&of_driver("ixgbe", inventory(2, &cut)));
    assert_eq!(queues, [vec![], vec![]]);
}

/// mlx5_core with one interface over two functions, of which the other one has no interface. Kernels that can do so say
/// which interrupt is whose; this one is not asked.
#[test]
fn an_interface_over_two_functions() {
    let linked = |kernel: &str, queues, interrupts: &[(u32, &str)]| {
        let mut inventory = of_driver("mlx5_core", inventory(queues, interrupts));
        inventory.identity.kernel = kernel.to_owned();
        let model = Model::new(&inventory);
        model.nics[0].rx.iter().flat_map(|rx| &rx.irqs).map(|irq| irq.number.0).collect::<Vec<_>>()
    };
    let own = [(30, "mlx5_comp0@pci:0000:00:03.0"), (31, "mlx5_comp1@pci:0000:00:03.0")];
    let other = [(40, "mlx5_comp0@pci:0000:41:00.0"), (41, "mlx5_comp1@pci:0000:41:00.0")];
    let both = [own, other].concat();
    assert_eq!(linked("6.12.0", 2, &own), [30, 31]);
    assert_eq!(linked("6.12.0", 2, &both), [0; 0], "comp1 may be that of queue 2");
    assert_eq!(linked("6.8.0-45-generic", 2, &both), [30, 31], "no kernel of the time could");
    assert_eq!(linked("6.8.0-45-generic", 4, &both), [0; 0], "a driver of the vendor: two are elsewhere");
}

/// Two interfaces of one function, whose interrupts have the names of neither.
#[test]
fn interrupts_of_a_function_with_several_interfaces() {
    let of = |driver: &str, actions: [(u32, &str); 2]| {
        let inventory = of_driver(driver, inventory(2, &actions));
        let nic = &inventory.nics.known().expect("read")[0];
        let (listed, ports) = (Default::default(), ["eth0", "eth1"].into());
        let others =
            Others { listed: &listed, neighbours: Some(&ports), may_span: false, are_misnamed: false };
        let path = nic.device_path.known().map(String::as_str);
        let mut rx = nic.rx.clone();
        attach(&mut rx, nic, path, inventory.irqs.known().expect("read"), &others);
        rx.iter().map(|queue| queue.irqs.len()).collect::<Vec<_>>()
    };
    let of_ports = [(30, "LiquidIO0-pf0-rxtx-0"), (31, "LiquidIO0-pf0-rxtx-1")];
    assert_eq!(of("LiquidIO", of_ports), [0, 0]);
    assert_eq!(of("mana", [(30, "mana_q0@pci:0000:00:03.0"), (31, "mana_q1@pci:0000:00:03.0")]), [1, 1]);
    assert_eq!(of("cxgb3", [(30, "eth0-4"), (31, "eth0-5")]), [1, 1]);
}

/// On the host, a guest's interface receives what the guest sends.
#[test]
fn the_two_ends_of_xen() {
    let linked = |device: &str, nic: &str| {
        let base = format!("sys/class/net/{nic}");
        let table = format!("  CPU0\n 30: 0 xen-dyn -event {nic}-q0-tx\n 31: 0 xen-dyn -event {nic}-q0-rx\n");
        let host = RecordedHost::new()
            .with_link(&base, &format!("../../devices/{device}/net/{nic}"))
            .with_link(&format!("{base}/device/driver"), "../../../bus/xen/drivers/vif")
            .with(&format!("{base}/queues/rx-0/rps_cpus"), "0\n")
            .with("proc/interrupts", table);
        let nic = Model::new(&Inventory::take(&host, Scope::All)).nics.remove(0);
        (nic.driver.clone(), nic.rx[0].irqs[0].number.0, nic.tx_irqs(0).next().map(|irq| irq.number.0))
    };
    assert_eq!(linked("vif-0", "eth0"), (Some("vif".to_owned()), 31, Some(30)));
    assert_eq!(linked("vif-1-0", "vif1.0"), (Some("xen-netback".to_owned()), 30, Some(31)));
}

/// Two ports of one function: each has the interrupts of its name.
#[test]
fn interrupts_of_a_neighbour_are_not_its_own() {
    let inventory = of_driver("cxgb4", inventory(1, &[(30, "eth0-Rx0"), (31, "eth1-Rx0")]));
    let nic = &inventory.nics.known().expect("read")[0];
    let (listed, ports) = (Default::default(), ["eth0", "eth1"].into());
    let mut rx = nic.rx.clone();
    let others = Others { listed: &listed, neighbours: Some(&ports), may_span: false, are_misnamed: false };
    let (others, _) = attach(
        &mut rx,
        nic,
        nic.device_path.known().map(String::as_str),
        inventory.irqs.known().expect("read"),
        &others,
    );
    assert_eq!((rx[0].irqs[0].number, others.len()), (IrqId(30), 0));
}

#[test]
fn a_kernel_that_knows_no_interrupt_leaves_it_to_the_name() {
    let interrupts = [(30, "eth0-TxRx-0"), (31, "eth0")];
    for irq in [None, Some(39)] {
        let mut inventory = inventory(1, &interrupts);
        told(&mut inventory, &[(0, 7)], &[(7, irq)]);
        assert_eq!(attached(&inventory), (vec![vec![(30, Source::MsiName)]], vec![31], vec![]));
    }
}

#[test]
fn the_second_half_of_the_blocks_receives() {
    let names: Vec<String> = (0..8).map(|block| format!("gve-ntfy-blk{block}@pci:0000:00:03.0")).collect();
    let mut interrupts: Vec<(u32, &str)> = (30..).zip(names.iter().map(String::as_str)).collect();
    interrupts.push((38, "gve-mgmnt@pci:0000:00:03.0"));
    // Four blocks each way, of which two are in use.
    let (queues, others, _) = attached(&of_driver("gve", inventory(2, &interrupts)));
    assert_eq!(queues, [[(34, Source::MsiName)], [(35, Source::MsiName)]]);
    assert_eq!(others, [30, 31, 32, 33, 36, 37, 38]);
    // A table that ends early, or lacks a block in the middle.
    for rest in [&interrupts[..2], &interrupts[..5], &[&interrupts[..3], &interrupts[4..]].concat()] {
        let (queues, ..) = attached(&of_driver("gve", inventory(2, rest)));
        assert_eq!(queues, [vec![], vec![]], "{rest:?}");
    }
}

#[test]
fn interrupts_of_one_name_are_in_the_order_of_the_queues() {
    let bare = [(32, "eth0"), (33, "eth0"), (35, "eth0")];
    let of = |driver: &str, queues, interrupts: &[(u32, &str)]| {
        let (queues, others, _) = attached(&of_driver(driver, inventory(queues, interrupts)));
        let numbers = |irqs: &Vec<(u32, Source)>| irqs.iter().map(|(number, _)| *number).collect();
        (queues.iter().map(numbers).collect::<Vec<Vec<u32>>>(), others)
    };
    // The last is the link's.
    assert_eq!(of("atlantic", 2, &bare), (vec![vec![32], vec![33]], vec![35]));
    assert_eq!(of("atlantic", 4, &bare), (vec![vec![]; 4], vec![32, 33, 35]));
    assert_eq!(of("atlantic", 1, &bare[..1]), (vec![vec![32]], vec![]));
    assert_eq!(of("mtk_soc_eth", 1, &bare[..2]), (vec![vec![33]], vec![32]));
    assert_eq!(of("mtk_soc_eth", 1, &bare), (vec![vec![]], vec![32, 33, 35]));
    // Of other drivers, each interrupt may be that of any queue.
    assert_eq!(of("bcmgenet", 2, &bare[..2]), (vec![vec![]; 2], vec![32, 33]));
}

/// The former eth0 has another name: its interrupts still carry the old one.
#[test]
fn an_interrupt_in_another_device_s_list_is_that_one_s() {
    let (queues, others, _) = attached(&inventory(1, &[(50, "eth0-TxRx-0"), (31, "x-TxRx-0")]));
    assert_eq!((queues, others), (vec![vec![(31, Source::MsiName)]], vec![]));
}

/// i40e with two vectors for four queues: the number is the vector's.
#[test]
fn fewer_vectors_than_queues_are_linked_to_none() {
    let actions = [(31, "i40e-eth0-TxRx-0"), (32, "i40e-eth0-TxRx-1")];
    let with = |queues| attached(&of_driver("i40e", inventory(queues, &actions)));
    let (queues, others, contradictions) = with(4);
    assert!(queues.iter().all(Vec::is_empty), "{queues:?}");
    assert_eq!((others, contradictions.len()), (vec![31, 32], 0));
    assert_eq!(with(2).0[1], [(32, Source::MsiName)]);
}

/// A virtio device with four pairs of queues, of which two are in use.
#[test]
fn each_interrupt_has_one_place() {
    let mut nic = Nic::new("eth0".parse().expect("a name"), DeviceAddress("pci:0".into()), NicKind::Device);
    nic.driver = Some("virtio_net".to_owned());
    nic.rx = (0..2).map(|index| RxQueue { index, ..RxQueue::default() }).collect();
    let actions = [
        "virtio0-config",
        "virtio0-output.0",
        "virtio0-output.1",
        "virtio0-input.2",
        "virtio0-output.2",
        "virtio0-input.3",
        "virtio0-output.3",
    ];
    let irq = |action: &str| Irq { action: action.to_owned(), ..Irq::default() };
    nic.other_irqs = actions.map(irq).into();
    let names = |irqs: Vec<&Irq>| irqs.iter().map(|irq| irq.action.clone()).collect::<Vec<_>>();
    assert_eq!(names(nic.tx_irqs(1).collect()), ["virtio0-output.1"]);
    assert_eq!(names(nic.queueless_irqs().collect()), ["virtio0-config"]);
}

/// gianfar copies the names of its interfaces when it finds the devices (gfar_probe).
#[test]
fn names_that_interfaces_had_when_they_were_found() {
    let links = |names: [&str; 2], actions: &[&str]| {
        let nic = |host: RecordedHost, (at, name): (usize, &str)| {
            let base = format!("sys/class/net/{name}");
            host.with_link(&base, &format!("../../devices/platform/ffe2{at}000.ethernet/net/{name}"))
                .with_link(&format!("{base}/device/driver"), "../../bus/platform/drivers/fsl-gianfar")
                .with(&format!("{base}/ifindex"), format!("{}\n", at + 2))
                .with(&format!("{base}/operstate"), "up\n")
                .with(&format!("{base}/queues/rx-0/rps_cpus"), "0\n")
        };
        let host = names.into_iter().enumerate().fold(RecordedHost::new(), nic);
        let line = |(irq, action): (usize, &&str)| format!(" {irq}: 0 OpenPIC {irq} Level {action}\n");
        let lines: String = (30..).zip(actions).map(line).collect();
        let model = Model::new(&Inventory::take(
            &host.with("proc/interrupts", "  CPU0\n".to_owned() + &lines),
            Scope::All,
        ));
        let irqs = |name: &&str| {
            let nic = model.nics.iter().find(|nic| nic.name.as_str() == *name).expect("there");
            nic.rx[0].irqs.first().map(|irq| irq.number.0)
        };
        names.map(|name| irqs(&name))
    };
    assert_eq!(links(["eth0", "eth1"], &["eth0_g0_rx", "eth1_g0_rx"]), [Some(30), Some(31)]);
    assert_eq!(links(["eth1", "eth0"], &["eth0_g0_rx", "eth1_g0_rx"]), [None; 2], "swapped");
    assert_eq!(links(["eth1", "eth2"], &["eth0_g0_rx", "eth1_g0_rx"]), [None; 2], "no interface is eth0");
    assert_eq!(links(["eth0", "eth9"], &["eth0_g0_rx"]), [None; 2], "eth9 is up");
}

/// Odroid XU4: its NIC is on usb6, and the interrupt of that host is called xhci-hcd:usb5.
#[test]
fn a_usb_host_names_its_interrupt_by_its_first_bus() {
    let irqs = |buses: &[&str]| {
        let folder = "devices/platform/soc/xhci-hcd.9.auto";
        let mut host = RecordedHost::new()
            .with_link("sys/class/net/eth0", &format!("../../{folder}/usb6/6-1/6-1:1.0/net/eth0"))
            .with("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n")
            .with(
                "proc/interrupts",
                "  CPU0\n 134: 0 GICv2 104 Level xhci-hcd:usb3\n 135: 0 GICv2 105 Level xhci-hcd:usb5\n",
            );
        for bus in buses {
            host = host.with(&format!("sys/{folder}/{bus}/speed"), "480\n");
        }
        let model = Model::new(&Inventory::take(&host, Scope::All));
        model.nics[0].rx[0].irqs.iter().map(|irq| (irq.number.0, irq.source)).collect::<Vec<_>>()
    };
    assert_eq!(irqs(&["usb5", "usb6"]), [(135, Source::Only)]);
    assert_eq!(irqs(&[]), [], "which buses the host has is not known");
}
