//! `rxlab exporter`: the receive path as metrics for Prometheus.

mod board;
mod watch;

use std::net::SocketAddr;
use std::path::Path;

use std::time::Duration;

use serde::Serialize;

use self::board::Board;
use super::listen::{self, Listen};
use super::place::{Ends, spawn};
use super::typed::sample_time;
use super::{Global, look, lost_time, machine, output, place};
use crate::error::{CommandError, Result};
use rxlab_faces::report::metrics::Format;
use rxlab_faces::web::{Access, Denied, Request, Response, serve};

/// Export receive work, findings and what is applied as metrics for Prometheus, until interrupted
///
/// Serves /metrics over HTTP, to this machine only unless --listen names another address: there is no password. Counters
/// are read at each scrape. Findings need two moments: the exporter takes its own samples every --every, so they do not
/// depend on how often the metrics are scraped, or by how many servers. As root, it uses eBPF to measure softirq time where the
/// kernel only samples it, and lost time, each within --budget.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Serve HTTP here; port 0 lets the kernel choose, - is a listening socket on standard input
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9942")]
    listen: Listen,
    /// Time between two samples for findings
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = sample_time)]
    every: Duration,
    #[command(flatten)]
    cost: look::Cost,
}

#[derive(Serialize)]
struct Started {
    schema: &'static str,
    address: SocketAddr,
}

const PATH: &str = "/metrics";

const INDEX: &str =
    "<!doctype html><title>rxlab exporter</title><p><a href=\"/metrics\">metrics</a> of rxlab\n";

pub fn run(global: &Global, args: &Args) -> Result {
    let stop = place::stop_flag()?;
    // Each thread has its own: nothing waits for another.
    let own = machine::readable(global)?;
    let (sampled, measured) = (machine::host(global)?, machine::host(global)?);
    let board = Board::new(&own)?;
    let (listener, address) = listen::open(args.listen)?;
    let access = address.ip().to_canonical().is_loopback().then(|| Access::new(address, None));
    output::line(global, &Started { schema: "rxlab.exporter/1", address }, || {
        format!("serving http://{address}{PATH}\n")
    })?;
    std::thread::scope(|scope| {
        // The other threads end too if the listener fails.
        let _ends = Ends(&stop);
        spawn(scope, || {
            let _ends = Ends(&stop);
            watch::watch(global, &sampled, &board, (args.every, args.cost.budget), &stop)
        })?;
        // Another root is files: there are no programs to measure.
        if global.root == Path::new("/") {
            spawn(scope, || {
                lost_time::measure(&measured, args.cost.budget, &stop, &|| true, &|sample| {
                    board.update(|shown| shown.lost.add(&sample))
                });
            })?;
        }
        serve(&listener, &stop, &|request, _| answer(&board, access.as_ref(), request))
            .map_err(|error| CommandError::failed(format!("cannot serve HTTP any more: {error}")))
    })
}

/// On a loopback address, only requests that name this machine are answered: a page of another site can name its own and
/// have it resolve to this address.
fn answer(board: &Board<'_>, access: Option<&Access>, request: &Request) -> Response<'static> {
    if access.is_some_and(|access| access.check(request) == Err(Denied::Host)) {
        return Response::text(421, "the Host header names another machine; use localhost or 127.0.0.1");
    }
    if Access::is_of_another_site(request) {
        return Response::text(403, "requests from other sites are refused");
    }
    match request.path.as_str() {
        PATH => {
            let format = Format::of_accept(request.header("accept").unwrap_or_default());
            Response::ok(format.content_type(), board.scrape(format))
        }
        "/" => Response::ok("text/html; charset=utf-8", INDEX),
        _ => Response::text(404, "not found; the metrics are at /metrics"),
    }
}
