//! Calls of tools: each is a process of this program.

#![allow(clippy::disallowed_methods)] // Starts this program again.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::message::{Failure, Reply};
use super::tools::Tool;
use crate::commands::config::VARIABLE as CONFIG;
use crate::commands::tree::EXIT_CODES;
use crate::commands::{Global, output};
use crate::error::{CommandError, Result};
use rxlab_sys::signal_at_our_end;

/// Calls that run at once.
const MOST: usize = 8;

/// Longest output of a call, bytes.
const LONGEST: u64 = 4 << 20;

/// Between two notifications that a call goes on.
const PROGRESS: Duration = Duration::from_secs(5);

/// The calls that run.
pub(super) struct Calls {
    program: PathBuf,
    /// Options of every command, as this process was given them.
    options: Vec<OsString>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    running: Mutex<Vec<Running>>,
    /// One has ended.
    ended: Condvar,
    /// Held while a message is written.
    output: Mutex<()>,
}

struct Running {
    id: Value,
    /// Not reaped before it leaves the list: its number is its own.
    pid: Option<Pid>,
    /// Its answer is not wanted any more.
    is_cancelled: bool,
}

impl Calls {
    pub(super) fn new(global: &Global) -> Result<Self> {
        let program = std::env::current_exe()
            .map_err(|error| CommandError::failed(format!("cannot find this program: {error}")))?;
        let option = |flag: &str, value: OsString| {
            let mut word = OsString::from(flag);
            word.push(value);
            word
        };
        let mut options = vec![
            option("--root=", global.root.clone().into()),
            option("--state-dir=", global.state_dir.clone().into()),
            option("--run-dir=", global.run_dir.clone().into()),
        ];
        options.extend(global.netns.as_ref().map(|netns| option("--netns=", netns.into())));
        Ok(Self { program, options, shared: Arc::default() })
    }

    /// Writes a message.
    pub(super) fn send(&self, reply: &Reply) {
        self.shared.send(reply);
    }

    /// Runs a tool; its answer follows.
    pub(super) fn start(&self, id: Value, tool: &Tool, allows_changes: bool, mut params: Value) {
        let refused = |why: String| self.send(&Reply::result(id.clone(), told(true, [why.as_str()])));
        let (words, is_json) = match tool.words(params["arguments"].take(), allows_changes) {
            Ok(words) => words,
            Err(why) => return refused(why),
        };
        let mut running = self.shared.running();
        if running.iter().any(|running| running.id == id) {
            drop(running);
            return self.send(&Reply::failed(id, Failure::request("a call with this `id` runs already")));
        }
        if running.len() == MOST {
            drop(running);
            return refused(format!("{MOST} calls run already: wait for one of them"));
        }
        let child = match self.command(words).spawn() {
            Ok(child) => child,
            Err(error) => {
                drop(running);
                return refused(format!("cannot run rxlab: {error}"));
            }
        };
        running.push(Running { id: id.clone(), pid: Some(Pid::from_child(&child)), is_cancelled: false });
        drop(running);
        let token = params.pointer("/_meta/progressToken").cloned().unwrap_or(Value::Null);
        let shared = Arc::clone(&self.shared);
        thread::spawn(move || {
            let result = shared.watch(child, is_json, &id, &token);
            if let Some(result) = shared.is_wanted(&id).then_some(result) {
                shared.send(&Reply::result(id.clone(), result));
            }
            shared.running().retain(|running| running.id != id);
            shared.ended.notify_all();
        });
    }

