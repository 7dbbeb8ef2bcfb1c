//! Interrupts and CPUs that irqbalance leaves alone: its answer to `setup` on its socket, its command line, its environment.
//!
//! The answer is one line, as `sock_handle()` and `get_irq_data()` of irqbalance print it:
//! `SLEEP 10 IRQ 38 LOAD 0 DIFF 0 CLASS 5 BANNED 00000001`, with an `IRQ` part for each interrupt that
//! was banned by number: on its command line or over this socket.

use serde::{Deserialize, Serialize};

use super::{ParseError, digits};
use crate::units::{CpuMask, IrqId, MaskError};

/// Interrupts and CPUs that irqbalance leaves alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IrqbalanceSetup {
    /// Seconds between two rounds.
    pub sleep: u32,
    pub banned_irqs: Vec<IrqId>,
    /// CPUs that get no interrupts.
    pub banned_cpus: CpuMask,
}

pub fn irqbalance_setup(answer: &[u8]) -> Result<IrqbalanceSetup, ParseError> {
    let text = std::str::from_utf8(answer).map_err(|_| ParseError::at(1, "not text"))?;
    // Some versions of irqbalance also send the mask's closing NUL.
    let mut words = text.trim_end_matches('\0').split_whitespace();
    let mut word = |name: &str| words.next().ok_or_else(|| ParseError::at(1, format!("{name} is missing")));
    let mut found = IrqbalanceSetup { sleep: 0, banned_irqs: Vec::new(), banned_cpus: CpuMask::new() };
    expect(word("SLEEP")?, "SLEEP")?;
    found.sleep = number(word("SLEEP")?)?;
    loop {
        match word("BANNED")? {
            "BANNED" => break,
            key => expect(key, "IRQ")?,
        }
        found.banned_irqs.push(IrqId(number(word("IRQ")?)?));
        for key in ["LOAD", "DIFF", "CLASS"] {
            expect(word(key)?, key)?;
            let value = word(key)?;
            // A class may be -1, and a load may wrap: neither is used.
            if !value.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()) {
                return Err(ParseError::at(1, format!("invalid {key} `{value}`")));
            }
        }
    }
    let mask = word("BANNED")?;
    found.banned_cpus = CpuMask::from_hex(mask).map_err(|error| ParseError::at(1, error.to_string()))?;
    words
        .next()
        .map_or(Ok(found), |word| Err(ParseError::at(1, format!("unexpected `{word}` after the mask"))))
}

/// The answer to `setup` when exactly these interrupts are banned by number.
pub fn with_banned_irqs(answer: &[u8], irqs: &[IrqId]) -> Result<Vec<u8>, ParseError> {
    let IrqbalanceSetup { sleep, banned_cpus, .. } = irqbalance_setup(answer)?;
    let parts: String = irqs.iter().map(|irq| format!("IRQ {irq} LOAD 0 DIFF 0 CLASS 0 ")).collect();
    Ok(format!("SLEEP {sleep} {parts}BANNED {}", banned_cpus.to_hex()).into_bytes())
}

/// Interrupts that irqbalance's command line excludes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IrqbalanceArguments {
    /// Interrupts banned by number (`--banirq`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub banned_irqs: Vec<IrqId>,
    /// Texts that ban an interrupt if its name contains them (`--banmod`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub banned_names: Vec<String>,
    /// The script that is asked about each interrupt (`--policyscript`): it may ban any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_script: Option<String>,
}

/// Options of irqbalance with a value, by both names.
const WITH_VALUE: [(&str, char); 10] = [
    ("banirq", 'i'),
    ("banmod", 'm'),
    ("policyscript", 'l'),
    ("banscript", 'b'),
    ("hintpolicy", 'h'),
    ("powerthresh", 'p'),
    ("deepestcache", 'c'),
    ("migrateval", 'e'),
    ("pid", 's'),
    ("interval", 't'),
];

