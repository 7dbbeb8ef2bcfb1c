//! The command tree as a user sees it: groups of commands in the help, examples below the help of each command.

use clap::{Command, CommandFactory};

use super::Cli;
use rxlab_faces::report::text::{STRONG, paragraph, styled};

/// Groups of commands in the help of `rxlab`, each with its commands in order.
const GROUPS: [(&str, &str); 7] = [
    ("Look", "doctor show top flow interference trace explain"),
    ("Record", "snapshot record serve exporter mcp"),
    ("Try", "tune trial report demo"),
    ("Change", "plan apply confirm undo status history reapply"),
    ("Boot", "persist unpersist restore export"),
    ("Load", "load client merge target"),
    ("Help", "help completions man"),
];

/// What is behind the short help.
const MORE: &str = "More: rxlab help COMMAND | --all | settings | environment | exit-codes";

/// A topic of `rxlab help` that is not a command, and its text.
pub(super) type Topic = (&'static str, fn() -> String);

pub(super) const TOPICS: [Topic; 3] =
    [("settings", settings), ("environment", environment), ("exit-codes", exit_codes)];

/// Forms of a setting, as `--set` and plans take them.
const SETTINGS: [(&str, &str); 5] = [
    ("'KNOB TARGET = VALUE'", "one value; in quotes, because a shell splits it at blanks"),
    ("rps eth0/rx-0 = 2-7", "of a queue: rx-0 is the first that receives, tx-0 the first that sends"),
    ("gro eth0 = off", "of an interface"),
    ("rfs_entries host = 32768", "of the machine, or of the network namespace"),
    ("affinity pid:812 = 2-5", "of all threads of a process"),
];

/// Variables of the environment that the program reads.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("RXLAB_STATE_DIR", "directory of the journal and the trials [default: /var/lib/rxlab]"),
    ("RXLAB_RUN_DIR", "directory of the lock of the machine [default: /run/rxlab]"),
    ("RXLAB_CONFIG", "file with defaults of options [default: /etc/rxlab/config.toml]; empty: none"),
    ("RXLAB_TOKEN", "token of the page of `rxlab serve`"),
    ("NO_COLOR", "if not empty: no colours"),
    ("TERM, COLORTERM", "colours of the terminal"),
];

/// Codes that the program exits with.
pub(super) const EXIT_CODES: [(&str, &str); 7] = [
    ("0", "success: done, or nothing to do"),
    ("1", "findings, harm or (tune) nothing proven, a guard tripped, a limit missed"),
    ("2", "the command line, a file or a value is wrong"),
    ("3", "a permission or a kernel feature is missing"),
    ("4", "the machine is not what the command assumes (drift, NIC gone, other host)"),
    ("5", "the work could not be done (target down before or at the end, disk full)"),
    ("130", "interrupted, after restoring everything"),
];

