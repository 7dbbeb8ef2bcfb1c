//! `rxlab mcp`: with the client that the protocol's authors publish, and message by message.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::lab::{host_in, range};
use crate::process::{Running, end_guards, mentioning, rxlab, wait_for};
use crate::require;
use rxlab_sys::Host;

/// A server to talk to by hand.
struct Server {
    input: std::process::ChildStdin,
    lines: std::sync::mpsc::Receiver<String>,
    process: Running,
    state: tempfile::TempDir,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let state = tempfile::tempdir().expect("a temporary directory");
        let command = rxlab(state.path(), &[&["mcp"], args].concat());
        Self::of(command, state)
    }

    fn of(mut command: Command, state: tempfile::TempDir) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Running::spawn(&mut command);
        Self { input: process.stdin(), lines: process.lines(), process, state }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("it reads");
    }

    fn request(&mut self, id: u32, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
    }

    fn next(&self) -> Value {
        let line = self.lines.recv_timeout(crate::process::PATIENCE).expect("an answer");
        serde_json::from_str(&line).expect("JSON")
    }

    fn ask(&mut self, id: u32, method: &str, params: Value) -> Value {
        self.request(id, method, params);
        self.next()
    }

    /// Ends standard input, and returns the exit code.
    fn end(self) -> i32 {
        drop(self.input);
        self.process.output().status.code().expect("not killed")
    }
}

/// Calls that run: processes with the state directory on their command line.
fn calls(state: &Path, server: &Running) -> usize {
    mentioning(state).into_iter().filter(|pid| *pid != server.pid()).count()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().expect("text")
}

#[test]
fn a_client_sets_a_value_and_puts_it_back() {
    let Some(packages) = require::mcp() else { return };
    let Some(range) = range(1) else { return };
    let state = tempfile::tempdir().expect("a temporary directory");
    let server = rxlab(
        state.path(),
        &["--netns", range.server.path().to_str().expect("text"), "mcp", "--allow-changes"],
    );
    let mut client = Command::new("python3");
    client.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/lab/mcp-client.py")).env("PYTHONPATH", packages);
    client.arg(server.get_program()).args(server.get_args());
    client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = Running::spawn(&mut client);
    let (mut input, lines) = (client.stdin(), client.lines());
    let next = || -> Value {
        let line = lines.recv_timeout(2 * crate::process::PATIENCE).expect("an answer");
        serde_json::from_str(&line).expect("JSON")
    };
    assert_eq!(next()["tools"].as_array().map(Vec::len), Some(10));
    let mut call = |tool: &str, arguments: Value| {
        writeln!(input, "{}", json!({ "tool": tool, "arguments": arguments })).expect("it reads");
        next()
    };
    let rps =
        || host_in(&range.server).read_text("sys/class/net/srv0/queues/rx-0/rps_cpus").expect("readable");
    let before = rps();

    let shown = call("show", json!({ "nic": "srv0" }));
    assert!(text(&shown).contains("srv0"), "{shown}");
    let explained = call("explain", json!({ "name": "one-core-hotspot", "json": true }));
    assert!(explained["structuredContent"]["rules"].is_array(), "{explained}");
    let set = call("apply", json!({ "settings": ["rps srv0/rx-0 = 1"], "deadline": "10m" }));
    assert_eq!(set["isError"], false, "{set}");
    assert!(set.to_string().contains("confirm"), "{set}");
    assert_ne!(rps(), before);
    let again = call("apply", json!({ "settings": ["rps srv0/rx-0 = 0"], "deadline": "11m" }));
    assert_eq!(
        (&again["isError"], text(&again)),
        (&json!(true), "`deadline`: 11m is longer than 10 minutes")
    );
    let wrong = call("doctor", json!({ "nic": "eth99" }));
    assert!(wrong["isError"] == true && text(&wrong).contains("eth99"), "{wrong}");
    let undone = call("undo", json!({}));
    assert_eq!((&undone["isError"], rps()), (&json!(false), before), "{undone}");
    drop(input);
    let ended = client.output();
    end_guards(state.path());
    assert!(ended.status.success(), "{ended:?}");
}

