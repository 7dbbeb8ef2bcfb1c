//! CPU time of ended children.

use std::time::Duration;

/// User and system time of ended children, a multiple of 10 ms: `cutime` and `cstime` of `/proc/self/stat`
/// (proc_pid_stat(5)), after the name in parentheses.
pub(crate) fn children_time() -> [Duration; 2] {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("every process has one");
    let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
    let mut ticks = fields.split_whitespace().skip(13).map(|field| field.parse().expect("ticks"));
    [(); 2].map(|()| Duration::from_millis(10) * ticks.next().expect("two times"))
}
