//! Signals that a process inherits, that wait, or that do nothing. Unsafe code: signal(2), sigaction(2) and sigprocmask(2),
//! which rustix does not have.
//!
//! Signals wait while the kernel carries out a change.
//! A signal that ends the process interrupts the kernel too: it gets no thread for a NAPI (`kthread_create_on_node` waits
//! killable) and then clears `threaded` of the interface. Only SIGKILL still does.

#![allow(unsafe_code)] // System calls with a structure of ours.

use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the processes that this one starts wait until it asks for their end. A parent may have ignored SIGCHLD, which is
/// inherited: the kernel then forgets them when they end, and asking is an error (ECHILD).
pub fn await_children() {
    // SAFETY: no handler is installed. Fails only for a signal that does not exist.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Signals of a fault of the process itself.
const FAULTS: [libc::c_int; 6] =
    [libc::SIGILL, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV, libc::SIGSYS];

/// Has the signals of a fault end the process of a command, as usual: those that [`outlast_signals`] ignores are inherited.
pub(super) fn end_by_faults(command: &mut Command) {
    let reset = || {
        for signal in FAULTS {
            // SAFETY: no handler is installed. Fails only for a signal that does not exist.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: between fork and exec only signal(2) is called, which takes no lock and no memory.
    unsafe { command.pre_exec(reset) };
}

/// Keeps signals from ending or stopping this process, but not the programs that it starts. SIGKILL and SIGSTOP still do, and a
/// fault of its own. Handlers that do something have to be set afterwards.
pub fn outlast_signals() {
    extern "C" fn nothing(_: libc::c_int) {}
    let no_operation: extern "C" fn(libc::c_int) = nothing;
    for signal in 1..=libc::SIGRTMAX() {
        let handler = match signal {
            libc::SIGCHLD | libc::SIGCONT | libc::SIGURG | libc::SIGWINCH => continue,
            // A handler would return to the fault. The kernel ends a process that ignores its own faults.
            fault if FAULTS.contains(&fault) => libc::SIG_IGN,
            _ => no_operation as libc::sighandler_t,
        };
        // SAFETY: the handler does nothing. Fails only for signals that cannot have one, and those of libc.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// The signals that were blocked before.
struct Before(libc::sigset_t);

impl Drop for Before {
    fn drop(&mut self) {
        // SAFETY: the kernel reads a set that it filled itself.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

/// Does `change` while no signal is delivered to this thread; those that arrive are delivered afterwards. In a process
/// with several threads, one that ends the process must have a handler.
pub(super) fn held_back<T>(change: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: both sets are ours, and filled before they are read. These calls fail only for wrong arguments.
    let _before = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        Before(before.assume_init())
    };
    change()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // Reads what the kernel says about this thread.
mod tests {
    use super::held_back;

    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("readable");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("listed");
        u64::from_str_radix(mask.trim(), 16).expect("a mask")
    }

    #[test]
    fn signals_wait_until_the_change_is_made() {
        let bit = |signal: i32| 1u64 << (signal - 1);
        let all = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGXFSZ].map(bit);
        let before = blocked();
        let within = held_back(blocked);
        assert!(all.iter().all(|bit| within & bit != 0), "{within:x}");
        assert_eq!(blocked(), before);
    }
}