    /// This program with these words.
    fn command(&self, words: Vec<String>) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.options)
            .args(words)
            // No default of a configuration file, such as `keep = true` of `tune`, outranks the deadline.
            .env(CONFIG, "")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // As if its connection had ended, should this process be killed.
        signal_at_our_end(&mut command, Signal::TERM);
        command
    }

    /// Interrupts a call, which restores what it has changed, and is not answered.
    pub(super) fn cancel(&self, id: &Value) {
        self.shared.running().iter_mut().filter(|running| running.id == *id).for_each(Running::interrupt);
    }

    /// Interrupts all, and waits until they have restored what they have changed.
    pub(super) fn end(&self) {
        let mut running = self.shared.running();
        running.iter_mut().for_each(Running::interrupt);
        while !running.is_empty() {
            running = self.shared.ended.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Running {
    fn interrupt(&mut self) {
        self.is_cancelled = true;
        // Not SIGINT, which a shell has ignored by what it starts in the background (POSIX, asynchronous lists).
        // Fails only if it has just ended.
        let _ = self.pid.map(|pid| kill_process(pid, Signal::TERM));
    }
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, Vec<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, reply: &Reply) {
        let _one = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(line) = output::json_line(reply) else { return };
        let mut out = output::json_stdout();
        // An agent that has gone closes standard input too, which ends this process.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }

    /// Reads what a call says until it ends, and tells from time to time that it goes on.
    fn watch(&self, mut child: Child, is_json: bool, id: &Value, token: &Value) -> Value {
        let began = Instant::now();
        let (sender, receiver) = channel::<()>();
        let read = |pipe: Option<Box<dyn Read + Send>>| {
            let sender = sender.clone();
            thread::spawn(move || {
                let text = text_of(pipe);
                drop(sender);
                text
            })
        };
        let out = read(child.stdout.take().map(|pipe| Box::new(pipe) as _));
        let err = read(child.stderr.take().map(|pipe| Box::new(pipe) as _));
        drop(sender);
        while let Err(RecvTimeoutError::Timeout) = receiver.recv_timeout(PROGRESS) {
            if !token.is_null() && self.is_wanted(id) {
                let progress = json!({ "progressToken": token, "progress": began.elapsed().as_secs() });
                self.send(&Reply::notification("notifications/progress", progress));
            }
        }
        let [out, err] = [out, err].map(|text| text.join().unwrap_or_else(|_| Ok(String::new())));
        self.running().iter_mut().filter(|running| running.pid == Some(Pid::from_child(&child))).for_each(
            |running| {
                running.pid = None;
            },
        );
        match (out, err, child.wait()) {
            (Ok(out), Ok(err), Ok(status)) => said(&out, &err, status, is_json),
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                told(true, [format!("cannot read its output: {error}").as_str()])
            }
        }
    }

    /// True if the answer to a call is still wanted.
    fn is_wanted(&self, id: &Value) -> bool {
        self.running().iter().any(|running| running.id == *id && !running.is_cancelled)
    }
}

fn text_of(pipe: Option<Box<dyn Read + Send>>) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.by_ref().take(LONGEST).read_to_end(&mut bytes)?;
        // What is left is read as well: a closed pipe would end a command that goes on.
        if io::copy(&mut pipe, &mut io::sink())? > 0 {
            return Err(io::Error::other(format!("it is longer than {LONGEST} bytes")));
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The result of a call: what it printed, then what it complained of and what its exit code means.
fn said(out: &str, err: &str, status: ExitStatus, is_json: bool) -> Value {
    let means = match (status.code(), status.signal()) {
        (Some(0), _) => String::new(),
        (Some(code), _) => {
            let known = EXIT_CODES.iter().find(|(known, _)| *known == code.to_string());
            format!("exit code {code}: {}", known.map_or("unknown", |(_, meaning)| meaning))
        }
        (None, signal) => format!("killed by signal {}", signal.unwrap_or(0)),
    };
    let more = [err.trim_end(), &means].into_iter().filter(|text| !text.is_empty());
    let (out, more) = (out.trim_end(), more.collect::<Vec<_>>().join("\n"));
    let texts = [out, &more].into_iter().filter(|text| !text.is_empty());
    let mut result = told(!matches!(status.code(), Some(0 | 1)), texts);
    let structured = is_json.then(|| serde_json::from_str::<Value>(out).ok()).flatten();
    if let Some(structured) = structured.filter(Value::is_object) {
        result["structuredContent"] = structured;
    }
    result
}

fn told<'a>(is_error: bool, texts: impl IntoIterator<Item = &'a str>) -> Value {
    let content: Vec<Value> = texts.into_iter().map(|text| json!({ "type": "text", "text": text })).collect();
    json!({ "content": content, "isError": is_error })
}

#[cfg(test)]
mod tests {
    use super::{CONFIG, Calls, LONGEST, said, text_of};
    use std::ffi::OsStr;
    use std::io::Cursor;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn ended(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    #[test]
    fn findings_are_no_error_of_the_call() {
        let found = said("!! CPU 2 is full\n", "", ended(1), false);
        assert_eq!(found["isError"], false);
        assert_eq!(found["content"][0]["text"], "!! CPU 2 is full");
        let means = found["content"][1]["text"].as_str().expect("text");
        assert!(means.starts_with("exit code 1: findings"), "{means}");
        let wrong = said("", "rxlab: no eth9\n  hint: rxlab show\n", ended(2), false);
        assert_eq!(wrong["isError"], true);
        let text = wrong["content"][0]["text"].as_str().expect("text");
        assert!(
            text.starts_with("rxlab: no eth9\n  hint: rxlab show\nexit code 2: the command line"),
            "{text}"
        );
        let killed = said("", "", ExitStatus::from_raw(9), false);
        assert_eq!(killed["content"][0]["text"], "killed by signal 9");
    }

    #[test]
    fn json_is_given_as_data_too() {
        let found = said("{\"findings\": []}\n", "rxlab: warning: odd\n", ended(1), true);
        assert_eq!(found["structuredContent"]["findings"].as_array().map(Vec::len), Some(0));
        // A client of a version without structured content reads the text.
        let text = found["content"][0]["text"].as_str().expect("text");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(text).ok().as_ref(),
            found.get("structuredContent")
        );
        assert_eq!(said("not JSON", "", ended(0), true).get("structuredContent"), None);
    }

    #[test]
    fn the_configuration_file_gives_no_defaults() {
        let calls = Calls { program: "rxlab".into(), options: Vec::new(), shared: Default::default() };
        let command = calls.command(vec!["status".to_owned()]);
        assert!(command.get_envs().any(|env| env == (OsStr::new(CONFIG), Some(OsStr::new("")))));
    }

    #[test]
    fn any_output_is_read_to_its_end() {
        let read = |bytes: Vec<u8>| text_of(Some(Box::new(Cursor::new(bytes))));
        assert_eq!(read(b"eth\xff\n".to_vec()).expect("text"), "eth\u{fffd}\n");
        let most = usize::try_from(LONGEST).expect("a size");
        assert_eq!(read(vec![b'x'; most]).expect("text").len(), most);
        let error = read(vec![b'x'; most + 1]).expect_err("too long");
        assert_eq!(error.to_string(), "it is longer than 4194304 bytes");
    }
}
