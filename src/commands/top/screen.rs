//! The screen: a thread that samples, and a loop that draws and takes keys.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{Event, poll, read};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};

use super::sampler::Sampler;
use super::{Args, of_snapshot};
use crate::commands::apply::{self, How, countdown};
use crate::commands::machine::{self, Source};
use crate::commands::{Global, lost_time, output, place};
use crate::error::{CommandError, Kind, Result};
use rxlab_change::apply::other_owners;
use rxlab_faces::report::live::LiveFrame;
use rxlab_faces::tui::{App, Colours, Look, Moment, Origin, Request, draw, of_key, of_mouse};
use rxlab_path::model::Model;
use rxlab_path::sample::{Identity, Inventory, Scope};
use rxlab_probe::Interference;
use rxlab_setting::Plan;
use rxlab_sys::Host;

/// Longest time until a frame or a signal is noticed. Keys are noticed at once.
const TICK: Duration = Duration::from_millis(100);

/// Length of the first interval: the screen has figures soon.
const FIRST: Duration = Duration::from_millis(500);

/// Deadline of a plan that is applied from the screen.
const CONFIRM: Duration = Duration::from_secs(60);

/// Flags that signals set.
struct Signals {
    ends: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
    suspends: Arc<AtomicBool>,
}

impl Signals {
    fn listen() -> Result<Self> {
        Ok(Self {
            ends: place::flag(&[SIGTERM, SIGHUP, SIGQUIT])?,
            interrupted: place::flag(&[SIGINT])?,
            suspends: place::flag(&[SIGTSTP])?,
        })
    }

    fn end(&self) -> bool {
        self.ends.load(Ordering::SeqCst) || self.interrupted.load(Ordering::SeqCst)
    }
}

/// Reports of pressed and released buttons and of the wheel, as SGR 1006. Those of movements, which crossterm's own
/// command asks for as well, would wake the program without need.
const MOUSE_ON: &[u8] = b"\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1000l";

/// The terminal while the screen is on it. Dropping it, a panic included, restores the terminal.
struct Screen {
    terminal: DefaultTerminal,
    /// True while the terminal reports the mouse.
    mouse: bool,
}

impl Screen {
    fn open() -> Result<Self> {
        ratatui::try_init()
            .map(|terminal| Self { terminal, mouse: false })
            .map_err(|error| CommandError::failed(format!("cannot use the terminal: {error}")))
    }

