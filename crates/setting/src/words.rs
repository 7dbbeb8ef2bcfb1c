//! Settings as people say them: `RPS to CPUs 1-3`.

use super::{Setting, set_of};

/// What some settings do together, in a few words. Settings of several kinds or targets with different values are counted.
pub fn in_words(settings: &[Setting]) -> String {
    let Some(first) = settings.first() else { return "no change".to_owned() };
    if settings.iter().any(|one| one.knob != first.knob) {
        // Tables of RFS are of several knobs.
        let of_flows = |one: &Setting| one.knob == "rfs" || one.knob == "rfs_entries";
        let is_on = settings.iter().any(|one| one.value != "0");
        return if settings.iter().all(of_flows) { switched("RFS", is_on) } else { counted(settings) };
    }
    let is_same = settings.iter().all(|one| one.value == first.value);
    match first.knob.as_str() {
        "rps" if is_same => match set_of(&first.value) {
            Some(cpus) if cpus.is_empty() => switched("RPS", false),
            Some(cpus) if cpus.len() == 1 => format!("RPS to CPU {cpus}"),
            Some(cpus) => format!("RPS to CPUs {cpus}"),
            None => counted(settings),
        },
        "rfs" => switched("RFS", settings.iter().any(|one| one.value != "0")),
        "threaded" if is_same => switched("threaded NAPI", first.value == "on"),
        _ => counted(settings),
    }
}

fn switched(what: &str, is_on: bool) -> String {
    format!("{what} {}", if is_on { "on" } else { "off" })
}

/// `rps eth0/rx-0 = 1 and 3 more`.
fn counted(settings: &[Setting]) -> String {
    match settings {
        [] => String::new(),
        [one] => one.to_string(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::in_words;
    use crate::Setting;

    #[test]
    fn settings_are_said_by_their_effect() {
        let said = |texts: &[&str]| {
            let settings: Vec<Setting> = texts.iter().map(|text| text.parse().expect("a setting")).collect();
            in_words(&settings)
        };
        assert_eq!(said(&["rps eth0/rx-0 = 1-3", "rps eth0/rx-1 = 1-3"]), "RPS to CPUs 1-3");
        assert_eq!(said(&["rps eth0/rx-0 = 2"]), "RPS to CPU 2");
        assert_eq!(said(&["rps eth0/rx-0 = off"]), "RPS off");
        assert_eq!(said(&["rps eth0/rx-0 = 1", "rps eth0/rx-1 = 2"]), "rps eth0/rx-0 = 1 and 1 more");
        assert_eq!(said(&["rfs_entries host = 32768", "rfs eth0/rx-0 = 32768"]), "RFS on");
        assert_eq!(said(&["rfs eth0/rx-0 = 0"]), "RFS off");
        assert_eq!(said(&["threaded eth0 = on"]), "threaded NAPI on");
        assert_eq!(said(&["rx_usecs eth0 = 50"]), "rx_usecs eth0 = 50");
        assert_eq!(said(&[]), "no change");
    }
}
