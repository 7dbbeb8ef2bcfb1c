//! Hostile names in the files that rxlab writes, read back by the programs that they are for.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::Command;

use rxlab_base::grammar::{HOSTILE, html, systemd, terminal, tuned, udev};
use rxlab_change::persist::{Folder, Restore, record_files};
use rxlab_faces::report::metrics::{Exposition, Format, encode};
use rxlab_setting::{Plan, PlannedSetting, export};
use rxlab_trial::summary::Summary;
use serde_json::Value;

use crate::browser::Browser;
use crate::load::connections;
use crate::process::{Ended, response, wait_for};
use crate::prometheus::Prometheus;
use crate::require;

/// What a name can be: NUL ends it, and a slash separates names.
fn names() -> impl Iterator<Item = &'static str> {
    HOSTILE.iter().copied().filter(|name| !name.is_empty() && !name.contains('/'))
}

/// What systemd has read of a unit, as it prints it.
fn dumped(unit: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(folder.path().join("x.service"), unit).expect("written");
    // It refuses to run so as root.
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "/lib/systemd/systemd",
        "--test",
        "--system",
    ]);
    command.args(["--unit=x.service", "--no-pager"]).env_clear();
    command.env("HOME", folder.path()).env("XDG_RUNTIME_DIR", folder.path());
    command.env("SYSTEMD_UNIT_PATH", folder.path()).env("SYSTEMD_LOG_TARGET", "console");
    Command::new("chmod").args(["-R", "a+rwX"]).arg(folder.path()).exits(0);
    let text = command.exits(0);
    let (_, rest) = text.split_once("-> Unit x.service:\n").expect("the unit");
    rest.split("\t-> Unit ").next().expect("the unit").to_owned()
}

/// The words of a command line as systemd prints it: with the escapes of C in double quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    let mut bytes = line.bytes().peekable();
    let mut word: Vec<u8> = Vec::new();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b' ' if !is_quoted => {
                *words.last_mut().expect("a word") =
                    String::from_utf8(std::mem::take(&mut word)).expect("text");
                words.push(String::new());
            }
            b'\\' => match bytes.next().expect("an escape") {
                b'n' => word.push(b'\n'),
                b'r' => word.push(b'\r'),
                b't' => word.push(b'\t'),
                b'a' => word.push(7),
                b'b' => word.push(8),
                b'v' => word.push(11),
                b'f' => word.push(12),
                digit @ b'0'..=b'3' => {
                    let digits = [digit, bytes.next().expect("a digit"), bytes.next().expect("a digit")];
                    let digits = std::str::from_utf8(&digits).expect("digits");
                    word.push(u8::from_str_radix(digits, 8).expect("an octal number"));
                }
                other => word.push(other),
            },
            other => word.push(other),
        }
    }
    *words.last_mut().expect("a word") = String::from_utf8(word).expect("text");
    words
}

#[test]
fn systemd_reads_arguments_paths_and_lines_back() {
    require::needs!(root, program("systemd", "systemd-analyze", "--version"));
    let arguments: Vec<String> = HOSTILE.iter().map(|text| systemd::argument(text)).collect();
    let mounts: Vec<String> = names().filter_map(|name| systemd::path(&format!("/srv/{name}"))).collect();
    let unit = |description: &str| {
        format!(
            "[Unit]\nDefaultDependencies=no\nDescription={description}\nRequiresMountsFor={}\n\
             [Service]\nType=oneshot\nExecStart=/bin/echo {}\n",
            mounts.join(" "),
            arguments.join(" "),
        )
    };
    let text = dumped(&unit("x"));
    let line = text.lines().find_map(|line| line.trim().strip_prefix("Command Line: ")).expect("a command");
    // Variables are replaced when it runs: `$$` is `$` then.
    let read: Vec<String> = words(line).into_iter().map(|word| word.replace("$$", "$")).collect();
    assert_eq!(read[1..], *HOSTILE);
    for name in names().filter(|name| !name.contains(char::is_control)) {
        let mount = format!("RequiresMountsFor: /srv/{name} (");
        assert!(text.contains(&mount), "{name:?}: {text}");
    }
    for (said, value) in HOSTILE.iter().filter_map(|text| Some((*text, systemd::value(text)?))) {
        let text = dumped(&unit(&value));
        assert!(text.starts_with(&format!("\t\tDescription: {said}\n")), "{said:?}: {text}");
    }
}

/// The paths of a whole unit, with a program and a state directory that have hostile names.
#[test]
fn a_unit_is_what_its_paths_say() {
    require::needs!(root, program("systemd", "systemd-analyze", "--version"));
    // systemd runs no program of such a name.
    for name in names().filter(|name| !name.contains(|c: char| c.is_control() || "\\'\"".contains(c))) {
        let restore = Restore {
            program: format!("/opt/{name}/rxlab").into(),
            options: vec!["--state-dir".to_owned(), format!("/srv/{name}")],
            etc: "/etc".into(),
            state: format!("/srv/{name}").into(),
        };
        let etc = tempfile::tempdir().expect("a temporary directory");
        Folder::new(etc.path()).install(&record_files(&[], &restore)).expect("written");
        let unit =
            std::fs::read_to_string(etc.path().join("systemd/system/rxlab-record.service")).expect("read");
        let unit = unit.replace("[Unit]\n", "[Unit]\nDefaultDependencies=no\n");
        let text = dumped(&unit);
        let line =
            text.lines().find_map(|line| line.trim().strip_prefix("Command Line: ")).expect("a command");
        let read: Vec<String> = words(line).into_iter().map(|word| word.replace("$$", "$")).collect();
        let wanted = [
            format!("/opt/{name}/rxlab"),
            "--state-dir".to_owned(),
            format!("/srv/{name}"),
            "record".to_owned(),
        ];
        assert_eq!(read[..4], wanted, "{name:?}: {unit}");
    }
}

