//! Times on the command line: relative to now, of today, or with a date.

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, Zoned};

/// Reads a time that has passed: `10 minutes ago`, `now`, `14:05:30`, `2026-01-31 14:05`, or RFC 3339. Without a zone it is
/// UTC, like all times that rxlab prints.
pub(super) fn parse_when(text: &str) -> Result<Timestamp, String> {
    at(text.trim(), &Timestamp::now().to_zoned(TimeZone::UTC)).ok_or_else(|| {
        format!("`{text}` is not a time (write '10 minutes ago', '14:05:30' or '2026-01-31 14:05', in UTC)")
    })
}

fn at(text: &str, now: &Zoned) -> Option<Timestamp> {
    if text == "now" {
        return Some(now.timestamp());
    }
    if text.ends_with("ago") {
        let span: Span = text.parse().ok()?;
        return now.checked_add(span).ok().map(|then| then.timestamp());
    }
    let text = text.strip_suffix("UTC").map_or(text, str::trim_end);
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Some(timestamp);
    }
    let utc = |time: DateTime| time.to_zoned(TimeZone::UTC).ok().map(|time| time.timestamp());
    // A date alone starts with four digits, a time of day has a colon behind two.
    if text.as_bytes().get(2) == Some(&b':') {
        let today = utc(now.date().to_datetime(text.parse::<Time>().ok()?))?;
        // A time of day that is still to come was yesterday.
        let is_to_come = today > now.timestamp();
        return if is_to_come { today.checked_sub(24.hours()).ok() } else { Some(today) };
    }
    text.parse::<DateTime>().ok().and_then(utc)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use jiff::{Timestamp, Zoned};

    use super::{at, parse_when};

    #[test]
    fn times_in_the_forms_that_people_write() {
        let now: Timestamp = "2026-02-01T10:00:00Z".parse().expect("a time");
        let now: Zoned = now.to_zoned(TimeZone::UTC);
        for (text, expected) in [
            ("now", "2026-02-01T10:00:00Z"),
            ("10 minutes ago", "2026-02-01T09:50:00Z"),
            ("90s ago", "2026-02-01T09:58:30Z"),
            ("1h 30m ago", "2026-02-01T08:30:00Z"),
            ("2 days ago", "2026-01-30T10:00:00Z"),
            ("09:30", "2026-02-01T09:30:00Z"),
            ("14:05:30", "2026-01-31T14:05:30Z"),
            ("2026-01-31 14:05", "2026-01-31T14:05:00Z"),
            ("2026-01-31 14:05:07 UTC", "2026-01-31T14:05:07Z"),
            ("2026-01-31T14:05:30Z", "2026-01-31T14:05:30Z"),
            ("2026-01-31T14:05:30+02:00", "2026-01-31T12:05:30Z"),
        ] {
            assert_eq!(at(text, &now).map(|time| time.to_string()).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "yesterday-ish", "10", "25:00", "ago", "10 parsecs ago"] {
            assert_eq!(at(text, &now), None, "{text}");
        }
        assert!(parse_when("soon").expect_err("refused").contains("'10 minutes ago'"));
    }
}
