//! Contents of a ring of `rxlab record`, as text and as JSON.

use jiff::Timestamp;
use serde::Serialize;

use rxlab_base::number::{count, plural};
use rxlab_base::units::rfc3339;
use rxlab_record::recorder::{Gap, Span};

/// Gaps that are listed in text: the newest.
const LISTED: usize = 10;

/// Answer of `rxlab record status`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordingReport {
    /// `rxlab.recording/1`.
    pub schema: &'static str,
    /// What is recorded; `None` if that is nothing.
    pub recorded: Option<Recorded>,
}

/// What is recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Recorded {
    /// Time of the first sample, RFC 3339 in UTC.
    pub from: String,
    /// Time of the last one.
    pub to: String,
    /// Seconds between the two.
    pub seconds: f64,
    /// Number of samples.
    pub samples: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Times without samples, oldest first.
    pub gaps: Vec<RecordedGap>,
}

/// A time without samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordedGap {
    /// Last sample before, RFC 3339 in UTC.
    pub from: String,
    /// First sample after.
    pub to: String,
    /// Seconds between the two.
    pub seconds: f64,
}

impl RecordingReport {
    pub const SCHEMA: &'static str = "rxlab.recording/1";

    pub fn new(span: Option<&Span>) -> Self {
        let gap = |gap: &Gap| RecordedGap {
            from: time(gap.from_ms),
            to: time(gap.to_ms),
            seconds: seconds(gap.from_ms, gap.to_ms),
        };
        let recorded = span.map(|span| Recorded {
            from: time(span.first_ms),
            to: time(span.last_ms),
            seconds: seconds(span.first_ms, span.last_ms),
            samples: span.ticks,
            bytes: span.bytes,
            gaps: span.gaps.iter().map(gap).collect(),
        });
        Self { schema: Self::SCHEMA, recorded }
    }

    /// The report for a terminal; `program` starts the next command line.
    pub fn text(&self, program: &str) -> String {
        let Some(recorded) = &self.recorded else {
            return format!("nothing is recorded; `{program} record` starts recording\n");
        };
        let mut text = format!("recorded  {} to {}\n", recorded.from, recorded.to);
        text += &format!("samples   {}\n", count(recorded.samples as f64));
        text += &format!("size      {}", size(recorded.bytes));
        let hours = recorded.seconds / 3_600.0;
        // The first minutes are not yet packed.
        if hours >= 1.0 {
            text += &format!(", {} an hour", size((recorded.bytes as f64 / hours) as u64));
        }
        text += "\n";
        match recorded.gaps.len() {
            0 => text += "gaps      none\n",
            all => text += &format!("gaps      {}\n", plural(all, "gap")),
        }
        let hidden = recorded.gaps.len().saturating_sub(LISTED);
        for gap in &recorded.gaps[hidden..] {
            text += &format!("  {} to {}, {} s\n", gap.from, gap.to, count(gap.seconds.round()));
        }
        if hidden > 0 {
            text += &format!("  and {hidden} earlier; --json lists all\n");
        }
        text
    }
}

fn seconds(from_ms: i64, to_ms: i64) -> f64 {
    to_ms.saturating_sub(from_ms) as f64 / 1e3
}

/// A time as `--at` reads it.
fn time(ms: i64) -> String {
    rfc3339(Timestamp::from_millisecond(ms).unwrap_or_default())
}

/// A size in the largest unit that leaves at least 1: `64 MiB`, `1.5 KiB`.
pub fn size(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.iter().find(|(_, unit)| bytes >= *unit);
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(name, unit)| format!("{:.1} {name}", bytes as f64 / *unit as f64).replace(".0 ", " "),
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::RecordingReport;
    use rxlab_record::recorder::{Gap, Span};

    /// A day with so many pauses of a minute.
    pub(in crate::report) fn sample(gaps: i64) -> RecordingReport {
        let start = 1_800_000_000_000;
        let gap = |hour: i64| {
            let from_ms = start + hour * 3_600_000;
            Gap { from_ms, to_ms: from_ms + 60_000 }
        };
        let span = Span {
            first_ms: start,
            last_ms: start + 86_400_000,
            ticks: 86_401,
            bytes: 20_500_000,
            gaps: (1..=gaps).map(gap).collect(),
        };
        RecordingReport::new(Some(&span))
    }

    #[test]
    fn span_size_and_gaps() {
        assert_eq!(
            sample(1).text("rxlab"),
            "recorded  2027-01-15T08:00:00Z to 2027-01-16T08:00:00Z\nsamples   86,401\nsize      19.6 MiB, 834.1 KiB an hour\n\
             gaps      1 gap\n  2027-01-15T09:00:00Z to 2027-01-15T09:01:00Z, 60 s\n"
        );
        assert!(sample(0).text("rxlab").ends_with("gaps      none\n"));
        assert!(sample(13).text("rxlab").ends_with("  and 3 earlier; --json lists all\n"));
        let nothing = RecordingReport::new(None).text("rxlab --state-dir /srv");
        assert_eq!(nothing, "nothing is recorded; `rxlab --state-dir /srv record` starts recording\n");
    }
}
