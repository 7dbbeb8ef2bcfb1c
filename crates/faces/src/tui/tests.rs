//! The screen as text, at several sizes, and what keys do to it.

use std::sync::Arc;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::style::Color;

use super::input::KEYS;
use super::{App, Colours, Input, Look, Moment, Origin, Request, View, draw, of_key, of_mouse};
use crate::report::live::{Applied, LiveFrame};
use crate::report::{sample_interference, status};
use rxlab_advise::doctor::Alerts;
use rxlab_change::apply::Live;
use rxlab_path::model::{Model, Rates};
use rxlab_path::sketch::Sketch;
use rxlab_probe::Interference;
use rxlab_record::snapshot::Snapshot;
use rxlab_setting::Plan;

const PLAIN: Look = Look { colours: Colours::None, shades: false };
const COLOURED: Look = Look { colours: Colours::Many, shades: false };

/// Frames of one machine, with times a second apart; the rates of a sketch are of 5 s.
#[derive(Default)]
struct Machine {
    alerts: Alerts,
    second: u32,
    applied: Arc<Applied>,
    interference: Option<Arc<Interference>>,
}

impl Machine {
    fn frame(&mut self, (model, rates): (Model, Rates)) -> LiveFrame {
        let time = format!("2026-05-01T10:{:02}:{:02}Z", self.second / 60, self.second % 60);
        self.second += 1;
        let applied = Arc::clone(&self.applied);
        let frame = LiveFrame::new(&model, &rates, "rxlab", &mut self.alerts, time, applied);
        LiveFrame { interference: self.interference.clone(), ..frame }
    }
}

fn app() -> App {
    App::new(Origin { host: "web1".to_owned(), moment: Moment::Live }, None)
}

/// One queue, whose CPU gets hotter until it drops packets.
fn hot(machine: &mut Machine, seconds: u32) -> App {
    let mut app = app();
    for second in 0..seconds {
        let part = f64::from(second) / f64::from(seconds.max(2) - 1);
        let sketch =
            Sketch::case_a().traffic("eth0", 42_000.0 * part).receives(2, 0.98 * part, 42_000.0 * part);
        let sketch = sketch.ksoftirqd(2, 0.0).drops(2, if part > 0.95 { 120.0 } else { 0.0 });
        app.push(machine.frame(sketch.program("nginx", 0.9, "0-7").build()));
    }
    app
}

/// CPUs, of which half take interrupts of a queue each; some get most packets, in turn.
fn large(count: u32, seconds: u32) -> App {
    let mut machine = Machine::default();
    let mut app = app();
    for second in 0..seconds {
        let cpus: Vec<u32> = (0..count / 2).collect();
        let packets: Vec<f64> =
            cpus.iter().map(|cpu| if (cpu + second) % 8 == 0 { 90_000.0 } else { 4_000.0 }).collect();
        let sketch = Sketch::new(count).nodes(2).device("eth0", &cpus).queue_traffic("eth0", &packets);
        let receives = |sketch: Sketch, cpu: u32| {
            let packets = packets[cpu as usize];
            sketch.receives(cpu, packets / 120_000.0, packets)
        };
        app.push(machine.frame(cpus.iter().fold(sketch, |sketch, cpu| receives(sketch, *cpu)).build()));
    }
    app
}

fn captured(name: &str) -> App {
    let path = format!("{}/../../fixtures/hosts/{name}/host.tar.zst", env!("CARGO_MANIFEST_DIR"));
    #[allow(clippy::disallowed_methods)]
    let file = std::fs::File::open(path).expect("a captured machine");
    let snapshot = Snapshot::read(file).expect("a snapshot");
    let interval = snapshot.interval().expect("two moments of one boot");
    let origin = Origin { host: name.to_owned(), moment: Moment::Snapshot(snapshot.manifest.taken.clone()) };
    let mut app = App::new(origin, None);
    app.push(Machine::default().frame(interval));
    app
}

fn buffer(app: &mut App, (width, height): (u16, u16), look: Look) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal in memory");
    terminal.draw(|frame| draw(frame, app, look)).expect("drawn");
    terminal.backend().buffer().clone()
}

/// The screen without colours, and without blanks at the ends of lines.
fn text(app: &mut App, size: (u16, u16)) -> String {
    let buffer = buffer(app, size, PLAIN);
    let line = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect::<String>();
    let lines = buffer.content.chunks(size.0.into()).map(line);
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn press(app: &mut App, keys: &[char]) -> Option<Request> {
    let mut request = None;
    for key in keys {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\u{1b}' => KeyCode::Esc,
            '<' => KeyCode::Left,
            '>' => KeyCode::Right,
            'v' => KeyCode::Down,
            key => KeyCode::Char(*key),
        };
        let input = of_key(KeyEvent::new(code, KeyModifiers::NONE)).expect("a key that means something");
        request = app.handle(input);
    }
    request
}

