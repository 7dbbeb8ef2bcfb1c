//! `rxlab tune` on a terminal: what it found and would try, and how it ended.

use super::blocks_text;
use super::text::{command_lines, paragraph};
use rxlab_base::number;
use rxlab_trial::blocks::BlocksRecord;
use rxlab_trial::spec::Guards;
use rxlab_trial::tuning::{End, LeftOut, Tuning};

/// What limits the machine and what would be tried, before the question.
pub fn survey(tuning: &Tuning, guards: &Guards, has_check: bool) -> String {
    let mut out = paragraph(&format!("tune {}: ", tuning.nic), &tuning.limit);
    if let Some(judged_by) = &tuning.judged_by {
        out += &paragraph("  decides     ", judged_by);
    }
    let first = tuning.candidates.iter().filter(|tried| !tried.later).map(|tried| tried.what.as_str());
    let first: Vec<&str> = first.collect();
    let later = tuning.candidates.iter().any(|tried| tried.later);
    let more = if later { "; then sizes between the best of them" } else { "" };
    out += &paragraph("  tries       ", &format!("{}{more}", first.join(", ")));
    tuning.left_out.iter().for_each(|one| out += &left_out(one));
    out += &paragraph("  stops       ", &stops(guards, has_check));
    let takes =
        format!("at most {}; restores the machine unless the best helps", number::about(tuning.seconds));
    out + &paragraph("  takes       ", &takes)
}

/// Something that is not tried.
pub fn left_out(LeftOut { what, why }: &LeftOut) -> String {
    paragraph("  not tried   ", &format!("{what} ({why})"))
}

/// What stops a candidate.
fn stops(guards: &Guards, has_check: bool) -> String {
    let mut all = vec!["a candidate if nothing gets through".to_owned()];
    all.extend(
        guards
            .error_rate
            .map(|rate| format!("more than {} of the load's requests fail", number::share(rate))),
    );
    all.extend(has_check.then(|| "the check fails three times in a row".to_owned()));
    all.extend(guards.drops.map(|drops| format!("more than {} packets/s are dropped", number::count(drops))));
    all.join(", or ")
}

/// Why a choice ended without one.
pub fn stopped(record: &BlocksRecord) -> String {
    blocks_text::sentence(record).trim_end_matches('.').to_owned()
}

/// How it ended, in one sentence without a final full stop.
pub fn sentence(tuning: &Tuning) -> String {
    let best = tuning.best.as_deref().unwrap_or_default();
    match &tuning.end {
        End::Planned => "this is what it would try".to_owned(),
        End::Limited => format!("nothing to gain: {}", tuning.limit),
        End::Unmeasurable => format!("cannot tell: {}", tuning.limit),
        End::NothingToGain => format!("nothing to gain: {best}"),
        End::Unproven { why } if best.is_empty() => format!("nothing proven: {why}"),
        End::Unproven { why } => format!("nothing proven: {best} in short slots; in pairs: {why}"),
        End::Stopped { why } => format!("stopped: {why}"),
        End::Helps => match &tuning.gain {
            Some(gain) => format!("{best}. {gain}"),
            None => best.to_owned(),
        },
    }
}

