//! UDP load: echo round trips, and one way.

mod echo;
mod flow;
mod oneway;
mod payload;
mod sink;

pub(super) use echo::Echo;
pub(super) use oneway::OneWay;
pub(super) use sink::SinkTotals;
