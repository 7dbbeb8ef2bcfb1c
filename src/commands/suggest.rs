//! Advice on a command line that clap refuses, where its own falls short: other programs' names of options, arguments in
//! the wrong form, and subcommands of subcommands.

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Maximum edit distance of a suggestion.
const EDITS: usize = 2;

/// Options of other programs, and ours of the same meaning: the first that the command has. clap's own suggestions go by
/// spelling, and once led from `--duration` to `--rate`.
const SYNONYMS: [(&[&str], &[&str]); 14] = [
    (
        &["--duration", "--time", "--seconds", "--length", "--timeout", "-d", "-z", "-t"],
        &["time", "for", "every"],
    ),
    (&["--interface", "--iface", "--dev", "--device", "-i", "-I"], &["nic"]),
    (&["--interval", "--period", "--refresh", "--delay", "-i"], &["every"]),
    (&["-n"], &["requests", "netns"]),
    (&["--namespace", "--ns"], &["netns"]),
    (&["--cpus", "-C"], &["cpus", "cpu"]),
    (&["--out", "--outfile", "--file", "-o"], &["output", "out", "html", "plan-out"]),
    (&["--format", "-j"], &["json"]),
    (&["--noop", "--simulate", "--check", "--no-act"], &["dry-run", "plan-only"]),
    (&["--assumeyes", "--assume-yes", "--no-confirm", "--force"], &["yes"]),
    (&["--qps", "--rps", "--req-rate", "-q", "-R"], &["rate"]),
    (&["--clients", "--concurrency", "-c"], &["connections"]),
    (&["--number", "--count", "--total"], &["requests", "pairs"]),
    (&["--streams", "--max-concurrent-streams", "-m"], &["pipeline"]),
];

/// Improves the advice of `error` on `arguments`.
pub(super) fn suggest(error: &mut clap::Error, root: &Command, arguments: impl Iterator<Item = String>) {
    let arguments: Vec<String> = arguments.collect();
    match error.kind() {
        ErrorKind::InvalidSubcommand => subcommand(error, root, &arguments),
        ErrorKind::UnknownArgument => option(error, root, &arguments),
        ErrorKind::ValueValidation => file(error, root, &arguments),
        // clap's usage has each option with a value from the environment as required.
        ErrorKind::MissingRequiredArgument => {
            let usage = leads_to(root, &arguments, "").clone().render_usage();
            error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
            if let Some(line) = example(leads_to(root, &arguments, "")) {
                advise(error, format!("for example: {line}"));
            }
        }
        _ => {}
    }
}

/// The first example of the command's own in its help.
fn example(command: &Command) -> Option<String> {
    let examples = command.get_after_help()?.to_string();
    let mut lines = examples.lines().map(str::trim);
    lines.find(|line| line.split(' ').any(|word| word == command.get_name())).map(str::to_owned)
}

/// The command that the arguments before `last` lead to.
fn leads_to<'a>(root: &'a Command, arguments: &[String], last: &str) -> &'a Command {
    let words = arguments.iter().skip(1).take_while(|word| *word != last);
    words.fold(root, |command, word| command.find_subcommand(word).unwrap_or(command))
}

/// Adds the subcommands nearest to the mistyped one.
fn subcommand(error: &mut clap::Error, root: &Command, arguments: &[String]) {
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else { return };
    let command = leads_to(root, arguments, typed);
    let names = command.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name);
    let near: Vec<String> = names
        .filter(|name| strsim::osa_distance(typed, name) <= EDITS.min(typed.len() / 2 + 1))
        .map(str::to_owned)
        .collect();
    if near.is_empty() {
        advise(error, "`rxlab help` lists the commands".to_owned());
    } else {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
    }
}

/// Adds a line of advice, in place of clap's own.
fn advise(error: &mut clap::Error, advice: String) {
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(advice)]));
}

/// Names the option of a file that stands in the place of an interface.
fn file(error: &mut clap::Error, root: &Command, arguments: &[String]) {
    let (Some(ContextValue::String(arg)), Some(ContextValue::String(typed))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return;
    };
    let has_snapshot = has_option(leads_to(root, arguments, typed), "snapshot");
    if arg == "[NIC]" && typed.contains(['/', '.']) && has_snapshot {
        let advice = format!("a recorded machine needs its option: --snapshot {typed}");
        advise(error, advice);
    }
}

fn has_option(command: &Command, long: &str) -> bool {
    let mut visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
    visible.any(|arg| arg.get_long() == Some(long))
}