/// How it ended, and what to do next. `program` begins the commands.
pub fn end(tuning: &Tuning, program: &str) -> String {
    let detail = match &tuning.end {
        End::Planned | End::Limited | End::Unmeasurable => Some("nothing was changed"),
        End::NothingToGain | End::Unproven { .. } | End::Stopped { .. } => Some("the machine is as it was"),
        End::Helps => None,
    };
    let sentence = sentence(tuning);
    let mut out = paragraph("tune: ", &sentence);
    out += &detail.map_or_else(String::new, |detail| paragraph("  ", detail));
    let price = tuning.price.as_deref().filter(|_| tuning.end == End::Helps);
    if let Some(price) = price {
        let kept = match tuning.confirm_within_s {
            Some(seconds) => {
                format!("set for {seconds:.0} s: `{program} confirm` keeps it, `{program} undo` reverts it")
            }
            None => format!("kept: `{program} undo` reverts it"),
        };
        out += &paragraph("  price    ", &format!("{price}; {kept}"));
    }
    let ids: Vec<&str> = tuning.choice.iter().chain(&tuning.trial).map(String::as_str).collect();
    if !ids.is_empty() {
        out += &command_lines("  report   ", &format!("{program} report {}", ids.join(" ")));
    }
    let next = match (&tuning.end, &tuning.trial, ids.last()) {
        (End::Helps, Some(trial), _) => vec![
            ("  at boot  ", format!("{program} persist")),
            ("  later    ", format!("{program} trial checkpoint {trial} --at 1h,24h")),
        ],
        (End::Stopped { .. }, _, Some(last)) => {
            vec![("  resume   ", format!("{program} tune --resume {last}"))]
        }
        (End::Planned, _, _) => vec![("  next     ", format!("{program} tune --nic {}", tuning.nic))],
        (End::Limited | End::Unmeasurable, _, _) => vec![("  more     ", format!("{program} doctor -v"))],
        _ => Vec::new(),
    };
    next.iter().for_each(|(first, command)| out += &command_lines(first, command));
    out
}

#[cfg(test)]
mod tests {
    use super::{end, survey};
    use rxlab_trial::spec::Guards;
    use rxlab_trial::tuning::{End, LeftOut, Tried, Tuning};

    fn tuning() -> Tuning {
        let tried = |name: &str, what: &str, later: bool| Tried {
            name: name.to_owned(),
            what: what.to_owned(),
            settings: Vec::new(),
            later,
        };
        let left_out =
            LeftOut { what: "channels eth0 = 4".into(), why: "link reset: --allow-reset tries it".into() };
        Tuning {
            limit: "one-core hotspot on CPU 2 (98 % of its time): RPS or RFS can spread it".to_owned(),
            judged_by: Some("throughput (CPU 2 receives packets and is full)".to_owned()),
            candidates: vec![
                tried("rps-cache-2", "RPS to CPUs 0-1", false),
                tried("rps-cache-7", "RPS to CPUs 0-1,3-7", false),
                tried("rfs-on", "RFS on", false),
                tried("rps-cache-3", "RPS to CPUs 0-1,3", true),
            ],
            left_out: vec![left_out],
            seconds: 265.0,
            ..Tuning::new("eth0".parse().expect("a name"))
        }
    }

    #[test]
    fn the_whole_text() {
        let found = |end: End| {
            let ids = [Some("0001-tune-eth0".to_owned()), Some("0002-tune-eth0".to_owned())];
            let [choice, trial] = ids;
            Tuning { end, choice, trial, best: Some("RPS to CPUs 0-1 is best of 4".to_owned()), ..tuning() }
        };
        let why = || "throughput +1 % [-4, +6], so a loss is not excluded".to_owned();
        let helps = Tuning {
            gain: Some("53 % more packets get through [33 to 76]".to_owned()),
            price: Some("CPU time per packet +6 %".to_owned()),
            transaction: Some("000003-ef1a".to_owned()),
            confirm_within_s: Some(60.0),
            ..found(End::Helps)
        };
        let kept = Tuning { confirm_within_s: None, ..helps.clone() };
        let nothing = Tuning {
            best: Some("the unchanged machine is best of 4".into()),
            trial: None,
            ..found(End::NothingToGain)
        };
        let mut ends: Vec<Tuning> =
            [End::Planned, End::Limited, End::Unmeasurable].map(|end| Tuning { end, ..tuning() }).to_vec();
        ends.extend([
            nothing,
            found(End::Unproven { why: why() }),
            found(End::Stopped { why: "the trial was interrupted; no effect was judged".to_owned() }),
            helps,
            kept,
        ]);
        let guards = Guards { drops: Some(1500.0), ..Guards::default() };
        let mut text = survey(&tuning(), &guards, true);
        for tuning in &ends {
            text += "\n";
            text += &end(tuning, "rxlab");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }
}
