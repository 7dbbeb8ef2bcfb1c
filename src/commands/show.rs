//! `rxlab show`: the receive path of the machine, of one interface, of CPUs, or as a tree.

use std::io::Write;
use std::time::Duration;

use super::machine::{From, Source};
use super::{Global, machine, output};
use crate::error::{CommandError, Result};
use rxlab_base::units::{CpuMask, NicName};
use rxlab_faces::report::receive_path::{self, CpuReport};
use rxlab_faces::report::text::command_lines;
use rxlab_path::model::Model;

/// Show the receive path: NIC, queue, IRQ, CPU, RPS, RFS, XPS
///
/// Works without privileges; values that need them are marked.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Everything about one interface
    #[arg(long, value_name = "NIC")]
    nic: Option<NicName>,
    /// The interface, as with --nic
    #[arg(value_name = "NIC", conflicts_with_all = ["nic", "cpu"])]
    interface: Option<NicName>,
    /// Receive work of these CPUs, such as 2 or 0-3,8
    #[arg(long, value_name = "CPUS", conflicts_with_all = ["nic", "tree"])]
    cpu: Option<CpuMask>,
    /// The tree from interface to process
    #[arg(long)]
    tree: bool,
    #[command(flatten)]
    from: From,
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    if global.json && args.tree {
        return Err(CommandError::usage("--tree is a drawing: it cannot be combined with --json")
            .hint("leave --tree out: --json prints the model that the tree is drawn from"));
    }
    let name = args.nic.as_ref().or(args.interface.as_ref());
    let model = Source::open(global, &args.from, Duration::ZERO)?.model(name)?;
    let nic = name.map(|name| machine::nic(&model, name)).transpose()?;
    let cpus = args.cpu.as_ref().map(|cpus| machine::cpus(&model, cpus)).transpose()?;
    let report = cpus.map(|cpus| CpuReport::new(&model, cpus));
    if global.json {
        return match (&report, nic) {
            (Some(report), _) => output::json(report),
            (None, Some(nic)) => output::json(&Model { nics: vec![nic.clone()], ..model.clone() }),
            (None, None) => output::json(&model),
        };
    }
    let text = match (&report, nic) {
        (Some(report), _) => receive_path::cpus(report),
        (None, nic) if args.tree => receive_path::tree(&model, nic),
        (None, Some(nic)) => receive_path::nic(&model, nic),
        (None, None) => receive_path::overview(&model),
    };
    let mut out = output::text_stdout();
    write!(out, "{text}")?;
    if output::is_interactive() && nic.is_none() && report.is_none() && !args.tree {
        let next = format!("{} doctor{}", global.program(), args.from.options());
        write!(out, "\n{}", command_lines("next: ", &next))?;
    }
    Ok(())
}
