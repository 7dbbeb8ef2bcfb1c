//! `rxlab client`: offers load on the orders of a trial that runs elsewhere.

use std::io;

use super::{Global, output};
use crate::error::Result;
use rxlab_load::serve;

/// Generate load for a trial that runs on another machine.
///
/// The trial starts it with the commands of its `[[client]]` tables, such as `ssh gen1 rxlab client`. It reads
/// orders from standard input, and ends when that is closed.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn run(global: &Global, _: &Args) -> Result {
    Ok(serve(io::stdin().lock(), output::stdout(global))?)
}
