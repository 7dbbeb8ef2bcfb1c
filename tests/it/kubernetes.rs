//! The pods of deploy/kubernetes under runc: each container as a kubelet and its engine make it from the manifest.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::process::{Ended, Running, free_port, one_line, response, wait_for};
use crate::require;

/// Masked and read-only in every container that is not privileged (pkg/securitycontext/util.go of Kubernetes 1.34).
const MASKED: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// System calls that the default filters of container engines refuse with the capabilities of the manifest.
const REFUSED: [&str; 22] = [
    "add_key",
    "fsconfig",
    "fsmount",
    "fsopen",
    "init_module",
    "io_uring_setup",
    "kexec_load",
    "keyctl",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "request_key",
    "setns",
    "umount2",
    "unshare",
    "userfaultfd",
];

/// Those that the image's file of the program permits (scripts/oci).
const PERMITTED: [&str; 4] = ["BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH"];

/// The objects of the committed rendering of the chart.
fn manifests() -> Vec<Value> {
    // Of Ansible's own parser.
    let python = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/kubernetes/rxlab.yaml");
    Command::new("/usr/bin/python3").args(["-c", python]).arg(file).json(0)
}

/// The pod of the DaemonSet.
fn pod() -> Value {
    let all = manifests();
    let one = all.iter().find(|object| object["kind"] == "DaemonSet").expect("a DaemonSet");
    one["spec"]["template"]["spec"].clone()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|one| one.as_str().expect("text")).collect()
}

/// A container of the pod as a bundle of the OCI. What is on the node is in a folder of its own, but for `/proc` and `/sys`.
struct Container {
    folder: tempfile::TempDir,
    id: String,
    port: u16,
    config: Value,
}

