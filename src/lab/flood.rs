//! Datagrams from the client host, as many as one CPU can send, to sockets of the server host that no program reads.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::{LabError, Range};
use crate::host::{enter_netns, pin_thread};
use crate::units::CpuId;

/// Bytes of a datagram.
const SIZE: usize = 64;

/// The sender, until it is dropped. Without a reader the receive path is all that is at work: what counts is what gets
/// up the stack.
#[derive(Debug)]
pub struct Flood {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _server: UdpSocket,
}

impl Flood {
    /// Sends from `cpu` in so many flows.
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
            // A CPU that went away is no reason to send nothing.
            let _ = pin_thread(cpu);
            for client in clients.iter().cycle() {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                // A full backlog of the other side is no error here.
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

/// Sockets in a network namespace, each with a port of its own.
fn sockets(namespace: PathBuf, address: Ipv4Addr, count: usize) -> Result<Vec<UdpSocket>, LabError> {
    let bind = move || -> Result<Vec<UdpSocket>, LabError> {
        enter_netns(&namespace)?;
        (0..count).map(|_| UdpSocket::bind((address, 0)).map_err(LabError::Socket)).collect()
    };
    // A thread of its own: only it moves into the namespace, and it ends here.
    std::thread::spawn(bind).join().expect("the namespace thread does not panic")
}
