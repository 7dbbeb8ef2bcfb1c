//! Capabilities that a program gets from its file, as in a container of an ordinary user: no engine gives such a user any.

use rustix::thread::{CapabilitySets, capabilities, set_capabilities};

/// Makes the capabilities effective that the file of this program only permits. To be called before any thread is started.
/// A file cannot make them effective itself: without one of them, as in most containers, the kernel would not run it.
pub fn use_capabilities_of_file() {
    let Ok(sets) = capabilities(None) else { return };
    if sets.effective.is_empty() && !sets.permitted.is_empty() {
        // Never fails: what is permitted may be effective.
        let _ = set_capabilities(None, CapabilitySets { effective: sets.permitted, ..sets });
    }
}
