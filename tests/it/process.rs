//! Processes of the program under test: starting, finding and stopping them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;

/// Far longer than anything here takes: only a hang reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The response of a server to `request`, up to the end of the connection.
pub(crate) fn response(server: impl ToSocketAddrs, request: &str) -> String {
    let mut stream = TcpStream::connect(server).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered and closed");
    text
}

/// Stops threads, even if the test fails.
pub(crate) struct Stop<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A port of 127.0.0.1 that is free for TCP and UDP. The kernel gives connections those from 32768 on, so that only
/// tests can take it, and no two of this machine get the same.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    loop {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(port < 32_768, "no free port");
        let is_used = ["tcp", "tcp6", "udp", "udp6"].iter().any(|protocol| is_local(port, protocol));
        if !is_used && is_claimed(port) {
            return port;
        }
    }
}

/// True if this process now has the name of a port, which it keeps until it ends, and no other process had it.
fn is_claimed(port: u16) -> bool {
    let name = SocketAddr::from_abstract_name(format!("rxlab-test-port-{port}")).expect("a name");
    UnixListener::bind_addr(&name).map(std::mem::forget).is_ok()
}

/// True if a socket of `protocol` has this port here. A trial bind would hold the port longer than this process does:
/// processes started meanwhile have a copy of its socket until they run their program.
fn is_local(port: u16, protocol: &str) -> bool {
    let sockets = std::fs::read_to_string(format!("/proc/net/{protocol}")).unwrap_or_default();
    let end = format!(":{port:04X}");
    sockets.lines().any(|line| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&end)))
}

/// A text without the line breaks of an 80-column terminal.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `rxlab` with a separate state directory and no input.
pub(crate) fn rxlab(state: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rxlab"));
    command.arg("--state-dir").arg(state).arg("--run-dir").arg(state.join("run"));
    command.args(args).stdin(Stdio::null());
    command
}

/// The JSON on standard output of a program that ended.
pub(crate) fn json<T: DeserializeOwned>(output: &Output) -> T {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Checks of a command that ended, or is run to its end here; each returns its text.
pub(crate) trait Ended: Sized {
    /// Exit code, and standard output followed by standard error.
    fn said(self) -> (i32, String);

    /// It ended with this exit code, and all `parts` are in its text.
    #[track_caller]
    fn says_all(self, code: i32, parts: &[&str]) -> String {
        let (exit, text) = self.said();
        assert!(exit == code, "expected {code}, but {exit}: {text}");
        parts.iter().for_each(|part| assert!(text.contains(part), "expected {part:?}, but: {text}"));
        text
    }

    /// It ended with this exit code, and `part` is in its text.
    #[track_caller]
    fn says(self, code: i32, part: &str) -> String {
        self.says_all(code, &[part])
    }

    /// It ended with this exit code.
    #[track_caller]
    fn exits(self, code: i32) -> String {
        self.says_all(code, &[])
    }

    /// It measured to the end. What the verdict is, and so the exit code, is up to the machine: of a few short slots it
    /// may be that the change hurts.
    #[track_caller]
    fn measures(self) -> String {
        let (exit, text) = self.said();
        assert!(exit <= 1 && !text.contains("guard tripped"), "expected a verdict, but {exit}: {text}");
        text
    }

    /// It ended with this exit code, and its text is JSON.
    #[track_caller]
    fn json<T: DeserializeOwned>(self, code: i32) -> T {
        let text = self.exits(code);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

impl Ended for &Output {
    fn said(self) -> (i32, String) {
        let text = [&self.stdout[..], &self.stderr[..]].concat();
        (self.status.code().expect("not killed"), String::from_utf8(text).expect("text"))
    }
}

impl Ended for &mut Command {
    fn said(self) -> (i32, String) {
        self.output().expect("the program runs").said()
    }
}

impl<T: AsRef<str>> Ended for (i32, T) {
    fn said(self) -> (i32, String) {
        (self.0, self.1.as_ref().to_owned())
    }
}

/// The same command with a higher CPU weight than other processes: in a separate session, because weights apply
/// within a session and among sessions.
pub(crate) fn weighty(command: &Command) -> Command {
    let script = "echo -15 > /proc/self/autogroup; renice -n -15 -p $$ > /dev/null; exec \"$@\"";
    let mut heavy = Command::new("setsid");
    heavy.args(["sh", "-c", script, "sh"]).arg(command.get_program()).args(command.get_args());
    heavy.stdin(Stdio::null());
    heavy
}

/// The same command on a terminal whose user types nothing.
pub(crate) fn on_a_terminal(command: &Command) -> Command {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.to_str().expect("text"))).collect();
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &words.join(" "), "/dev/null"]).stdin(Stdio::null()).env("TERM", "xterm");
    terminal
}