/// Names the option that was meant.
fn option(error: &mut clap::Error, root: &Command, arguments: &[String]) {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return };
    let typed = typed.clone();
    let is_typed = |word: &&String| word.as_str() == typed || word.starts_with(&format!("{typed}="));
    let last = arguments.iter().find(is_typed).map_or("", String::as_str);
    let command = leads_to(root, arguments, last);
    if let Some(ours) = synonym(command, &typed) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{ours}")));
        // That it could be passed as a value does not help here.
        error.remove(ContextKind::Suggested);
    } else if !typed.starts_with('-') && command.get_name() == "plan" {
        advise(error, format!("an interface needs its option: --nic {typed}"));
    } else if ["--snapshot", "--at"].contains(&typed.as_str()) {
        // Without a command, the first that reads one was meant.
        let advice = if command.get_name() == root.get_name() {
            format!("`rxlab doctor {typed} ...` examines a recorded machine; show, plan and top read it too")
        } else {
            "a recorded machine can be neither measured nor changed: run this on the machine itself"
                .to_owned()
        };
        advise(error, advice);
    }
    let usage = command.clone().render_usage();
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
}

/// Our long option of the meaning that `typed` has elsewhere.
fn synonym(command: &Command, typed: &str) -> Option<&'static str> {
    let rows = SYNONYMS.iter().filter(|(theirs, _)| theirs.contains(&typed));
    rows.flat_map(|(_, ours)| ours.iter()).find(|ours| has_option(command, ours)).copied()
}

#[cfg(test)]
mod tests {
    use super::{SYNONYMS, suggest};
    use crate::commands::tree;

    fn said(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let mut command = tree::command();
        let mut error = command.try_get_matches_from_mut(&words).expect_err(line);
        suggest(&mut error, &command, words.into_iter());
        error.render().to_string()
    }

    #[test]
    fn what_was_typed_and_what_is_said() {
        for (typed, meant) in [
            ("rxlab doctor --duration 3s", "'--for'"),
            ("rxlab doctor --duration=3s", "'--for'"),
            ("rxlab doctor -d 3s", "'--for'"),
            ("rxlab tune --duration 3m", "'--time'"),
            ("rxlab load http://h/ --time 5s", "'--for'"),
            ("rxlab load http://h/ --qps 100", "'--rate'"),
            ("rxlab load http://h/ -n 100", "'--requests'"),
            ("rxlab load http://h/ -z 5s", "'--for'"),
            ("rxlab load http://h/ -m 10", "'--pipeline'"),
            ("rxlab top --interval 2s", "'--every'"),
            ("rxlab show --interface eth0", "'--nic'"),
            ("rxlab show -i eth0", "'--nic'"),
            ("rxlab top -i eth0", "'--nic'"),
            ("rxlab doctor -n red", "'--netns'"),
            ("rxlab show --namespace red", "'--netns'"),
            ("rxlab apply a.toml --simulate", "'--dry-run'"),
            ("rxlab trial run --live --interface eth0", "'--nic'"),
            ("rxlab plan --out a.toml", "'--output'"),
            ("rxlab trial rnu", "subcommand exists: 'run'"),
            ("rxlab --json trial rnu", "subcommand exists: 'run'"),
            ("rxlab trial lst", "'list'"),
            ("rxlab plan rps eth0", "--nic eth0"),
            ("rxlab doctor web1.tar.zst/x", "--snapshot web1.tar.zst/x"),
            ("rxlab doctor ./web1.tar.zst", "--snapshot ./web1.tar.zst"),
            ("rxlab tune --snapshot web1.tar.zst", "run this on the machine itself"),
            ("rxlab apply a.toml --snapshot web1.tar.zst", "run this on the machine itself"),
            ("rxlab --snapshot web1.tar.zst", "`rxlab doctor --snapshot ...` examines"),
            ("rxlab why", "`rxlab help` lists the commands"),
            ("rxlab flow", "for example: rxlab flow 'tcp "),
            ("rxlab merge", "for example: rxlab merge gen1.json"),
            ("rxlab trial show", "for example: rxlab trial show 0001-rps"),
        ] {
            let said = said(typed);
            assert!(said.contains(meant), "{typed}: {said}");
            assert!(!said.contains("as a value, use"), "{typed}: {said}");
        }
        assert!(!said("rxlab trial xyzzy").contains("similar"));
    }

    /// It once said `rxlab apply --state-dir <DIR> <PLAN>`, though neither is required.
    #[test]
    fn the_usage_requires_what_is_required() {
        for (typed, usage) in [
            ("rxlab apply", "Usage: rxlab apply [OPTIONS] <PLAN|--set <SETTING>>"),
            ("rxlab export", "Usage: rxlab export [OPTIONS] --to <FORM> [PLAN]"),
        ] {
            let said = said(typed);
            assert!(said.contains(usage), "{typed}: {said}");
        }
    }

    #[test]
    fn each_synonym_is_of_another_program() {
        let command = tree::command();
        for ours in SYNONYMS.iter().flat_map(|(_, ours)| ours.iter()) {
            let has = |command: &clap::Command| {
                command.get_arguments().any(|arg| arg.get_long() == Some(ours))
                    || command
                        .get_subcommands()
                        .any(|below| below.get_arguments().any(|arg| arg.get_long() == Some(ours)))
            };
            assert!(command.get_subcommands().any(has) || has(&command), "no command has --{ours}");
        }
    }
}
