//! `openssl speed` on one CPU: a witness available on most machines.

#![allow(clippy::disallowed_methods)] // Starts openssl.

use std::io::Read;
use std::process::{Child, Command, Stdio};

use thiserror::Error;

use super::inference::{Method, Seen};
use rxlab_base::parse;
use rxlab_base::units::{CpuId, Fact};
use rxlab_sys::{Host, pin_thread};

#[derive(Debug, Error)]
pub enum OpensslError {
    #[error("cannot run on CPU {0}: {1}")]
    Pin(CpuId, rustix::io::Errno),
    /// Not installed, or the process could not be started.
    #[error("cannot run openssl: {0}")]
    Start(std::io::Error),
    /// It ended with an error, or its output cannot be parsed.
    #[error("openssl speed: {0}")]
    Said(String),
}

/// A running `openssl speed`, killed when dropped.
#[derive(Debug)]
pub struct Openssl {
    child: Child,
    cpu: CpuId,
    // Run time and waiting time, as last read.
    times: Option<(u64, u64)>,
}

impl Openssl {
    /// Starts it on this CPU for `seconds` seconds.
    pub fn start(cpu: CpuId, seconds: u64) -> Result<Self, OpensslError> {
        let mut command = Command::new("openssl");
        command.args(["speed", "-seconds", &seconds.to_string(), "-bytes", "1024", "-evp", "aes-256-cbc"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // A child inherits the CPU of the thread that starts it.
        let start = || {
            pin_thread(cpu).map_err(|errno| OpensslError::Pin(cpu, errno))?;
            command.spawn().map_err(OpensslError::Start)
        };
        let child =
            std::thread::scope(|scope| scope.spawn(start).join().expect("the thread does not panic"))?;
        Ok(Self { child, cpu, times: None })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// True while it computes; the kernel's figures for it can be read only until it ends.
    pub fn runs(&mut self, host: &dyn Host) -> bool {
        let text = host.read_text(&format!("proc/{}/schedstat", self.pid())).ok();
        let times = text.and_then(|text| parse::ran_and_waited_ns(&text).ok());
        let runs = matches!(self.child.try_wait(), Ok(None));
        if runs {
            self.times = times.or(self.times);
        }
        runs
    }

    /// Waits for its end, and returns the time it missed.
    pub(super) fn stop(mut self) -> Result<Seen, OpensslError> {
        let mut said = Vec::new();
        let mut errors = self.child.stderr.take().expect("piped, and taken here alone");
        errors.read_to_end(&mut said).map_err(OpensslError::Start)?;
        self.child.wait().map_err(OpensslError::Start)?;
        let said = String::from_utf8_lossy(&said);
        let speed = parse::openssl_speed(&said).map_err(|error| OpensslError::Said(error.to_string()))?;
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let wall_ns = ns(speed.seconds.into()).max(1);
        Ok(Seen {
            method: Method::Openssl,
            cpu: self.cpu,
            wall_ns,
            missing_ns: wall_ns.saturating_sub(ns(speed.user_seconds)),
            interruptions: Fact::NotAsked,
            waiting_ns: self.times.map_or(Fact::Unsupported, |(_, waited)| Fact::Known(waited)),
            believed_ns: self.times.map_or(Fact::Unsupported, |(ran, _)| Fact::Known(ran)),
        })
    }
}

impl Drop for Openssl {
    fn drop(&mut self) {
        // Both fail only when it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::{Openssl, OpensslError};
    use rxlab_base::units::CpuId;

    #[test]
    fn an_absent_cpu_is_refused() {
        assert!(matches!(Openssl::start(CpuId(60_000), 1), Err(OpensslError::Pin(CpuId(60_000), _))));
    }
}
