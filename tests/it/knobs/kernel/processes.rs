//! CPUs of processes and their threads.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use rxlab_change::journal::Outcome;

use super::Bench;
use crate::process::{Ended, Running, one_line, renaming, rxlab, take_name, wait_for};
use crate::require;

/// A server with three threads in addition to the main one, one of them pinned.
#[test]
fn threads_of_a_real_process() {
    let bench = Bench::here();
    let mut command =
        rxlab(bench.state.path(), &["target", "--http", "127.0.0.1:0", "--threads", "3", "--cpus", "0"]);
    let server = Running::start(&mut command);
    let pid = server.pid().as_raw_nonzero();
    let place = format!("affinity pid:{pid} = all");
    let lists = || bench.read(&place);
    // The main thread and three, each of which pins itself once it has started.
    let own = format!("all@{pid}:");
    let is_settled = |lists: &str| {
        let parts: Vec<&str> = lists.split(';').collect();
        let is_main = |part: &&str| part.starts_with(&own) && !part.contains([',', '-']);
        parts.len() == 2 && parts.iter().any(is_main)
    };
    let tids = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    wait_for("its threads", || tids() == 4 && is_settled(&lists()));
    let before = lists();
    let mut open = bench.begin();
    open.set(&format!("affinity pid:{pid} = 1"));
    let after = lists();
    assert!(after.starts_with("1@") && !after.contains(';'), "{after}");
    assert_eq!(open.undo(), [Outcome::Restored]);
    assert_eq!(lists(), before);

    let mut open = bench.begin();
    open.set(&format!("affinity pid:{pid} = 1"));
    drop(server);
    assert_eq!(open.undo(), [Outcome::Gone]);
}

/// Three threads and the main one. Each line on the standard input is a request: `pin` pins one of them to CPU 1, `start`
/// starts another one.
const THREADS: &str = "import os, sys, threading, time
pins = []
def wait():
    while True:
        time.sleep(0.02)
        if pins: os.sched_setaffinity(0, {pins.pop()})
def start(): threading.Thread(target=wait, daemon=True).start()
for _ in range(3): start()
print('ready', flush=True)
for line in sys.stdin:
    if line == 'pin\\n': pins.append(1)
    else: start()
";

/// One thread pinned itself after the apply, and one was started. The whole process once counted as changed: undo and guard
/// left every thread where rxlab had moved it, and closed the transaction.
#[test]
fn a_thread_that_pinned_itself_keeps_no_other_from_going_back() {
    let state = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new("python3");
    command.args(["-c", THREADS]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut process = command.spawn().expect("started");
    let (pid, mut input) = (process.id(), process.stdin.take().expect("piped"));
    let lists = || -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        let list = |task: std::io::Result<std::fs::DirEntry>| {
            let text = std::fs::read_to_string(task.expect("listed").path().join("status")).expect("it runs");
            rxlab_base::parse::allowed_cpus(&text).expect("whole").to_string()
        };
        tasks.map(list).collect()
    };
    let count = |list: &str| lists().iter().filter(|found| *found == list).count();
    wait_for("its threads", || lists().len() == 4);
    let before = lists()[0].clone();
    let run = |args: &[&str]| rxlab(state.path(), args).said();
    let mut meddle = |request: &str, is_done: &dyn Fn() -> bool| {
        writeln!(input, "{request}").expect("it reads");
        wait_for(request, is_done);
    };
    let apply = ["apply", "-y", "--setting", &format!("affinity pid:{pid} = 0")];

    run(&apply).exits(0);
    meddle("pin", &|| count("1") == 1);
    meddle("start", &|| count("0") == 4);
    run(&["status"]).says(1, "DRIFTED in part: thread");
    let dry = run(&["undo", "--dry-run"]);
    assert_eq!(count("0"), 4, "{dry:?}");
    let text = one_line(&run(&["undo"]).exits(4));
    assert!(text.contains("restored in part: threads") && text.contains("= 1"), "{text}");
    assert_eq!((count(&before), count("1")), (4, 1), "{text}");
    run(&["status"]).says(0, "nothing is applied");

    // Once more, for the guard and for --force.
    let guarded = [&apply[..], &["--confirm", "1s"]].concat();
    run(&guarded).exits(0);
    meddle("pin", &|| count("1") == 1);
    wait_for("the guard", || rxlab(state.path(), &["status"]).said().0 == 0);
    // The one that was pinned first had that list before.
    let there = (count(&before), count("1"));
    assert!(there.0 >= 3 && there.0 + there.1 == 5, "{there:?}");
    wait_for("the guard's end", || rxlab(state.path(), &apply).said().0 == 0);
    meddle("pin", &|| count("1") == 1);
    run(&["undo", "--force"]).exits(0);
    assert_eq!((count(&before), count("1")), there);
    process.kill().and_then(|()| process.wait()).expect("it runs");
}