/// Parses irqbalance's command line, whose words end with NUL. Options may be abbreviated and joined, as getopt_long(3)
/// accepts them.
pub fn irqbalance_arguments(command_line: &str) -> IrqbalanceArguments {
    let mut found = IrqbalanceArguments::default();
    let mut words = command_line.split('\0').skip(1);
    while let Some(word) = words.next() {
        let (option, value) = match word.strip_prefix("--") {
            Some(long) => {
                let (name, value) =
                    long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                let known = WITH_VALUE.iter().find(|(full, _)| !name.is_empty() && full.starts_with(name));
                (known.map(|(_, letter)| *letter), value)
            }
            None => {
                let letters = word.strip_prefix('-').unwrap_or_default();
                let known =
                    letters.char_indices().find(|(_, one)| WITH_VALUE.iter().any(|(_, own)| own == one));
                let value = known.map(|(at, one)| &letters[at + one.len_utf8()..]);
                (known.map(|(_, letter)| letter), value.filter(|value| !value.is_empty()))
            }
        };
        let Some(option) = option else { continue };
        let Some(value) = value.or_else(|| words.next()) else { break };
        match option {
            'i' => found.banned_irqs.extend(digits(value).map(IrqId)),
            'm' if !value.is_empty() => found.banned_names.push(value.to_owned()),
            'l' | 'b' => found.policy_script = Some(value.to_owned()),
            _ => {}
        }
    }
    found
}

/// Variables that name CPUs to leave alone, the stronger one first: a list, and a mask.
pub const IRQBALANCE_VARIABLES: [&str; 2] = ["IRQBALANCE_BANNED_CPULIST", "IRQBALANCE_BANNED_CPUS"];

