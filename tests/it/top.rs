//! The screen of `rxlab top` in a terminal, driven by keys and ended by signals.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::fixtures::captured;
use crate::lab::range;
use crate::process::{end_guards, json, mentioning, rxlab, wait_for};
use crate::{flood, quiet, require};

/// A shell in a terminal of its own.
struct Terminal {
    socket: String,
}

impl Terminal {
    fn start(columns: u16, rows: u16) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let terminal = Self { socket: format!("rxlab-test-{}-{number}", std::process::id()) };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let mut session = vec!["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows];
        session.extend(["env", "PS1=ready> ", "sh"]);
        terminal.tmux(&session);
        terminal.wait_for("ready>");
        terminal
    }

    fn tmux(&self, args: &[&str]) -> String {
        let out =
            Command::new("tmux").args(["-u", "-L", &self.socket]).args(args).output().expect("tmux runs");
        assert!(out.status.success(), "{args:?}: {out:?}");
        String::from_utf8(out.stdout).expect("text")
    }

    /// Presses keys, by the names of tmux.
    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn enter(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.press(&["Enter"]);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn wait_for(&self, text: &str) {
        wait_for(&format!("`{text}` on the screen"), || self.screen().contains(text));
    }

    /// Presses a button of the mouse on a text of the screen: the bytes that a terminal sends for it (SGR 1006).
    fn point(&self, button: u32, text: &str) {
        let screen = self.screen();
        let found = screen.lines().enumerate().find_map(|(row, line)| Some((row, line.split_once(text)?.0)));
        let (row, before) = found.unwrap_or_else(|| panic!("{text}: {screen}"));
        let bytes = format!("\x1b[<{button};{};{}M", before.chars().count() + 1, row + 1);
        let bytes: Vec<String> = bytes.bytes().map(|byte| format!("{byte:x}")).collect();
        let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
        self.tmux(&[&["send-keys", "-H"], &bytes[..]].concat());
    }

    /// True if the program in the terminal gets the mouse.
    fn reports_mouse(&self) -> bool {
        let flags = self.tmux(&["display-message", "-p", "#{mouse_any_flag}#{mouse_sgr_flag}"]);
        assert!(["00", "11"].contains(&flags.trim()), "{flags}");
        flags.trim() == "11"
    }

    /// Waits for the shell, and checks that the terminal is as it was: lines are edited and echoed, and the mouse is its own.
    fn wait_for_restored(&self) {
        self.wait_for("ended=");
        assert!(!self.reports_mouse());
        self.enter("clear; stty -a | tr ' ;' '\\n\\n' | grep -Ex -e '-?(icanon|echo|isig)' | tr '\\n' ' '");
        self.wait_for("icanon echo");
        assert!(self.screen().contains("isig") && !self.screen().contains("-i"), "{}", self.screen());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Only the server of this socket. It is gone if the shell has ended.
        let _ = Command::new("tmux").args(["-L", &self.socket, "kill-server"]).output();
    }
}

/// A command line of the shell.
fn line(state: &Path, args: &[&str]) -> String {
    let command = rxlab(state, args);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| format!("'{}'", word.to_str().expect("text"))).collect::<Vec<_>>().join(" ")
}

fn top_of_snapshot(state: &Path) -> String {
    line(state, &["top", "--snapshot", &captured("virtio-8cpu-1queue")])
}

/// It once read the terminal that was gone for ever, unless the signal came first.
#[test]
fn a_screen_ends_with_its_terminal() {
    require::needs!(tmux);
    let state = tempfile::tempdir().expect("a temporary directory");
    let terminal = Terminal::start(80, 24);
    terminal.enter(&format!("exec {}", top_of_snapshot(state.path())));
    terminal.wait_for("receive time of each CPU");
    assert_eq!(mentioning(state.path()).len(), 1);
    drop(terminal);
    wait_for("the end", || mentioning(state.path()).is_empty());
}

/// The answer and the screen, as terminals of three sizes show them.
#[test]
fn terminals_of_three_sizes() {
    require::needs!(tmux);
    let (tree, program) = (env!("CARGO_MANIFEST_DIR"), env!("CARGO_BIN_EXE_rxlab"));
    for (columns, rows) in [(60, 15), (80, 24), (120, 40)] {
        for (command, last) in [("doctor", "more   rxlab doctor -v"), ("top", "q quit")] {
            let terminal = Terminal::start(columns, rows);
            let snapshot = "fixtures/hosts/virtio-8cpu-1queue/host.tar.zst";
            terminal.enter(&format!("cd '{tree}'; clear; '{program}' {command} --snapshot {snapshot}"));
            terminal.wait_for(last);
            if command == "doctor" {
                terminal.wait_for("ready>");
            }
            insta::assert_snapshot!(format!("{command}_{columns}x{rows}"), terminal.screen());
        }
    }
}