/// Does something with the mouse at the first place of the screen that shows a text.
fn point(app: &mut App, kind: MouseEventKind, shown: &str) {
    let screen = text(app, (80, 24));
    let (row, line) =
        screen.lines().enumerate().find(|(_, line)| line.contains(shown)).expect("on the screen");
    let (before, _) = line.split_once(shown).expect("in the line");
    let (column, row) = (before.chars().count() as u16, row as u16);
    let event = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
    assert_eq!(of_mouse(event).and_then(|input| app.handle(input)), None);
}

fn click(app: &mut App, shown: &str) {
    point(app, MouseEventKind::Down(MouseButton::Left), shown);
    point(app, MouseEventKind::Up(MouseButton::Left), "");
}

#[test]
fn one_hot_cpu() {
    for size in [(80, 24), (120, 40), (200, 60), (60, 15)] {
        insta::assert_snapshot!(
            format!("hot_{}x{}", size.0, size.1),
            text(&mut hot(&mut Machine::default(), 90), size)
        );
    }
}

#[test]
fn many_cpus_and_queues() {
    for size in [(60, 15), (80, 24), (120, 40), (200, 60)] {
        insta::assert_snapshot!(format!("large_{}x{}", size.0, size.1), text(&mut large(128, 30), size));
    }
    for size in [(60, 15), (80, 24), (120, 40)] {
        insta::assert_snapshot!(format!("sixteen_{}x{}", size.0, size.1), text(&mut large(16, 30), size));
    }
}

/// At 80 columns it was the key that was left out.
#[test]
fn every_screen_says_how_to_leave_it() {
    for width in [60, 80, 120, 200] {
        for view in View::ALL {
            let mut app = hot(&mut Machine::default(), 3);
            app.handle(Input::View(view));
            let screen = text(&mut app, (width, 24));
            assert!(screen.trim_end().ends_with("q quit"), "{screen}");
        }
    }
}

#[test]
fn the_captured_machine_of_128_cpus() {
    insta::assert_snapshot!(text(&mut captured("virtio-128cpu-16queue"), (80, 24)));
}

#[test]
fn every_view() {
    let mut machine =
        Machine { interference: Some(Arc::new(sample_interference::measured())), ..Machine::default() };
    let transactions = vec![status::sample([("eth0/rx-0", Live::Original)])];
    machine.applied = Arc::new(Applied { transactions, unknown: Vec::new() });
    let mut app = hot(&mut machine, 90);
    for view in View::ALL.into_iter().skip(1) {
        app.handle(Input::View(view));
        insta::assert_snapshot!(format!("view_{view:?}"), text(&mut app, (80, 24)));
    }
}

#[test]
fn without_ebpf_programs_on_receiving_cpus_are_shown() {
    let mut machine = Machine::default();
    let mut app = hot(&mut machine, 3);
    press(&mut app, &['4']);
    let screen = text(&mut app, (80, 24));
    assert!(screen.contains("measuring who loses time") && screen.contains("nginx"), "{screen}");
    assert!(app.wants_lost_time());
    machine.interference = Some(Arc::new(sample_interference::counted()));
    app.push(machine.frame(Sketch::case_a().build()));
    assert!(text(&mut app, (80, 24)).contains("who lost time is unknown"));
    press(&mut app, &['<']);
    assert!(!app.wants_lost_time(), "the past is not measured again");
}

#[test]
fn from_a_finding_to_its_plan_and_two_questions() {
    let mut app = hot(&mut Machine::default(), 90);
    press(&mut app, &['n']);
    insta::assert_snapshot!("finding", text(&mut app, (80, 24)));
    let Some(Request::Rehearse(plan)) = press(&mut app, &['d']) else { panic!("a plan") };
    assert_eq!(plan.name, "rps");
    app.show_diff(plan, Ok(vec!["- rps eth0/rx-0 = off".to_owned(), "+ rps eth0/rx-0 = 0-1,3-7".to_owned()]));
    assert_eq!(press(&mut app, &['y']), None, "nothing was asked yet");
    assert_eq!(press(&mut app, &['a']), None, "the first question is this screen, the second comes now");
    insta::assert_snapshot!("asked", text(&mut app, (80, 24)));
    assert_eq!(press(&mut app, &['a']), None, "only y is a yes");
    assert_eq!(press(&mut app, &['y']), None, "that was a no");
    assert_eq!(press(&mut app, &['a', 'j', 'y']), None, "so was this");
    let Some(Request::Apply(plan)) = press(&mut app, &['a', 'y']) else { panic!("agreed") };
    assert_eq!(plan.name, "rps");
}