/// The exported playbook, for a plan of each name.
#[test]
fn a_yaml_parser_finds_the_tasks_of_the_playbook_only() {
    require::needs!(program("ansible", "ansible-playbook", "--version"));
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (number, text) in HOSTILE.iter().enumerate() {
        let settings =
            ["rps eth0/rx-0 = 1", "rfs_entries host = 4096"].map(|one| one.parse().expect("a setting"));
        let mut plan = Plan::new(text, &settings);
        let set = format!("clocksource host = {text}").parse().ok();
        plan.settings.extend(set.map(|set| PlannedSetting::new(set, "", None)));
        let export = export::export(export::Format::Ansible, &plan, &crate::tree::model());
        std::fs::write(folder.path().join(format!("{number}.yml")), &export.files[0].text).expect("written");
    }
    // Of Ansible's own parser.
    let python = r#"
import glob, os, sys, yaml
yaml.SafeLoader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))
for path in sorted(glob.glob(sys.argv[1] + "/*.yml")):
    plays = yaml.safe_load(open(path, encoding="utf-8"))
    assert len(plays) == 1, path
    play = plays[0]
    assert sorted(play) == ["become", "gather_facts", "hosts", "name", "tasks"], (path, sorted(play))
    assert [sorted(task) for task in play["tasks"]] == [
        ["ansible.builtin.copy", "name"],
        ["ansible.builtin.shell", "changed_when", "check_mode", "environment", "name", "register"],
    ], (path, play["tasks"])
    assert "{{" not in play["name"]
print("read", len(glob.glob(sys.argv[1] + "/*.yml")))
"#;
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", python]).arg(folder.path()).says(0, &format!("read {}", HOSTILE.len()));
}

/// The exported profile, for a plan of each name.
#[test]
fn tuned_reads_the_summary_back() {
    require::needs!(program("tuned", "tuned-adm", "--version"));
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (number, text) in HOSTILE.iter().enumerate() {
        let plan = Plan::new(text, &["busy_poll host = 50".parse().expect("a setting")]);
        let export = export::export(export::Format::Tuned, &plan, &crate::tree::model());
        let profile = folder.path().join(format!("p{number}"));
        std::fs::create_dir(&profile).expect("made");
        std::fs::write(profile.join("tuned.conf"), &export.files[0].text).expect("written");
    }
    let python = r#"
import json, os, sys
from tuned.profiles.locator import Locator
from tuned.profiles.loader import Loader
from tuned.profiles.factory import Factory
from tuned.profiles.merger import Merger
from tuned.utils.global_config import GlobalConfig
from tuned.profiles.variables import Variables
variables = Variables()
loader = Loader(Locator([sys.argv[1]]), Factory(), Merger(), GlobalConfig(), variables)
read = {}
for name in os.listdir(sys.argv[1]):
    profile = loader.load(name)
    assert sorted(profile.units) == ["sysctl"], (name, sorted(profile.units))
    assert dict(profile.units["sysctl"].options) == {"net.core.busy_poll": "50"}, name
    read[name] = variables.expand(profile.options["summary"])
print(json.dumps(read))
"#;
    let mut command = Command::new("/usr/bin/python3");
    let text = command.args(["-c", python]).arg(folder.path()).exits(0);
    let line = text.lines().find(|line| line.starts_with('{')).expect("a line");
    let read: Value = serde_json::from_str(line).expect("JSON");
    for (number, text) in HOSTILE.iter().enumerate() {
        // A plan's name is shown first, as in all comments.
        assert_eq!(read[format!("p{number}")], tuned::value(&terminal::shown(text)), "{text:?}");
    }
}

/// As text and as an attribute; what is escaped for the reader has its escaped form.
#[test]
fn a_browser_reads_text_and_attributes_back() {
    let Some(browser) = Browser::start(800, 600) else { return };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut page = "<!DOCTYPE html><meta charset=\"utf-8\"><title>x</title>".to_owned();
    for text in HOSTILE {
        let mut escaped = String::new();
        html::push_text(text, &mut escaped);
        page += &format!("<p title=\"{escaped}\">{escaped}</p>");
    }
    let path = folder.path().join("page.html");
    std::fs::write(&path, page).expect("written");
    browser.open(&format!("file://{}", path.display()));
    let read = browser.value(
        "[...document.body.children].map((p) => [p.tagName, p.title, p.textContent, p.children.length])",
    );
    // These are shown as they are: line breaks and tabs, which a page lays out, and the signs of the pages.
    let as_is = |c: char| terminal::is_plain(c) || "\n\t\u{a0}\u{2212}".contains(c);
    let wanted: Vec<Value> = HOSTILE
        .iter()
        .map(|text| {
            let mut shown = String::new();
            for c in text.chars() {
                if as_is(c) { shown.push(c) } else { terminal::push(c, &mut shown) }
            }
            serde_json::json!(["P", shown, shown, 0])
        })
        .collect();
    assert_eq!(read, Value::Array(wanted));
    assert!(browser.errors().is_empty());
}

