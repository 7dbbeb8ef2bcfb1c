//! `rxlab plan`: settings with their reasons, as a file to review, try and apply.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::machine::{From, Source};
use super::typed::{number_of, sample_time};
use super::{Global, files, look, machine, output, place};
use crate::error::{CommandError, Result};
use rxlab_advise::doctor::doctor;
use rxlab_advise::family::PlanName;
use rxlab_advise::plan::{Options, Policed, Policy, Proposal, Spread, Variable, spread};
use rxlab_base::grammar::sh;
use rxlab_base::units::{CpuMask, NicName};
use rxlab_change::apply;
use rxlab_faces::report::forecast::{self, Forecast};
use rxlab_faces::report::text::{Cell, Table, command_lines, left, paragraph, paragraphs, wrapping};
use rxlab_path::model::{Model, Rates};
use rxlab_setting::{Plan, Setting, trial_of, trial_of_file};
use rxlab_sys::{lasting_netns, netns_path};

/// Make a plan: settings with reasons, as a file to review, try and apply
///
/// Samples the machine and plans for a policy, whether needed or not: `rxlab doctor` says what is needed. Each setting has
/// its risk (safe, brief stall, link reset) and its upkeep. With --set, the plan consists of your own values, checked
/// against this machine.
///
/// Policies: spread (receive work of one interface on several CPUs; the default), numa-local (interrupts and packets
/// near the device), isolate (no receive work on the application's CPUs), latency (interrupts are not delayed), minimal
/// (only safe settings with low upkeep), full (everything that may help).
///
/// A policy's plan can have several variables: channels, rss, moderation, irq, xps, rps, rfs, clocksource. To try
/// them one at a time, plan, try and keep one after the other: rxlab plan numa-local.irq -o irq.toml
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A policy; a policy and some of its variables, such as numa-local.rps+rfs; or only rps, rfs or rps+rfs
    #[arg(value_name = "NAME", conflicts_with = "setting")]
    name: Option<String>,
    /// The policy; NAME then lists variables of it
    #[arg(long, value_name = "POLICY", conflicts_with = "setting")]
    policy: Option<Policy>,
    /// Plan for this interface; may be given several times. By default spread takes the one that keeps the hottest CPU
    /// busy, or receives most, and the other policies take every device in use
    #[arg(long, value_name = "NIC", conflicts_with = "setting")]
    nic: Vec<NicName>,
    /// Maximum number of CPUs that a queue hands its packets to
    #[arg(long, value_name = "N", conflicts_with = "setting", value_parser = number_of)]
    cpus_per_queue: Option<usize>,
    /// CPUs to keep receive work away from, in addition to those that the machine isolates
    #[arg(long, value_name = "LIST", conflicts_with = "setting")]
    isolated: Option<CpuMask>,
    /// Length of the sample; a snapshot has its own interval
    #[arg(long = "for", value_name = "TIME", default_value = "2s", value_parser = sample_time)]
    length: Duration,
    /// A value to plan, such as 'rps eth0/rx-0 = 2-7'; may be given several times
    #[arg(long = "set", alias = "setting", value_name = "SETTING")]
    setting: Vec<Setting>,
    /// Predict the receive time of each CPU and the packets per second that then fit; for rps, rfs and rps+rfs if
    /// no plan is selected
    ///
    /// The costs of packets and interrupts are measured with eBPF (root), as in every sample of live traffic;
    /// without them the prediction is a rough guess and says so. A file (-o) has the prediction without this option
    /// too, unless it is made with --set. A trial of the file prints it next to its measurement.
    #[arg(long)]
    predict: bool,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    cost: look::Cost,
    #[command(flatten)]
    from: From,
}

