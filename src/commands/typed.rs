//! Values as people type them on a command line, beyond what the crates read by themselves. clap prints the error after
//! the value and its option.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use rxlab_base::units::{digits, parse_count, parse_duration};
use rxlab_sys::{OwnNumbering, is_pid};

/// CPU time is accounted in ticks of 10 ms: fewer than ten are too coarse.
pub(super) const SHORTEST_SAMPLE: Duration = Duration::from_millis(100);

/// Reads the length of a sample.
pub(super) fn sample_time(text: &str) -> Result<Duration, String> {
    let length = parse_duration(text).map_err(|error| error.to_string())?;
    if length < SHORTEST_SAMPLE {
        return Err("too short to measure anything: give at least 100ms".to_owned());
    }
    Ok(length)
}

/// Reads a time that may not be 0.
pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("must be above 0".to_owned()) } else { Ok(time) }
}

/// Reads a whole number of at least 1, such as `64`, `10k` or `1M`.
pub(super) fn whole(text: &str) -> Result<u64, String> {
    let count = parse_count(text).filter(|count| (1.0..=1e15).contains(count) && count.fract() == 0.0);
    count
        .map(|count| count as u64)
        .ok_or_else(|| "must be a whole number from 1, such as 64, 10k or 1M".to_owned())
}

/// The same, for numbers of things that fit into memory.
pub(super) fn number_of(text: &str) -> Result<usize, String> {
    whole(text).and_then(|count| usize::try_from(count).map_err(|error| error.to_string()))
}

/// Reads a network namespace. A PID leads to it only if `/proc` has the numbers of this process's PID namespace.
pub(super) fn netns(text: &str) -> Result<String, String> {
    if is_pid(text) {
        OwnNumbering::get().map_err(|other| other.to_string())?;
    }
    Ok(text.to_owned())
}

/// Reads an address to listen on. A port alone, or one of `localhost`, is for this machine only.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let own = |port: &str| digits(port).map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    if let Some(address) = text.parse().ok().or_else(|| own(text.strip_prefix("localhost:").unwrap_or(text)))
    {
        return Ok(address);
    }
    let expected = "ADDR:PORT, such as 127.0.0.1:8080 or [::1]:8080, or a port alone, for this machine only";
    Err(match text.strip_prefix(':').filter(|port| own(port).is_some()) {
        Some(port) => format!("expected {expected}; 0.0.0.0:{port} listens on every address"),
        None if text.parse::<std::net::IpAddr>().is_ok() => format!("it has no port: expected {expected}"),
        None => format!("expected {expected}"),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{address, sample_time, some_time, whole};

    #[test]
    fn a_port_alone_is_of_this_machine() {
        for (typed, read) in [
            ("9999", "127.0.0.1:9999"),
            ("localhost:80", "127.0.0.1:80"),
            ("0", "127.0.0.1:0"),
            ("10.0.0.1:53", "10.0.0.1:53"),
            ("[::1]:8080", "[::1]:8080"),
        ] {
            assert_eq!(address(typed).map(|address| address.to_string()), Ok(read.to_owned()), "{typed}");
        }
        for (typed, said) in [
            (":8080", "0.0.0.0:8080 listens on every address"),
            ("10.0.0.1", "it has no port"),
            ("::1", "it has no port"),
            ("65536", "or a port alone"),
            ("+80", "or a port alone"),
            ("web1:80", "expected ADDR:PORT"),
            ("", "expected ADDR:PORT"),
        ] {
            let error = address(typed).expect_err(typed);
            assert!(error.contains(said), "{typed}: {error}");
        }
    }

    #[test]
    fn times_have_a_least_length() {
        assert_eq!(sample_time("100ms"), Ok(Duration::from_millis(100)));
        assert!(sample_time("99ms").expect_err("short").starts_with("too short"));
        assert!(sample_time("5").expect_err("no unit").contains("`5` has no unit"));
        assert_eq!(some_time("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(some_time("0s"), Err("must be above 0".to_owned()));
    }

    #[test]
    fn whole_numbers_may_be_short() {
        for (typed, read) in [("64", 64), ("10k", 10_000), ("1.5M", 1_500_000)] {
            assert_eq!(whole(typed), Ok(read), "{typed}");
        }
        for bad in ["0", "-1", "0.5", "many", "1e3", ""] {
            assert!(whole(bad).is_err(), "{bad}");
        }
    }
}