#[test]
fn neither_a_snapshot_nor_an_empty_diff_is_applied() {
    let diff = || Ok(vec!["+ rps eth0/rx-0 = 1".to_owned()]);
    let plan = || Plan::new("rps", &[]);
    let mut shot = captured("virtio-8cpu-1queue");
    shot.show_diff(plan(), diff());
    assert_eq!(press(&mut shot, &['a', 'y']), None);
    shot.show_diff(plan(), diff());
    assert_eq!(press(&mut shot, &['a']), None);
    assert!(text(&mut shot, (80, 24)).contains("a recording cannot be changed"));
    for lines in [Ok(Vec::new()), Err("eth0 has no queue rx-9".to_owned())] {
        let mut app = hot(&mut Machine::default(), 3);
        app.show_diff(plan(), lines);
        assert_eq!(press(&mut app, &['a', 'y']), None);
    }
}

#[test]
fn time_stops_and_goes_back_while_intervals_arrive() {
    let mut machine = Machine::default();
    let mut app = hot(&mut machine, 30);
    let clock = |app: &App| app.shown().expect("a frame").clock().to_owned();
    press(&mut app, &['p']);
    app.push(machine.frame(Sketch::case_a().build()));
    assert_eq!((clock(&app).as_str(), app.ago()), ("10:00:29", Some(5.0)));
    press(&mut app, &['<', '[']);
    assert_eq!(clock(&app), "10:00:18");
    assert!(text(&mut app, (80, 24)).contains("PAUSED, 60 s ago"));
    press(&mut app, &['[', '[', '[']);
    assert_eq!(clock(&app), "10:00:00", "the oldest");
    press(&mut app, &['>', ']', ']', ']']);
    assert_eq!(
        (clock(&app).as_str(), app.ago()),
        ("10:00:30", None),
        "forward from the newest is the present"
    );
    press(&mut app, &['<', 'p']);
    assert_eq!(app.ago(), None);
    // Older frames than are kept are gone, also under a paused screen.
    press(&mut app, &['p', '[', '[', '[', '[']);
    for _ in 0..600 {
        app.push(machine.frame(Sketch::new(2).build()));
    }
    assert_eq!(clock(&app), "10:00:31");
}

#[test]
fn an_interface_at_a_time() {
    let mut app = app();
    let sketch = Sketch::case_a().device("eth1", &[4, 5]).traffic("eth1", 9_000.0);
    app.push(Machine::default().frame(sketch.build()));
    let names = |app: &mut App| {
        app.handle(Input::View(View::Queues));
        let screen = text(app, (80, 24));
        (screen.contains("eth0/rx-0"), screen.contains("eth1/rx-1"))
    };
    assert_eq!(names(&mut app), (true, true));
    press(&mut app, &['f']);
    assert_eq!(names(&mut app), (true, false));
    press(&mut app, &['f']);
    assert_eq!(names(&mut app), (false, true));
    let about_eth0 = app.findings(app.shown().expect("a frame")).iter().any(|finding| finding.nic.is_some());
    assert!(!about_eth0, "findings follow");
    press(&mut app, &['f']);
    assert_eq!(names(&mut app), (true, true));
}

#[test]
fn rows_in_another_order() {
    let mut app = large(128, 2);
    press(&mut app, &['2']);
    let first = |app: &mut App| {
        let screen = text(app, (80, 24));
        let row = screen.lines().find(|line| line.starts_with("eth0/rx-")).expect("a queue");
        row.split_whitespace().next().expect("a name").to_owned()
    };
    assert_eq!(first(&mut app), "eth0/rx-7", "most packets");
    press(&mut app, &['s', 's', 's']);
    assert_eq!(first(&mut app), "eth0/rx-0", "by number");
    press(&mut app, &['v', 'v']);
    assert_eq!(first(&mut app), "eth0/rx-2", "scrolled");
    app.handle(Input::Last);
    assert!(text(&mut app, (80, 24)).contains("eth0/rx-63"));
}

