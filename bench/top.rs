//! Time until `rxlab top` shows its first screen, on this machine and of a snapshot; its CPU time on a large machine, and on
//! this one next to that of htop, if it is installed: `cargo run --release --example top [CPUS [QUEUES [SECONDS]]]`, 128, 64
//! and 60 by default.
//!
//! The large machine is a generated tree of plain files (`bench/scale/tree.rs`) whose CPU time and packets advance, so
//! file system costs are those of the temporary directory and eBPF takes no part. The terminal is one of `script`, of 200
//! columns and 60 rows; its CPU time is not in the figure. A first screen is there with the last words of its last line.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // Creates files and starts the program.

#[path = "scale/advance.rs"]
mod advance;
#[path = "scale/program.rs"]
mod program;
#[path = "scale/tree.rs"]
mod tree;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Starts of which the time to the first screen is taken.
const STARTS: usize = 21;
/// Time until the screen has figures and has been drawn some times.
const SETTLED: Duration = Duration::from_secs(5);
/// Rounds in which programs take turns on this machine.
const ROUNDS: u32 = 3;
/// The last words of the first screen of `rxlab top`.
const COMPLETE: &str = "q quit";

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u32>().expect("a number"));
    let defaults: [u32; 3] = [128, 64, 60];
    let [cpus, queues, seconds] = defaults.map(|default| numbers.next().unwrap_or(default));
    let (root, state) = (tempfile::tempdir(), tempfile::tempdir());
    let (root, state) = (root.expect("a temporary directory"), state.expect("a temporary directory"));
    let (root, state) = (root.path(), state.path());
    tree::make(root, cpus, queues);
    opens("this machine", &format!("--state-dir {}", state.display()));
    let file = state.join("host.tar.zst");
    let mut clock = Clock { root, cpus, moment: 0 };
    snapshot(&mut clock, state, &file);
    opens(
        &format!("a snapshot of {cpus} CPUs, {queues} queues"),
        &format!("--snapshot {} --state-dir {}", file.display(), state.display()),
    );
    let arguments = format!("--root {} --state-dir {}", root.display(), state.display());
    let part = percent_of_a_cpu(&rxlab(&arguments), COMPLETE, |time| clock.pass(time), seconds);
    println!("{cpus} CPUs, {queues} queues, at 1 Hz: {part:.2} % of one CPU");
    next_to_others(state, seconds);
}

/// Prints the CPU time of screens that are renewed once a second on this machine.
fn next_to_others(state: &Path, seconds: u32) {
    let own = rxlab(&format!("--state-dir {}", state.display()));
    let mut programs = vec![("rxlab top", own, COMPLETE)];
    match Command::new("htop").arg("--version").stdout(Stdio::null()).status() {
        Ok(_) => programs.push(("htop", "htop --delay 10".to_owned(), "Quit")),
        Err(error) => println!("htop: {error}"),
    }
    let pass = |time| {
        let begun = Instant::now();
        std::thread::sleep(time);
        begun.elapsed()
    };
    for round in 1..=ROUNDS {
        for (name, command, complete) in &programs {
            let part = percent_of_a_cpu(command, complete, pass, seconds / ROUNDS);
            println!("this machine, at 1 Hz, round {round}, {name}: {part:.2} % of one CPU");
        }
    }
}

/// CPU time of a screen for some seconds that `pass` lets go by, in percent of that time.
fn percent_of_a_cpu(
    command: &str,
    complete: &str,
    mut pass: impl FnMut(Duration) -> Duration,
    seconds: u32,
) -> f64 {
    let mut top = Top::start(command);
    top.wait_for_screen(complete);
    pass(SETTLED);
    let start = top.cpu_time();
    let wall = pass(Duration::from_secs(seconds.into()));
    let used = top.cpu_time() - start;
    top.end();
    100.0 * used.as_secs_f64() / wall.as_secs_f64()
}

/// The command line of `rxlab top` with these arguments.
fn rxlab(arguments: &str) -> String {
    format!("{} top {arguments}", program::rxlab().display())
}