    /// Draws what has changed, and takes the mouse or leaves it to the terminal.
    fn draw(&mut self, app: &mut App) -> io::Result<()> {
        if self.mouse != app.wants_mouse() {
            self.mouse = app.wants_mouse();
            self.terminal.backend_mut().write_all(if self.mouse { MOUSE_ON } else { MOUSE_OFF })?;
        }
        let look = Look { colours: colours(), shades: app.wants_shades() };
        self.terminal.draw(|frame| draw(frame, app, look)).map(|_| ())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        let _ = self.terminal.backend_mut().write_all(MOUSE_OFF);
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}

/// The loop's side of the threads that sample and measure.
struct Link {
    frames: Receiver<Result<LiveFrame>>,
    shared: Arc<Shared>,
}

/// State that the loop and these threads share.
#[derive(Default)]
struct Shared {
    /// Set after an apply.
    is_changed: AtomicBool,
    /// Set while lost time is on the screen.
    is_lost_time_wanted: AtomicBool,
    /// The latest measurement of lost time.
    lost_time: Mutex<Option<Arc<Interference>>>,
}

impl Shared {
    fn lost_time(&self) -> MutexGuard<'_, Option<Arc<Interference>>> {
        self.lost_time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows the screen until the user ends it, a signal arrives or `--for` is over. The intervals of a recording are all there
/// from the start.
pub(super) fn run(global: &Global, args: &Args, source: &Source, recorded: Option<Vec<LiveFrame>>) -> Result {
    let signals = Signals::listen()?;
    let origin = Origin {
        host: Identity::take(source.host()).hostname,
        moment: match (source, &recorded) {
            (_, Some(_)) => Moment::Recording,
            (Source::Snapshot(snapshot), None) => Moment::Snapshot(snapshot.manifest.taken.clone()),
            (Source::Live(_), None) => Moment::Live,
        },
    };
    let mut app = App::new(origin, args.nic().cloned());
    let length = args.length.filter(|_| recorded.is_none());
    // Errors that are known before the screen is there stay readable.
    let link = match (source, recorded) {
        (_, Some(frames)) => {
            app.keep(frames.len());
            frames.into_iter().for_each(|frame| app.push(frame));
            None
        }
        (Source::Live(_), None) => Some(sample(global, args)?),
        (Source::Snapshot(snapshot), None) => {
            app.push(of_snapshot(global, snapshot)?);
            None
        }
    };
    let start = Instant::now();
    let mut screen = Screen::open()?;
    let mut is_stale = true;
    loop {
        if let Some(link) = &link {
            is_stale |= take(&mut app, &link.frames)?;
            link.shared.is_lost_time_wanted.store(app.wants_lost_time(), Ordering::SeqCst);
        }
        if signals.end() {
            return Err(CommandError::silent(Kind::Interrupted));
        }
        if length.is_some_and(|length| start.elapsed() >= length) {
            return Ok(());
        }
        if std::mem::take(&mut is_stale) {
            screen.draw(&mut app)?;
        }
        let mut request = None;
        if signals.suspends.swap(false, Ordering::SeqCst) {
            request = Some(Request::Suspend);
        } else {
            match listen()? {
                Heard::Nothing => {}
                Heard::HangUp => return Err(CommandError::silent(Kind::Interrupted)),
                Heard::Event => {
                    is_stale = true;
                    let input = match read()? {
                        Event::Key(key) => of_key(key),
                        Event::Mouse(event) => of_mouse(event),
                        _ => None,
                    };
                    request = input.and_then(|input| app.handle(input));
                }
            }
        }
        match request {
            None => {}
            Some(Request::Quit) => return Ok(()),
            Some(Request::Suspend) => {
                drop(screen);
                signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
                screen = Screen::open()?;
                is_stale = true;
            }
            Some(Request::Rehearse(plan)) => {
                let lines = rehearse(source.host(), &plan).map_err(|error| error.to_string());
                app.show_diff(plan, lines);
            }
            Some(Request::Apply(plan)) => {
                drop(screen);
                apply_plan(global, &plan, &signals)?;
                if let Some(link) = &link {
                    link.shared.is_changed.store(true, Ordering::SeqCst);
                }
                screen = Screen::open()?;
                is_stale = true;
            }
        }
    }
}

/// Input from the terminal.
enum Heard {
    Nothing,
    Event,
    /// The terminal is gone.
    HangUp,
}

/// Waits for an event; `Nothing` after a while, or on a signal. The terminal is looked at first: crossterm reads one that is
/// gone for ever.
fn listen() -> io::Result<Heard> {
    let (is_readable, is_gone) = wait_for_input(Duration::ZERO)?;
    if is_gone {
        return Ok(Heard::HangUp);
    }
    // Events that were read before, and changes of the size.
    if poll(Duration::ZERO)? {
        return Ok(Heard::Event);
    }
    let (is_readable, is_gone) = if is_readable { (true, false) } else { wait_for_input(TICK)? };
    match (is_gone, is_readable) {
        (true, _) => Ok(Heard::HangUp),
        (false, true) if poll(Duration::ZERO)? => Ok(Heard::Event),
        (false, _) => Ok(Heard::Nothing),
    }
}

/// Waits for input of the terminal: whether there is some, and whether the terminal is gone.
fn wait_for_input(time: Duration) -> io::Result<(bool, bool)> {
    let input = io::stdin();
    let mut watched = [PollFd::new(&input, PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    match rustix::event::poll(&mut watched, Some(&time)) {
        Ok(_) => {
            let seen = watched[0].revents();
            Ok((seen.contains(PollFlags::IN), seen.intersects(PollFlags::HUP | PollFlags::ERR)))
        }
        Err(Errno::INTR) => Ok((false, false)),
        Err(error) => Err(error.into()),
    }
}

/// Adds the frames that have arrived. True if there were any.
fn take(app: &mut App, frames: &Receiver<Result<LiveFrame>>) -> Result<bool> {
    let mut is_new = false;
    loop {
        match frames.try_recv() {
            Ok(frame) => app.push(frame?),
            Err(TryRecvError::Empty) => return Ok(is_new),
            Err(TryRecvError::Disconnected) => return Err(CommandError::failed("sampling has stopped")),
        }
        is_new = true;
    }
}

/// Starts the threads that sample and measure. They end with the process.
fn sample(global: &Global, args: &Args) -> Result<Link> {
    let (send, frames) = channel();
    let link = Link { frames, shared: Arc::default() };
    let (own, budget, every) = (global.clone(), args.cost.budget, args.every);
    let shared = Arc::clone(&link.shared);
    let host = machine::host(global)?;
    std::thread::spawn(move || {
        let mut sampler = Sampler::begin(&own, &host, budget);
        let mut length = FIRST.min(every);
        loop {
            if shared.is_changed.swap(false, Ordering::SeqCst) {
                sampler.forget_applied();
            }
            sampler.interference = shared.lost_time().clone();
            if !pass_on(&send, sampler.next(|| std::thread::sleep(length))) {
                return;
            }
            length = every;
        }
    });
    // Another root is files: there are no programs to measure.
    if global.root == std::path::Path::new("/") {
        let (host, shared) = (machine::host(global)?, Arc::clone(&link.shared));
        std::thread::spawn(move || {
            let is_wanted = || shared.is_lost_time_wanted.load(Ordering::SeqCst);
            let never = AtomicBool::new(false);
            lost_time::measure(&host, budget, &never, &is_wanted, &|sample| {
                *shared.lost_time() = Some(Arc::new(sample));
            });
        });
    }
    Ok(link)
}

/// False after an error, or once the screen is gone.
fn pass_on(send: &Sender<Result<LiveFrame>>, frame: Result<LiveFrame>) -> bool {
    let is_fine = frame.is_ok();
    send.send(frame).is_ok() && is_fine
}

/// The changes of a plan as lines of a diff, and notes about other owners of the values; empty if nothing changes.
fn rehearse(host: &dyn Host, plan: &Plan) -> Result<Vec<String>> {
    let model = Model::new(&Inventory::take(host, Scope::Path));
    let (settings, changes) = apply::rehearsed(host, &model, plan)?;
    let needed = changes.iter().filter(|change| change.needed);
    let text: String =
        needed.map(|change| apply::report::diff(&change.setting, change.before.as_deref())).collect();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if !lines.is_empty() {
        lines.extend(apply::report::owner_notes(&other_owners(host, &model, &settings)));
    }
    Ok(lines)
}

/// Runs `rxlab apply` on the terminal, with its own questions and its countdown, and waits for the user to have read it.
fn apply_plan(global: &Global, plan: &Plan, signals: &Signals) -> Result {
    let how = How { confirm: Some(CONFIRM), diff: true, ..How::default() };
    if let Err(error) = apply::apply(global, plan, &how)
        && !error.message.is_empty()
    {
        writeln!(output::stderr(), "rxlab: {error}")?;
    }
    // Ctrl-C during the countdown restored the values, and does not end the screen.
    signals.interrupted.store(false, Ordering::SeqCst);
    let mut out = output::text_stdout();
    write!(out, "Enter returns to rxlab top ")?;
    out.flush()?;
    countdown::wait_for_line(&signals.ends);
    Ok(())
}

/// Colours that the terminal has, by its name.
fn colours() -> Colours {
    let is_set = |name: &str, word: &str| std::env::var(name).is_ok_and(|value| value.contains(word));
    if !output::has_colours() {
        Colours::None
    } else if is_set("TERM", "256color") || is_set("TERM", "kitty") || is_set("COLORTERM", "") {
        Colours::Many
    } else {
        Colours::Basic
    }
}

#[cfg(test)]
mod tests {
    use super::rehearse;
    use rxlab_setting::Plan;
    use rxlab_sys::RecordedHost;

    /// Only `rxlab apply` named them.
    #[test]
    fn the_diff_names_other_owners_of_what_it_changes() {
        let budget = |value: &str| {
            RecordedHost::new()
                .with("proc/sys/net/core/netdev_budget", format!("{value}\n"))
                .with("etc/sysctl.d/10-net.conf", "# net\nnet.core.netdev_budget = 500\n")
        };
        let plan = Plan::new("budget", &["netdev_budget host = 600".parse().expect("a setting")]);
        let lines = rehearse(&budget("300"), &plan).expect("a diff");
        assert_eq!(lines[..2], ["- netdev_budget host = 300", "+ netdev_budget host = 600"]);
        assert!(lines[2].starts_with("note: /etc/sysctl.d/10-net.conf:2 (sysctl.d) also sets"), "{lines:?}");
        assert!(lines[3].ends_with("change the value there too"), "{lines:?}");
        assert_eq!(rehearse(&budget("600"), &plan).expect("a diff"), [""; 0], "nothing changes");
    }
}
