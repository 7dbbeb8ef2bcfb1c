//! What can follow an option or stand for an argument, by the name of its value in the help.

use std::path::{Path, PathBuf};

use clap_complete::CompletionCandidate;

use crate::commands::tree::{self, TOPICS};
use crate::commands::{files, plan};
use rxlab_advise::diagnose::RULES;
use rxlab_advise::plan::Policy;
use rxlab_change::journal::{Disk, Store};
use rxlab_setting::export::Format;
use rxlab_sys::{Host, LiveHost};
use rxlab_trial::store::TrialDir;

type Candidates = fn() -> Vec<CompletionCandidate>;

/// Candidates for the value `value` of a command; `None` if the shell or clap knows better.
pub(super) fn of(command: &str, value: &str) -> Option<Candidates> {
    match (command, value) {
        ("plan", "NAME") => Some(policies),
        ("explain", "NAME") => Some(findings),
        ("undo" | "confirm", "ID") => Some(transactions),
        (_, "ID") => Some(trials),
        (_, "NIC") => Some(interfaces),
        (_, "NS") => Some(namespaces),
        (_, "FORM") => Some(formats),
        (_, "POLICY") => Some(policies),
        (_, "TOPIC") => Some(topics),
        _ => None,
    }
}

/// Names that a shell inserts as they are: others could run something.
fn plain(names: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    let is_plain = |name: &String| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+@:".contains(&byte);
        !name.starts_with('-') && name.bytes().all(is_plain)
    };
    names.into_iter().filter(is_plain).map(CompletionCandidate::new).collect()
}

fn interfaces() -> Vec<CompletionCandidate> {
    let names = LiveHost::open(Path::new("/")).ok().and_then(|host| host.list("sys/class/net").ok());
    plain(names.unwrap_or_default())
}

fn namespaces() -> Vec<CompletionCandidate> {
    let paths = files::list(Path::new("/run/netns")).unwrap_or_default();
    plain(paths.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())))
}

fn findings() -> Vec<CompletionCandidate> {
    let one =
        |rule: &rxlab_advise::diagnose::Rule| CompletionCandidate::new(rule.id).help(Some(rule.asks.into()));
    RULES.iter().map(one).collect()
}

fn policies() -> Vec<CompletionCandidate> {
    plain(plan::spreading().chain(Policy::ALL.iter().map(|(name, _)| (*name).to_owned())))
}

fn formats() -> Vec<CompletionCandidate> {
    plain(Format::ALL.map(|(name, _)| name.to_owned()))
}

fn topics() -> Vec<CompletionCandidate> {
    let tree = tree::command();
    let commands = tree.get_subcommands().filter(|command| !command.is_hide_set());
    plain(
        commands.map(|command| command.get_name().to_owned()).chain(TOPICS.map(|(name, _)| name.to_owned())),
    )
}

/// Directory of the journal and the trials: the completed command line may name another, which is not read here.
fn state() -> PathBuf {
    std::env::var_os("RXLAB_STATE_DIR").map_or_else(|| crate::commands::STATE_DIR.into(), PathBuf::from)
}

fn trials() -> Vec<CompletionCandidate> {
    plain(TrialDir::all(&state()).unwrap_or_default().iter().map(TrialDir::id))
}

fn transactions() -> Vec<CompletionCandidate> {
    let all = Store::new(Disk::new(state())).all().unwrap_or_default();
    plain(all.into_iter().filter(|entry| entry.is_open).map(|entry| entry.id))
}
