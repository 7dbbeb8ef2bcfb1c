//! Two boots of one machine that share its /etc: settings persisted in the first are applied in the second. The first
//! also applies its values by an exported script, which finds interrupts by name. The state is not below /tmp, where
//! persist refuses it.

use super::guest;
use crate::process::Ended;

const FIRST: &str = r"
export RXLAB_STATE_DIR=/var/state
ran apply rxlab apply --setting 'irq_affinity eth0/rx-1 = 3' --setting 'rps eth0/rx-0 = 4-5' \
    --setting 'rfs_entries host = 4096' --setting 'rfs eth0/rx-0 = 512'
ran persist rxlab persist
part plan
cat /etc/rxlab/plan.toml
part unit
cat /etc/systemd/system/rxlab.service
values() {
    irq=$(sed -n 's/^ *\([0-9]*\):.*virtio0-input.1$/\1/p' /proc/interrupts)
    cat /proc/irq/$irq/smp_affinity_list /sys/class/net/eth0/queues/rx-0/rps_cpus \
        /proc/sys/net/core/rps_sock_flow_entries /sys/class/net/eth0/queues/rx-0/rps_flow_cnt
}
ran export rxlab export --to sh -o /tmp/rxlab.sh
ran undo rxlab undo
part undone
values
ran script sh -eu /tmp/rxlab.sh
part scripted
values
ran silent sh -eu /tmp/rxlab.sh
";

/// The interface has another name now, and the files are unchanged. Runs the commands of the unit.
const SECOND: &str = r#"
export RXLAB_STATE_DIR=/var/state
ip link set eth0 down
ip link set eth0 name lan0
ip link set lan0 up
values() {
    irq=$(sed -n 's/^ *\([0-9]*\):.*virtio0-input.1$/\1/p' /proc/interrupts)
    cat "/proc/irq/$irq/smp_affinity_list" /sys/class/net/lan0/queues/rx-0/rps_cpus \
        /proc/sys/net/core/rps_sock_flow_entries /sys/class/net/lan0/queues/rx-0/rps_flow_cnt
}
part before
values
mkdir -p /var
command=$(sed -n 's/^ExecStart=//p' /etc/systemd/system/rxlab.service)
echo 'quiet rxlab=off' >/var/cmdline
mount -o bind /var/cmdline /proc/cmdline
ran off $command
part off-values
values
umount /proc/cmdline
ran start $command
part after
values
ran again $command
ran undo rxlab undo
part undone
values
ran unpersist rxlab unpersist
part left
find /etc -name '*rxlab*'
"#;

#[test]
fn a_boot_restores_persisted_settings() {
    let Some(first) = guest::run("8cpu-8queue", FIRST, None) else { return };
    for name in ["apply", "persist"] {
        first.ran(name).exits(0);
    }
    let values = |answer: &guest::Answer, name: &str| {
        answer.part(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(values(&first, "undone")[1..] == ["00", "0", "0"], "{}", first.part("undone"));
    let (code, text) = first.ran("script");
    assert!(code == 0 && text.lines().all(|line| line.ends_with(": set")), "{text}");
    assert_eq!(values(&first, "scripted"), ["3", "30", "4096", "512"]);
    assert_eq!(first.ran("silent"), (0, ""));
    let (plan, unit) = (first.part("plan"), first.part("unit"));
    assert!(unit.contains("\nExecStart=/bin/rxlab --state-dir /var/state restore --wait 60s\n"), "{unit}");
    let files = format!(
        "mkdir -p /etc/rxlab /etc/systemd/system\ncat >/etc/rxlab/plan.toml <<'END'\n{plan}END\n\
         cat >/etc/systemd/system/rxlab.service <<'END'\n{unit}END\n"
    );
    let second = guest::run("8cpu-8queue", &[&files, SECOND].concat(), None).expect("not skipped before");
    let (before, after) = (values(&second, "before"), values(&second, "after"));
    assert!(before[1..] == ["00", "0", "0"] && before[0] != "3", "{before:?}");
    assert_eq!(second.ran("off"), (0, "nothing is restored: the kernel was booted with `rxlab=off`\n"));
    assert_eq!(values(&second, "off-values"), before);
    second.ran("start").says(0, "irq_affinity lan0/rx-1 = 3");
    assert_eq!(after, ["3", "30", "4096", "512"]);
    assert_eq!(second.ran("again"), (0, "all values are already set\n"));
    assert_eq!(second.ran("undo").0, 0, "{}", second.part("undo"));
    assert_eq!(values(&second, "undone"), before);
    assert_eq!(second.ran("unpersist").0, 0, "{}", second.part("unpersist"));
    assert_eq!(second.part("left").trim(), "");
}