#[test]
fn messages_are_answered_while_a_call_runs() {
    let mut server = Server::start(&[]);
    let welcome = server.ask(1, "initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {} }));
    assert_eq!(welcome["result"]["protocolVersion"], "2025-06-18");
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let sample =
        json!({ "name": "doctor", "arguments": { "sample": "60s" }, "_meta": { "progressToken": "t" } });
    server.request(2, "tools/call", sample);
    assert_eq!(server.ask(3, "ping", json!({})), json!({ "jsonrpc": "2.0", "id": 3, "result": {} }));
    let progress = server.next();
    assert_eq!(
        (&progress["method"], &progress["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!("t"))
    );
    // Another call of this number could be neither cancelled nor waited for.
    let twice = server.ask(2, "tools/call", json!({ "name": "explain", "arguments": { "name": "rps" } }));
    assert_eq!((&twice["id"], &twice["error"]["code"]), (&json!(2), &json!(-32600)));
    // What is cancelled ends, and is not answered.
    assert_eq!(calls(server.state.path(), &server.process), 1);
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    wait_for("its end", || calls(server.state.path(), &server.process) == 0);
    assert_eq!(server.ask(4, "ping", json!({}))["id"], 4);
    // The end of standard input interrupts what runs.
    server.request(5, "tools/call", json!({ "name": "doctor", "arguments": { "sample": "60s" } }));
    wait_for("the call", || calls(server.state.path(), &server.process) == 1);
    let began = std::time::Instant::now();
    assert_eq!(server.end(), 0);
    assert!(began.elapsed() < Duration::from_secs(50), "it waited for the sample");
}

#[test]
fn a_call_ends_with_a_server_that_is_killed() {
    let mut server = Server::start(&[]);
    server.request(1, "tools/call", json!({ "name": "doctor", "arguments": { "sample": "60s" } }));
    wait_for("the call", || calls(server.state.path(), &server.process) == 1);
    server.process.signal(rustix::process::Signal::KILL);
    wait_for("its end", || calls(server.state.path(), &server.process) == 0);
}

/// Its guard holds the deadline, in a session of its own.
#[test]
fn a_change_goes_back_after_its_server_is_killed() {
    let Some(range) = range(1) else { return };
    let state = tempfile::tempdir().expect("a temporary directory");
    let netns = range.server.path().to_str().expect("text").to_owned();
    let command = rxlab(state.path(), &["--netns", &netns, "mcp", "--allow-changes"]);
    let mut server = Server::of(command, state);
    let rps =
        || host_in(&range.server).read_text("sys/class/net/srv0/queues/rx-0/rps_cpus").expect("readable");
    let before = rps();
    let call =
        json!({ "name": "apply", "arguments": { "settings": ["rps srv0/rx-0 = 1"], "deadline": "3s" } });
    let set = server.ask(1, "tools/call", call);
    assert_eq!(set["result"]["isError"], false, "{set}");
    assert_ne!(rps(), before);
    server.process.signal(rustix::process::Signal::KILL);
    wait_for("the deadline", || rps() == before && mentioning(server.state.path()).is_empty());
}

#[test]
fn changes_are_not_offered_unless_they_are_allowed() {
    let mut server = Server::start(&[]);
    let listed = server.ask(1, "tools/list", Value::Null);
    let tools = listed["result"]["tools"].as_array().expect("a list");
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().expect("text")).collect();
    assert_eq!(names, ["doctor", "show", "explain", "plan", "predict", "trial", "status"]);
    let refused = server.ask(
        2,
        "tools/call",
        json!({ "name": "apply", "arguments": { "settings": ["rps eth0/rx-0 = 1"] } }),
    );
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["message"]),
        (&json!(-32602), &json!("unknown tool \"apply\""))
    );
    for (line, code) in [("{", -32700), ("[]", -32600), (r#"{"id":3,"method":"resources/list"}"#, -32601)] {
        server.send(line);
        assert_eq!(server.next()["error"]["code"], code, "{line}");
    }
    let odd = server.ask(
        4,
        "tools/call",
        json!({ "name": "explain", "arguments": { "name": "rps" }, "_meta": "x" }),
    );
    assert_eq!(odd["result"]["isError"], false, "{odd}");
    assert_eq!(server.ask(5, "tools/call", json!(["explain"]))["error"]["code"], -32602);
    server.send("");
    assert_eq!(server.ask(6, "ping", Value::Null)["id"], 6);
    assert_eq!(server.end(), 0);
}

/// A line without an end takes a bounded amount of memory.
#[test]
fn a_message_that_does_not_end_is_refused() {
    let mut server = Server::start(&[]);
    let _ = server.input.write_all(&vec![b'x'; 3 << 20]);
    let output = server.process.output();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("a message is longer than 1048576 bytes"),
        "{output:?}"
    );
}
