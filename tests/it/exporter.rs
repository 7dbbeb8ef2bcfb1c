//! `rxlab exporter`: what it serves, a real Prometheus that scrapes it, and the files below deploy/.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rxlab_base::parse::{attribute, one_message};
use serde_json::Value;

use crate::process::{Ended, PATIENCE, Running, Stop, response, rxlab, wait_for};
use crate::prometheus::Prometheus;
use crate::require;
use crate::tree::{PCI, Tree};

struct Exporter {
    running: Running,
    address: SocketAddr,
}

impl Exporter {
    /// Starts `command exporter` on a free port, with a sample each second.
    fn start(command: &mut Command) -> Self {
        let command = command.args(["exporter", "--listen", "127.0.0.1:0", "--every", "1s"]);
        let mut running = Running::start(command.args(["--budget", "100%"]));
        let line = running.first_line();
        let address =
            line.trim().strip_prefix("serving http://").and_then(|rest| rest.strip_suffix("/metrics"));
        let address = address.unwrap_or_else(|| panic!("{line}")).parse().expect("an address");
        Self { running, address }
    }

    fn of_tree(tree: &Tree) -> Self {
        Self::start(&mut tree.command(&[]))
    }

    fn query(&self, request: &str) -> String {
        response(self.address, request)
    }

    /// A scrape in the older format.
    fn scrape(&self) -> String {
        let text = self.query("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{head}");
        body.to_owned()
    }

    /// Waits until a scrape has this line.
    fn shows(&self, line: &str) {
        let start = Instant::now();
        let mut latest = self.scrape();
        while !latest.lines().any(|other| other == line) {
            assert!(start.elapsed() < PATIENCE, "no `{line}` in {latest}");
            std::thread::sleep(Duration::from_millis(100));
            latest = self.scrape();
        }
    }

    /// Ends it as systemd does.
    fn end(self) -> Output {
        self.running.signal(Signal::TERM);
        self.running.output()
    }
}

/// A tree whose interface and CPUs count: CPU 0 is full of receive work.
struct Busy {
    tree: Tree,
}

impl Busy {
    fn new() -> Self {
        let busy = Self { tree: Tree::new() };
        busy.advance(1);
        busy
    }

    /// Writes the counters of moment `n`, a second after the one before.
    fn advance(&self, n: u64) {
        let replace = |path: &str, content: &[u8]| {
            // In one step: a sample may be reading it.
            let next = format!("{path}.next");
            self.tree.write(&next, content);
            let at = |path: &str| self.tree.root().join(path);
            std::fs::rename(at(&next), at(path)).expect("replaced");
        };
        let cpus = 0..7;
        let times = cpus.clone().map(|cpu| match cpu {
            0 => format!("cpu0 0 0 {} 0 0 0 {} 0 0 0\n", 2 * n, 98 * n),
            _ => format!("cpu{cpu} {n} 0 0 {} 0 0 0 0 0 0\n", 99 * n),
        });
        replace("proc/stat", times.collect::<String>().as_bytes());
        let counts =
            |of: &dyn Fn(u64) -> u64| cpus.clone().map(|cpu| format!(" {}", of(cpu))).collect::<String>();
        let names: String = cpus.clone().map(|cpu| format!(" CPU{cpu}")).collect();
        let runs = counts(&|cpu| if cpu == 0 { 9_000 * n } else { 3 * n });
        let softirqs = format!("{names}\nNET_TX:{}\nNET_RX:{runs}\n", counts(&|_| n));
        replace("proc/softirqs", softirqs.as_bytes());
        let packets = |cpu: u64| if cpu == 0 { 60_000 * n } else { 2 * n };
        let row = |cpu| format!("{:08x} {:08x} {:08x} 0 0 0 0 0 0 0 0 0 {cpu:08x}\n", packets(cpu), n, n);
        replace("proc/net/softnet_stat", cpus.clone().map(row).collect::<String>().as_bytes());
        for (file, count) in [
            ("rx_packets", 60_000 * n),
            ("rx_bytes", 6_000_000 * n),
            ("rx_dropped", 0),
            ("rx_missed_errors", 0),
            ("tx_packets", 0),
            ("tx_bytes", 0),
        ] {
            replace(&format!("{PCI}/net/eth0/statistics/{file}"), format!("{count}\n").as_bytes());
        }
        let queue = |queue: u32| {
            let ids = [(1, 4), (2, 0), (3, queue)].map(|(kind, id)| attribute(kind, id.to_ne_bytes()));
            let counts = [(8, 30_000 * n), (13, n)].map(|(kind, count)| attribute(kind, count.to_ne_bytes()));
            one_message(&[ids.concat(), counts.concat()].concat())
        };
        replace("netlink/netdev/qstats-get", &[queue(0), queue(1)].concat());
    }