impl Container {
    /// `None` if the test is skipped.
    fn new(name: &str) -> Option<Self> {
        let have = require::root()
            && require::program("runc", "runc", "--version")
            && require::program("ansible", "ansible-playbook", "--version");
        if !have {
            return None;
        }
        let (folder, port, pod) = (tempfile::tempdir().expect("a temporary directory"), free_port(), pod());
        let containers = pod["containers"].as_array().expect("containers");
        let one = containers.iter().find(|one| one["name"] == name).expect("of this name");
        let args = texts(&one["args"]).into_iter().map(|arg| {
            let address = arg.replace("$(NODE_ADDRESS)", "127.0.0.1");
            address.replace(":9942", &format!(":{port}"))
        });
        let args: Vec<String> = std::iter::once("/usr/bin/rxlab".to_owned()).chain(args).collect();
        let env = one["env"].as_array().into_iter().flatten();
        let env = env.filter_map(|one| Some(format!("{}={}", one["name"].as_str()?, one["value"].as_str()?)));
        let env: Vec<String> = std::iter::once("PATH=/usr/bin".to_owned()).chain(env).collect();
        let of_pod = &pod["securityContext"];
        let own = &one["securityContext"];
        let mut namespaces = vec!["mount", "ipc", "cgroup"];
        for (field, namespace) in [("hostPID", "pid"), ("hostNetwork", "network")] {
            if pod[field] != true {
                namespaces.push(namespace);
            }
        }
        let namespaces: Vec<Value> = namespaces.into_iter().map(|kind| json!({ "type": kind })).collect();
        let mut mounts = vec![
            json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
            json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"] }),
            json!({ "destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro", "nosuid", "noexec"] }),
        ];
        for mount in one["volumeMounts"].as_array().into_iter().flatten() {
            let volumes = pod["volumes"].as_array().expect("volumes");
            let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).expect("of this name");
            let source = match volume["hostPath"]["path"].as_str() {
                Some(path) if path.starts_with("/proc/") => PathBuf::from(path),
                Some(path) => folder.path().join("node").join(path.trim_start_matches('/')),
                None => folder.path().join("empty").join(mount["name"].as_str().expect("a name")),
            };
            if !source.exists() {
                std::fs::create_dir_all(&source).expect("created");
                let mode = if volume["emptyDir"].is_object() { 0o777 } else { 0o755 };
                std::fs::set_permissions(&source, PermissionsExt::from_mode(mode)).expect("set");
            }
            let access = if mount["readOnly"] == true { "ro" } else { "rw" };
            let to = &mount["mountPath"];
            mounts.push(
                json!({ "destination": to, "type": "bind", "source": source, "options": ["bind", access] }),
            );
        }
        let added: Vec<String> =
            texts(&own["capabilities"]["add"]).into_iter().map(|name| format!("CAP_{name}")).collect();
        assert_eq!(texts(&own["capabilities"]["drop"]), ["ALL"], "only those that are added");
        let user = &of_pod["runAsUser"];
        let config = json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": { "uid": user, "gid": of_pod["runAsGroup"] }, "cwd": "/", "args": args, "env": env,
                "capabilities": { "bounding": added, "effective": added, "permitted": added },
                "noNewPrivileges": own["allowPrivilegeEscalation"] == false,
            },
            "root": { "path": "root", "readonly": own["readOnlyRootFilesystem"] },
            "mounts": mounts,
            "linux": {
                "namespaces": namespaces, "maskedPaths": MASKED, "readonlyPaths": READ_ONLY,
                "seccomp": {
                    "defaultAction": "SCMP_ACT_ALLOW",
                    "syscalls": [{ "names": REFUSED, "action": "SCMP_ACT_ERRNO" }],
                },
            },
        });
        let id = format!("rxlab-test-{}-{port}", std::process::id());
        let container = Self { folder, id, port, config };
        container.fill();
        Some(container)
    }

    /// Makes the root of the image: the program with its capabilities, and what a dynamically linked one needs.
    fn fill(&self) {
        let root = self.folder.path().join("root");
        let program = root.join("usr/bin/rxlab");
        std::fs::create_dir_all(program.parent().expect("a folder")).expect("created");
        std::fs::copy(env!("CARGO_BIN_EXE_rxlab"), &program).expect("copied");
        let libraries = Command::new("ldd").arg(&program).output().expect("ldd runs").stdout;
        for library in String::from_utf8(libraries).expect("text").split_whitespace() {
            if library.starts_with('/') && Path::new(library).exists() {
                let to = root.join(library.trim_start_matches('/'));
                std::fs::create_dir_all(to.parent().expect("a folder")).expect("created");
                std::fs::copy(library, to).expect("copied");
            }
        }
        let names: Vec<String> = PERMITTED.map(|name| format!("cap_{}", name.to_lowercase())).to_vec();
        Command::new("setcap").arg(format!("{}=p", names.join(","))).arg(&program).exits(0);
    }

    /// With these capabilities instead of those of the manifest.
    fn with(mut self, capabilities: &[&str]) -> Self {
        let names: Vec<String> = capabilities.iter().map(|name| format!("CAP_{name}")).collect();
        for set in ["bounding", "effective", "permitted"] {
            self.config["process"]["capabilities"][set] = json!(names);
        }
        self
    }

    /// Without this mount.
    fn without(mut self, destination: &str) -> Self {
        let mounts = self.config["mounts"].as_array_mut().expect("mounts");
        mounts.retain(|mount| mount["destination"] != destination);
        self
    }

    /// With this file in place of a mount.
    fn with_file(self, destination: &str, text: &str) -> Self {
        let file = self.folder.path().join("file");
        std::fs::write(&file, text).expect("written");
        let mut container = self.without(destination);
        let mounts = container.config["mounts"].as_array_mut().expect("mounts");
        mounts.push(
            json!({ "destination": destination, "type": "bind", "source": file, "options": ["bind", "ro"] }),
        );
        container
    }

    /// A folder of the node.
    fn node(&self, path: &str) -> PathBuf {
        self.folder.path().join("node").join(path)
    }

    fn runc(&self, args: &[&str]) -> Command {
        let mut command = Command::new("runc");
        command.arg("--root").arg(self.folder.path().join("runc")).args(args).stdin(Stdio::null());
        command
    }

    fn start(&self) -> Started<'_> {
        let file = self.folder.path().join("config.json");
        std::fs::write(file, self.config.to_string()).expect("written");
        let mut run = self.runc(&["run", "--bundle"]);
        Started { running: Some(Running::start(run.arg(self.folder.path()).arg(&self.id))), container: self }
    }

    /// Runs the container with these arguments instead of its own.
    fn says(&self, args: &[&str]) -> (i32, String) {
        let args: Vec<&str> = std::iter::once("/usr/bin/rxlab").chain(args.iter().copied()).collect();
        let mut other = self.config.clone();
        other["process"]["args"] = json!(args);
        let file = self.folder.path().join("config.json");
        std::fs::write(file, other.to_string()).expect("written");
        let mut run = self.runc(&["run", "--bundle"]);
        run.arg(self.folder.path()).arg(format!("{}-once", self.id)).said()
    }

    fn get(&self, path: &str) -> String {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        response(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }
}

