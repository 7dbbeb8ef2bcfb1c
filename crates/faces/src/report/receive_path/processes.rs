//! Processes that wait for packets, with their sockets and readable names.

use std::net::SocketAddr;

use super::cells::grouped;
use crate::report::container::container;
use rxlab_path::model::{Fact, Listener, Model, Process};

/// A process and the sockets that it listens on.
pub(super) struct Waiting<'a> {
    pub(super) process: &'a Process,
    /// Such as `tcp 0.0.0.0:80`.
    pub(super) sockets: Vec<String>,
}

/// All processes known to own a listening socket, by PID.
pub(super) fn waiting(model: &Model) -> Vec<Waiting<'_>> {
    let mut found: Vec<Waiting<'_>> = Vec::new();
    for listener in model.listeners.known().into_iter().flatten() {
        for process in listener.owners.known().into_iter().flatten() {
            match found.iter_mut().find(|waiting| waiting.process.pid == process.pid) {
                Some(waiting) => waiting.sockets.push(socket(listener)),
                None => found.push(Waiting { process, sockets: vec![socket(listener)] }),
            }
        }
    }
    found.sort_by_key(|waiting| waiting.process.pid);
    found
}

/// Sockets with unknown owners, and the reason.
pub(super) fn ownerless(model: &Model) -> impl Iterator<Item = (String, &Fact<Vec<Process>>)> {
    let listeners = model.listeners.known().into_iter().flatten();
    let unknown = listeners.filter(|listener| match &listener.owners {
        Fact::Known(owners) => owners.is_empty(),
        _ => true,
    });
    unknown.map(|listener| (socket(listener), &listener.owners))
}

/// True if the owners of all listening sockets are known, and the CPUs they last ran on.
pub(super) fn all_known(model: &Model) -> bool {
    model.listeners.known().is_some()
        && ownerless(model).next().is_none()
        && waiting(model).iter().all(|waiting| waiting.process.ran_on.known().is_some())
}

fn socket(listener: &Listener) -> String {
    let times = if listener.sockets > 1 { format!(" x{}", listener.sockets) } else { String::new() };
    format!("{} {}{times}", listener.transport, SocketAddr::new(listener.address, listener.port))
}

/// The service that a process belongs to, such as `nginx.service` or `docker 3f2c9a7be01d`.
pub(super) fn service(process: &Process) -> Option<String> {
    process.container.as_ref().map(container).or_else(|| process.unit.clone())
}

/// Several processes in short: `nginx 811,812, redis 9`, `nginx x32`.
pub(super) fn names<'a>(processes: impl IntoIterator<Item = (&'a str, u32)>) -> String {
    let group = |(command, pids): (&str, Vec<u32>)| match pids.as_slice() {
        pids if pids.len() > 4 => format!("{command} x{}", pids.len()),
        pids => format!("{command} {}", pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
    };
    grouped(processes).into_iter().map(group).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::{all_known, names, ownerless, waiting};
    use crate::report::sample_model;

    #[test]
    fn sockets_are_gathered_by_process() {
        let model = sample_model::rich();
        let waiting = waiting(&model);
        let texts: Vec<String> =
            waiting.iter().map(|one| format!("{} {}", one.process.pid, one.sockets.join(", "))).collect();
        assert_eq!(
            texts,
            [
                "811 tcp 0.0.0.0:80, tcp [::]:443 x2",
                "812 tcp 0.0.0.0:80, tcp [::]:443 x2",
                "4242 tcp 127.0.0.1:6379"
            ]
        );
        assert_eq!(ownerless(&model).map(|(socket, _)| socket).collect::<Vec<_>>(), ["udp 0.0.0.0:53"]);
        assert!(!all_known(&model));
        assert!(all_known(&sample_model::machine(2, 1)));
    }

    #[test]
    fn many_processes_of_one_name_are_counted() {
        assert_eq!(names((1..=5).map(|pid| ("nginx", pid))), "nginx x5");
        assert_eq!(names([("nginx", 1), ("redis", 9), ("nginx", 2)]), "nginx 1,2, redis 9");
    }
}
