//! RSS tables in words: each table has one text, and each text but `default` gives one table.

/// Formats a table. `rings` is the number of queues that the kernel's default spreads over, for tables that
/// have a default.
pub(in crate::knob) fn text(table: &[u32], rings: Option<u32>) -> String {
    if rings.is_some_and(|rings| rings > 0 && table == equal(rings, table.len())) {
        return "default".to_owned();
    }
    let queues = table.iter().max().map_or(0, |last| last.saturating_add(1));
    if queues > 0 && table == equal(queues, table.len()) {
        return format!("equal {queues}");
    }
    if table.is_sorted()
        && let Ok(last) = usize::try_from(queues)
        && last <= table.len()
    {
        let counts: Vec<usize> =
            (0..queues).map(|queue| table.iter().filter(|q| **q == queue).count()).collect();
        let divisor = counts.iter().copied().fold(0, common_divisor).max(1);
        return format!("weights {}", list(counts.iter().map(|count| count / divisor)));
    }
    let pattern = (1..table.len())
        .find(|length| {
            table.len().is_multiple_of(*length) && table.chunks(*length).all(|part| part == &table[..*length])
        })
        .unwrap_or(table.len());
    format!("table {}", list(&table[..pattern]))
}

/// Returns the table of `size` entries that `value` describes, or what is wrong with it.
pub(in crate::knob) fn table(value: &str, size: usize) -> Result<Vec<u32>, String> {
    let usage = || "expected default, equal N, weights W,W,... or table Q,Q,...".to_owned();
    let (word, rest) = value.split_once(' ').ok_or_else(usage)?;
    let numbers: Vec<u32> = rest
        .trim()
        .split(',')
        .map(super::super::value::plain_number)
        .collect::<Option<_>>()
        .ok_or_else(usage)?;
    match (word, &numbers[..]) {
        ("equal", [0]) => Err("at least one queue must receive".to_owned()),
        ("equal", [queues]) => Ok(equal(*queues, size)),
        ("weights", weights) => weighted(weights, size),
        ("table", queues) if size.is_multiple_of(queues.len()) => {
            Ok(queues.iter().copied().cycle().take(size).collect())
        }
        ("table", queues) => Err(format!(
            "{} entries do not fill the table of {size}: use that many, or a divisor of it",
            queues.len()
        )),
        _ => Err(usage()),
    }
}

/// The kernel's default: one queue after another.
pub(in crate::knob) fn equal(queues: u32, size: usize) -> Vec<u32> {
    (0..queues.max(1)).cycle().take(size).collect()
}

/// True if each of `queues` queues, and no other, has as many entries as any other of them, or one more.
pub(in crate::knob) fn is_even(table: &[u32], queues: u32) -> bool {
    let counts: Vec<usize> =
        (0..queues).map(|queue| table.iter().filter(|entry| **entry == queue).count()).collect();
    let (fewest, most) = (counts.iter().min().copied(), counts.iter().max().copied());
    counts.iter().sum::<usize>() == table.len()
        && fewest.zip(most).is_some_and(|(fewest, most)| fewest + 1 >= most)
}