    /// Advances ten times a second while `act` runs.
    fn while_advancing<T>(&self, act: impl FnOnce() -> T) -> T {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in (10u64..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                    self.advance(n);
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
            let _stop = Stop(&stop);
            act()
        })
    }

    /// A record of a trial that runs.
    fn add_trial(&self) {
        let trial = self.tree.state().join("trials/0001-rps");
        std::fs::create_dir_all(&trial).expect("created");
        std::fs::write(trial.join("record.json"), r#"{"slots": [1, 2, 3], "analysis": null}"#)
            .expect("written");
    }
}

fn deployed(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(path)
}

/// Connections that send nothing, many times what the server may hold. Compared with the counts of the server before them,
/// never with a time.
#[test]
fn a_flood_takes_neither_threads_nor_samples() {
    let state = tempfile::tempdir().expect("a temporary directory");
    let exporter = Exporter::start(&mut rxlab(state.path(), &[]));
    wait_for("the first sample", || exporter.scrape().contains("\nrxlab_sample_timestamp_seconds "));
    let pid = exporter.running.pid().as_raw_nonzero();
    let count = |folder: &str| std::fs::read_dir(format!("/proc/{pid}/{folder}")).expect("it runs").count();
    let (threads, files) = (count("task"), count("fd"));
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1024);
    let silent: Vec<TcpStream> = (0..limit.min(1024) as usize - 300)
        .filter_map(|number| {
            let stream = TcpStream::connect(exporter.address).ok();
            if number % 100 == 0 {
                // A scrape of those that are let in.
                exporter.scrape();
                assert!(count("task") <= threads + 8, "no thread waits for a silent connection");
                // A quarter of the descriptors for those that wait, a sixteenth for answers.
                assert!(count("fd") as u64 <= files as u64 + limit / 4 + limit / 16, "{}", count("fd"));
            }
            stream
        })
        .collect();
    assert!(silent.len() > 500, "{}", silent.len());
    let text = exporter.scrape();
    assert!(text.contains("\nrxlab_sample_failures_total 0\n"), "{text}");
    let sampled = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("rxlab_sample_timestamp_seconds "));
        line.expect("a sample").to_owned()
    };
    let before = sampled(&text);
    wait_for("the next sample", || sampled(&exporter.scrape()) != before);
    drop(silent);
    exporter.scrape();
}

