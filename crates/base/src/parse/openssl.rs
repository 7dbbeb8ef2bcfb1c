//! Output of `openssl speed` for one run: its length, and its user time.

use super::ParseError;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpensslSpeed {
    /// Requested wall time, in seconds.
    pub seconds: u32,
    /// User time in seconds: from times(2), in steps of 10 ms.
    pub user_seconds: f64,
}

/// Parses `Doing AES-256-CBC for 3s on 1024 size blocks: 1203434 AES-256-CBC's in 2.99s`, the first such
/// line.
pub fn openssl_speed(text: &str) -> Result<OpensslSpeed, ParseError> {
    let lines = (1..).zip(text.lines());
    let mut runs = lines.filter_map(|(number, line)| Some((number, line.strip_prefix("Doing ")?)));
    let (number, line) =
        runs.next().ok_or_else(|| ParseError::at(text.lines().count(), "no line `Doing`"))?;
    let run = || {
        let (_, rest) = line.split_once(" for ")?;
        let (seconds, rest) = rest.split_once("s on ")?;
        let (_, user) = rest.rsplit_once(" in ")?;
        let user: f64 = user.trim_end().strip_suffix('s')?.parse().ok()?;
        Some(OpensslSpeed { seconds: seconds.parse().ok()?, user_seconds: user })
    };
    let speed = run().filter(|run| run.user_seconds.is_finite() && run.user_seconds >= 0.0);
    speed.ok_or_else(|| ParseError::at(number, "expected `Doing WHAT for Ns on ...: N in N.NNs`"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{OpensslSpeed, openssl_speed};

    #[test]
    fn captured_text() {
        let text =
            "Doing AES-256-CBC for 3s on 1024 size blocks: 2379453 AES-256-CBC's in 1.93s\nversion: 3\n";
        assert_eq!(openssl_speed(text), Ok(OpensslSpeed { seconds: 3, user_seconds: 1.93 }));
    }

    #[test]
    fn bad_text_is_named() {
        assert_eq!(openssl_speed("x\nDoing AES for 3s on 1: 5 in NaNs\n").expect_err("bad").line, 2);
        for bad in ["", "Doing", "Doing AES for 3s on 1: 5 in -1.00s\n", "Doing AES for s on 1: 5 in 1.00s"] {
            assert!(openssl_speed(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(seconds in 0u32..4000, centis in 0u32..400_000) {
            let user = f64::from(centis) / 100.0;
            let text = format!("Doing AES-256-CBC for {seconds}s on 1024 size blocks: 7 AES-256-CBC's in {user:.2}s\n");
            prop_assert_eq!(openssl_speed(&text), Ok(OpensslSpeed { seconds, user_seconds: user }));
        }
    }
}