#[test]
fn a_snapshot_is_walked_through_by_keys() {
    require::needs!(tmux);
    let state = tempfile::tempdir().expect("a temporary directory");
    for (columns, rows) in [(80, 24), (60, 15)] {
        let terminal = Terminal::start(columns, rows);
        terminal.enter(&format!("{}; echo ended=$?", top_of_snapshot(state.path())));
        for part in [
            "receive time of each CPU",
            "CPU 2: 98 %",
            "eth0/rx-0",
            "!! CPU 2 is full: it receives all packets",
        ] {
            terminal.wait_for(part);
        }
        let screen = terminal.screen();
        assert_eq!(screen.lines().count(), usize::from(rows), "{screen}");
        terminal.press(&["2"]);
        terminal.wait_for("INTERFACE");
        terminal.press(&["?"]);
        terminal.wait_for("switch view");
        terminal.press(&["Escape"]);
        terminal.press(&["n"]);
        terminal.wait_for("headroom: 1.0x");
        terminal.press(&["d"]);
        terminal.wait_for("+ rps eth0/rx-0 = 0-1,4-7");
        terminal.press(&["a"]);
        terminal.wait_for("a recording cannot be changed");
        // A terminal that gets smaller, and larger again.
        terminal.tmux(&["resize-window", "-x", "40", "-y", "10"]);
        wait_for("the smaller screen", || terminal.screen().lines().count() == 10);
        terminal.wait_for("plan rps");
        terminal.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        terminal.press(&["Escape", "1"]);
        terminal.wait_for("!! CPU 2 is full: it receives all packets");
        terminal.press(&["q"]);
        terminal.wait_for("ended=0");
        terminal.wait_for_restored();
    }
}

#[test]
fn a_snapshot_is_walked_through_with_the_mouse() {
    require::needs!(tmux);
    let state = tempfile::tempdir().expect("a temporary directory");
    let terminal = Terminal::start(80, 12);
    terminal.enter(&format!("{}; echo ended=$?", top_of_snapshot(state.path())));
    terminal.wait_for("receive time of each CPU");
    let (left, wheel_down, wheel_up) = (0, 65, 64);
    terminal.point(left, "3 CPUs");
    terminal.wait_for("RECEIVE v");
    terminal.point(left, "PACKETS/s");
    terminal.wait_for("PACKETS/s v");
    terminal.point(left, "1 Overview");
    terminal.wait_for("!! CPU 2 is full");
    terminal.point(left, "!! CPU 2");
    terminal.wait_for("headroom: 1.0x");
    terminal.point(wheel_down, "seen");
    wait_for("the end of the text", || !terminal.screen().contains("seen "));
    terminal.point(wheel_up, "headroom");
    terminal.wait_for("seen ");
    // The terminal selects text again.
    terminal.press(&["m"]);
    terminal.wait_for("mouse off");
    assert!(!terminal.reports_mouse());
    terminal.press(&["m"]);
    terminal.wait_for("mouse on");
    assert!(terminal.reports_mouse());
    terminal.press(&["q"]);
    terminal.wait_for_restored();
}

#[test]
fn every_signal_restores_the_terminal() {
    require::needs!(tmux);
    let state = tempfile::tempdir().expect("a temporary directory");
    let pid = state.path().join("pid");
    for signal in [Signal::TERM, Signal::HUP, Signal::QUIT, Signal::INT] {
        let terminal = Terminal::start(80, 24);
        let top = top_of_snapshot(state.path());
        terminal.enter(&format!("sh -c 'echo $$ > {}; exec \"$@\"' sh {top}; echo ended=$?", pid.display()));
        terminal.wait_for("receive time of each CPU");
        let text = std::fs::read_to_string(&pid).expect("the shell wrote it");
        let number = Pid::from_raw(text.trim().parse().expect("a number")).expect("a process");
        if signal == Signal::TERM {
            assert!(terminal.reports_mouse());
            terminal.press(&["C-z"]);
            terminal.wait_for("ready>");
            assert!(!terminal.reports_mouse());
            // The shell went on to the echo when the program stopped.
            terminal.enter("fg; echo ended=$?");
            terminal.wait_for("receive time of each CPU");
            assert!(terminal.reports_mouse());
        }
        kill_process(number, signal).expect("signalled");
        terminal.wait_for("ended=130");
        terminal.wait_for_restored();
    }
}

/// The value is set by `rxlab apply` itself: its countdown, its journal, its undo.
#[test]
fn a_plan_is_applied_from_the_screen() {
    require::needs!(tmux);
    let _alone = quiet::alone();
    let Some(range) = range(1) else { return };
    let state = tempfile::tempdir().expect("a temporary directory");
    let netns = range.server.path().to_str().expect("text").to_owned();
    let _target = flood::sink(&range, "1");
    let _session = flood::sender(&range, "0");
    let terminal = Terminal::start(80, 24);
    terminal.enter(&format!("{}; echo ended=$?", line(state.path(), &["top", "--netns", &netns])));
    terminal.wait_for(" live");
    // Another program of this machine can hide the hot CPU for a while.
    wait_for("the plan", || {
        terminal.press(&["Escape"]);
        terminal.press(&["Escape"]);
        terminal.press(&["n", "d"]);
        std::thread::sleep(Duration::from_millis(500));
        terminal.screen().contains("+ rps srv0/rx-0 =")
    });
    terminal.press(&["a"]);
    terminal.wait_for("Set these values now?");
    terminal.press(&["y"]);
    terminal.wait_for("keeps it");
    assert!(!terminal.reports_mouse());
    terminal.press(&["Enter"]);
    terminal.wait_for("Enter returns to rxlab top");
    terminal.press(&["Enter"]);
    terminal.wait_for(" live");
    terminal.press(&["6"]);
    terminal.wait_for("rps srv0/rx-0 =");
    terminal.press(&["q"]);
    terminal.wait_for("ended=0");
    terminal.wait_for_restored();
    let run = |args: &[&str]| -> Value {
        let out = rxlab(state.path(), args).args(["--netns", &netns, "--json"]).output();
        json(&out.expect("rxlab runs"))
    };
    let status = run(&["status"]);
    let transaction = &status["transactions"][0];
    assert_eq!(
        (&transaction["what"], &transaction["state"]),
        (&"apply rps".into(), &"applied".into()),
        "{status:#}"
    );
    assert_eq!(transaction["values"][0]["live"], "kept", "{status:#}");
    run(&["undo"]);
    end_guards(state.path());
}