/// The CPUs that irqbalance's variables name, among lines such as `IRQBALANCE_BANNED_CPUS="f0"` of a file for systemd or
/// the shell, or of an environment; `None` if they name none. Then irqbalance leaves isolated CPUs and those of `nohz_full`
/// alone.
pub fn irqbalance_variables<'a>(
    lines: impl Iterator<Item = &'a str> + Clone,
) -> Result<Option<CpuMask>, MaskError> {
    let value = |name: &str| {
        let values = lines.clone().filter_map(|line| {
            let line = line.trim();
            let (found, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
            (found.trim_end() == name).then(|| value.trim().trim_matches(['"', '\'']))
        });
        // The last assignment counts.
        values.last().filter(|value| !value.is_empty())
    };
    let [list, mask] = IRQBALANCE_VARIABLES;
    match (value(list), value(mask)) {
        // It says so to leave no CPU alone.
        (Some("-"), _) => Ok(Some(CpuMask::new())),
        (Some(list), _) => list.parse().map(Some),
        (None, Some(mask)) => CpuMask::from_hex(mask).map(Some),
        (None, None) => Ok(None),
    }
}

fn expect(found: &str, wanted: &str) -> Result<(), ParseError> {
    if found == wanted {
        Ok(())
    } else {
        Err(ParseError::at(1, format!("expected {wanted}, found `{found}`")))
    }
}

fn number(word: &str) -> Result<u32, ParseError> {
    digits(word).ok_or_else(|| ParseError::at(1, format!("`{word}` is not a number")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{
        IrqbalanceArguments, IrqbalanceSetup, irqbalance_arguments, irqbalance_setup, irqbalance_variables,
        with_banned_irqs,
    };
    use crate::units::{CpuId, CpuMask, IrqId};

    /// irqbalance 1.9.2, started with `--interval 3600 --banirq=1 --banirq=38`.
    const CAPTURED: &str =
        "SLEEP 3600 IRQ 1 LOAD 0 DIFF 0 CLASS 0 IRQ 38 LOAD 0 DIFF 0 CLASS 0 BANNED 00000000";

    #[test]
    fn captured_text() {
        let setup = irqbalance_setup(CAPTURED.as_bytes()).expect("valid");
        assert_eq!((setup.sleep, setup.banned_irqs), (3600, vec![IrqId(1), IrqId(38)]));
        assert_eq!(setup.banned_cpus, CpuMask::new());
        let cpus = irqbalance_setup(b"SLEEP 10 BANNED 00000001,00000300").expect("valid").banned_cpus;
        assert_eq!(cpus.to_string(), "8-9,32");
    }

    #[test]
    fn a_cut_answer_is_no_shorter_list() {
        // From here on only the mask is cut, and a shorter mask is valid too.
        let mask = CAPTURED.len() - 7;
        for end in 0..mask {
            assert!(irqbalance_setup(&CAPTURED.as_bytes()[..end]).is_err(), "{}", &CAPTURED[..end]);
        }
        assert!(irqbalance_setup(b"SLEEP 10 IRQ -1 LOAD 0 DIFF 0 CLASS 0 BANNED 0").is_err());
        assert!(irqbalance_setup(b"SLEEP 10 BANNED 0 IRQ 3").is_err());
        assert!(irqbalance_setup(b"\xff").is_err());
    }

    #[test]
    fn other_interrupts_banned_and_nothing_else() {
        let after = with_banned_irqs(CAPTURED.as_bytes(), &[IrqId(7)]).expect("valid");
        let before = irqbalance_setup(CAPTURED.as_bytes()).expect("valid");
        let expected = IrqbalanceSetup { banned_irqs: vec![IrqId(7)], ..before };
        assert_eq!(irqbalance_setup(&after), Ok(expected));
        assert!(with_banned_irqs(b"SLEEP", &[]).is_err());
    }

    proptest! {
        #[test]
        fn round_trip(
            sleep in 0u32..,
            irqs in proptest::collection::vec(0u32.., 0..5),
            cpus in proptest::collection::btree_set(0u32..256, 0..9),
        ) {
            let banned_cpus: CpuMask = cpus.into_iter().map(CpuId).collect();
            let part = |irq: &u32| format!("IRQ {irq} LOAD 12 DIFF 3 CLASS -1 ");
            let parts: String = irqs.iter().map(part).collect();
            let text = format!("SLEEP {sleep} {parts}BANNED {}", banned_cpus.to_hex());
            let banned_irqs = irqs.into_iter().map(IrqId).collect();
            prop_assert_eq!(
                irqbalance_setup(text.as_bytes()),
                Ok(IrqbalanceSetup { sleep, banned_irqs, banned_cpus })
            );
        }
    }

    /// `--banmod` and the short forms are those of irqbalance.c (parse_command_line).
    #[test]
    fn options_in_each_form() {
        let parsed =
            |words: &[&str]| irqbalance_arguments(&format!("/usr/sbin/irqbalance\0{}\0", words.join("\0")));
        let all = parsed(&[
            "--foreground",
            "--banirq=12",
            "--bani",
            "13",
            "-fi14",
            "-i",
            "15",
            "--pid=/run/-i99",
            "-t",
            "30",
            "--banmod=mlx5_comp",
            "-m",
            "virtio0",
            "--policyscript=/etc/irq-policy",
        ]);
        let expected = IrqbalanceArguments {
            banned_irqs: [12, 13, 14, 15].map(IrqId).to_vec(),
            banned_names: vec!["mlx5_comp".to_owned(), "virtio0".to_owned()],
            policy_script: Some("/etc/irq-policy".to_owned()),
        };
        assert_eq!(all, expected);
        assert_eq!(parsed(&["-l", "/x"]).policy_script.as_deref(), Some("/x"));
        assert_eq!(parsed(&["--foreground", "-d", "--banirq"]), IrqbalanceArguments::default());
        assert_eq!(irqbalance_arguments(""), IrqbalanceArguments::default());
    }

    #[test]
    fn variables_of_files_and_of_an_environment() {
        let cpus = |text: &str| {
            irqbalance_variables(text.split(['\n', '\0'])).map(|cpus| cpus.map(|cpus| cpus.to_string()))
        };
        let known = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(cpus("# IRQBALANCE_BANNED_CPUS=f\nIRQBALANCE_BANNED_CPUS=\"000000f0\"\n"), known("4-7"));
        assert_eq!(
            cpus("LANG=C\0IRQBALANCE_BANNED_CPULIST=1,3-4\0IRQBALANCE_BANNED_CPUS=1\0"),
            known("1,3-4")
        );
        assert_eq!(cpus("IRQBALANCE_BANNED_CPULIST=\nexport IRQBALANCE_BANNED_CPUS='2'"), known("1"));
        assert_eq!(cpus("IRQBALANCE_BANNED_CPULIST=-\nIRQBALANCE_BANNED_CPUS=2"), known(""));
        assert_eq!(cpus("#IRQBALANCE_BANNED_CPULIST=\nIRQBALANCE_ARGS="), Ok(None));
        assert!(cpus("IRQBALANCE_BANNED_CPULIST=isolated").is_err());
    }
}
