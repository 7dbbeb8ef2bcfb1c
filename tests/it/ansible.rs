//! The Ansible collection: real playbooks over real sshd into four network namespaces, each a host with its own state directory.
//!
//! All of it is in namespaces of mounts and processes that end with the test, and its files are in memory there.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::process::Ended;
use crate::require;

/// Builds the hosts h1 to h4 below /mnt, and runs the script "$3" there with the program "$1" and the tree "$2".
const WORLD: &str = r#"
mount --make-rprivate /
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir -p /run/sshd /run/netns /mnt/bin /mnt/collections/ansible_collections/rxlab
touch /mnt/bin/rxlab
mount --bind "$1" /mnt/bin/rxlab
ln -s "$2/deploy/ansible" /mnt/collections/ansible_collections/rxlab/rxlab
script=$3
cd /mnt
export HOME=/mnt ANSIBLE_CONFIG=/mnt/ansible.cfg PYTHONDONTWRITEBYTECODE=1

cp /etc/passwd passwd
echo "plain:x:4242:4242::/nonexistent:/bin/sh" >>passwd
mount --bind passwd /etc/passwd
ssh-keygen -q -t ed25519 -N "" -f key
ssh-keygen -q -t ed25519 -N "" -f host
serve() { ip netns exec "h$1" /usr/sbin/sshd -f "/mnt/sshd$1" -E "/mnt/log$1"; }

ip link set lo up
ip link add hub type bridge
ip addr add 10.77.0.254/24 dev hub
ip link set hub up
for n in 1 2 3 4; do
  ip netns add "h$n"
  ip link add "to$n" type veth peer name eth0 numrxqueues 2 numtxqueues 2 netns "h$n"
  ip link set "to$n" master hub up
  ip -n "h$n" addr add "10.77.0.$n/24" dev eth0
  ip -n "h$n" link set eth0 up
  cat >"sshd$n" <<END
ListenAddress 10.77.0.$n
HostKey /mnt/host
AuthorizedKeysFile /mnt/key.pub
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
SetEnv PATH=/mnt/bin:/usr/sbin:/usr/bin:/sbin:/bin RXLAB_STATE_DIR=/mnt/state$n RXLAB_RUN_DIR=/mnt/run$n
END
  serve "$n"
  echo "h$n ansible_host=10.77.0.$n" >>inventory
done
cat >>inventory <<END
[all:vars]
ansible_python_interpreter=/usr/bin/python3
rxlab_become=false
rxlab_rollout_check=/mnt/check.yml
rxlab_rollout_confirm=10m
END
cat >ansible.cfg <<END
[defaults]
inventory = /mnt/inventory
collections_path = /mnt/collections
callbacks_enabled = rxlab.rxlab.rollout
remote_tmp = /mnt/remote
nocolor = true
[connection]
pipelining = true
[ssh_connection]
ssh_args = -F none -i /mnt/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=5 -o ControlMaster=auto -o ControlPersist=60s
END

say() { echo "== $1"; }
# Its exit code is its last line.
play() { code=0; ansible-playbook "$@" 2>&1 || code=$?; echo "exit $code"; }
rollout() { play rxlab.rxlab.rollout -e '{"rxlab_rollout_settings": ["rps eth0/rx-0 = 0-1"]}' "$@"; }
rps() { for n in 1 2 3 4; do ip netns exec "h$n" cat /sys/class/net/eth0/queues/rx-0/rps_cpus; done | xargs; }
fine() { printf '%s\n' '- name: Answer' '  ansible.builtin.command: /bin/true' '  changed_when: false'; }
# A task after which host $1 is dead: every process, its guard too.
dies() {
  printf '%s\n' '- name: Die' "  ansible.builtin.shell: kill -9 \$(ip netns pids $1)" '  delegate_to: localhost' \
    "  when: inventory_hostname == '$1' and not ansible_check_mode"
}
. "$script"
"#;