/// Prints the time to the first screen of `rxlab top` with these arguments.
fn opens(what: &str, arguments: &str) {
    let mut times: Vec<Duration> = (0..STARTS)
        .map(|_| {
            let mut top = Top::start(&rxlab(arguments));
            let begun = Instant::now();
            top.wait_for_screen(COMPLETE);
            let time = begun.elapsed();
            top.end();
            time
        })
        .collect();
    times.sort_unstable();
    println!(
        "{what}: first screen after {:.1?}, at most {:.1?}, of {STARTS} starts",
        times[STARTS / 2],
        times[STARTS - 1]
    );
}

/// Time on the generated machine.
struct Clock<'a> {
    root: &'a Path,
    cpus: u32,
    moment: u64,
}

impl Clock<'_> {
    /// Lets this much time pass. Returns how long it really took.
    fn pass(&mut self, time: Duration) -> Duration {
        let begun = Instant::now();
        while begun.elapsed() < time {
            self.moment += 1;
            advance::advance(self.root, self.cpus, self.moment);
            std::thread::sleep(Duration::from_millis(100));
        }
        begun.elapsed()
    }
}

/// Takes a snapshot of the generated machine while time passes there.
fn snapshot(clock: &mut Clock<'_>, state: &Path, file: &Path) {
    let mut command = Command::new(program::rxlab());
    command.args(["snapshot", "--for", "1s", "--root"]).arg(clock.root);
    command.arg("--state-dir").arg(state).arg("-o").arg(file).stdout(Stdio::null());
    let mut child = command.spawn().expect("started");
    let status = loop {
        match child.try_wait().expect("a child") {
            Some(status) => break status,
            None => _ = clock.pass(Duration::from_millis(100)),
        }
    };
    assert!(status.success(), "no snapshot was taken");
}

/// A running screen, in a terminal.
struct Top {
    script: Child,
    keys: ChildStdin,
    /// Until the first screen.
    screen: Option<ChildStdout>,
    pid: String,
}

impl Top {
    /// Returns when the shell of the terminal is about to execute the program.
    fn start(command: &str) -> Self {
        let line = format!("stty rows 60 cols 200; echo pid $$ ready; exec {command}");
        let mut script = Command::new("script")
            .args(["-q", "-c", &line, "/dev/null"])
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script runs");
        let (keys, screen) = (script.stdin.take().expect("a pipe"), script.stdout.take());
        let mut top = Self { script, keys, screen, pid: String::new() };
        let said = top.read_until("ready");
        top.pid = said.split_whitespace().nth(1).expect("its number").to_owned();
        top
    }

    /// Reads what the terminal shows up to a text.
    fn read_until(&mut self, text: &str) -> String {
        let screen = self.screen.as_mut().expect("not drained yet");
        let (mut seen, mut part) = (Vec::new(), [0; 65_536]);
        loop {
            let length = screen.read(&mut part).expect("readable");
            assert!(length > 0, "the terminal is closed after {}", String::from_utf8_lossy(&seen));
            seen.extend(&part[..length]);
            let shown = String::from_utf8_lossy(&seen);
            if shown.contains(text) {
                return shown.into_owned();
            }
        }
    }

    fn wait_for_screen(&mut self, complete: &str) {
        self.read_until(complete);
        // From now on drawing must not block the process.
        let mut screen = self.screen.take().expect("not drained yet");
        std::thread::spawn(move || std::io::copy(&mut screen, &mut std::io::sink()));
    }

    /// CPU time of the threads of the program (proc_pid_schedstat(5)); all of them live as long as it does.
    fn cpu_time(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).expect("it runs");
        let time = |thread: fs::DirEntry| -> u64 {
            let text = fs::read_to_string(thread.path().join("schedstat")).expect("readable");
            text.split_whitespace().next().expect("a number").parse().expect("a number")
        };
        Duration::from_nanos(threads.map(|thread| time(thread.expect("listed"))).sum())
    }

    fn end(mut self) {
        self.keys.write_all(b"q").expect("it listens");
        // `script` waits for more keys otherwise.
        drop(self.keys);
        assert!(self.script.wait().expect("a child").success());
    }
}
