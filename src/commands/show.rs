//! `rxlab show`: the receive path as a table.

use std::io::Write;

use super::machine;
use super::source::{self, From};
use crate::cli::Global;
use crate::error::CommandError;
use crate::report;
use crate::units::NicName;

/// Show the receive path: NIC, queue, IRQ, CPU, RPS, RFS, XPS
///
/// Works without privileges; what may not be read is marked as such.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this interface
    #[arg(long, value_name = "NIC")]
    nic: Option<NicName>,
    #[command(flatten)]
    from: From,
}

pub(super) fn run(global: &Global, args: &Args) -> Result<(), CommandError> {
    let mut model = source::open(global, &args.from)?.model()?;
    if let Some(name) = &args.nic {
        model.nics = vec![machine::nic(&model, name)?.clone()];
    }
    let mut out = anstream::stdout().lock();
    if global.json {
        writeln!(out, "{}", super::json(&model)?)?;
    } else {
        write!(out, "{}", report::receive_path::render(&model))?;
    }
    Ok(())
}
