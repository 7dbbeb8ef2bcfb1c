//! Sends datagrams from the client host, as many as one CPU can, to a socket on the server host that no program
//! reads.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::{LabError, Range};
use rxlab_base::units::CpuId;
use rxlab_sys::{in_netns, pin_thread};

/// Datagram size in bytes.
const SIZE: usize = 64;

/// A running sender; dropping it stops it. Without a reader only the receive path is at work: the measure is the
/// packets that get up the stack.
#[derive(Debug)]
pub struct Flood {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _server: UdpSocket,
}

impl Flood {
    /// Starts sending from `cpu` in `flows` flows.
    pub fn start(range: &Range, cpu: CpuId, flows: usize) -> Result<Self, LabError> {
        let server = sockets(range.server.path(), Range::SERVER, 1)?.remove(0);
        let clients = sockets(range.client.path(), Range::CLIENT, flows)?;
        let to = server.local_addr().map_err(LabError::Socket)?;
        for client in &clients {
            client.connect(to).map_err(LabError::Socket)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            // If the CPU is gone, send unpinned.
            let _ = pin_thread(cpu);
            for client in clients.iter().cycle() {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                // A full backlog on the server is not an error here.
                let _ = client.send(&[0; SIZE]);
            }
        });
        Ok(Self { stop, thread: Some(thread), _server: server })
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Opens `count` sockets in a network namespace, each on its own port.
fn sockets(namespace: PathBuf, address: Ipv4Addr, count: usize) -> Result<Vec<UdpSocket>, LabError> {
    in_netns(&namespace, || {
        (0..count).map(|_| UdpSocket::bind((address, 0)).map_err(LabError::Socket)).collect()
    })?
}
