//! Counters of protocols: `/proc/net/snmp`, `netstat` and `snmp6`, and those of connection tracking in
//! `/proc/net/stat/nf_conntrack`.

use std::collections::BTreeMap;

use super::ParseError;

/// Counters by name as in nstat(8): `UdpRcvbufErrors`, `TcpExtListenDrops`, `Udp6RcvbufErrors`.
pub type Counts = BTreeMap<String, u64>;

/// `/proc/net/snmp` and `netstat`: pairs of lines, the first with the names and the second with their counts
/// (`snmp_seq_show()` in net/ipv4/proc.c). Values below 0, such as an unlimited
/// `TcpMaxConn`, are left out.
pub fn snmp(text: &str) -> Result<Counts, ParseError> {
    let mut counts = Counts::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, names)) = lines.next() {
        let (group, names) = group(number, names)?;
        let (at, values) = lines.next().ok_or_else(|| ParseError::at(number, "no line of counts follows"))?;
        let (same, values) = self::group(at, values)?;
        let (names, values): (Vec<&str>, Vec<&str>) =
            (names.split_ascii_whitespace().collect(), values.split_ascii_whitespace().collect());
        if group != same || names.len() != values.len() {
            let what = format!("{} counts of {same} for {} names of {group}", values.len(), names.len());
            return Err(ParseError::at(at, what));
        }
        for (name, value) in names.into_iter().zip(values) {
            if !value.strip_prefix('-').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit())) {
                counts.insert(format!("{group}{name}"), super::counter(at, value)?);
            }
        }
    }
    if counts.is_empty() { Err(ParseError::at(1, "no count")) } else { Ok(counts) }
}

fn group(number: usize, line: &str) -> Result<(&str, &str), ParseError> {
    line.split_once(':').ok_or_else(|| ParseError::at(number, "expected `Group: names or counts`"))
}

/// `/proc/net/snmp6`: a name and its count in each line (`snmp6_seq_show()` in net/ipv6/proc.c).
pub fn snmp6(text: &str) -> Result<Counts, ParseError> {
    let count = |(number, line): (usize, &str)| {
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(value), None) = (words.next(), words.next(), words.next()) else {
            return Err(ParseError::at(number, "expected a name and a count"));
        };
        Ok((name.to_owned(), super::counter(number, value)?))
    };
    let counts: Counts = (1..).zip(text.lines()).map(count).collect::<Result<_, _>>()?;
    if counts.is_empty() { Err(ParseError::at(1, "no count")) } else { Ok(counts) }
}

/// `/proc/net/stat/nf_conntrack`: a header, and a row of hexadecimal counts for each possible CPU, added up here
/// (`ct_cpu_seq_show()` in net/netfilter/nf_conntrack_standalone.c). Each row repeats the number of all `entries`.
/// The kernel's counts are 32 bits wide.
pub fn conntrack_stat(text: &str) -> Result<Counts, ParseError> {
    let mut lines = (1..).zip(text.lines());
    let names: Vec<&str> =
        lines.next().map(|(_, names)| names.split_ascii_whitespace().collect()).unwrap_or_default();
    if names.first() != Some(&"entries") {
        return Err(ParseError::at(1, "expected a header with entries"));
    }
    let mut counts = Counts::new();
    for (number, line) in lines {
        let values: Vec<&str> = line.split_ascii_whitespace().collect();
        if values.len() != names.len() {
            let what = format!("{} counts for {} names", values.len(), names.len());
            return Err(ParseError::at(number, what));
        }
        for (name, value) in names.iter().zip(values) {
            let value = u32::from_str_radix(value, 16).ok().filter(|_| !value.starts_with('+'));
            let value = u64::from(value.ok_or_else(|| ParseError::at(number, "not a 32-bit count"))?);
            let sum = counts.entry((*name).to_owned()).or_default();
            *sum = if *name == "entries" { value } else { *sum + value };
        }
    }
    if counts.is_empty() { Err(ParseError::at(2, "no row")) } else { Ok(counts) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{conntrack_stat, snmp, snmp6};

    /// Linux 6.18, cut to a few columns.
    const SNMP: &str = "Tcp: RtoMin MaxConn PassiveOpens\nTcp: 200 -1 486338\n\
                        Udp: InDatagrams InErrors RcvbufErrors\nUdp: 22793543 1468840 1468839\n";

    #[test]
    fn protocols_by_group() {
        let counts = snmp(SNMP).expect("valid");
        assert_eq!(counts["UdpRcvbufErrors"], 1_468_839);
        assert_eq!(counts["TcpPassiveOpens"], 486_338);
        assert!(!counts.contains_key("TcpMaxConn"), "unlimited");
        let errors = |text: &str| snmp(text).expect_err("wrong").to_string();
        assert_eq!(errors("Udp: A B\nUdp: 1\n"), "line 2: 1 counts of Udp for 2 names of Udp");
        assert_eq!(errors("Udp: A\nTcp: 1\n"), "line 2: 1 counts of Tcp for 1 names of Udp");
        assert_eq!(errors("Udp: A\n"), "line 1: no line of counts follows");
        assert_eq!(errors(""), "line 1: no count");
        assert!(errors("Udp: A\nUdp: -x\n").contains("line 2"));
    }

    #[test]
    fn ipv6_one_in_a_line() {
        let counts = snmp6("Udp6InDatagrams                 \t11\nUdp6RcvbufErrors\t7\n").expect("valid");
        assert_eq!((counts["Udp6InDatagrams"], counts["Udp6RcvbufErrors"]), (11, 7));
        assert!(snmp6("Udp6RcvbufErrors\n").is_err() && snmp6("a 1 2\n").is_err() && snmp6("").is_err());
    }

    #[test]
    fn conntrack_of_all_cpus() {
        let text = "entries  found insert_failed drop early_drop\n\
                    0000000a  00000001 00000000 0000000f 00000001\n\
                    0000000a  00000001 00000002 00000001 00000000\n";
        let counts = conntrack_stat(text).expect("valid");
        assert_eq!((counts["entries"], counts["drop"], counts["insert_failed"]), (10, 16, 2));
        assert!(conntrack_stat("entries drop\n00000001\n").is_err());
        assert!(conntrack_stat("entries drop\n0000000g 00000000\n").is_err());
        assert!(conntrack_stat("entries drop\n").is_err() && conntrack_stat("drop\n").is_err());
    }

    proptest! {
        #[test]
        fn counts_are_kept(counts in proptest::collection::vec(any::<u64>(), 1..9)) {
            let names: Vec<String> = (0..counts.len()).map(|n| format!("N{n}")).collect();
            let values: Vec<String> = counts.iter().map(u64::to_string).collect();
            let parsed = snmp(&format!("G: {}\nG: {}\n", names.join(" "), values.join(" "))).expect("valid");
            let found: Vec<u64> = names.iter().map(|name| parsed[&format!("G{name}")]).collect();
            prop_assert_eq!(found, counts);
        }

        #[test]
        fn garbage_is_an_error(text in "\\PC{0,200}") {
            let _ = (snmp(&text), snmp6(&text), conntrack_stat(&text));
        }
    }
}
