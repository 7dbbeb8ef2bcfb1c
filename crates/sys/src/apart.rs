//! Work that changes the network namespace of its thread, kept apart from the rest of the process.

#![allow(clippy::disallowed_methods)] // Opens the way back in /proc.

use std::fs::File;
use std::os::fd::AsFd;
use std::thread::Builder;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Pause between two attempts to return, and how many there are.
const PAUSE: Duration = Duration::from_millis(100);
const ATTEMPTS: u32 = 100;

/// Runs `act`, which may enter a network namespace, and leaves the calling thread in its own.
///
/// On a thread that ends here. If the kernel starts none, at a limit of processes or memory, the calling thread goes
/// and returns: a guard or an undo must not depend on a free thread. An error only if it could not return.
pub(super) fn apart<T: Send>(act: impl FnOnce() -> T + Send) -> Result<T, Errno> {
    let (mut act, mut result) = (Some(act), None);
    std::thread::scope(|scope| {
        let run = || result = act.take().map(|act| act());
        // Joined at the end of the scope. A closure that no thread ran stays in `act`.
        let _ = Builder::new().spawn_scoped(scope, run);
    });
    match (act, result) {
        (Some(act), _) => here(act),
        (None, Some(result)) => Ok(result),
        (None, None) => unreachable!("a panic of the thread has ended the scope"),
    }
}

/// The network namespace that a thread returns to.
struct Home(File);

impl Home {
    fn enter(&self) -> Result<(), Errno> {
        move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for _ in 0..ATTEMPTS {
            if self.enter().is_ok() {
                return;
            }
            // Out of memory.
            std::thread::sleep(PAUSE);
        }
        // Any further access would be to another machine's interfaces.
        std::process::abort();
    }
}

/// Runs `act` on the calling thread.
fn here<T>(act: impl FnOnce() -> T) -> Result<T, Errno> {
    let home = File::open("/proc/thread-self/ns/net");
    let home = Home(home.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?);
    // Without the privilege to return, the thread must not leave.
    if let Err(errno) = home.enter() {
        std::mem::forget(home);
        return Err(errno);
    }
    Ok(act())
}

#[cfg(test)]
mod tests {
    use super::{apart, here};
    use crate::tests::have_netns;
    use crate::{Namespace, new_netns};

    fn can_make_namespaces() -> bool {
        let is_made = apart(|| new_netns().is_ok()) == Ok(true);
        have_netns(is_made.then_some(()).ok_or_else(|| "no namespace can be made".to_owned()))
    }

    #[test]
    fn the_calling_thread_returns() {
        if !can_make_namespaces() {
            return;
        }
        let own = || Namespace::own().expect("every thread has one");
        let before = own();
        let away = || {
            let _file = new_netns().expect("made");
            own()
        };
        for inside in [apart(away), here(away)] {
            assert!(!before.is_same(&inside.expect("it can return")));
            assert!(before.is_same(&own()));
        }
        let panics = || {
            here(|| {
                let _file = new_netns().expect("made");
                panic!("on the way")
            })
        };
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(before.is_same(&own()), "a panic returns too");
    }
}