/// As systemd passes it: a socket on standard input.
#[test]
fn a_passed_socket_is_served() {
    let tree = Tree::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    for command in ["exporter", "serve"] {
        let mut program = tree.command(&[command, "--listen", "-"]);
        program.stdin(Stdio::from(std::os::fd::OwnedFd::from(listener.try_clone().expect("a copy"))));
        let child = program.stdout(Stdio::null()).spawn().expect("started");
        let pid = rustix::process::Pid::from_child(&child);
        let text = response(address, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        rustix::process::kill_process(pid, Signal::TERM).expect("signalled");
        assert!(child.wait_with_output().expect("ended").status.success(), "{command}");
        let mut none = tree.command(&[command, "--listen", "-"]);
        none.stdin(Stdio::null()).says(2, "standard input is not a socket that listens");
    }
}

#[test]
fn it_serves_until_a_signal() {
    let tree = Tree::new();
    let exporter = Exporter::of_tree(&tree);
    let index = exporter.query("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert!(index.starts_with("HTTP/1.1 200 OK\r\n") && index.contains("href=\"/metrics\""), "{index}");
    let head = exporter
        .query("HEAD /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/openmetrics-text\r\n\r\n");
    assert!(head.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0;"), "{head}");
    assert!(head.ends_with("\r\n\r\n"), "no body: {head}");
    assert!(exporter.query("GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 404 "));
    let rebound = exporter.query("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert!(rebound.starts_with("HTTP/1.1 421 ") && !rebound.contains("rxlab_"), "{rebound}");
    assert!(exporter.query("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    assert!(exporter.query("\x16\x03\x01 hello\r\n\r\n").starts_with("HTTP/1.1 400 "));
    // Its machine stands still, so there is no interval. It says so once, and goes on.
    wait_for("two failed samples", || {
        let text = exporter.scrape();
        let failures = text.lines().find_map(|line| line.strip_prefix("rxlab_sample_failures_total "));
        failures.is_some_and(|count| count.parse::<u64>().expect("a count") >= 2)
    });
    let taken = exporter.address.to_string();
    tree.rxlab(&["exporter", "--listen", &taken]).says(5, &format!("cannot listen on {taken}"));
    tree.rxlab(&["exporter", "--every", "50ms"]).says(2, "too short");
    let log = exporter.end().exits(0);
    assert_eq!(log.matches("rxlab: findings unknown: ").count(), 1, "{log}");
}

#[test]
fn it_says_where_as_json() {
    let tree = Tree::new();
    let mut running = Running::start(&mut tree.command(&["--json", "exporter", "--listen", "127.0.0.1:0"]));
    let started: Value = serde_json::from_str(&running.first_line()).expect("JSON");
    assert_eq!(started["schema"], "rxlab.exporter/1");
    started["address"].as_str().expect("text").parse::<SocketAddr>().expect("an address");
    running.signal(Signal::INT);
    running.output().exits(0);
}

#[test]
fn settings_trials_and_findings_are_shown_as_they_change() {
    let busy = Busy::new();
    let (tree, setting) = (&busy.tree, "rps eth0/rx-0 = 2-3");
    tree.rxlab(&["apply", "--setting", setting]).exits(0);
    let exporter = Exporter::of_tree(tree);
    busy.while_advancing(|| {
        exporter.shows("rxlab_settings{state=\"kept\"} 1");
        exporter.shows("rxlab_setting_holds{knob=\"rps\",target=\"eth0/rx-0\"} 1");
        exporter.shows("rxlab_finding{rule=\"one-core-hotspot\",subject=\"eth0\",severity=\"critical\"} 1");
        tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "00\n");
        exporter.shows("rxlab_settings{state=\"original\"} 1");
        exporter.shows("rxlab_setting_holds{knob=\"rps\",target=\"eth0/rx-0\"} 0");
        exporter.shows("rxlab_settings_reapplied_total 0");
        tree.rxlab(&["reapply"]).exits(0);
        exporter.shows("rxlab_settings_reapplied_total 1");
        exporter.shows("rxlab_setting_holds{knob=\"rps\",target=\"eth0/rx-0\"} 1");
        busy.add_trial();
        exporter.shows("rxlab_trial_latest_info{trial=\"0001-rps\",verdict=\"none\"} 1");
        exporter.shows("rxlab_trial_latest_slots 3");
        tree.rxlab(&["undo"]).exits(0);
        exporter.shows("rxlab_settings{state=\"kept\"} 0");
    });
    exporter.end().exits(0);
}

#[test]
fn promtool_accepts_the_metrics() {
    if !require::prometheus() {
        return;
    }
    let busy = Busy::new();
    busy.add_trial();
    busy.tree.rxlab(&["apply", "--setting", "rps eth0/rx-0 = 2-3"]).exits(0);
    let exporter = Exporter::of_tree(&busy.tree);
    busy.while_advancing(|| {
        wait_for("findings", || exporter.scrape().contains("rxlab_finding{"));
    });
    let check = |text: &str| -> Output {
        let mut promtool =
            Running::start(Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()));
        promtool.stdin().write_all(text.as_bytes()).expect("written");
        promtool.output()
    };
    assert_eq!(check(&exporter.scrape()).said(), (0, String::new()));
    assert!(!check("# TYPE x counter\nx 1\n").status.success(), "the check itself works");
    exporter.end().exits(0);
}

/// Every query of the dashboard, and the rules, with data of a real Prometheus. It scrapes this machine, whose lost time is
/// measured, and one that has everything else.
#[test]
fn a_prometheus_scrapes_it_and_every_query_has_data() {
    if !require::bpf() || !require::prometheus() {
        return;
    }
    let busy = Busy::new();
    busy.add_trial();
    busy.tree.rxlab(&["apply", "--setting", "rps eth0/rx-0 = 2-3"]).exits(0);
    let state = tempfile::tempdir().expect("a temporary directory");
    let (files, live) = (Exporter::of_tree(&busy.tree), Exporter::start(&mut rxlab(state.path(), &[])));
    let targets = [("files", files.address), ("live", live.address)];
    let rules = deployed("prometheus/rxlab.rules.yml");
    busy.while_advancing(|| {
        let Some(prometheus) = Prometheus::start(&targets, Some(&rules)) else { return };
        for job in ["files", "live"] {
            wait_for("a scrape", || prometheus.current(&format!("up{{job='{job}'}}")) == Ok(1.0));
        }
        for (title, expr) in queries() {
            let query = format!("count({})", concrete(&expr));
            let mut latest = Ok(0.0);
            wait_for(&format!("data of `{title}`: {query}"), || {
                latest = prometheus.current(&query);
                latest.as_ref().is_ok_and(|count| *count >= 1.0)
            });
        }
        let share = "count(instance_cpu:rxlab_interference:ratio_rate15m >= 0)";
        wait_for("the recording rule", || prometheus.current(share).is_ok_and(|cpus| cpus >= 1.0));
        wait_for("an alert", || {
            let pending =
                "count(ALERTS{alertname='RxlabCriticalFinding',rule='one-core-hotspot',subject='eth0'})";
            prometheus.current(pending) == Ok(1.0)
        });
    });
    files.end().exits(0);
    live.end().exits(0);
}

/// Title and query of each target of the dashboard.
fn queries() -> Vec<(String, String)> {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(move |target| (text(&panel["title"]), text(&target["expr"])))
    });
    targets.collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("text, not {value}")).to_owned()
}