/// Examples by command, with the path of a command of a command. Each line is a command line, or a comment.
const EXAMPLES: &[(&str, &str)] = &[
    ("show", "rxlab show\nrxlab show --nic eth0\nrxlab show --tree --snapshot host.tar.zst"),
    (
        "flow",
        "rxlab flow 'tcp 10.0.0.1:443 198.51.100.7:50000'\nrxlab flow 'udp [2001:db8::1]:53 [2001:db8::7]:50000' --nic eth0",
    ),
    ("doctor", "rxlab doctor\nrxlab doctor --for 30s --nic eth0 -v\nrxlab doctor --watch --json"),
    (
        "top",
        "rxlab top\nrxlab top --nic eth0 --every 500ms\nrxlab top --snapshot web1.tar.zst\nrxlab top --json > top.jsonl",
    ),
    ("serve", "rxlab serve\nrxlab serve --listen 127.0.0.1:8080 --every 5s"),
    ("exporter", "rxlab exporter\nrxlab exporter --listen 10.0.0.1:9942 --every 30s"),
    ("explain", "rxlab explain\nrxlab explain one-core-hotspot"),
    ("mcp", "rxlab mcp\nrxlab mcp --allow-changes"),
    (
        "interference",
        "rxlab interference --for 10s\nrxlab interference --cpu 2 --with openssl\n\
         rxlab interference --compare as-is 'rps eth0/rx-0 = 4-7' --cpu 2",
    ),
    ("trace", "rxlab trace --out trace.json.gz\nrxlab trace --for 200ms --cpu 0-3"),
    (
        "record",
        "rxlab record\nrxlab record install --size 256M\nrxlab doctor --at '10 minutes ago' --for 30s\n\
         rxlab top --replay --at '10 minutes ago'",
    ),
    ("record install", "rxlab record install\nrxlab record install --size 256M"),
    ("record remove", "rxlab record remove"),
    ("record status", "rxlab record status"),
    ("record export", "rxlab record export --between '10 minutes ago' '9 minutes ago' -o web1.tar.zst"),
    ("snapshot", "rxlab snapshot -o web1.tar.zst\nrxlab doctor --snapshot web1.tar.zst"),
    (
        "plan",
        "rxlab plan rps -o rps.toml\nrxlab plan numa-local --nic eth0 --predict\nrxlab plan --set 'rps eth0/rx-0 = 2-7' -o mine.toml",
    ),
    (
        "apply",
        "rxlab apply rps.toml --dry-run --diff\nrxlab apply rps.toml --confirm 60s\nrxlab apply --set 'rps eth0/rx-0 = 2-7' --confirm 60s",
    ),
    ("confirm", "rxlab confirm"),
    ("undo", "rxlab undo\nrxlab undo --last\nrxlab undo --dry-run"),
    ("status", "rxlab status\nrxlab status --watch --every 10s"),
    ("history", "rxlab history"),
    ("reapply", "rxlab reapply --dry-run\nrxlab reapply"),
    ("persist", "rxlab persist\nrxlab persist --plan rps.toml --match mac"),
    ("unpersist", "rxlab unpersist"),
    ("restore", "rxlab restore --wait 30s"),
    ("export", "rxlab export rps.toml --to sh\nrxlab export --to tuned -o /etc/tuned"),
    (
        "trial",
        "rxlab trial run --plan rps.toml --live --nic eth0\nrxlab trial list\nrxlab trial show 0001-rps --html rps.html",
    ),
    (
        "trial run",
        "rxlab trial run --set 'rps eth0/rx-0 = 2-7' --live --nic eth0\n\
         rxlab trial run --plan rps.toml --load http://10.0.0.1/ --rate 50000\nrxlab trial run spec.toml --plan-only",
    ),
    ("trial resume", "rxlab trial resume 0001-rps"),
    ("trial show", "rxlab trial show 0001-rps\nrxlab trial show 0001-rps --html rps.html"),
    ("trial list", "rxlab trial list"),
    ("trial checkpoint", "rxlab trial checkpoint 0001-rps"),
    ("tune", "rxlab tune --dry-run\nrxlab tune --nic eth0\nrxlab tune --nic eth0 --time 3m --yes --json"),
    (
        "report",
        "rxlab report 0001-rps -o rps.html\nrxlab report 0001-rps 0002-rfs --markdown\n\
         rxlab doctor --json > found.json\nrxlab report found.json 0001-rps -o ticket.html\n\
         rxlab report ticket.html --json > record.json\nrxlab report --fleet web1/ web2/ web3/ -o fleet.html",
    ),
    ("demo", "rxlab demo --html demo.html"),
    ("help", "rxlab help doctor\nrxlab help trial run\nrxlab help --all\nrxlab help exit-codes"),
    (
        "target",
        "rxlab target --http 127.0.0.1:8080\nrxlab target --udp-sink 10.0.0.1:9000 --threads 2 --cpus 2-3",
    ),
    (
        "load",
        "rxlab load http://10.0.0.1/ --connections 256\nrxlab load http://10.0.0.1/ --rate 20000 --for 30s\n\
         rxlab load http://10.0.0.1/ --find-max --slo 'p99<5ms,errors<0.1%'\n\
         rxlab load udp-tracker://10.0.0.1:6969/announce --flows 64",
    ),
    ("merge", "rxlab load http://10.0.0.1/ --json > gen1.json\nrxlab merge gen1.json gen2.json"),
    ("client", "ssh gen1 rxlab client"),
    (
        "completions",
        "rxlab completions bash > /etc/bash_completion.d/rxlab\nrxlab completions zsh > ~/.zfunc/_rxlab",
    ),
    ("man", "rxlab man /usr/local/share/man/man1"),
];

