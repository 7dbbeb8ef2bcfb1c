//! One queue per CPU.

use super::guest;
use super::interrupts::{Path, are_where_shown};

#[test]
fn each_of_eight_queues_is_where_it_is_shown() {
    let paths: Vec<Path> = (0..8).map(|queue| Path { nic: 0, queue, cpu: queue }).collect();
    let job: String = paths.iter().map(|path| path.job()).collect();
    let job = job + "ran show rxlab show --nic eth0 --json\n";
    let Some(answer) = guest::run("8cpu-8queue", &job, None) else { return };
    let model = answer.model("show");
    let nic = &model.nics[0];
    assert_eq!((nic.driver.as_deref(), nic.node), (Some("virtio_net"), None), "on the root bus");
    assert_eq!((model.cpus.len(), nic.rx.len()), (8, 8));
    for (queue, cpu) in nic.tx.iter().zip(0..) {
        let sends = queue.xps_cpus.known().expect("readable").to_string();
        assert_eq!(sends, format!("{cpu}"), "or the pings were not sent where this test thinks");
    }
    are_where_shown(&answer, &model, &paths);
}
