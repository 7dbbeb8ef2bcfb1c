//! `tcp://`: connections, opened and closed; nothing is sent. The engine is that of HTTP.

use super::check::{SpecError, refuse_if};
use super::destination::Destination;
use super::http::{self, Shared};
use super::poller::Poller;
use super::protocol::{Definition, Opened};
use super::session::LoadError;
use super::spec::Spec;
use super::thread::Worker;

/// `tcp://`.
pub(super) struct Tcp;

impl Definition for Tcp {
    fn scheme(&self, tls: bool) -> Option<&'static str> {
        (!tls).then_some("tcp")
    }

    fn form(&self) -> &'static str {
        "tcp://HOST:PORT"
    }

    fn noun(&self) -> &'static str {
        "connections"
    }

    fn work_unit(&self) -> &'static str {
        "conn/s"
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn only_connects(&self) -> bool {
        true
    }

    fn check(&self, spec: &Spec) -> Result<(), SpecError> {
        refuse_if(spec.pipeline != 1, "--pipeline does not work with tcp://: nothing is sent")
    }

    fn prepare(&self, spec: &Spec) -> Result<Option<Shared>, String> {
        http::prepare(spec).map(Some)
    }

    fn open(&self, worker: &Worker, destination: &Destination, poller: Poller) -> Result<Opened, LoadError> {
        http::open(worker, destination, poller)
    }
}