/// A pinned thread, another one, and the main one. A line on the standard input ends the pinned one and starts another with
/// its number, which is printed.
const REUSED: &str = "import os, sys, threading, time
def run(pin, end):
    if pin: os.sched_setaffinity(0, {1})
    end.wait()
def start(pin):
    end = threading.Event()
    thread = threading.Thread(target=run, args=(pin, end), daemon=True)
    thread.start()
    return thread, end
start(False)
pinned, end = start(True)
tid = pinned.native_id
sys.stdin.readline()
end.set()
while os.path.exists(f'/proc/self/task/{tid}'): time.sleep(0.001)
while True:
    time.sleep(0.02)
    with open('/proc/sys/kernel/ns_last_pid', 'w') as file: file.write(str(tid - 1))
    other, end = start(False)
    if other.native_id == tid: break
    end.set()
    other.join()
print(tid, flush=True)
sys.stdin.readline()
";

/// A thread with the number of one that has ended was once given that one's list.
#[test]
fn a_number_that_was_used_again_is_another_thread() {
    require::needs!(root);
    let state = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new("python3");
    command.args(["-c", REUSED]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().expect("started");
    let (pid, mut input) = (process.id(), process.stdin.take().expect("piped"));
    let list = |tid: &str| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).expect("it runs");
        rxlab_base::parse::allowed_cpus(&text).expect("whole").to_string()
    };
    let tasks = || -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
        tasks.map(|task| task.expect("listed").file_name().into_string().expect("a number")).collect()
    };
    wait_for("its threads", || {
        tasks().iter().filter(|tid| list(tid) == "1").count() == 1 && tasks().len() == 3
    });
    let before = list(&pid.to_string());
    rxlab(state.path(), &["apply", "-y", "--setting", &format!("affinity pid:{pid} = 0")]).said().exits(0);
    writeln!(input, "again").expect("it reads");
    let mut tid = String::new();
    let output = process.stdout.as_mut().expect("piped");
    BufReader::new(output).read_line(&mut tid).expect("text");
    assert_eq!(list(tid.trim()), "0", "from the thread that started it");
    rxlab(state.path(), &["undo"]).said().exits(0);
    assert_eq!((list(tid.trim()), list(&pid.to_string())), (before.clone(), before));
    process.kill().and_then(|()| process.wait()).expect("it runs");
}

/// Starts a process for each line on the standard input, and prints its number.
const STARTS: &str = "import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        signal.pause()
    print(child, flush=True)
";

/// A reload of a server starts its workers: undo and guard said that all was back, and the workers kept what rxlab had set.
#[test]
fn processes_that_were_started_since_are_named() {
    let state = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new("python3");
    command.args(["-c", STARTS]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = Running::spawn(&mut command);
    let (pid, mut input, lines) = (process.pid().as_raw_nonzero(), process.stdin(), process.lines());
    let mut start = || -> u32 {
        writeln!(input, "start").expect("it reads");
        lines.recv().expect("a line").trim().parse().expect("a number")
    };
    let list = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        rxlab_base::parse::allowed_cpus(&text).expect("whole").to_string()
    };
    let run = |args: &[&str]| rxlab(state.path(), args).said();
    let before = list(pid.get().unsigned_abs());
    let apply = ["apply", "-y", "--setting", &format!("affinity pid:{pid} = 0")];
    let older = start();
    run(&apply).exits(0);
    let younger = start();
    let text = one_line(&run(&["undo"]).exits(4));
    let named = format!("back to all; started by it since, and not set back: process {younger} = 0");
    assert!(text.contains(&named), "{text}");
    let lists = [pid.get().unsigned_abs(), older, younger].map(list);
    assert_eq!(lists, [before.clone(), before, "0".to_owned()]);
    run(&["status"]).says(0, "nothing is applied");
    run(&[&apply[..], &["--confirm", "1s"]].concat()).exits(0);
    let youngest = start();
    wait_for("the guard", || rxlab(state.path(), &["status"]).said().1.contains("reverted in part"));
    for child in [older, younger, youngest] {
        let child = rustix::process::Pid::from_raw(child.cast_signed()).expect("a number");
        let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
    }
}