/// What the script said after each `say NAME`, in order; `None` if the test is skipped.
fn said<const N: usize>(script: &str, names: [&str; N]) -> Option<[String; N]> {
    let have = require::netns()
        && require::root()
        && require::program("ansible", "ansible-playbook", "--version")
        && require::program("sshd", "/usr/sbin/sshd", "-V")
        && require::program("sshd", "ssh", "-V");
    if !have {
        return None;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("script");
    std::fs::write(&file, script).expect("written");
    let mut command = Command::new("unshare");
    command.args([
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-euc",
        WORLD,
        "sh",
    ]);
    command.arg(env!("CARGO_BIN_EXE_rxlab")).arg(env!("CARGO_MANIFEST_DIR")).arg(&file).stdin(Stdio::null());
    let text = format!("\n{}", command.exits(0));
    let parts: Vec<(&str, &str)> =
        text.split("\n== ").skip(1).map(|part| part.split_once('\n').expect("a line")).collect();
    assert_eq!(parts.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names, "{text}");
    let mut parts = parts.into_iter().map(|(_, said)| said.trim_end().to_owned());
    Some(names.map(|_| parts.next().expect("as many")))
}

/// The counts of a host in the recap of a play, in the order of ok, changed, unreachable, failed.
fn recap(text: &str, host: &str) -> [u32; 4] {
    let line = text.lines().find(|line| line.starts_with(&format!("{host} ")) && line.contains(" ok="));
    let line = line.unwrap_or_else(|| panic!("{host} is not in the recap: {text}"));
    ["ok=", "changed=", "unreachable=", "failed="].map(|name| {
        let count = line.split_whitespace().find_map(|word| word.strip_prefix(name));
        count.and_then(|count| count.parse().ok()).expect("a count")
    })
}

/// The list of hosts that the callback prints.
fn listed(text: &str) -> Vec<&str> {
    let lines = text.lines().skip_while(|line| !line.starts_with("RXLAB ***"));
    lines.skip(1).take_while(|line| !line.starts_with("held:") && !line.starts_with("exit ")).collect()
}

#[test]
fn a_second_rollout_changes_nothing() {
    let script = r#"
say build
rm /mnt/collections/ansible_collections/rxlab/rxlab
ansible-galaxy collection build --output-path /mnt/built "$2/deploy/ansible"
ansible-galaxy collection install --collections-path /mnt/collections /mnt/built/rxlab-rxlab-*.tar.gz
fine >check.yml
say check; rollout --check --diff -e '{"rxlab_rollout_serial": [4]}'; rps
say first; rollout -e '{"rxlab_rollout_serial": [1, "100%"]}'; rps
say second; rollout -e '{"rxlab_rollout_serial": [1, "100%"]}'; rps
say status; play rxlab.rxlab.status
say collect; play rxlab.rxlab.collect -e '{"rxlab_collect_state_dir": "/mnt/state{{ inventory_hostname[1:] }}"}'; ls fleet | xargs; /mnt/bin/rxlab report --fleet fleet
say other; play rxlab.rxlab.undo -e rxlab_undo_plan_name=other; rps
say undo; play rxlab.rxlab.undo --diff; rps
say nothing; play rxlab.rxlab.undo; rps
"#;
    let names = ["build", "check", "first", "second", "status", "collect", "other", "undo", "nothing"];
    let Some([build, check, first, second, status, collect, other, undo, nothing]) = said(script, names)
    else {
        return;
    };
    assert!(build.contains("rxlab.rxlab:0.2.0 was installed successfully"), "{build}");
    let hosts = ["h1", "h2", "h3", "h4"];
    let changed = |text: &str| hosts.map(|host| recap(text, host)[1]);

    assert!(check.ends_with("exit 0\n0 0 0 0"), "check mode changes nothing: {check}");
    assert_eq!(check.matches("-rps eth0/rx-0 = off\n+rps eth0/rx-0 = 0-1\n").count(), 4, "{check}");
    assert_eq!(listed(&check), [""; 0], "{check}");

    assert!(first.ends_with("exit 0\n3 3 3 3"), "{first}");
    assert_eq!((changed(&first), listed(&first)), ([2; 4], vec!["kept       h1, h2, h3, h4"]), "{first}");
    assert_eq!(first.matches("\nPLAY [").count(), 2, "a canary, and the rest: {first}");

    assert!(second.ends_with("exit 0\n3 3 3 3"), "{second}");
    assert_eq!(changed(&second), [0; 4], "{second}");
    assert_eq!(listed(&second), ["unchanged  h1, h2, h3, h4"], "{second}");

    assert_eq!(status.matches("apply rps eth0/rx-0 = 0-1 (000001-").count(), 4, "{status}");
    assert_eq!(status.matches("): applied;  every value holds").count(), 4, "{status}");

    let files = hosts.map(|host| format!("{host}-doctor.json {host}-status.json")).join(" ");
    assert!(collect.contains(&format!("exit 0\n{files}\nFleet of 1 host\n")), "one name: {collect}");
    assert!(
        collect.contains("apply rps eth0/rx-0 = 0-1") && collect.contains("holds everywhere"),
        "{collect}"
    );

    assert!(other.ends_with("exit 0\n3 3 3 3") && changed(&other) == [0; 4], "{other}");
    assert!(undo.ends_with("exit 0\n0 0 0 0") && changed(&undo) == [1; 4], "{undo}");
    assert_eq!(undo.matches("-rps eth0/rx-0 = 0-1\n+rps eth0/rx-0 = off\n").count(), 4, "{undo}");
    assert!(nothing.ends_with("exit 0\n0 0 0 0") && changed(&nothing) == [0; 4], "{nothing}");
}

#[test]
fn a_failing_canary_is_put_back_and_stops_the_rollout() {
    let script = r#"
printf '%s\n' '- name: Answer' '  ansible.builtin.command: /bin/false' >check.yml
say failing; rollout; rps
say missing; rollout -e rxlab_rollout_check=/mnt/none.yml; rps
# Another program sets a value while it is checked.
printf '%s\n' '- name: Interfere' '  ansible.builtin.command: cp /dev/stdin /sys/class/net/eth0/queues/rx-0/rps_cpus' \
  '  args:' '    stdin: "2"' >check.yml
say drifting; rollout; rps
"#;
    let Some([failing, missing, drifting]) = said(script, ["failing", "missing", "drifting"]) else { return };
    assert!(failing.ends_with("exit 2\n0 0 0 0"), "{failing}");
    assert_eq!(listed(&failing), ["put back   h1", "untouched  h2, h3, h4"], "{failing}");
    assert!(
        failing.contains("nothing of this play is applied here. Answer: non-zero return code"),
        "{failing}"
    );
    assert!(missing.ends_with("exit 2\n0 0 0 0") && missing.contains("no file /mnt/none.yml"), "{missing}");
    assert!(drifting.ends_with("exit 2\n2 0 0 0"), "what others set stays: {drifting}");
    assert_eq!(listed(&drifting), ["failed     h1", "untouched  h2, h3, h4"], "{drifting}");
    assert!(drifting.contains("rps eth0/rx-0: drift (it was off, and it is 1)"), "{drifting}");
}

#[test]
fn a_host_that_dies_stops_the_rollout() {
    let script = r#"
{ dies h3; fine; } >check.yml
say one; rollout; rps
say undo; play rxlab.rxlab.undo; rps
serve 3
say again; play rxlab.rxlab.undo; rps
{ dies h2; fine; } >check.yml
say batch; rollout -e '{"rxlab_rollout_serial": [3, 1]}'; rps
"#;
    let Some([one, undo, again, batch]) = said(script, ["one", "undo", "again", "batch"]) else { return };
    assert!(one.ends_with("\n3 3 3 0"), "{one}");
    assert!(one.contains("exit 4\n"), "{one}");
    assert_eq!(listed(&one), ["kept       h1, h2", "held       h3 (unreachable)", "untouched  h4"], "{one}");

    assert!(undo.ends_with("\n0 0 3 0"), "{undo}");
    assert_eq!(
        ["h1", "h2", "h3", "h4"].map(|host| recap(&undo, host)[1..3] == [1, 0]),
        [true, true, false, false]
    );
    assert_eq!(recap(&undo, "h3")[2], 1, "{undo}");
    // The host is back, and its guard is not: the change is still there, and its journal too.
    assert!(again.ends_with("exit 0\n0 0 0 0"), "{again}");
    assert_eq!(listed(&again), ["put back   h3", "unchanged  h1, h2, h4"], "{again}");

    // The others of a batch go on; the next batch does not begin.
    assert!(batch.ends_with("\n3 3 3 0"), "{batch}");
    assert_eq!(
        listed(&batch),
        ["kept       h1, h3", "held       h2 (unreachable)", "untouched  h4"],
        "{batch}"
    );
    assert!(batch.contains("untouched: h2 failed or cannot be reached"), "{batch}");
}

/// Runs tasks on h1, each whatever became of the others, and returns their results.
fn results<const N: usize>(tasks: [Value; N]) -> Option<[Value; N]> {
    let registered = (0..N).map(|number| format!("r{number}")).collect::<Vec<_>>();
    let mut play: Vec<Value> = tasks.into_iter().collect();
    for (task, name) in play.iter_mut().zip(&registered) {
        task["register"] = json!(name);
        task["ignore_errors"] = json!(true);
    }
    let all = format!("{{{{ [{}] | to_json }}}}", registered.join(", "));
    play.push(json!({
        "ansible.builtin.copy": { "content": all, "dest": "/mnt/results", "mode": "0600" }, "delegate_to": "localhost",
    }));
    let play = json!([{ "hosts": "h1", "gather_facts": false, "tasks": play }]);
    let script =
        format!("cat >play.yml <<'END'\n{play}\nEND\nsay play; play play.yml\nsay results; cat results");
    let [_, results] = said(&script, ["play", "results"])?;
    let results: Vec<Value> =
        serde_json::from_str(&results).unwrap_or_else(|error| panic!("{error}: {results}"));
    Some(results.try_into().expect("as many"))
}

/// A task with a module of the collection.
fn task(module: &str, arguments: Value) -> Value {
    json!({ format!("rxlab.rxlab.rxlab_{module}"): arguments })
}

#[test]
fn a_failure_says_what_is_wrong_and_what_to_do() {
    let set = json!(["rps eth0/rx-0 = 1"]);
    let mut unprivileged = task("apply", json!({ "settings": set }));
    unprivileged["remote_user"] = json!("plain");
    let mut checked = task("apply", json!({ "settings": ["rps eth0/rx-0 = 0-1"] }));
    checked["check_mode"] = json!(true);
    let mut wait = task("facts", json!({ "gather": ["status"] }));
    wait["until"] = json!("r18.ansible_facts.rxlab.applied | length == 0");
    (wait["retries"], wait["delay"]) = (json!(60), json!(0.5));
    let tasks = [
        task("apply", json!({ "plan": "/mnt/it's a \"plan\" $HOME.toml" })),
        task("apply", json!({ "settings": set, "executable": "/mnt/bin/none" })),
        task("apply", json!({ "settings": set, "executable": "/bin/echo" })),
        unprivileged,
        task("apply", json!({ "settings": ["rps eth7/rx-0 = 1"] })),
        task("apply", json!({ "settings": ["--help"] })),
        task("apply", json!({ "settings": [] })),
        task("apply", json!({ "content": "host = \"other\"\n[[setting]]\nset = \"rps eth0/rx-0 = 1\"\n" })),
        task("apply", json!({ "settings": set, "confirm": "10m" })),
        task("apply", json!({ "settings": set })),
        checked,
        task("confirm", json!({ "transaction": "{{ r8.transaction }}" })),
        task("apply", json!({ "settings": set })),
        task("undo", json!({ "transaction": "" })),
        task("undo", json!({ "transaction": "000009-none" })),
        task("undo", json!({ "all": true })),
        task("undo", json!({ "transaction": "{{ r8.transaction }}" })),
        // The deadline of another passes.
        task("apply", json!({ "settings": set, "confirm": "1s" })),
        wait,
        task("confirm", json!({ "transaction": "{{ r17.transaction }}" })),
        task("undo", json!({ "transaction": "{{ r17.transaction }}" })),
        json!({ "ansible.builtin.command": "cat /sys/class/net/eth0/queues/rx-0/rps_cpus" }),
    ];
    let Some(results) = results(tasks) else { return };
    let failed = |number: usize, code: i64, message: &str| {
        let result = &results[number];
        let is_so = result["failed"] == json!(true) && result["rc"].as_i64().unwrap_or(-1) == code;
        assert!(is_so && result["msg"].as_str().expect("a message").contains(message), "{number}: {result}");
    };
    let fine = |number: usize, is_changed: bool| {
        let result = &results[number];
        assert!(
            result["failed"] != json!(true) && result["changed"] == json!(is_changed),
            "{number}: {result}"
        );
    };
    failed(0, 2, "cannot read the plan /mnt/it's a \"plan\" /");
    failed(1, -1, "rxlab is not installed on this host: /mnt/bin/none");
    failed(2, 0, "rxlab printed no JSON");
    failed(3, 3, "; exit code 3: a permission or a kernel feature is missing on the host");
    assert!(results[3]["hints"].to_string().contains("root"), "{}", results[3]);
    failed(4, 2, "no interface eth7 (found: eth0, lo)");
    failed(5, 2, "`--help` is not a setting");
    failed(6, -1, "`settings` is empty");
    failed(7, 4, "the plan is for host other");
    fine(8, true);
    assert_eq!(results[8]["state"], "held");
    failed(9, 4, "is waiting for confirmation");
    fine(10, true);
    assert!(results[10]["warnings"].to_string().contains("waits for its confirmation"), "{}", results[10]);
    fine(11, true);
    fine(12, false);
    fine(13, false);
    failed(14, -1, "the journal of this host has no transaction 000009-none");
    fine(15, true);
    fine(16, false);
    fine(17, true);
    failed(19, -1, "is not applied any more: it went back at its deadline");
    fine(20, false);
    assert_eq!(results[21]["stdout"], "0", "it went back by itself");
}

#[test]
fn each_module_is_read_from_the_program() {
    let spec = "name = \"rps\"\n[change]\nset = [\"rps eth0/rx-0 = 0-1\"]\n[workload]\ncommand = \"echo 5\"\n\
                [design]\npairs = 9\nwashout = \"10ms\"\nmeasure = \"50ms\"\n";
    let in_check = |mut task: Value| {
        task["check_mode"] = json!(true);
        task
    };
    let trial = task("trial", json!({ "name": "rps", "spec": "/mnt/spec.toml" }));
    let plan = "[[setting]]\nset = \"rps eth0/rx-0 = 0-1\"\n";
    let persist = task("persist", json!({ "content": plan, "etc": "/mnt/etc" }));
    let absent = task("persist", json!({ "state": "absent", "etc": "/mnt/etc" }));
    let tasks = [
        task("facts", json!({ "sample": "100ms" })),
        task("plan", json!({ "settings": ["rps eth0/rx-0 = 0-1"] })),
        task("apply", json!({ "content": "{{ r1.content }}" })),
        task("apply", json!({ "content": "{{ r1.content }}" })),
        task("facts", json!({ "gather": ["status"] })),
        task("undo", json!({ "plan_name": "plan" })),
        task("plan", json!({ "name": "full", "sample": "100ms" })),
        task("plan", json!({ "name": "none" })),
        json!({ "ansible.builtin.copy": { "content": spec, "dest": "/mnt/spec.toml", "mode": "0600" } }),
        in_check(trial.clone()),
        trial.clone(),
        trial,
        // The same change, spelled otherwise.
        task("trial", json!({ "name": "rps", "settings": ["rps eth0/rx-0 = 0,1"], "nic": "eth0" })),
        task("tune", json!({ "nic": "eth0", "sample": "100ms" })),
        in_check(persist.clone()),
        persist.clone(),
        persist,
        in_check(absent.clone()),
        absent.clone(),
        absent,
    ];
    let Some(results) = results(tasks) else { return };
    let changed: Vec<bool> = results.iter().map(|result| result["changed"] == json!(true)).collect();
    let failed: Vec<usize> = (0..results.len()).filter(|at| results[*at]["failed"] == json!(true)).collect();
    assert_eq!(failed, [7], "{results:#?}");
    let [
        facts,
        planned,
        apply,
        same,
        status,
        undo,
        nothing,
        unknown,
        _,
        checked,
        ran,
        before,
        same_trial,
        tuned,
        ..,
    ] = &results;
    let facts = &facts["ansible_facts"]["rxlab"];
    assert!(facts["show"]["nics"].is_array() && facts["doctor"]["findings"].is_array(), "{facts}");
    assert_eq!((&facts["applied"], &facts["holds"]), (&json!([]), &json!(true)));
    assert!(
        planned["content"].as_str().expect("text").contains("set = \"rps eth0/rx-0 = 0-1\""),
        "{planned}"
    );
    assert_eq!((&apply["state"], &same["state"]), (&json!("applied"), &json!("unchanged")));
    assert_eq!(status["ansible_facts"]["rxlab"]["applied"][0]["what"], "apply plan");
    assert_eq!(undo["transactions"][0]["outcomes"][0]["outcome"], "restored");
    assert!(nothing["content"] == "" && nothing["plan"]["notes"].is_array(), "{nothing}");
    assert!(unknown["msg"].as_str().expect("a message").contains("unknown plan `none`"), "{unknown}");
    assert!(checked["plan_only"]["slots"].is_u64(), "{checked}");
    assert!(ran["trial"] == "0001-rps" && ran["verdict"] == before["verdict"], "{ran} {before}");
    assert_eq!((&tuned["end"], &tuned["transaction"]), (&json!("unmeasurable"), &json!("")));
    assert_eq!(same_trial["trial"], "0001-rps", "{same_trial}");
    assert_eq!(changed[9..13], [true, true, false, false], "a trial that has ended is not run again");
    assert!(!changed[13]);
    assert_eq!(changed[14..], [true, true, false, true, true, false], "persist, and its end");
    assert!(!Path::new("/mnt/etc").exists(), "it was in the test's own file system");
}
