//! Effect of the last applied change on the receive work.

use std::collections::BTreeSet;

use crate::apply::{Live, State, TransactionStatus};
use crate::diagnose::evidence::receiving;
use crate::doctor::Since;
use crate::model::Rates;

/// Compares the figures that a plan was predicted from with those of this sample, for the newest transaction that has
/// such figures and whose values all hold. `None` without one, or if its CPU or an interface of it is gone.
pub(super) fn since(transactions: &[TransactionStatus], rates: &Rates) -> Option<Since> {
    let holds = |transaction: &&TransactionStatus| {
        transaction.state != State::Unfinished
            && transaction.values.iter().all(|value| value.live == Live::Kept)
    };
    let newest = transactions.iter().filter(holds).rfind(|transaction| transaction.seen.is_some())?;
    let seen = newest.seen?;
    let nics: BTreeSet<_> = newest.values.iter().filter_map(|value| value.target.nic()).collect();
    let packets: Option<f64> = nics.iter().map(|nic| Some(rates.nic(nic)?.rx_packets)).sum();
    let started: jiff::Timestamp = newest.started.parse().ok()?;
    Some(Since {
        transaction: newest.id.clone(),
        what: newest.what.clone(),
        seconds: jiff::Timestamp::now().duration_since(started).as_secs_f64().max(0.0),
        cpu: seen.cpu,
        receive_before: f64::from(seen.receive_percent) / 100.0,
        receive: receiving(rates.cpu(seen.cpu)?),
        packets_before: seen.packets as f64,
        packets: packets.filter(|_| !nics.is_empty())?,
    })
}
