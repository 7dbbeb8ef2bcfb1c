//! irqbalance's answer to `setup` on its socket.
//!
//! One line, as `sock_handle()` and `get_irq_data()` of irqbalance print it:
//! `SLEEP 10 IRQ 38 LOAD 0 DIFF 0 CLASS 5 BANNED 00000001`, with an `IRQ` part for each interrupt that
//! was banned by number: on its command line or over this socket.

use super::{ParseError, digits};
use crate::units::{CpuMask, IrqId};

/// Interrupts and CPUs that irqbalance leaves alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IrqbalanceSetup {
    /// Seconds between two rounds.
    pub sleep: u32,
    /// Interrupts banned by number.
    pub banned_irqs: Vec<IrqId>,
    /// CPUs that get no interrupts.
    pub banned_cpus: CpuMask,
}

/// Parses the answer to `setup`.
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

    use super::{IrqbalanceSetup, irqbalance_setup, with_banned_irqs};
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
}
