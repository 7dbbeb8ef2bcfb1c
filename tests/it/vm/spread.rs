//! 10,000 flows whose source ports `rxlab load --spread-queues` chose, compared with the interrupts of the queue where
//! they should arrive: TCP and UDP over IPv4 and IPv6, to each queue of a device that hashes.

use super::guest;
use super::interrupts::irq;

const QUEUES: usize = 4;

/// Flows to each queue of each kind.
const FLOWS: usize = 625;

/// URL of the guest and address of the peer.
const KINDS: [(&str, &str); 4] = [
    ("udp-sink://10.98.0.2:9000", "10.98.0.1"),
    ("udp-sink://[fd98::2]:9000", "fd98::1"),
    ("http://10.98.0.2:8080/simple", "10.98.0.1"),
    ("http://[fd98::2]:8080/simple", "fd98::1"),
];

/// The guest gives its description to the peer, and counts interrupts when the peer connects before and after each load.
fn job() -> String {
    let counts = |load: usize| {
        format!(
            "nc -l -p {} > /dev/null < /dev/null\ncounts 'before {load}'\n\
             nc -l -p {} > /dev/null < /dev/null\ncounts 'after {load}'\n",
            7100 + load,
            7200 + load
        )
    };
    let loads: String = (0..KINDS.len() * QUEUES).map(counts).collect();
    format!(
        "ran apply rxlab apply --setting 'rss eth0 = weights 1,2,1,3'\n\
         ip -6 addr add fd98::2/64 dev eth0 nodad >&2\n\
         rxlab target --http 10.98.0.2:8080 --http '[fd98::2]:8080' --udp-sink 10.98.0.2:9000 \
             --udp-sink '[fd98::2]:9000' --for 470s > /dev/null 2>&1 &\n\
         ran show rxlab show --nic eth0 --json\n\
         rxlab show --nic eth0 --json > model.json\n\
         nc -l -p 7000 < model.json > /dev/null\n{loads}"
    )
}

fn peer() -> String {
    let rxlab = env!("CARGO_BIN_EXE_rxlab");
    let load = |number: usize| {
        let ((url, source), queue) = (KINDS[number / QUEUES], number % QUEUES);
        format!(
            "meet {}\n'{rxlab}' load '{url}' --flows {FLOWS} --rate {FLOWS} --for 2s --source {source} \
             --spread-queues rx-{queue} --receiver \"$model\" --receiver-nic eth0\nmeet {}\n",
            7100 + number,
            7200 + number
        )
    };
    let loads: String = (0..KINDS.len() * QUEUES).map(load).collect();
    // Only bash connects by itself.
    let script = format!(
        "meet() {{ until (exec 3<>/dev/tcp/10.98.0.2/$1) 2>/dev/null; do sleep 0.2; done; }}\n\
         ip -6 addr add fd98::1/64 dev tap0 nodad\n\
         model=$(mktemp)\n\
         trap 'rm -f \"$model\"' EXIT\n\
         until cat < /dev/tcp/10.98.0.2/7000 > \"$model\" 2>/dev/null && [ -s \"$model\" ]; do sleep 0.2; done\n\
         {loads}"
    );
    format!("exec bash -c '{}'", script.replace('\'', "'\\''"))
}

#[test]
fn flows_arrive_on_the_queue_for_which_they_were_chosen() {
    let Some(answer) = guest::run("4cpu-knobs", &job(), Some(&peer())) else { return };
    let (code, text) = answer.ran("apply");
    assert_eq!(code, 0, "{text}");
    let model = answer.model("show");
    let queues = &model.nics[0].rx;
    assert_eq!(queues.len(), QUEUES);
    for load in 0..KINDS.len() * QUEUES {
        let ((url, _), own) = (KINDS[load / QUEUES], load % QUEUES);
        let counted = answer.interrupts(&format!("before {load}"), &format!("after {load}"));
        let counts: Vec<u64> = queues.iter().map(|queue| counted.all(irq(queue))).collect();
        println!("{url} to rx-{own}: {counts:?}");
        // The connections that begin and end the count arrive on any queue.
        let others = counts.iter().sum::<u64>() - counts[own];
        assert!(counts[own] >= 100 && others <= 10 + counts[own] / 20, "{url} to rx-{own}: {counts:?}");
    }
}