fn dashboard() -> Value {
    let file = std::fs::read_to_string(deployed("grafana/rxlab.json")).expect("read");
    serde_json::from_str(&file).expect("JSON")
}

/// A query without the variables of Grafana.
fn concrete(expr: &str) -> String {
    let expr = expr.replace("$job", ".*").replace("$instance", ".*").replace("$__rate_interval", "10s");
    assert!(!expr.contains('$'), "an unknown variable in {expr}");
    expr
}

#[test]
fn the_dashboard_is_complete() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut ids: Vec<&Value> = panels.iter().map(|panel| &panel["id"]).collect();
    ids.dedup();
    assert_eq!(ids.len(), panels.len(), "each panel has its own id");
    for panel in panels {
        let (title, place) = (text(&panel["title"]), &panel["gridPos"]);
        let number = |name: &str| place[name].as_u64().unwrap_or_else(|| panic!("{title}: no {name}"));
        assert!(number("x") + number("w") <= 24 && number("h") > 0, "{title} is inside the grid");
        if panel["type"] == "row" {
            continue;
        }
        assert!(!text(&panel["description"]).is_empty(), "{title} is described");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title} takes the chosen Prometheus");
    }
    assert!(queries().len() > 20 && queries().iter().all(|(_, expr)| expr.contains("rxlab_")));
    let variables = dashboard["templating"]["list"].as_array().expect("variables").iter();
    let names: Vec<String> = variables.map(|variable| text(&variable["name"])).collect();
    assert_eq!(names, ["datasource", "job", "instance"]);
}

#[test]
fn the_alert_rules_pass_their_tests() {
    if !require::prometheus() {
        return;
    }
    let promtool = |args: &[&str]| -> Output {
        let mut command = Command::new("promtool");
        command.args(args).current_dir(deployed("prometheus")).output().expect("promtool runs")
    };
    promtool(&["check", "rules", "rxlab.rules.yml"]).says(0, "9 rules found");
    promtool(&["test", "rules", "rxlab.rules.test.yml"]).says(0, "SUCCESS");
}

/// Every metric that a rule or the dashboard names is in the table of the page, which a test compares with the program.
#[test]
fn rules_and_dashboard_name_existing_metrics() {
    let read = |path: PathBuf| std::fs::read_to_string(path).expect("read");
    let page = read(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/exporter.md"));
    let mut named: Vec<String> = Vec::new();
    for file in ["grafana/rxlab.json", "prometheus/rxlab.rules.yml"] {
        let text = read(deployed(file));
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
        named.extend(words.filter(|word| word.starts_with("rxlab_")).map(str::to_owned));
    }
    assert!(named.len() > 40, "the names are found: {named:?}");
    for name in named {
        assert!(page.contains(&format!("\n| `{name}` |")), "{name} is not a metric");
    }
}
