//! `rxlab mcp`: the commands as tools of the Model Context Protocol (<https://modelcontextprotocol.io>), over standard input and
//! output. A call runs this program as a process of its own, so that a tool does and says exactly what its command does.

mod calls;
mod message;
mod tools;

use std::io::{BufRead, Read};

use serde_json::{Value, json};

use self::calls::Calls;
use self::message::{Failure, Message, Reply};
use self::tools::{TOOLS, Tool};
use super::Global;
use crate::error::{CommandError, Kind, Result};

/// Offer the commands as tools for an agent, by the Model Context Protocol
///
/// Speaks over standard input and output. An agent can look, explain, plan, predict and try. A trial changes values while it
/// runs and puts them back at its end; without --allow-changes, only which CPUs take packets. Only with --allow-changes can an
/// agent set values: they go back after at most ten minutes unless a person runs `rxlab confirm`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Offer apply, tune and undo, and trials of settings that may stop packets
    #[arg(long)]
    allow_changes: bool,
}

/// Longest message that is read, bytes.
const LONGEST: u64 = 1 << 20;

/// Versions of the protocol that differ in nothing that is used here, the newest first. Not 2025-03-26: its servers must
/// take batches.
const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2024-11-05"];

/// For the agent, before its first call.
const INSTRUCTIONS: &str = "rxlab finds the CPU of this Linux host that has more packets to receive than time, says why, and shows by \
     randomized trials whether a setting helps. Begin with `doctor`. Do not conclude more than a tool says: `inconclusive` is \
     not `no effect`. Only a person can confirm what `apply` and `tune` set: `rxlab confirm` on the host.";

pub(super) fn run(global: &Global, args: &Args) -> Result {
    let calls = Calls::new(global)?;
    let ended = listen(&calls, args.allow_changes);
    calls.end();
    ended
}

/// Answers until standard input ends.
fn listen(calls: &Calls, allows_changes: bool) -> Result {
    let mut input = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        input.by_ref().take(LONGEST + 1).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(());
        }
        if line.len() as u64 > LONGEST {
            return Err(CommandError::new(Kind::Usage, format!("a message is longer than {LONGEST} bytes")));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        match Message::parse(&line) {
            Ok(message) => answer(calls, allows_changes, message),
            Err(refused) => calls.send(&refused),
        }
    }
}

/// Answers a request, or starts the call that will.
fn answer(calls: &Calls, allows_changes: bool, message: Message) {
    let Message { id, method, params } = message;
    let Some(id) = id else {
        if method == "notifications/cancelled" {
            calls.cancel(&params["requestId"]);
        }
        return;
    };
    let offered = || TOOLS.iter().filter(|tool| allows_changes || !tool.changes());
    let result = match method.as_str() {
        "initialize" => Ok(welcome(&params)),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({ "tools": offered().map(Tool::described).collect::<Vec<_>>() })),
        "tools/call" => match offered().find(|tool| params["name"] == tool.name) {
            Some(tool) => return calls.start(id, tool, allows_changes, params),
            None => Err(Failure::params(format!("unknown tool {}", params["name"]))),
        },
        _ => Err(Failure::method(&method)),
    };
    calls.send(&match result {
        Ok(result) => Reply::result(id, result),
        Err(failure) => Reply::failed(id, failure),
    });
}

/// The version asked for, or the newest one before it: a client that knows that one may know older ones, but no newer one.
fn version(asked: &Value) -> &'static str {
    let is_known = |version: &&&str| asked.as_str().is_some_and(|asked| **version <= asked);
    VERSIONS.iter().find(is_known).unwrap_or(&VERSIONS[0])
}

fn welcome(params: &Value) -> Value {
    json!({
        "protocolVersion": version(&params["protocolVersion"]),
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "rxlab", "version": env!("CARGO_PKG_VERSION") },
        "instructions": INSTRUCTIONS,
    })
}

#[cfg(test)]
mod tests {
    use super::version;
    use serde_json::{Value, json};

    #[test]
    fn a_version_is_one_that_the_client_may_know() {
        for known in ["2025-11-25", "2025-06-18", "2024-11-05"] {
            assert_eq!(version(&json!(known)), known);
        }
        assert_eq!(version(&json!("2025-03-26")), "2024-11-05");
        assert_eq!(version(&json!("2027-01-01")), "2025-11-25");
        assert_eq!([version(&json!("1.0")), version(&Value::Null)], ["2025-11-25"; 2]);
    }
}
