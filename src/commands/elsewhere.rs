//! The network namespace that receives a machine's packets, if the one that was examined receives hardly any.

use std::path::Path;
use std::time::{Duration, Instant};

use super::Global;
use super::machine::Source;
use rxlab_advise::doctor::DoctorReport;
use rxlab_base::number::count;
use rxlab_path::evidence::TRAFFIC;
use rxlab_sys::{Host, Namespace, lasting_netns};

/// Namespaces from which none is searched: opening one takes a mount.
const MOST: usize = 256;

/// Time between the two readings.
const BETWEEN: Duration = Duration::from_millis(500);

/// Completes a report whose packets arrive in another namespace: by the place, and the command that examines it. The report
/// of a recording, and that of a user who may not see other namespaces, stays as it is.
pub(super) fn complete(global: &Global, source: &Source, report: &mut DoctorReport) {
    let (Source::Live(host), Some(elsewhere)) = (source, &mut report.elsewhere) else { return };
    let Some((namespace, nic, rate)) = busiest(&**host) else { return };
    let name = name(&namespace);
    let of = name
        .as_ref()
        .map_or_else(|| "the namespace of this shell".to_owned(), |name| format!("namespace {name}"));
    elsewhere.place = Some(format!("{of}: {nic} receives {} packets/s there", count(rate)));
    let there = Global { netns: name, ..global.clone() };
    elsewhere.next = Some(format!("{} doctor", there.program()));
}

/// The name by which `--netns` finds a namespace; `None` for that of this process.
fn name(namespace: &Namespace) -> Option<String> {
    if Namespace::open(Path::new("/proc/self/ns/net")).is_ok_and(|own| own.inode == namespace.inode) {
        return None;
    }
    Some(lasting_netns(&namespace.path).unwrap_or_else(|| namespace.path.to_string_lossy().into_owned()))
}

/// The interface of any namespace that receives most packets per second, if they are traffic.
fn busiest(host: &dyn Host) -> Option<(Namespace, String, f64)> {
    let namespaces = host.namespaces().seen;
    if namespaces.len() > MOST {
        return None;
    }
    let views: Vec<(Namespace, Box<dyn Host>)> = namespaces
        .into_iter()
        .filter_map(|namespace| {
            let view = host.seen_from(&namespace, host.namespace()).ok()?;
            Some((namespace, view))
        })
        .collect();
    let read = || views.iter().map(|(_, view)| received(&**view)).collect::<Vec<_>>();
    let (begun, before) = (Instant::now(), read());
    std::thread::sleep(BETWEEN);
    let (after, seconds) = (read(), begun.elapsed().as_secs_f64());
    let mut best: Option<(usize, String, f64)> = None;
    for (at, (before, after)) in before.iter().zip(&after).enumerate() {
        for (nic, packets) in after {
            let Some((_, earlier)) = before.iter().find(|(name, _)| name == nic) else { continue };
            let rate = packets.saturating_sub(*earlier) as f64 / seconds;
            if rate >= best.as_ref().map_or(TRAFFIC, |best| best.2) {
                best = Some((at, nic.clone(), rate));
            }
        }
    }
    let (at, nic, rate) = best?;
    let (namespace, _) = views.into_iter().nth(at)?;
    Some((namespace, nic, rate))
}

/// Packets received so far by each interface but `lo`.
fn received(view: &dyn Host) -> Vec<(String, u64)> {
    let nics = view.list("sys/class/net").unwrap_or_default();
    let of_nic = |nic: String| {
        let text = view.read_text(&format!("sys/class/net/{nic}/statistics/rx_packets")).ok()?;
        Some((nic, text.trim().parse().ok()?))
    };
    nics.into_iter().filter(|nic| nic != "lo").filter_map(of_nic).collect()
}
