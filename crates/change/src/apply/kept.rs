//! What stays of the open transactions, as a plan for this machine as it is now.

use super::check::device_of;
use super::locate::{Place, locate};
use super::search::Search;
use crate::journal::{self, Held, History};
use rxlab_path::model::Model;
use rxlab_setting::{Plan, PlannedSetting, Setting};
use rxlab_sys::Host;

/// The permanent settings of `open` (oldest first), by the present names of what they are set on. What is of another network
/// namespace, gone or not to be found comes second, each with the reason: an interface that only has the name is another one.
pub fn kept(open: &[(String, History)], host: &dyn Host, model: &Model) -> (Plan, Vec<(String, String)>) {
    let (values, left_out) = journal::kept(open, host.namespace());
    let mut left_out: Vec<(String, String)> =
        left_out.into_iter().map(|(id, why)| (format!("transaction {id}"), why)).collect();
    let mut plan = Plan::new("kept", &[]);
    let search = Search::default();
    for Held { id, history, touched } in values {
        let why = match locate(host, model, history, &touched, &search) {
            Place::Here(target) => {
                // The address of a virtual interface is a name, which may be another one by now.
                let device = device_of(host, model, &target);
                let set = Setting::new(&touched.knob, target, &touched.wanted);
                plan.settings.push(PlannedSetting::new(set, format!("transaction {id}"), device));
                continue;
            }
            Place::There(..) => "it is in another network namespace by now".to_owned(),
            Place::Gone => "it no longer exists".to_owned(),
            Place::Unknown(why) => why,
        };
        left_out.push((format!("{} {} of transaction {id}", touched.knob, touched.target), why));
    }
    (plan, left_out)
}