/// The kernel cuts a name at 15 bytes, which may be within a letter, and a program may take any. One such process kept all from
/// being put back, and from being set.
#[test]
fn a_name_that_is_not_text_keeps_no_process_from_going_back() {
    let state = tempfile::tempdir().expect("a temporary directory");
    let (mut odd, other) = (renaming(), Running::silent(Command::new("sleep").arg("300")));
    let [of_odd, of_other] =
        [&odd, &other].map(|process| format!("affinity pid:{} = 0", process.pid().as_raw_nonzero()));
    let run = |args: &[&str]| rxlab(state.path(), args).said();
    run(&["apply", "--set", &of_odd]).exits(0);
    take_name(&mut odd);
    run(&["apply", "--set", &of_other]).exits(0);
    run(&["undo"]).exits(0);
    run(&["apply", "--set", &of_odd]).exits(0);
    // So may rxlab itself.
    let undo = rxlab(state.path(), &["undo"]);
    let own = state.path().join(OsStr::from_bytes(b"rx\xff"));
    std::os::unix::fs::symlink(undo.get_program(), &own).expect("linked");
    Command::new(own).args(undo.get_args()).stdin(Stdio::null()).exits(0);
    run(&["status"]).says(0, "nothing is applied");
}

/// A shell that sets itself, and pipes what undo says, was told of the program that reads it.
#[test]
fn a_program_that_reads_what_undo_says_is_not_named() {
    let state = tempfile::tempdir().expect("a temporary directory");
    let script = "\"$@\" apply --set \"affinity pid:$$ = 0\"; \"$@\" undo | cat; echo between\n\
                  \"$@\" apply --set \"affinity pid:$$ = 0\"; sleep 60 >/dev/null 2>&1 & started=$!\n\
                  code=0; \"$@\" undo | cat || code=$?; kill $started; [ $code = 4 ] || exit 1; echo later\n\
                  \"$@\" apply --set \"affinity pid:$$ = 0\"; exec > >(cat); sleep .1; \"$@\" undo || exit $?";
    let program = rxlab(state.path(), &[]);
    let mut shell = Command::new("bash");
    shell
        .args(["-euo", "pipefail", "-c", script, "bash"])
        .arg(program.get_program())
        .args(program.get_args());
    let text = one_line(&shell.stdin(Stdio::null()).exits(4));
    let (first, second) = text.split_once("between").expect("the first undo exits with 0");
    let (second, third) = second.split_once("later").expect("the second exits with 4");
    // A reader that was there before goes on, with the CPU that it has from the shell.
    let named = [first, second, third].map(|text| text.matches(" process ").count());
    assert_eq!(named, [0, 1, 1], "{text}");
}

/// A process with one thread, through the program itself.
#[test]
fn a_process_is_moved_by_the_program() {
    let state = tempfile::tempdir().expect("a temporary directory");
    let sleeper = Running::start(Command::new("sleep").arg("600").stdin(Stdio::null()));
    let setting = format!("affinity pid:{} = 1", sleeper.pid().as_raw_nonzero());
    let run = |args: &[&str]| rxlab(state.path(), args).said();
    run(&["apply", "--setting", &setting]).says(0, "(was all)");
    let allowed = || {
        let text = std::fs::read_to_string(format!("/proc/{}/status", sleeper.pid().as_raw_nonzero()))
            .expect("it runs");
        rxlab_base::parse::allowed_cpus(&text).expect("whole").to_string()
    };
    assert_eq!(allowed(), "1");
    run(&["undo"]).says(0, "back to all");
    assert_ne!(allowed(), "1");
    run(&["apply", "--setting", "affinity pid:2147483647 = 1"]).says(2, "pid:2147483647: no such process");
}