/// The plan that NAME and --policy select.
#[derive(Debug, PartialEq)]
enum Wanted {
    /// A plan of the spreading planner by its name: `rps`, `rfs`, `rps+rfs`.
    Proposal(String),
    /// A policy, or some of its variables.
    Policy(Policy, Option<Vec<Variable>>),
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    let source = Source::open(global, &args.from, args.length)?;
    let stop = place::stop_flag()?;
    if args.predict {
        return look::ended(&stop, predict(global, args, &source, &stop));
    }
    let (plan, proposals) = if args.setting.is_empty() {
        let wanted = wanted(args).map_err(|error| match interface(args, &source) {
            Some(nic) => error.hint(format!(
                "{nic} is an interface: {} plan --nic {}",
                global.program(),
                sh::word(nic.as_str())
            )),
            None => error,
        })?;
        let (model, rates) = look::look(&source, args.length, args.cost.budget, &stop)?;
        let plan = made(&wanted, args, &model, &rates)?;
        (plan, doctor(&model, &rates, &global.program()).plans)
    } else {
        (own(&source, &source.model(None)?, &args.setting)?, Vec::new())
    };
    let plan = of_namespace(global, plan);
    let next = next(global, args, &plan, &proposals);
    look::ended(&stop, write(global, args, &plan, &next))
}

/// The name as an interface of the machine, if it is one: other commands take it in this place.
fn interface(args: &Args, source: &Source) -> Option<NicName> {
    let nic: NicName = args.name.as_deref()?.parse().ok()?;
    source.check_nic(Some(&nic)).is_ok().then_some(nic)
}

/// Settings that fit a command line.
const SHORT: usize = 3;

/// The command that tries a plan: that of the doctor if it proposes the plan, else a trial of its values, or the file for one.
fn next(global: &Global, args: &Args, plan: &Plan, proposals: &[Proposal]) -> String {
    let program = global.program();
    let proposed = proposals.iter().find(|proposal| proposal.plan.settings == plan.settings);
    if let Some(next) = proposed.and_then(|proposal| proposal.next.clone()) {
        return next;
    }
    match nic(plan) {
        Some(nic) if plan.settings.len() <= SHORT => {
            trial_of(&program, plan.settings.iter().map(|planned| &planned.set), nic)
        }
        _ => {
            let typed = std::env::args_os().skip(1).map(|word| sh::word(&word.to_string_lossy()));
            let typed = typed.collect::<Vec<_>>().join(" ").replace('\n', " ");
            format!("rxlab {typed} -o {}.toml", args.name.as_deref().unwrap_or("plan"))
        }
    }
}

/// The interface whose traffic shows the effect of a plan.
fn nic(plan: &Plan) -> Option<&NicName> {
    plan.settings.iter().find_map(|planned| planned.set.target.nic())
}

/// The next command, and on which machine, if the plan was made from a recording of it.
fn next_line(args: &Args, plan: &Plan, next: &str) -> String {
    let host = plan.host.as_ref().filter(|_| args.from.is_recorded());
    command_lines("next: ", next)
        + &host.map_or_else(String::new, |host| paragraph("      ", &format!("(on {host})")))
}

/// The plan with the namespace of its interfaces.
pub(super) fn of_namespace(global: &Global, plan: Plan) -> Plan {
    let netns = global.netns.as_deref().and_then(|name| lasting_netns(&netns_path(name)));
    Plan { netns, ..plan }
}

fn write(global: &Global, args: &Args, plan: &Plan, next: &str) -> Result {
    if let Some(path) = &args.output {
        return written(global, args, path, plan);
    }
    if plan.settings.is_empty() {
        return output::print(global, plan, || format!("nothing to plan\n{}", paragraphs("  ", &plan.notes)));
    }
    if output::is_interactive() && !global.json {
        let mut out = output::text_stdout();
        return Ok(write!(out, "{}{}", text(plan), next_line(args, plan, next))?);
    }
    let toml = plan.to_toml();
    if !global.json {
        output::check_passes("the plan", &toml)?;
    }
    output::print(global, plan, || toml)
}