/// A container that runs. It is removed at the end, also of a test that fails.
struct Started<'a> {
    running: Option<Running>,
    container: &'a Container,
}

impl Started<'_> {
    fn first_line(&mut self) -> String {
        self.running.as_mut().expect("not ended").first_line()
    }

    /// The text of a command in the same container, as with `kubectl exec`.
    fn exec(&self, args: &[&str]) -> (i32, String) {
        self.container.runc(&["exec", &self.container.id, "/usr/bin/rxlab"]).args(args).said()
    }

    /// Ends it as a kubelet does.
    fn end(mut self) {
        self.container.runc(&["kill", &self.container.id, "TERM"]).exits(0);
        self.running.take().expect("not ended").output().exits(0);
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        // Only one that a failed test left.
        let _ = self.container.runc(&["delete", "--force", &self.container.id]).output();
    }
}

/// True if a scrape has this metric, with any labels and more than zero.
fn counts(metrics: &str, name: &str) -> bool {
    metrics.lines().any(|line| {
        let value = line.strip_prefix(name).and_then(|rest| rest.rsplit(' ').next());
        value.and_then(|value| value.parse::<f64>().ok()).is_some_and(|value| value > 0.0)
    })
}

#[test]
fn every_pod_is_as_small_as_it_can_be() {
    require::needs!(program("ansible", "ansible-playbook", "--version"));
    let all = manifests();
    let kinds: Vec<&str> = all.iter().map(|object| object["kind"].as_str().expect("a kind")).collect();
    assert_eq!(kinds, ["NetworkPolicy", "DaemonSet"], "no role, no account, no custom resource");
    let pod = pod();
    assert_eq!((&pod["automountServiceAccountToken"], &pod["hostNetwork"]), (&json!(false), &json!(true)));
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert!(pod["securityContext"]["runAsUser"].as_u64().is_some_and(|user| user > 0));
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let containers = pod["containers"].as_array().expect("containers");
    let capabilities: Vec<(&str, Vec<&str>)> = containers
        .iter()
        .map(|one| {
            (one["name"].as_str().expect("a name"), texts(&one["securityContext"]["capabilities"]["add"]))
        })
        .collect();
    assert_eq!(capabilities, [("exporter", vec!["BPF", "PERFMON"]), ("recorder", vec![])]);
    for container in containers {
        let own = &container["securityContext"];
        assert_eq!(own["readOnlyRootFilesystem"], true);
        assert_eq!(own["privileged"], Value::Null);
        assert_eq!(own["allowPrivilegeEscalation"], false);
        assert!(container["resources"]["limits"]["memory"].is_string());
        let image = container["image"].as_str().expect("an image");
        assert_eq!(image, format!("registry.invalid/rxlab:{}", env!("CARGO_PKG_VERSION")));
        for mount in container["volumeMounts"].as_array().expect("mounts") {
            assert!(mount["readOnly"] == true || mount["name"] == "recording", "{mount}");
        }
    }
    let chart = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/kubernetes/chart/Chart.yaml"),
    );
    let chart = chart.expect("read");
    assert_eq!(chart.matches(&format!("ersion: {}\n", env!("CARGO_PKG_VERSION"))).count(), 2, "{chart}");
}

/// What the engine mounts is one view of the node: its interfaces, its interrupts and its processes.
#[test]
fn an_ordinary_user_sees_the_node_and_changes_nothing() {
    let Some(exporter) = Container::new("exporter") else { return };
    require::needs!(bpf);
    let mut started = exporter.start();
    assert_eq!(started.first_line(), format!("serving http://127.0.0.1:{}/metrics\n", exporter.port));
    assert!(exporter.get("/").starts_with("HTTP/1.1 200 OK\r\n"), "what the probes ask for");
    wait_for("lost time", || counts(&exporter.get("/metrics"), "rxlab_interference_measured_seconds_total"));
    assert!(counts(&exporter.get("/metrics"), "rxlab_cpu_packets_total{cpu=\"0\"}"));
    let shown = started.exec(&["show"]).exits(0);
    for wrong in ["warning", "masked", "unknown (not all"] {
        assert!(!shown.contains(wrong), "{wrong}: {shown}");
    }
    started.exec(&["apply", "--set", "rps lo/rx-0 = 0"]).says(3, "read-only file system (EROFS)");
    started.end();
}