/// The command tree with examples, and with the short help.
pub(super) fn command() -> Command {
    let mut command = Cli::command();
    for (path, lines) in EXAMPLES {
        command = with_examples(command, path, lines);
    }
    let groups = GROUPS.iter().map(|(heading, names)| {
        let heading = format!("{heading}:");
        format!("  {}{names}\n", styled(STRONG, &heading) + &" ".repeat(10 - heading.len()))
    });
    let groups: String = groups.collect();
    command.help_template(format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\n{MORE}"))
}

/// The long help: a line for each command, the options of every command, and the exit codes.
pub(super) fn in_full() -> Command {
    let command = command();
    let groups: String = GROUPS.iter().map(|(heading, names)| group(&command, heading, names)).collect();
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{}\n{{options}}\n\n{}",
        styled(STRONG, "Options:"),
        exit_codes()
    ))
}

/// The exit codes with a heading; ends without a line break.
pub(super) fn exit_codes() -> String {
    let lines = EXIT_CODES.iter().map(|(code, meaning)| format!("\n  {code:<4} {meaning}"));
    format!("{}{}", styled(STRONG, "Exit codes:"), lines.collect::<String>())
}

/// What can be set, and how it is written.
fn settings() -> String {
    described("Settings:", &SETTINGS)
        + "\n\n`rxlab explain KNOB` says what a knob does; docs/knobs.md lists all."
}

/// What the program reads besides its arguments.
fn environment() -> String {
    described("Environment:", &ENVIRONMENT)
}

/// A heading, and lines of a term and its meaning; ends without a line break.
fn described(heading: &str, lines: &[(&str, &str)]) -> String {
    let widest = lines.iter().map(|(term, _)| term.len()).max().unwrap_or_default();
    let lines = lines.iter().map(|(term, meaning)| paragraph(&format!("  {term:<widest$}  "), meaning));
    let text = format!("{}\n{}", styled(STRONG, heading), lines.collect::<String>());
    text.trim_end().to_owned()
}

/// `command` with `lines` below the help of the command at `path`.
fn with_examples(command: Command, path: &str, lines: &str) -> Command {
    let (name, rest) = path.split_once(' ').unwrap_or((path, ""));
    command.mut_subcommand(name, |command| match rest {
        "" => {
            let lines: String = lines.lines().map(|line| format!("\n  {line}")).collect();
            command.after_help(format!("{}{lines}", styled(STRONG, "Examples:")))
        }
        rest => with_examples(command, rest, lines),
    })
}

