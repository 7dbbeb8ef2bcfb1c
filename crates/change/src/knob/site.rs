//! A target of a knob on a machine, and what drivers do there: find the interface or queue, ask and act, parse
//! values, and say what failed.

use std::fmt::Display;

use rustix::io::Errno;

use super::error::{Meanings, TRANSIENT};
use super::value;
use super::{KnobError, Result};
use rxlab_base::parse::{self, WireError};
use rxlab_base::units::{CpuMask, Direction, MaskError, NicName, QueueId};
use rxlab_path::model::{Model, Nic, RxQueue, TxQueue};
use rxlab_setting::Target;
use rxlab_sys::{Action, Cause, EthtoolGet, Host, HostError, Operation, Query};

/// One target of a knob on one machine.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    pub(super) knob: &'static str,
    pub(crate) host: &'a dyn Host,
    pub(crate) model: &'a Model,
    pub(crate) target: &'a Target,
}

/// The first two numbers of a kernel release such as `6.18.44-fc`.
pub(super) fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|character: char| !character.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

impl<'a> Site<'a> {
    /// The end of the clock tick in which a process began, by its `stat` file, in nanoseconds since boot.
    pub(super) fn began_ns(self, pid: u32, stat: &str) -> Result<u64> {
        let broken = |error| KnobError::broken(&format!("proc/{pid}/stat"), error, "a stat file");
        let began = parse::process_stat(stat).map_err(broken)?.began_ticks;
        let start = self.host.numbering().map_err(KnobError::Numbers)?.map_or(began, |own| own.start(began));
        Ok(start.saturating_add(1).saturating_mul(parse::TICK_NS))
    }

    /// Refuses any target but the whole machine.
    pub(super) fn only_host(self) -> Result {
        match self.target {
            Target::Host => Ok(()),
            _ => Err(self.wrong("the whole machine (host)")),
        }
    }

    /// The interface that the target is.
    pub(super) fn nic(self) -> Result<&'a Nic> {
        match self.target {
            Target::Nic(name) => self.known_nic(name),
            _ => Err(self.wrong("an interface (NIC)")),
        }
    }

    pub(super) fn known_nic(self, name: &NicName) -> Result<&'a Nic> {
        self.model.nic(name).ok_or_else(|| KnobError::UnknownNic {
            nic: name.clone(),
            known: self.model.nics.iter().map(|nic| nic.name.clone()).collect(),
        })
    }

    /// The receive queue that the target is.
    pub(super) fn rx_queue(self) -> Result<(&'a Nic, &'a RxQueue)> {
        let acts_on = "a receive queue (NIC/rx-N)";
        self.queue(Direction::Rx, acts_on, |nic| &nic.rx, |rx| QueueId::rx(rx.index))
    }

    /// The transmit queue that the target is.
    pub(super) fn tx_queue(self) -> Result<(&'a Nic, &'a TxQueue)> {
        let acts_on = "a transmit queue (NIC/tx-N)";
        self.queue(Direction::Tx, acts_on, |nic| &nic.tx, |tx| QueueId::tx(tx.index))
    }

    /// The queue that the target is among those of `all`, which `id` tells apart. A target of the other
    /// direction is wrong.
    fn queue<Q>(
        self,
        direction: Direction,
        acts_on: &'static str,
        all: fn(&Nic) -> &[Q],
        id: fn(&Q) -> QueueId,
    ) -> Result<(&'a Nic, &'a Q)> {
        let Target::Queue { nic: name, queue } = self.target else { return Err(self.wrong(acts_on)) };
        if queue.direction != direction {
            return Err(self.wrong(acts_on));
        }
        let nic = self.known_nic(name)?;
        let found = all(nic).iter().find(|one| id(one) == *queue);
        let found = found.ok_or_else(|| KnobError::UnknownQueue {
            nic: name.clone(),
            queue: *queue,
            known: all(nic).iter().map(id).collect(),
        })?;
        Ok((nic, found))
    }
}

impl Site<'_> {
    /// The text of a file whose errors have no special meaning.
    pub(super) fn read_text(self, path: &str) -> Result<String> {
        self.host.read_text(path).map_err(|error| self.unreadable(&error))
    }

    /// The answer, parsed by `parse`; `expected` describes it.
    pub(crate) fn query<T, E: Display>(
        self,
        query: &Query,
        parse: impl FnOnce(&[u8]) -> Result<T, E>,
        expected: &'static str,
    ) -> Result<T> {
        let answer = self.host.query(query).map_err(|error| self.unreadable(&error))?;
        parse(&answer).map_err(|error| KnobError::broken(&query.path(), error, expected))
    }

    /// The driver's answer, parsed by `parse`.
    pub(super) fn ethtool<T>(
        self,
        get: EthtoolGet,
        nic: &Nic,
        parse: fn(&[u8]) -> Result<T, WireError>,
    ) -> Result<T> {
        self.query(&Query::Ethtool(get, nic.name.clone()), parse, "an answer of ethtool")
    }

    /// Carries out the change that sets `value`.
    pub(super) fn act(self, value: &str, action: &Action, meanings: Meanings) -> Result {
        let denied = " (needs CAP_NET_ADMIN)";
        self.host.act(action).map_err(|error| self.failed(Some(value), &error, denied, meanings))
    }
}

