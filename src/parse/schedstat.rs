//! `/proc/PID/schedstat` and `/proc/PID/comm`: run time and name of a thread.

use super::{ParseError, counter};

/// Time on a CPU since the thread began, in nanoseconds: the first of the three fields of
/// `schedstat` (Documentation/scheduler/sched-stats.rst).
pub fn on_cpu_ns(text: &str) -> Result<u64, ParseError> {
    let first = text.split_whitespace().next().ok_or_else(|| ParseError::at(1, "empty"))?;
    counter(1, first)
}

/// Time for which the thread was runnable but another ran, in nanoseconds: the second field. Always 0
/// if the kernel does not count it.
pub fn waiting_ns(text: &str) -> Result<u64, ParseError> {
    let second = text.split_whitespace().nth(1).ok_or_else(|| ParseError::at(1, "one field"))?;
    counter(1, second)
}

/// The name in `comm`, without its line end.
pub fn thread_name(text: &str) -> &str {
    text.trim_end_matches('\n')
}

#[cfg(test)]
mod tests {
    use super::{on_cpu_ns, thread_name, waiting_ns};

    #[test]
    fn first_field_is_run_time() {
        assert_eq!(on_cpu_ns("123456789 55 3\n"), Ok(123_456_789));
        assert_eq!(waiting_ns("123456789 55 3\n"), Ok(55));
        assert!(waiting_ns("1").is_err());
        assert!(on_cpu_ns("").is_err());
        assert!(on_cpu_ns("-1 0 0").is_err());
        assert_eq!(thread_name("ksoftirqd/0\n"), "ksoftirqd/0");
    }
}
