//! A real driver on another kernel: an interface that is renamed and moved, and queues that another program removes
//! and adds back.

use super::guest;
use crate::process::Ended;

#[test]
fn undo_finds_an_interface_again() {
    let job = r#"
echo 3 > /sys/class/net/eth0/queues/rx-1/rps_cpus
ran apply rxlab apply --setting 'rps eth0/rx-0 = 4-7' --setting 'rps eth0/rx-1 = 4-7'
somebody() { RXLAB_RUN_DIR=/tmp/run rxlab --state-dir /tmp/theirs apply --setting "channels eth0 = $1" >&2; }
somebody 1
ran early rxlab undo
somebody 8
part fresh
cat /sys/class/net/eth0/queues/rx-1/rps_cpus
ip link set eth0 down
ip link set eth0 name lan0
unshare -n sleep 300 &
other=$!
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
ip link set lan0 netns $other
part here
ls /sys/class/net
ran undo rxlab undo
ran there rxlab --netns $other show --nic lan0 --json
ran status rxlab status
kill $other
"#;
    let Some(answer) = guest::run("8cpu-8queue", job, None) else { return };
    answer.ran("apply").exits(0);
    let early = answer.ran("early").says(4, "rx-0: back to off");
    assert!(early.contains("the queue does not exist now"), "{early}");
    assert_eq!(answer.part("fresh").trim(), "00", "a recreated queue has no mask");
    assert!(!answer.part("here").contains("lan0"));
    answer.ran("undo").says(0, "rps lan0/rx-1: back to 0-1");
    let mask = |queue: usize| {
        let model = answer.model("there");
        model.nics[0].rx[queue].rps_cpus.known().expect("readable").to_string()
    };
    assert_eq!((mask(0).as_str(), mask(1).as_str()), ("", "0-1"));
    assert_eq!(answer.ran("status"), (0, "nothing is applied\n"));
}