/// A plan for a reader: a row for each setting, what is expected of it, and its limits.
fn text(plan: &Plan) -> String {
    let mut table = Table::new([wrapping("SETTING"), left("RISK"), left("UPKEEP"), wrapping("WHY")]);
    for planned in &plan.settings {
        let [risk, upkeep] = [Cell::or_dash(planned.risk), Cell::or_dash(planned.upkeep)];
        table.row([planned.set.to_string().into(), risk, upkeep, planned.why.clone().into()]);
    }
    let predicted = plan.prediction.iter().map(|prediction| paragraph("rough: ", &prediction.to_string()));
    let notes = plan.notes.iter().map(|note| paragraph("note: ", note));
    table.render() + &predicted.chain(notes).collect::<String>()
}

/// Writes the plan to a file, and prints it and the path.
fn written(global: &Global, args: &Args, path: &Path, plan: &Plan) -> Result {
    if plan.settings.is_empty() {
        return Err(no_file(path, &plan.notes));
    }
    files::write(path, plan.to_toml().as_bytes())?;
    if global.json {
        return output::json(plan);
    }
    let mut out = output::text_stdout();
    write!(out, "{}", text(plan))?;
    let path = std::path::absolute(path)?;
    writeln!(out, "plan: {}", path.display())?;
    if output::is_interactive() {
        let (program, path) = (global.program(), path.to_string_lossy());
        let next = match nic(plan) {
            Some(nic) => trial_of_file(&program, &path, nic),
            None => format!("{program} apply {} --confirm 60s", sh::word(&path)),
        };
        write!(out, "{}", next_line(args, plan, &next))?;
    }
    Ok(())
}

fn wanted(args: &Args) -> Result<Wanted> {
    let Some(name) = &args.name else {
        return Ok(Wanted::Policy(args.policy.unwrap_or(Policy::Spread), None));
    };
    let variables = |names: &str| -> Result<Vec<Variable>> {
        names.split('+').map(|name| name.parse().map_err(CommandError::usage)).collect()
    };
    if let Some(policy) = args.policy {
        return Ok(Wanted::Policy(policy, Some(variables(name)?)));
    }
    if let Ok(policy) = name.parse() {
        return Ok(Wanted::Policy(policy, None));
    }
    if let Some((policy, names)) = name.split_once('.') {
        let policy = policy.parse().map_err(CommandError::usage)?;
        return Ok(Wanted::Policy(policy, Some(variables(names)?)));
    }
    match variables(name) {
        Ok(variables) if has_choices(args) => Ok(Wanted::Policy(Policy::Spread, Some(variables))),
        _ if spreading().any(|plan| plan == *name) => Ok(Wanted::Proposal(name.clone())),
        _ => {
            let plans = spreading().collect::<Vec<_>>().join(", ");
            let policies = Policy::ALL.map(|(name, _)| name).join(", ");
            Err(CommandError::usage(format!("unknown plan `{name}`"))
                .hint(format!("plans: {plans}; policies: {policies}")))
        }
    }
}

/// Names of the spreading planner's plans.
pub(super) fn spreading() -> impl Iterator<Item = String> {
    PlanName::ALL.into_iter().filter(|name| name.policy().is_none()).map(|name| name.to_string())
}

/// True if options are given that only policies have.
fn has_choices(args: &Args) -> bool {
    args.cpus_per_queue.is_some() || args.isolated.is_some() || args.nic.len() > 1
}

/// True if neither a name nor an option selects a plan: all proposals of the spreading planner are then candidates.
fn is_plain(args: &Args) -> bool {
    args.name.is_none() && args.policy.is_none() && !has_choices(args)
}

/// Returns the plan. If there is nothing to plan, it has no settings, and the reasons as notes.
fn made(wanted: &Wanted, args: &Args, model: &Model, rates: &Rates) -> Result<Plan> {
    for nic in &args.nic {
        machine::nic(model, nic)?;
    }
    if let Some(isolated) = &args.isolated {
        machine::cpus(model, isolated)?;
    }
    let (policy, variables) = match wanted {
        Wanted::Proposal(name) => return Ok(proposed(spread(model, rates, args.nic.first()), name)),
        Wanted::Policy(policy, variables) => (*policy, variables.as_deref()),
    };
    let options = Options {
        nics: args.nic.clone(),
        cpus_per_queue: args.cpus_per_queue,
        isolated: args.isolated.clone().unwrap_or_default(),
    };
    let Policed { mut plan, reasons, .. } = policy.plan(model, rates, &options, variables);
    if plan.settings.is_empty() {
        plan.notes = reasons;
    }
    Ok(plan)
}

