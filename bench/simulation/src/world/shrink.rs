//! Reduces a failing schedule to few moves.

use super::schedule::{Actor, Counted, Event, Schedule};
use super::{Mutation, run};

/// Maximum number of runs for one shrinking.
const BUDGET: u32 = 6000;

/// The smallest schedule found that breaks the same invariant, and the violation.
pub fn shrink(schedule: &Schedule, mutation: Mutation) -> (Schedule, String) {
    let mut best = schedule.clone();
    let mut left = BUDGET;
    let Some(mut violation) = run(&best, mutation, false).violation else { return (best, String::new()) };
    let kind = violation.split(':').next().unwrap_or_default().to_owned();
    loop {
        let before = best.clone();
        for candidate in smaller(&best) {
            if left == 0 {
                return (best, violation);
            }
            left -= 1;
            if let Some(found) = run(&candidate, mutation, false).violation
                && found.split(':').next() == Some(&kind)
            {
                (best, violation) = (candidate, found);
                break;
            }
        }
        if best == before {
            return (best, violation);
        }
    }
}

/// Slightly smaller schedules, the smallest first.
fn smaller(schedule: &Schedule) -> Vec<Schedule> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Schedule)| {
        let mut candidate = schedule.clone();
        change(&mut candidate);
        if candidate != *schedule {
            all.push(candidate);
        }
    };
    for at in 0..schedule.events.len() {
        add(&|s| {
            s.events.remove(at);
        });
    }
    for at in 0..schedule.custom.len() {
        add(&|s| {
            s.custom.remove(at);
        });
    }
    if let Actor::Apply { set, .. } | Actor::Trial { set, .. } = &schedule.first {
        for at in 0..set.len() {
            add(&|s| {
                if let Actor::Apply { set, .. } | Actor::Trial { set, .. } = &mut s.first {
                    set.remove(at);
                }
            });
        }
    }
    for at in 0..schedule.events.len() {
        let Event { at: now, .. } = schedule.events[at];
        for lower in [1, now / 2, now - now.min(10), now - now.min(1)] {
            add(&|s| s.events[at].at = lower.max(1));
        }
        // One kind of count is easier to read than three.
        add(&|s| {
            if s.events[at].of == Counted::Journal {
                s.events[at].of = Counted::Any;
            }
        });
    }
    all
}