/// Blocks of the table in proportion to the weights, divided as in `ethtool -X weight`.
fn weighted(weights: &[u32], size: usize) -> Result<Vec<u32>, String> {
    let sum: u64 = weights.iter().copied().map(u64::from).sum();
    let entries = size as u64;
    if sum == 0 || sum > entries {
        return Err(format!(
            "the weights must add up to 1 to {size}, the length of the table; they add up to {sum}"
        ));
    }
    let mut table = Vec::new();
    let mut partial = 0;
    for (queue, weight) in (0..).zip(weights) {
        partial += u64::from(*weight);
        let end = usize::try_from(entries * partial / sum).unwrap_or(size);
        table.resize(end.max(table.len()), queue);
    }
    Ok(table)
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{equal, is_even, table, text, weighted};

    #[test]
    fn each_table_has_one_text() {
        assert_eq!(text(&[0, 1, 2, 0, 1, 2, 0, 1], Some(3)), "default");
        assert_eq!(text(&[0, 1, 2, 0, 1, 2, 0, 1], Some(4)), "equal 3");
        assert_eq!(text(&[0, 1, 2, 0, 1, 2, 0, 1], None), "equal 3", "a context has no default");
        assert_eq!(text(&[0; 8], Some(4)), "equal 1");
        assert_eq!(text(&[0, 0, 1, 1, 1, 1, 2, 2], Some(4)), "weights 1,2,1");
        assert_eq!(text(&[3; 8], Some(4)), "weights 0,0,0,1");
        assert_eq!(text(&[1, 0, 1, 0], Some(2)), "table 1,0");
        assert_eq!(text(&[1, 0, 1, 0, 1, 1], Some(2)), "table 1,0,1,0,1,1");
        assert_eq!(text(&[0, 4_000_000_000], Some(2)), "table 0,4000000000");
    }

    /// As ethtool 6.1 divides a table of 10: `ethtool -X eth0 weight 1 2 1` gives the queues 2, 5 and 3.
    #[test]
    fn weights_are_blocks() {
        assert_eq!(table("weights 1,2,1", 8), Ok(vec![0, 0, 1, 1, 1, 1, 2, 2]));
        assert_eq!(table("weights 1,2,1", 10), Ok(vec![0, 0, 1, 1, 1, 1, 1, 2, 2, 2]));
        assert_eq!(text(&table("weights 1,2,1", 10).expect("valid"), None), "weights 2,5,3");
        assert_eq!(table("weights 0,1,0", 3), Ok(vec![1, 1, 1]));
    }

    #[test]
    fn an_even_table_gives_each_queue_its_share() {
        for queues in 1..12 {
            assert!(is_even(&equal(queues, 8), queues), "{queues}");
            assert_eq!(is_even(&equal(queues, 8), queues + 1), queues >= 8, "{queues}");
            let blocks = vec![1; usize::try_from(queues).expect("few")];
            let blocks = weighted(&blocks, 128).expect("not more than entries");
            assert!(is_even(&blocks, queues) && !is_even(&blocks, queues + 1), "{queues}");
        }
        assert!(!is_even(&[0, 0, 1, 0], 2) && !is_even(&[0, 1, 2, 3], 2) && !is_even(&[0], 0));
    }

    #[test]
    fn values_in_words() {
        assert_eq!(table("equal 3", 8), Ok(vec![0, 1, 2, 0, 1, 2, 0, 1]));
        assert_eq!(table("table 3,2", 4), Ok(vec![3, 2, 3, 2]));
        for (value, why) in [
            ("equal 0", "at least one queue"),
            ("equal", "expected default, equal N"),
            ("equal 1,2", "expected default, equal N"),
            ("equal -1", "expected default, equal N"),
            ("spread 1", "expected default, equal N"),
            ("weights 0,0", "the weights must add up to 1 to 8"),
            ("weights 4,5", "the weights must add up to 1 to 8, the length of the table; they add up to 9"),
            ("weights 4294967295,4294967295", "add up to 8589934590"),
            ("table 1,2,3", "3 entries do not fill the table of 8"),
            ("table 1,,2", "expected default, equal N"),
        ] {
            let says = table(value, 8).expect_err(value);
            assert!(says.contains(why), "{value}: {says}");
        }
    }

    proptest! {
        #[test]
        fn any_table_can_be_written_down(
            found in proptest::collection::vec(0u32..9, 1..40),
            sorted in proptest::bool::ANY,
            times in 1usize..4,
        ) {
            let mut found = found.repeat(times);
            if sorted {
                found.sort_unstable();
            }
            let words = text(&found, None);
            prop_assert_eq!(table(&words, found.len()), Ok(found), "{}", words);
        }

        #[test]
        fn any_value_fills_the_table_or_is_an_error(value in "(equal|weights|table) [0-9,]{0,9}|.{0,20}", size in 1usize..40) {
            if let Ok(filled) = table(&value, size) {
                prop_assert_eq!(filled.len(), size);
                let words = text(&filled, None);
                prop_assert_eq!(table(&words, size), Ok(filled));
                prop_assert!(words != "default");
            }
        }
    }
}