/// Copies the program in a separate process: while this one has the copy open for writing, a child started by another
/// test inherits the descriptor for a moment, and then the copy cannot be executed.
pub(crate) fn copy_program(to: &Path) {
    let status = Command::new("cp").arg(env!("CARGO_BIN_EXE_rxlab")).arg(to).status();
    assert!(status.expect("cp runs").success());
}

/// Kills the guards of the journals below `directory`: a test that ends before a deadline leaves one behind.
pub(crate) fn end_guards(directory: &Path) {
    for pid in guards(directory) {
        // It may be exiting at this moment.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// The `rxlab guard` processes of the journals below `directory`.
pub(crate) fn guards(directory: &Path) -> Vec<Pid> {
    let mut found = mentioning(directory);
    found.retain(|pid| {
        let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"guard")
    });
    found
}

/// A running program, killed if the test ends first.
pub(crate) struct Running {
    child: Option<Child>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Starts it without input and output.
    pub(crate) fn silent(command: &mut Command) -> Self {
        Self::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// Starts it with the streams of `command`.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self { child: Some(command.spawn().expect("the program starts")) }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().expect("not waited for yet"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("signalled");
    }

    /// Stops it, and returns true if `holds` is true once it has stopped, so that nothing it does comes before a kill.
    /// Else it goes on.
    pub(crate) fn stops_while(&self, holds: impl FnOnce() -> bool) -> bool {
        self.signal(Signal::STOP);
        wait_for("the stop", || {
            let state = std::fs::read_to_string(format!("/proc/{}/stat", self.pid().as_raw_nonzero()));
            state.expect("it runs").contains(") T ")
        });
        let holds = holds();
        if !holds {
            self.signal(Signal::CONT);
        }
        holds
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("not waited for yet")
    }

    /// Its standard input, which ends when the value is dropped.
    pub(crate) fn stdin(&mut self) -> std::process::ChildStdin {
        self.child().stdin.take().expect("not taken yet")
    }

    /// Its standard output, for reading while it runs.
    pub(crate) fn stdout(&mut self) -> std::process::ChildStdout {
        self.child().stdout.take().expect("not taken yet")
    }

    /// Lines of its standard output as they arrive: reading them does not block.
    pub(crate) fn lines(&mut self) -> Receiver<String> {
        let (sender, lines) = channel();
        let out = BufReader::new(self.stdout()).lines();
        std::thread::spawn(move || out.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        lines
    }

    /// The first line of its standard output. Later ones are lost.
    pub(crate) fn first_line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.stdout()).read_line(&mut line).expect("readable");
        line
    }

    pub(crate) fn output(mut self) -> Output {
        self.child.take().expect("not waited for yet").wait_with_output().expect("ended")
    }

    /// Waits until `done` returns true, which cannot be if it ends before.
    pub(crate) fn until(&mut self, what: &str, mut done: impl FnMut() -> bool) {
        wait_for(what, || {
            let has_ended = self.has_ended();
            let is_done = done();
            if has_ended && !is_done {
                let output = self.child.take().expect("not waited for yet").wait_with_output();
                panic!("{what}: it ended before: {:?}", (&output.expect("ended")).said());
            }
            is_done
        });
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| child.try_wait().expect("asked").is_some())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A process that waits for [`take_name`].
pub(crate) fn renaming() -> Running {
    let script = "import ctypes, signal, sys\nsys.stdin.readline()\nctypes.CDLL(None).prctl(15, b'z\\xff)')\n\
                  print('done', flush=True)\nsignal.pause()";
    let mut command = Command::new("python3");
    Running::spawn(command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()))
}

/// Gives it the name `z\xff)`.
pub(crate) fn take_name(process: &mut Running) {
    process.stdin().write_all(b"now\n").expect("it reads");
    assert_eq!(process.first_line(), "done\n");
}

/// Processes with `path` on their command line, which includes all that use a state directory.
pub(crate) fn mentioning(path: &Path) -> Vec<Pid> {
    let path = path.to_str().expect("text");
    let entries = std::fs::read_dir("/proc").expect("listed");
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            // A process that has exited meanwhile has no command line, and neither has a zombie.
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            String::from_utf8_lossy(&line).contains(path).then_some(pid)
        })
        .collect()
}
