//! Two nodes with a NIC each, and every knob on them.

use std::collections::BTreeMap;

use rxlab_base::units::{CpuId, CpuMask, NicName};
use rxlab_path::model::Model;

use super::guest::{self, Answer};
use super::interrupts::{Path, are_where_shown, irq};
use crate::process::Ended;

/// Four queues on node 0, each of which sends for four CPUs, and one on node 1.
const PATHS: [Path; 5] = [
    Path { nic: 0, queue: 0, cpu: 0 },
    Path { nic: 0, queue: 1, cpu: 5 },
    Path { nic: 0, queue: 2, cpu: 10 },
    Path { nic: 0, queue: 3, cpu: 15 },
    Path { nic: 1, queue: 0, cpu: 8 },
];

/// A plan with every knob, and the values it must leave: file, content.
const PLAN: &str = r#"
[[setting]]
set = "irq_affinity eth1/rx-0 = 9"
[[setting]]
set = "irq_affinity eth0/rx-2 = 3"
[[setting]]
set = "rps eth1/rx-0 = 8,10-15"
[[setting]]
set = "rps eth0/rx-1 = 0-3"
[[setting]]
set = "rfs_entries host = 30000"
[[setting]]
set = "rfs eth1/rx-0 = 30000"
"#;

/// Every file that a knob writes, on the whole machine, before, with and after the plan.
const KNOBS: &str = r"
values() {
    for file in /proc/irq/*/smp_affinity /sys/class/net/eth*/queues/rx-*/rps_* \
        /proc/sys/net/core/rps_sock_flow_entries; do
        echo $file $(cat $file)
    done
}
ran values values
ran apply rxlab apply plan.toml
ran applied values
ran status rxlab status
ran 'applied show' rxlab show --json
pings 1 8 20
counts before
pings 1 8 200
counts after
ran undo rxlab undo
ran undone values
ran 'undone status' rxlab status
";

/// A VLAN on the second NIC, and one on a bond of it.
const STACK: &str = r"
ip link add link eth1 name eth1.7 type vlan id 7
echo +bond0 > /sys/class/net/bonding_masters
ip link set eth1 down
echo +eth1 > /sys/class/net/bond0/bonding/slaves
ip link add link bond0 name bond0.8 type vlan id 8
ran stacked rxlab show --json
ran tree rxlab show --tree
";

fn cpus(list: &str) -> CpuMask {
    list.parse().expect("a CPU list")
}

#[test]
fn both_nics_are_shown_and_changed() {
    let job: String = PATHS.iter().map(|path| path.job()).collect();
    let plan = format!("cat > plan.toml <<'PLAN'{PLAN}PLAN\n");
    // The bonding module creates one when it is loaded.
    let job = [
        "echo -bond0 > /sys/class/net/bonding_masters\n",
        &job,
        "ran show rxlab show --json\n",
        &plan,
        KNOBS,
        STACK,
    ]
    .concat();
    let Some(answer) = guest::run("16cpu-2node", &job, None) else { return };
    let model = answer.model("show");
    nodes_are_shown(&model);
    are_where_shown(&answer, &model, &PATHS);
    the_plan_comes_and_goes(&answer, &model);
    the_stack_is_shown(&answer);
}

fn the_stack_is_shown(answer: &Answer) {
    let model = answer.model("stacked");
    let place = |name: &str| {
        let nic =
            model.nics.iter().find(|nic| nic.name.as_str() == name).unwrap_or_else(|| panic!("no {name}"));
        let names = |names: &[NicName]| names.iter().map(NicName::as_str).collect::<Vec<_>>().join(" ");
        let stack = &nic.stack;
        (
            stack.kind.clone().unwrap_or_default(),
            names(&stack.lower),
            names(&stack.upper),
            names(&stack.physical),
        )
    };
    let is = |kind: &str, lower: &str, upper: &str, physical: &str| {
        (kind.to_owned(), lower.to_owned(), upper.to_owned(), physical.to_owned())
    };
    assert_eq!(place("eth1"), is("", "", "bond0 eth1.7", ""));
    assert_eq!(place("bond0"), is("bond", "eth1", "bond0.8", "eth1"));
    assert_eq!(place("bond0.8"), is("vlan", "bond0", "", "eth1"));
    assert_eq!(place("eth1.7"), is("vlan", "eth1", "", "eth1"));
    answer.ran("tree").says(0, "bond0.8");
}

