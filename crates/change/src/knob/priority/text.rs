//! Scheduling in words: `other`, `nice:-5`, `fifo:10`; `batch nice:3` and `rr:5 nice:-1` for values that
//! others may have set.

use rxlab_base::parse::Scheduling;

/// Policies of include/uapi/linux/sched.h that a nice value and a priority describe. SCHED_DEADLINE (6) is
/// not one of them.
const FAIR: [(u32, &str); 4] = [(0, "other"), (3, "batch"), (5, "idle"), (7, "ext")];
const REALTIME: [(u32, &str); 2] = [(1, "fifo"), (2, "rr")];

/// Text of a policy, such as `fifo:50` or `nice:-5`.
pub(super) fn format(scheduling: &Scheduling) -> String {
    let Scheduling { policy, priority, nice } = *scheduling;
    let named =
        |table: &[(u32, &'static str)]| table.iter().find(|(p, _)| *p == policy).map(|(_, name)| *name);
    let first = match (named(&FAIR), named(&REALTIME)) {
        (Some("other"), _) if nice != 0 => return format!("nice:{nice}"),
        (Some(name), _) => name.to_owned(),
        (None, Some(name)) => format!("{name}:{priority}"),
        (None, None) => format!("policy:{policy}"),
    };
    if nice == 0 { first } else { format!("{first} nice:{nice}") }
}

pub(super) fn parse(text: &str) -> Option<Scheduling> {
    let mut words = text.split(' ');
    let (first, second) = (words.next()?, words.next());
    let nice =
        |word: &str| number::<i32>(word.strip_prefix("nice:")?).filter(|nice| (-20..20).contains(nice));
    if let Some(nice) = nice(first) {
        return second.is_none().then_some(Scheduling { policy: 0, priority: 0, nice });
    }
    let (policy, priority) = match first.split_once(':') {
        None => (FAIR.iter().find(|(_, name)| *name == first)?.0, 0),
        Some((name, priority)) => {
            let policy = REALTIME.iter().find(|(_, known)| *known == name)?.0;
            (policy, number(priority).filter(|priority| (1..100).contains(priority))?)
        }
    };
    let nice = match second {
        None => 0,
        Some(word) => nice(word)?,
    };
    words.next().is_none().then_some(Scheduling { policy, priority, nice })
}

/// Allowed values: a normal thread or a realtime one.
pub(super) fn asked(text: &str) -> Option<Scheduling> {
    parse(text).filter(|asked| asked.policy <= 2 && !text.contains(' '))
}

/// One spelling for each number.
fn number<T: std::str::FromStr + ToString>(text: &str) -> Option<T> {
    text.parse::<T>().ok().filter(|number| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{asked, format, parse};
    use rxlab_base::parse::Scheduling;

    #[test]
    fn words_and_numbers() {
        let is = |policy, priority, nice| Some(Scheduling { policy, priority, nice });
        for (text, scheduling) in [
            ("other", is(0, 0, 0)),
            ("nice:-5", is(0, 0, -5)),
            ("fifo:10", is(1, 10, 0)),
            ("rr:99", is(2, 99, 0)),
        ] {
            assert_eq!(asked(text), scheduling, "{text}");
        }
        assert_eq!(parse("fifo:10 nice:-5"), is(1, 10, -5));
        assert_eq!(parse("batch nice:3"), is(3, 0, 3));
        assert_eq!(asked("nice:0").map(|scheduling| format(&scheduling)).as_deref(), Some("other"));
        for bad in [
            "",
            "fifo",
            "fifo:0",
            "fifo:100",
            "rr:05",
            "nice:20",
            "nice:-21",
            "batch",
            "fifo:1 nice:2",
            "policy:6",
        ] {
            assert_eq!(asked(bad), None, "{bad}");
        }
        assert_eq!(format(&Scheduling { policy: 6, priority: 0, nice: 0 }), "policy:6");
    }

    proptest! {
        #[test]
        fn round_trip(policy in 0u32..8, priority in 1u32..100, nice in -20i32..20) {
            let realtime = matches!(policy, 1 | 2);
            let scheduling = Scheduling { policy, priority: if realtime { priority } else { 0 }, nice };
            let known = matches!(policy, 0..=3 | 5 | 7);
            prop_assert_eq!(parse(&format(&scheduling)), known.then_some(scheduling));
        }

        #[test]
        fn what_parses_is_written_the_same(text in "(other|nice|fifo|rr|batch)?:?-?[0-9]{0,3}( nice:-?[0-9]{1,2})?|.{0,20}") {
            if let Some(scheduling) = parse(&text) {
                prop_assert_eq!(parse(&format(&scheduling)), Some(scheduling));
            }
        }
    }
}