/// A heading and a line for each command: its name, and the first line of its help.
fn group(command: &Command, heading: &str, names: &str) -> String {
    let lines = names.split(' ').map(|name| {
        let about = command.find_subcommand(name).and_then(Command::get_about);
        let about = about.map(ToString::to_string).unwrap_or_default();
        paragraph(&format!("  {} ", styled(STRONG, name) + &" ".repeat(13 - name.len())), &about)
    });
    format!("{}\n{}\n", styled(STRONG, &format!("{heading}:")), lines.collect::<String>())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // Compares a generated page.
mod tests {
    use clap::Command;

    use super::{EXAMPLES, GROUPS, command, in_full};
    use rxlab_faces::report::text::plain;

    /// Paths of all commands that the help shows.
    fn visible(command: &Command, above: &str) -> Vec<String> {
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let below = shown.flat_map(|command| {
            let path = format!("{above}{}", command.get_name());
            let inner = visible(command, &format!("{path} "));
            std::iter::once(path).chain(inner)
        });
        below.collect()
    }

    #[test]
    fn each_command_is_in_one_group() {
        let command = command();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.split(' ')).collect();
        grouped.sort_unstable();
        let mut all = visible(&command, "");
        all.retain(|path| !path.contains(' '));
        all.sort_unstable();
        assert_eq!(grouped, all);
    }

    /// Help of all commands as pages of Markdown by file name: an overview, and a page for each group.
    fn reference() -> Vec<(String, String)> {
        let mut command = command().term_width(80);
        command.build();
        const NOTE: &str =
            "Generated from the program; after a change, run the tests with `RXLAB_UPDATE_DOCS=1`.";
        let links = GROUPS.map(|(heading, names)| {
            let names = names.split(' ').map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            format!("- [{heading}](cli/{}.md): {names}\n", heading.to_lowercase())
        });
        let overview = in_full().term_width(80).render_help().to_string();
        let mut pages = vec![(
            "cli.md".to_owned(),
            format!(
                "# Command line\n\nThe options of each command are on the page of its group. [commands.md](commands.md) \
                 shows how the commands go together. {NOTE}\n\n{}\n```text\n{}\n```\n",
                links.concat(),
                overview.trim_end()
            ),
        )];
        for (heading, names) in GROUPS {
            let mut page =
                format!("# Command line: {}\n\n{NOTE} [All groups](../cli.md).\n", heading.to_lowercase());
            let in_group = |path: &String| names.split(' ').any(|name| path.split(' ').next() == Some(name));
            for path in visible(&command, "").into_iter().filter(in_group) {
                let mut found = &command;
                for name in path.split(' ') {
                    found = found.find_subcommand(name).expect("visible");
                }
                // Options of every command are in the overview.
                let shown =
                    found.clone().mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg });
                let help = shown.term_width(80).render_long_help().to_string();
                let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
                page += &format!("\n## `rxlab {path}`\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
            }
            pages.push((format!("cli/{}.md", heading.to_lowercase()), page));
        }
        pages
    }

    #[test]
    fn the_pages_of_the_command_line_are_current() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let pages = reference();
        for (name, page) in &pages {
            let path = docs.join(name);
            if std::env::var_os("RXLAB_UPDATE_DOCS").is_some() {
                std::fs::create_dir_all(path.parent().expect("below docs")).expect("made");
                std::fs::write(&path, page).expect("written");
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(found == *page, "docs/{name} is stale: run make docs");
        }
        let there = std::fs::read_dir(docs.join("cli")).expect("listed").count();
        assert_eq!(there, pages.len() - 1, "a page of a group that is gone");
    }

    #[test]
    fn the_help_fits_80_columns() {
        let short = plain(&command().render_help().ansi().to_string());
        assert!(short.lines().count() <= 14, "{short}");
        let full = plain(&in_full().render_help().ansi().to_string());
        assert!(full.lines().all(|line| line.chars().count() <= 80), "{full}");
        insta::assert_snapshot!(format!("{short}\n--- help --all\n{full}"));
    }

    /// Each command has examples, and each example is a valid command line.
    #[test]
    fn examples_are_valid() {
        let tree = command();
        let named: Vec<&str> = EXAMPLES.iter().map(|(path, _)| *path).collect();
        for path in visible(&tree, "") {
            assert!(named.contains(&path.as_str()), "{path} has no example");
        }
        for line in EXAMPLES.iter().flat_map(|(_, lines)| lines.lines()) {
            let line = line.split(" > ").next().expect("a command").trim_start_matches("ssh gen1 ");
            let words = shlex::split(line).expect("closed quotes");
            let parsed = command().try_get_matches_from(words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.expect_err("invalid").render());
            assert!(line.len() + 2 <= 80, "too wide: {line}");
        }
    }
}