/// Returns the plan of that name, or one without settings and with the reasons as notes.
fn proposed(spread: Spread, name: &str) -> Plan {
    let mut plans: Vec<Plan> = spread.proposals.into_iter().map(|proposal| proposal.plan).collect();
    let names: Vec<String> = plans.iter().map(|plan| plan.name.clone()).collect();
    if let Some(at) = names.iter().position(|known| known == name) {
        return plans.swap_remove(at);
    }
    let others = (!names.is_empty()).then(|| format!("there is a plan for {}", names.join(", ")));
    let reasons = spread.reasons.iter().map(ToString::to_string);
    Plan { notes: reasons.chain(others).collect(), ..Plan::new(name, &[]) }
}

/// Error if there is nothing to write: a script that applies the file next has to stop. It mentions an existing file of
/// that name: an earlier plan, which may be applied by mistake.
fn no_file(path: &Path, reasons: &[String]) -> CommandError {
    let error = CommandError::failed("nothing to plan, so no file was written").hint_all(reasons);
    if files::is_there(path) {
        error.hint(format!("{} is from an earlier run and was left unchanged", path.display()))
    } else {
        error
    }
}

/// Plan of the user's settings, in the order of applying and with their devices.
fn own(source: &Source, model: &Model, settings: &[Setting]) -> Result<Plan> {
    let mut plan = Plan::new("plan", settings);
    let checked = apply::check(source.host(), model, &plan)?;
    plan = Plan::new("plan", &checked);
    plan.host = Some(model.identity.hostname.clone());
    for planned in &mut plan.settings {
        let nic = planned.set.target.nic().and_then(|name| model.nic(name));
        planned.device = nic.map(|nic| nic.address.clone());
        *planned = planned.clone().with_driver(nic.and_then(|nic| nic.driver.as_deref()));
    }
    Ok(plan)
}

/// Prints the predicted effect of each plan on the CPUs of this host, by costs measured here.
fn predict(global: &Global, args: &Args, source: &Source, stop: &AtomicBool) -> Result {
    let (model, rates) = look::look(source, args.length, args.cost.budget, stop)?;
    for nic in &args.nic {
        machine::nic(&model, nic)?;
    }
    let (plans, reasons) = plans(args, source, &model, &rates)?;
    let mut report = Forecast::new(&model, &rates, plans, reasons);
    if let Some(path) = &args.output {
        let plan = report.plans.pop().ok_or_else(|| no_file(path, &report.reasons))?;
        return written(global, args, path, &of_namespace(global, plan));
    }
    let next = doctor(&model, &rates, &global.program()).plans.into_iter().find_map(|proposal| proposal.next);
    let next = next.filter(|_| output::is_interactive());
    let next = next.map_or_else(String::new, |next| command_lines("next: ", &next));
    output::print(global, &report, || forecast::text(&report) + &next)
}

/// Returns the requested plans, the widest last, and the reasons why others are missing.
fn plans(args: &Args, source: &Source, model: &Model, rates: &Rates) -> Result<(Vec<Plan>, Vec<String>)> {
    if !args.setting.is_empty() {
        return Ok((vec![own(source, &source.model(None)?, &args.setting)?], Vec::new()));
    }
    // A file holds one plan: the one that the same command writes without a prediction.
    if is_plain(args) && args.output.is_none() {
        let Spread { proposals, reasons } = spread(model, rates, args.nic.first());
        let reasons = reasons.iter().map(ToString::to_string).collect();
        return Ok((proposals.into_iter().map(|proposal| proposal.plan).collect(), reasons));
    }
    let plan = made(&wanted(args)?, args, model, rates)?;
    Ok(if plan.settings.is_empty() { (Vec::new(), plan.notes) } else { (vec![plan], Vec::new()) })
}
