//! `rxlab plan`: settings with their reasons, as a file to review, try and apply.

mod predict;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use super::source::{self, From, Source};
use super::{files, look, machine, place};
use crate::apply;
use crate::cli::Global;
use crate::error::CommandError;
use crate::model::Model;
use crate::plan::{Plan, Setting, Spread, spread};
use crate::units::{NicName, parse_duration};

/// Make a plan: settings with reasons, as a file to review, try and apply
///
/// Looks at the counters and plans how to spread the receive work of one interface, whether or not there is
/// need for it: need is for `rxlab doctor` to find. With --setting, the plan is made of your own values,
/// checked against this machine.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// rps, rfs or rps+rfs; the last of these that would change something, unless given
    #[arg(value_name = "NAME", conflicts_with = "setting")]
    name: Option<String>,
    /// For this interface; for the one that receives most, unless given
    #[arg(long, value_name = "NIC", conflicts_with = "setting")]
    nic: Option<NicName>,
    /// How long to look; a snapshot was looked at when it was taken
    #[arg(long = "for", value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    length: Duration,
    /// A value of your own, such as 'rps eth0/rx-0 = 2-7'; may be given several times
    #[arg(long, value_name = "SETTING")]
    setting: Vec<Setting>,
    /// Print what each plan should do to the CPUs and to the packets a second that fit, by what packets and interrupts
    /// cost here. Measured with eBPF (root), which takes less than a second of two CPUs more; else by fixed
    /// fractions, and said so. With -o the plan is written with that prediction, for the trial to print beside what
    /// it measures
    #[arg(long)]
    predict: bool,
    /// Into this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    from: From,
}

pub(super) fn run(global: &Global, args: &Args) -> Result<(), CommandError> {
    let source = source::open(global, &args.from)?;
    if args.predict {
        return predict::run(global, args, &source);
    }
    let plan = if args.setting.is_empty() {
        let (model, rates) = look::look(&source, args.length)?;
        if let Some(nic) = &args.nic {
            machine::nic(&model, nic)?;
        }
        match proposed(spread(&model, &rates, args.nic.as_ref()), args.name.as_deref())? {
            Ok(plan) => plan,
            Err(reasons) => return nothing(global, &reasons),
        }
    } else {
        own(&source, &source.model(None)?, &args.setting)?
    };
    if let Some(path) = &args.output {
        return files::write(path, plan.to_toml().as_bytes());
    }
    let mut out = std::io::stdout().lock();
    if global.json {
        writeln!(out, "{}", super::json(&plan)?)?
    } else {
        write!(out, "{}", plan.to_toml())?
    }
    Ok(())
}

/// The plan of that name, or why there is none at all.
fn proposed(spread: Spread, name: Option<&str>) -> Result<Result<Plan, Vec<String>>, CommandError> {
    let mut plans: Vec<Plan> = spread.proposals.into_iter().map(|proposal| proposal.plan).collect();
    let Some(name) = name else { return Ok(plans.pop().ok_or(spread.reasons)) };
    let names: Vec<String> = plans.iter().map(|plan| plan.name.clone()).collect();
    if let Some(at) = names.iter().position(|known| known == name) {
        return Ok(Ok(plans.swap_remove(at)));
    }
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let error = CommandError::usage(format!("there is no plan `{name}` for this machine"));
    Err(spread.reasons.into_iter().fold(error.hint(format!("plans: {there}")), CommandError::hint))
}

fn nothing(global: &Global, reasons: &[String]) -> Result<(), CommandError> {
    let mut out = std::io::stdout().lock();
    if global.json {
        writeln!(out, "{}", super::json(&serde_json::json!({ "schema": null, "reasons": reasons }))?)?;
        return Ok(());
    }
    writeln!(out, "nothing to plan")?;
    reasons.iter().try_for_each(|reason| writeln!(out, "  {reason}"))?;
    Ok(())
}

/// The user's settings in the order of applying, with the devices that they are for.
fn own(source: &Source, model: &Model, settings: &[Setting]) -> Result<Plan, CommandError> {
    let mut plan = Plan::of("plan", settings);
    let checked = apply::check(source.host(), model, &plan).map_err(place::apply_error)?;
    plan = Plan::of("plan", &checked);
    plan.host = Some(model.identity.hostname.clone());
    for planned in &mut plan.settings {
        let nic = planned.set.target.nic().and_then(|name| model.nic(name));
        planned.device = nic.map(|nic| nic.address.clone());
    }
    Ok(plan)
}
