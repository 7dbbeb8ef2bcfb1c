//! Types of the receive path: CPUs, CPU sets, interrupts, queues, interfaces.
//!
//! Nothing here touches the machine. Text forms follow the kernel: CPU lists (`0-3,8`) as in
//! `smp_affinity_list`, masks as 32-bit hexadecimal groups, most significant first, as in `rps_cpus`.

mod cpu_mask;
mod duration;
mod fact;
mod names;
mod number;
mod text;

pub use cpu_mask::{CpuMask, MaskError};
pub use duration::{DurationError, duration_text, format_duration, parse_duration, rfc3339};
pub use fact::{Fact, Need};
pub use names::{CpuId, Direction, IrqId, NameError, NicName, QueueId, find_by_name};
pub use number::{ShareError, SizeError, digits, grouped, parse_count, parse_share, parse_size};
pub use text::words_in_lines;
