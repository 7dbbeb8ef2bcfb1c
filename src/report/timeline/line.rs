//! Event fields of Chrome's format that are used here; absent fields are left out.

use serde::Serialize;

/// One event.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) ph: &'a str,
    pub(super) pid: u32,
    pub(super) tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cat: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dur: Option<f64>,
    // Scope of an instant: drawn on its track only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) s: Option<&'a str>,
    pub(super) args: Args<'a>,
}

/// Details shown for a selected event.
#[derive(Serialize, Default)]
pub(super) struct Args<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    /// Position of a track: lower values are above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sort_index: Option<u32>,
    /// Label next to the name of a process: the machine and the version of rxlab.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) labels: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) irq: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) device: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) napi: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) work: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) budget: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) polls: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) full_polls: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) backlog_packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) interrupts_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lost: Option<u32>,
    /// The end was not seen, or an earlier event was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cut: Option<bool>,
}

impl<'a> Line<'a> {
    /// An event with only a name.
    pub(super) fn of(pid: u32, name: &'a str) -> Self {
        Self { name, ph: "", pid, tid: 0, cat: None, ts: None, dur: None, s: None, args: Args::default() }
    }
}