#[test]
fn a_click_does_what_is_drawn_there() {
    let mut app = hot(&mut Machine::default(), 90);
    let shows = |app: &mut App, shown: &str| assert!(text(app, (80, 24)).contains(shown), "{shown}");
    click(&mut app, "Queues");
    assert_eq!(app.view, View::Queues);
    click(&mut app, "IRQS/s");
    shows(&mut app, "IRQS/s v");
    for (at, then) in
        [("eth0/rx-0", "NIC: eth0"), ("virtio", "NIC: all"), ("NIC: all", "NIC: eth0"), ("NIC: ", "NIC: all")]
    {
        click(&mut app, at);
        shows(&mut app, then);
    }
    click(&mut app, "Overview");
    click(&mut app, "!! CPU 2");
    shows(&mut app, "Esc close");
    assert_eq!((app.view, app.overlays.len()), (View::Findings, 1));
    let open = text(&mut app, (80, 24));
    click(&mut app, "why");
    assert_eq!(text(&mut app, (80, 24)), open, "the list below it is not reached");
    click(&mut app, "Findings");
    assert_eq!(app.overlays.len(), 0);
    click(&mut app, "!! CPU 2");
    assert_eq!(app.overlays.len(), 1);
    press(&mut app, &['m']);
    shows(&mut app, "mouse off");
    assert!(!app.wants_mouse());
}

#[test]
fn the_wheel_scrolls() {
    let mut app = large(128, 2);
    press(&mut app, &['2', 's', 's', 's']);
    point(&mut app, MouseEventKind::ScrollDown, "eth0/rx-2");
    assert_eq!(app.selected, 3);
    point(&mut app, MouseEventKind::ScrollUp, "eth0/rx-9");
    assert_eq!(app.selected, 0);
}

#[test]
fn every_key_is_documented() {
    let document = include_str!("../../../../docs/top.md");
    for (keys, what) in KEYS {
        assert!(document.contains(&format!("\n| `{keys}` | {what} |\n")), "{keys}: {what}");
    }
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_page_shows_these_screens() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/top.md");
    let mut app = captured("virtio-8cpu-1queue");
    let overview = text(&mut app, (80, 20));
    press(&mut app, &['n']);
    for (name, screen) in [("overview", overview), ("finding", text(&mut app, (80, 24)))] {
        let document = std::fs::read_to_string(path).expect("the page");
        let (before, rest) = document.split_once(&format!("<!-- {name} -->\n")).expect("the opening mark");
        let (_, after) = rest.split_once(&format!("<!-- end {name} -->")).expect("the closing mark");
        let renewed = format!("{before}<!-- {name} -->\n```text\n{screen}```\n<!-- end {name} -->{after}");
        if std::env::var_os("RXLAB_UPDATE_DOCS").is_some() {
            std::fs::write(path, &renewed).expect("written");
        }
        assert!(
            std::fs::read_to_string(path).expect("the page") == renewed,
            "docs/top.md is stale: run make docs"
        );
    }
}

/// Every cell has the colours of its CPUs, brighter ones for more.
#[test]
fn colours_of_the_heatmap() {
    let mut app = hot(&mut Machine::default(), 90);
    let last = |app: &mut App, look| buffer(app, (80, 24), look)[(79, 5)].clone();
    let cell = last(&mut app, COLOURED);
    assert_eq!((cell.symbol(), cell.fg), ("\u{2588}", Color::Indexed(195)));
    press(&mut app, &['g']);
    let shades = app.wants_shades();
    let cell = last(&mut app, Look { shades, ..COLOURED });
    assert_eq!((cell.symbol(), cell.fg), ("@", Color::Reset), "in shades");
    let mut app = large(128, 30);
    let both = buffer(&mut app, (80, 24), COLOURED)[(8, 4)].clone();
    assert_eq!((both.symbol(), both.fg == both.bg), ("\u{258c}", false), "two CPUs a column");
}

#[test]
fn any_size_can_be_drawn_in_any_view() {
    let mut machine =
        Machine { interference: Some(Arc::new(sample_interference::measured())), ..Machine::default() };
    let mut apps = [app(), hot(&mut machine, 40), large(128, 3)];
    for app in &mut apps {
        for view in View::ALL {
            app.handle(Input::View(view));
            for size in [(1, 1), (5, 3), (20, 5), (40, 10), (300, 90)] {
                buffer(app, size, COLOURED);
                press(app, &['n', '?']);
                buffer(app, size, PLAIN);
                press(app, &['\u{1b}', '\u{1b}']);
                app.handle(Input::View(view));
            }
        }
    }
}

#[test]
fn names_do_not_control_the_terminal() {
    let mut app = App::new(Origin { host: "a\u{1b}]0;x\u{7}\u{9b}b".to_owned(), moment: Moment::Live }, None);
    app.tell("\u{1b}[2J".to_owned());
    let buffer = buffer(&mut app, (80, 24), COLOURED);
    assert!(buffer.content.iter().all(|cell| !cell.symbol().chars().any(char::is_control)));
}