impl Site<'_> {
    /// Parses `value` as a list of CPUs that exist and are online.
    pub(super) fn online_cpus(self, value: &str) -> Result<CpuMask> {
        let mask: CpuMask = value.parse().map_err(|error: MaskError| self.bad(value, error.to_string()))?;
        let online = self.model.online();
        let present: CpuMask = self.model.cpus.iter().map(|cpu| cpu.id).collect();
        let missing = mask.difference(&present);
        if !missing.is_empty() {
            let does = if missing.len() == 1 { "does" } else { "do" };
            let why = format!("{does} not exist on this machine (online: {online})");
            return Err(self.unusable(missing, why));
        }
        let offline = mask.difference(&online);
        if !offline.is_empty() {
            let is = if offline.len() == 1 { "is" } else { "are" };
            return Err(self.unusable(offline, format!("{is} offline (online: {online})")));
        }
        Ok(mask)
    }

    /// Refuses a value that names receive queues which the interface does not have.
    pub(super) fn check_queues(self, nic: &Nic, value: &str, queues: &[u32]) -> Result {
        match queues.iter().find(|queue| nic.rx.iter().all(|rx| rx.index != **queue)) {
            None => Ok(()),
            Some(queue) => {
                let why = format!("{} has {} receive queues, and no rx-{queue}", nic.name, nic.rx.len());
                Err(self.bad(value, why))
            }
        }
    }

    pub(super) fn switch(self, value: &str) -> Result<bool> {
        match value {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(self.bad(value, "expected on or off")),
        }
    }

    /// Parses `value` as a 32-bit number, described by `what`.
    pub(super) fn number(self, value: &str, what: &str) -> Result<u32> {
        value::plain_number(value).ok_or_else(|| self.bad(value, format!("expected {what}")))
    }
}

impl Site<'_> {
    pub(super) fn wrong(self, acts_on: &'static str) -> KnobError {
        KnobError::WrongTarget { knob: self.knob, acts_on, target: self.target.clone() }
    }

    pub(super) fn bad(self, value: &str, why: impl Into<String>) -> KnobError {
        KnobError::BadValue { knob: self.knob, value: value.to_owned(), why: why.into() }
    }

    pub(crate) fn unknown(self, what: &'static str, why: &str) -> KnobError {
        KnobError::Unknown { what, target: self.target.clone(), why: why.to_owned() }
    }

    pub(super) fn unusable(self, cpus: CpuMask, why: impl Into<String>) -> KnobError {
        KnobError::UnusableCpus { knob: self.knob, target: self.target.clone(), cpus, why: why.into() }
    }

    pub(super) fn lacks(self, why: &'static str) -> KnobError {
        KnobError::Lacks { knob: self.knob, target: self.target.clone(), why }
    }

    /// The error for a value that is missing for the reason `why` unless the kernel is one that has it, `since` being the
    /// first. Only files can lack it then.
    pub(super) fn lacks_since(self, since: &str, why: &'static str) -> KnobError {
        if self.has_linux(since) && self.host.namespace().is_none() {
            let kernel = self.model.identity.kernel.clone();
            KnobError::NotRecorded { knob: self.knob, target: self.target.clone(), kernel }
        } else {
            self.lacks(why)
        }
    }

    /// True for this release of the kernel and later ones; false for one that does not begin with numbers.
    pub(super) fn has_linux(self, since: &str) -> bool {
        let kernel = release(&self.model.identity.kernel);
        kernel.zip(release(since)).is_some_and(|(kernel, since)| kernel >= since)
    }

    /// The error for a value that undo could not restore.
    pub(super) fn unrestorable(self, why: String) -> KnobError {
        KnobError::UnrestorableValue { knob: self.knob, target: self.target.clone(), why }
    }

    /// An error unless system calls have the process numbers of `/proc`.
    pub(super) fn numbered(self) -> Result {
        self.host.numbering().map(drop).map_err(KnobError::Numbers)
    }

    pub(super) fn not_there(self, why: impl Into<String>) -> KnobError {
        KnobError::NotThere { target: self.target.clone(), why: why.into() }
    }

    /// The meaning of a read that failed.
    pub(crate) fn unreadable(self, error: &HostError) -> KnobError {
        self.failed(None, error, "", &[])
    }

    /// The meaning of an operation that failed, a write if there is a `value`; `denied` is the meaning of a denial,
    /// and `meanings` has the errnos that are special to the knob.
    pub(super) fn failed(
        self,
        value: Option<&str>,
        error: &HostError,
        denied: &'static str,
        meanings: Meanings,
    ) -> KnobError {
        let (knob, target, path) = (self.knob, self.target.clone(), error.path.clone());
        let verb =
            if matches!(error.operation, Operation::Write | Operation::Act) { "write" } else { "read" };
        match error.cause {
            Cause::Missing => KnobError::Unsupported { knob, target, path },
            Cause::Denied => KnobError::Denied { verb, path, meaning: denied },
            Cause::OtherView | Cause::NotInProc => KnobError::Unseen { verb, error: error.clone() },
            Cause::NotText | Cause::Withheld | Cause::Command => {
                KnobError::Broken { path, text: "?".to_owned(), expected: "text" }
            }
            Cause::Errno(errno) if Errno::from_raw_os_error(errno) == Errno::ROFS => {
                KnobError::ReadOnly { path }
            }
            Cause::Errno(errno) => {
                let errno = Errno::from_raw_os_error(errno);
                let mut meanings = meanings.iter().chain(TRANSIENT);
                let meaning = meanings.find(|(known, _)| *known == errno).map(|(_, meaning)| *meaning);
                KnobError::Refused {
                    knob,
                    target,
                    value: value.unwrap_or("?").to_owned(),
                    meaning: meaning.map_or_else(|| error.reason(), str::to_owned),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::release;

    #[test]
    fn releases_are_compared_as_numbers() {
        assert_eq!(release("6.18.44-fc-v595"), Some((6, 18)));
        assert!(release("6.18.44") > release("6.3") && release("2.6.12 or before") < release("5.19"));
        for unknown in ["", "6", "later"] {
            assert_eq!(release(unknown), None, "{unknown}");
        }
    }
}