/// Both text formats, with every name as a label.
#[test]
fn prometheus_reads_labels_back() {
    let trial = |verdict: &&str| Summary {
        id: "0001-x".to_owned(),
        verdict: Some((*verdict).to_owned()),
        slots: 1,
        updated: 1.0,
    };
    let exposition = Exposition { trials: HOSTILE.iter().map(trial).collect(), ..Exposition::default() };
    let serve = |format: Format| {
        let body = encode(&exposition, format);
        connections(move |mut stream| {
            let _ = stream.read(&mut [0; 4096]);
            let kind = format.content_type();
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        })
    };
    let targets = [("open", serve(Format::OpenMetrics)), ("classic", serve(Format::Classic))];
    let Some(prometheus) = Prometheus::start(&targets, None) else { return };
    let wanted: BTreeSet<String> = HOSTILE.iter().map(|text| (*text).to_owned()).collect();
    for (job, _) in targets {
        wait_for("the scrape", || prometheus.current(&format!("up{{job='{job}'}}")) == Ok(1.0));
        let query = format!("/api/v1/query?query=rxlab_trials%7Bjob%3D%22{job}%22%7D");
        let server = prometheus.url.strip_prefix("http://").expect("a URL");
        let text = response(server, &format!("GET {query} HTTP/1.0\r\nHost: {server}\r\n\r\n"));
        let (_, body) = text.split_once("\r\n\r\n").expect("a body");
        let body: Value = serde_json::from_str(body).expect("JSON");
        let rows = body["data"]["result"].as_array().expect("rows");
        // An empty label is none.
        let read: BTreeSet<String> =
            rows.iter().map(|row| row["metric"]["verdict"].as_str().unwrap_or_default().to_owned()).collect();
        assert_eq!(read, wanted, "{job}");
    }
}

/// udev with rules for interfaces of all names, one of which means itself.
#[test]
fn udev_finds_no_rule_in_a_name() {
    let Some(udevadm) = require::udevadm() else { return };
    let Some(range) = crate::lab::range(1) else { return };
    let folder = tempfile::tempdir().expect("a temporary directory");
    // What the kernel takes: 1 to 15 bytes without white space and colons; U+00A0 is white space to it.
    let valid: Vec<&str> = HOSTILE
        .iter()
        .copied()
        .filter(|name| {
            name.parse::<rxlab_base::units::NicName>().is_ok() && !name.contains(['\u{b}', '\u{85}'])
        })
        .filter(|name| !name.bytes().any(|byte| byte == 0xa0) && !["a=b", "-x", "--help"].contains(name))
        .collect();
    assert!(valid.len() > 15, "{valid:?}");
    let mut plan = Plan::new("x", &[]);
    for name in valid.iter().chain(&["srv0"]) {
        let Ok(set) = format!("rps {name}/rx-0 = 1").parse() else { continue };
        let device = Some(rxlab_path::model::DeviceAddress(format!("virtual:{name}")));
        plan.settings.push(PlannedSetting::new(set, "", device));
    }
    let restore = Restore { program: "/usr/bin/rxlab".into(), ..Restore::only_paths("/etc".as_ref()) };
    Folder::new(folder.path()).install(&rxlab_change::persist::files(&plan, &restore)).expect("written");
    let script = r#"
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /etc/udev
mkdir /etc/udev/rules.d
cp "$1/udev/rules.d/90-rxlab.rules" /etc/udev/rules.d
udevadm=$2
shift 2
for name in srv0 "$@"; do
    [ "$name" = srv0 ] || ip link add name "$name" type veth peer name rxpeer0 || continue
    printf '\n== %s\n' "$name"
    "$udevadm" test --action=add "/sys/class/net/$name" 2>&1 || true
    # udev may have renamed it.
    [ "$name" = srv0 ] || ip link delete dev rxpeer0
done
"#;
    let mut command = crate::lab::inside(&range.server, "unshare");
    command.args(["--mount", "sh", "-uc", script, "sh"]).arg(folder.path()).arg(&udevadm).args(&valid);
    let text = command.exits(0);
    let parts: Vec<&str> = text.split("\n== ").skip(1).collect();
    assert!(parts.len() > 12, "{text}");
    for part in parts {
        let name = part.lines().next().expect("a name");
        let is_plain = udev::literal(name).is_some();
        assert_eq!(part.contains("rxlab@"), is_plain, "{part}");
        let complains = |line: &str| line.contains("90-rxlab.rules:") && !line.contains(" RUN '");
        assert!(!part.lines().any(complains), "{part}");
    }
}