#[test]
fn each_right_of_the_exporter_has_a_use_and_is_missed() {
    let Some(exporter) = Container::new("exporter") else { return };
    require::needs!(bpf);
    std::fs::create_dir(exporter.node("var/lib/rxlab/journal")).expect("created");
    std::fs::set_permissions(exporter.node("var/lib/rxlab"), PermissionsExt::from_mode(0o700)).expect("set");
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = socket.local_addr().expect("an address").port();
    let owner = format!(r#""pid": {}"#, std::process::id());
    let measures = |said: (i32, String)| said.exits(0).contains(r#""tier": "ebpf""#);
    let journal = |said: (i32, String)| said.0 == 0;
    let owners = |said: (i32, String)| {
        let model: Value = said.json(0);
        let all = model["listeners"]["known"].as_array().expect("listeners").clone();
        let one = all.iter().find(|one| one["port"] == port).expect("listed");
        let is_named = serde_json::to_string_pretty(one).expect("JSON").contains(&owner);
        assert!(is_named || one["owners"]["denied"] == "CAP_SYS_PTRACE", "{one}");
        is_named
    };
    let mut exporter = exporter;
    for missing in [None, Some("BPF"), Some("PERFMON"), Some("SYS_PTRACE"), Some("DAC_READ_SEARCH")] {
        let given: Vec<&str> = PERMITTED.into_iter().filter(|name| Some(*name) != missing).collect();
        exporter = exporter.with(&given);
        let has = |names: &[&str]| missing.is_none_or(|missing| !names.contains(&missing));
        let sample = exporter.says(&["interference", "--for", "200ms", "--json"]);
        assert_eq!(measures(sample), has(&["BPF", "PERFMON"]), "eBPF without {missing:?}");
        assert_eq!(
            journal(exporter.says(&["status"])),
            has(&["DAC_READ_SEARCH"]),
            "the journal without {missing:?}"
        );
        let both = ["SYS_PTRACE", "DAC_READ_SEARCH"];
        assert_eq!(
            owners(exporter.says(&["show", "--json"])),
            has(&both),
            "owners of sockets without {missing:?}"
        );
    }
    let few = exporter.with(&["SYS_PTRACE"]);
    few.says(&["interference", "--for", "200ms"]).says(0, "eBPF needs CAP_BPF and CAP_PERFMON");
    few.says(&["status"]).says(3, "cannot list the journal /var/lib/rxlab/journal");
    let few = few.without("/host/proc/interrupts");
    let is_masked = |container: &Container| {
        let shown = one_line(&container.says(&["show"]).exits(0));
        assert!(
            shown.contains("/proc/interrupts is masked: not a regular file, as in a container"),
            "{shown}"
        );
    };
    is_masked(&few);
    // Another file in its place is not the kernel's.
    let few = few.with_file("/host/proc/interrupts", "   CPU0\n  1:  7  IR-IO-APIC  eth0\n");
    is_masked(&few);
}

/// Without `hostPID` and `hostNetwork`, as a container has it unless it is given more.
#[test]
fn without_the_namespaces_of_the_node_less_is_known() {
    let Some(mut exporter) = Container::new("exporter") else { return };
    let namespaces = &mut exporter.config["linux"]["namespaces"];
    namespaces.as_array_mut().expect("a list").push(json!({ "type": "pid" }));
    exporter.says(&["show"]).says(0, "irqbalance: unknown (not all processes are visible)");
    let namespaces = &mut exporter.config["linux"]["namespaces"];
    namespaces.as_array_mut().expect("a list").push(json!({ "type": "network" }));
    let nics = exporter.says(&["show", "--json"]).json::<Value>(0)["nics"].clone();
    let names: Vec<&str> =
        nics.as_array().expect("interfaces").iter().filter_map(|nic| nic["name"].as_str()).collect();
    assert!(names.contains(&"lo") && !names.contains(&"eth0"), "those of the pod: {names:?}");
}

#[test]
fn the_recorder_needs_no_capability() {
    let Some(recorder) = Container::new("recorder") else { return };
    let mut started = recorder.start();
    assert!(started.first_line().starts_with("recording to /recording/rxlab/record every 1s"));
    wait_for("two samples", || {
        let said = started.exec(&["record", "status"]);
        said.0 == 0 && said.1.contains("samples   ") && !said.1.contains("samples   1\n")
    });
    started.exec(&["show", "--at", "now"]).exits(0);
    started.end();
}
