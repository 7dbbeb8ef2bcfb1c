//! rxlab's view of a machine: two samples of the rendered files, the model and the rates between them.

use rxlab_path::model::{Model, Rates};
use rxlab_path::sample::{Counters, Inventory, Scope};
use rxlab_sys::RecordedHost;

use super::render;
use super::truth::Truth;

pub(crate) struct Seen {
    pub(crate) host: RecordedHost,
    pub(crate) model: Model,
    pub(crate) rates: Rates,
}

pub(crate) fn look(truth: &Truth) -> Result<Seen, String> {
    let host = render::at(render::machine(truth), truth, 0);
    let inventory = Inventory::take(&host, Scope::Load);
    let before = Counters::take(&host, &inventory);
    let host = render::at(host, truth, 1);
    let after = Counters::take(&host, &inventory);
    let rates = Rates::between(&before, &after).map_err(|error| format!("no rates: {error}"))?;
    let mut model = Model::new(&inventory);
    model.refute(&rates);
    Ok(Seen { host, model, rates: rates.accounted(&inventory) })
}
