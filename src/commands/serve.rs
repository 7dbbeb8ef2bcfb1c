//! `rxlab serve`: the live views and the trials in a browser. It only reads.

mod page;
mod recording;
mod trials;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use serde::Serialize;

use self::recording::Recordings;
use self::trials::Trials;
use super::listen::{self, Listen};
use super::output::json_line;
use super::place::{Ends, spawn};
use super::top::sampler::Sampler;
use super::typed::sample_time;
use super::{Global, files, look, machine, output, place};
use crate::error::{CommandError, Result};
use rxlab_faces::report::live::LiveFrame;
use rxlab_faces::web::{self, Access, Hub};

/// Show the live views and the trials in a browser
///
/// The page has the views of `rxlab top` for the last 600 intervals (ten minutes by default), what `rxlab record` has
/// recorded, and the trials while they run. It changes nothing. On an address that other machines can reach, requests
/// need a token: the one in the file `rxlab-token` of the unit's credentials, or RXLAB_TOKEN, or a random one, which
/// is printed. The connection is not encrypted: use an SSH tunnel where others can listen.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address and port; port 0 lets the kernel choose, - is a listening socket on standard input
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9471")]
    listen: Listen,
    /// Length of an interval
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = sample_time)]
    every: Duration,
    /// Token that requests need; without it, one is generated if other machines can reach the address
    #[arg(long, value_name = "TOKEN", env = "RXLAB_TOKEN", hide_env_values = true)]
    token: Option<String>,
    #[command(flatten)]
    cost: look::Cost,
}

/// Intervals kept for readers that come later.
const KEPT: usize = 600;

#[derive(Serialize)]
struct Started {
    schema: &'static str,
    address: SocketAddr,
    url: String,
}

/// Data that the page gets for each interval.
#[derive(Serialize)]
struct Shown<'a> {
    /// Name of the machine; `None` in a recording, which is of the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    summary: String,
    frame: &'a LiveFrame,
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    let stop = place::stop_flag()?;
    let host = machine::readable(global)?;
    let (listener, address) = listen::open(args.listen)?;
    let (token, is_chosen) = token(args, address, credential()?)?;
    // Whoever gave the token knows it, and what is printed may end in a log.
    let query =
        token.as_ref().filter(|_| is_chosen).map_or_else(String::new, |token| format!("?token={token}"));
    let started = Started { schema: "rxlab.serve/1", address, url: format!("http://{address}/{query}") };
    output::line(global, &started, || format!("serving {}\n", started.url))?;
    let access = Access::new(address, token);
    let (frames, news, recordings) = (Hub::new(KEPT), Hub::new(1), Recordings::new(global));
    std::thread::scope(|scope| {
        let ends = Ends(&stop);
        let sampling = spawn(scope, || {
            let _ends = Ends(&stop);
            sample(global, args, &host, &frames, &stop)
        })?;
        spawn(scope, || watch_trials(global, &news, &stop))?;
        let served = web::serve(&listener, &stop, &|request, _| {
            page::answer(&recordings, request, &access, (&frames, &news), &stop)
        });
        drop(ends);
        let sampled = sampling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        served.map_err(|error| CommandError::failed(format!("cannot accept connections: {error}")))?;
        sampled
    })
}

/// Name of the credential with the token (`LoadCredential=` of the unit).
const CREDENTIAL: &str = "rxlab-token";

/// The token among the credentials of the unit, if it has any. One that is missing there, or cannot be read, is an error:
/// without it the page would be open to all users.
fn credential() -> Result<Option<String>> {
    let Some(directory) = std::env::var_os("CREDENTIALS_DIRECTORY") else { return Ok(None) };
    let path = Path::new(&directory).join(CREDENTIAL);
    Ok(Some(files::read("credential", &path)?.trim().to_owned()))
}

/// The token that requests need, and whether it was chosen here; `None` on an address that only this machine reaches,
/// unless one was given.
fn token(args: &Args, address: SocketAddr, credential: Option<String>) -> Result<(Option<String>, bool)> {
    let is_valid = |token: &str| token.len() >= 8 && token.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match args.token.clone().or(credential) {
        Some(token) if is_valid(&token) => Ok((Some(token), false)),
        Some(_) => Err(CommandError::usage("invalid token: must be at least 8 letters and digits")),
        None if address.ip().is_loopback() => Ok((None, false)),
        // It would be printed into the log of the unit.
        None if std::env::var_os("JOURNAL_STREAM").is_some() => {
            Err(CommandError::usage(format!("other machines can reach {address}, and the unit has no token"))
                .hint(format!("LoadCredential={CREDENTIAL}:/etc/rxlab/token in a drop-in of the unit")))
        }
        None => {
            let mut bytes = [0_u8; 16];
            getrandom(&mut bytes, GetRandomFlags::empty())
                .map_err(|errno| CommandError::failed(format!("cannot generate a token: {errno}")))?;
            Ok((Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()), true))
        }
    }
}

/// Publishes one interval after another until `stop` is set.
fn sample(global: &Global, args: &Args, host: &rxlab_sys::LiveHost, hub: &Hub, stop: &AtomicBool) -> Result {
    let mut sampler = Sampler::begin(global, host, args.cost.budget);
    loop {
        let frame = sampler.next(|| place::sleep(args.every, stop));
        // An interrupted interval is shorter than the others.
        if stop.load(Ordering::SeqCst) {
            return Ok(());
        }
        let frame = frame?;
        let shown = Shown { host: Some(sampler.hostname()), summary: frame.in_one_line(), frame: &frame };
        hub.publish("frame", json_line(&shown)?);
    }
}

/// Publishes the trials when they change.
fn watch_trials(global: &Global, hub: &Hub, stop: &AtomicBool) {
    let mut trials = Trials::default();
    while !stop.load(Ordering::SeqCst) {
        if let Some(rows) = trials.changed(&global.state_dir)
            && let Ok(line) = json_line(&rows)
        {
            hub.publish("trials", line);
        }
        place::sleep(Duration::from_secs(1), stop);
    }
}