fn nodes_are_shown(model: &Model) {
    let seen = model.nics.iter().map(|nic| (nic.name.as_str(), nic.node, nic.rx.len())).collect::<Vec<_>>();
    assert_eq!(seen, [("eth0", Some(0), 4), ("eth1", Some(1), 1), ("lo", None, 1)]);
    for (node, list) in [(0, "0-7"), (1, "8-15")] {
        let there: CpuMask =
            model.cpus.iter().filter(|cpu| cpu.node == Some(node)).map(|cpu| cpu.id).collect();
        assert_eq!(there, cpus(list), "node {node}");
    }
    for Path { nic, queue, cpu } in PATHS.iter().filter(|path| path.nic == 0) {
        let sends = model.nics[*nic as usize].tx[*queue].xps_cpus.known().expect("readable");
        let cpu = CpuId(u32::try_from(*cpu).expect("small"));
        assert!(sends.contains(cpu), "or the pings were not sent where this test thinks");
    }
}

fn the_plan_comes_and_goes(answer: &Answer, model: &Model) {
    let values = |part: &str| -> BTreeMap<String, String> {
        let lines = answer.part(part).lines().filter_map(|line| line.split_once(' '));
        lines.map(|(file, value)| (file.to_owned(), value.to_owned())).collect()
    };
    answer.ran("apply").exits(0);
    let affinity = |nic: usize, queue: usize| {
        format!("/proc/irq/{}/smp_affinity", irq(&model.nics[nic].rx[queue]).number)
    };
    let rx = |queue: &str, file: &str| format!("/sys/class/net/{queue}/{file}");
    let mut wanted = values("values");
    assert!(wanted.len() > 20, "{wanted:?}");
    for (file, value) in [
        (affinity(1, 0), "0200"),
        (affinity(0, 2), "0008"),
        (rx("eth1/queues/rx-0", "rps_cpus"), "fd00"),
        (rx("eth0/queues/rx-1", "rps_cpus"), "000f"),
        ("/proc/sys/net/core/rps_sock_flow_entries".to_owned(), "32768"),
        (rx("eth1/queues/rx-0", "rps_flow_cnt"), "32768"),
    ] {
        let before = wanted.insert(file.clone(), value.to_owned());
        assert!(before.is_some_and(|before| before != value), "{file} exists and has another value");
    }
    assert_eq!(values("applied"), wanted);

    let (code, text) = answer.ran("status");
    assert!(code == 0 && text.matches("  kept\n").count() == 6, "{code}: {text}");
    // The interrupt is really delivered there.
    let moved = irq(&model.nics[1].rx[0]);
    let there = answer.interrupts("before", "after").on(moved, 9);
    assert!(there >= 50, "{there} interrupts on CPU 9 of {moved:?}");
    let shown = answer.model("applied show");
    let queue = &shown.nics[1].rx[0];
    assert_eq!(irq(queue).affinity.known(), Some(&cpus("9")));
    assert_eq!(queue.rps_cpus.known(), Some(&cpus("8,10-15")));
    assert_eq!(
        (queue.rps_flow_cnt.known(), shown.rps_sock_flow_entries.known()),
        (Some(&32768), Some(&32768))
    );

    answer.ran("undo").exits(0);
    assert_eq!(values("undone"), values("values"));
    let (code, text) = answer.ran("undone status");
    assert_eq!((code, text.trim()), (0, "nothing is applied"));
}
