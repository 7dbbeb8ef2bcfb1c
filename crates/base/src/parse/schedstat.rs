//! `/proc/PID/schedstat` and `/proc/PID/comm`: run time and name of a thread.

use super::{ParseError, counter};

/// Time on a CPU since the thread began, in nanoseconds: the first of the three fields of
/// `schedstat` (Documentation/scheduler/sched-stats.rst).
pub fn on_cpu_ns(text: &str) -> Result<u64, ParseError> {
    let first = text.split_whitespace().next().ok_or_else(|| ParseError::at(1, "empty"))?;
    counter(1, first)
}

/// The same, and the time for which the thread was runnable but another ran: the second field. Always 0 if the kernel
/// does not count it.
pub fn ran_and_waited_ns(text: &str) -> Result<(u64, u64), ParseError> {
    let second = text.split_whitespace().nth(1).ok_or_else(|| ParseError::at(1, "one field"))?;
    Ok((on_cpu_ns(text)?, counter(1, second)?))
}

/// The name in `comm`, without its line end.
pub fn thread_name(text: &str) -> &str {
    text.trim_end_matches('\n')
}

#[cfg(test)]
mod tests {
    use super::{on_cpu_ns, ran_and_waited_ns, thread_name};

    #[test]
    fn first_field_is_run_time() {
        assert_eq!(on_cpu_ns("123456789 55 3\n"), Ok(123_456_789));
        assert_eq!(ran_and_waited_ns("123456789 55 3\n"), Ok((123_456_789, 55)));
        assert!(ran_and_waited_ns("1").is_err());
        assert!(on_cpu_ns("").is_err());
        assert!(on_cpu_ns("-1 0 0").is_err());
        assert_eq!(thread_name("ksoftirqd/0\n"), "ksoftirqd/0");
    }
}
