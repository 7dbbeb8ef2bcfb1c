//! A machine's receive path in about ten lines, and the commands to type next.

use super::{Answer, screen};
use crate::report::text::{STRONG, columns, paragraph, styled, width};
use rxlab_advise::doctor::{DoctorReport, ReceivePath};
use rxlab_base::number::plural;

/// Lines of all of it.
const ROWS: usize = 10;

/// Renders the overview; ends with a line break. `paths` are the interfaces that receive most, `applied` is the number
/// of changes by rxlab that are in force, and `program` begins the suggested commands.
pub fn overview(report: &DoctorReport, paths: &[ReceivePath], applied: usize, program: &str) -> String {
    let identity = &report.identity;
    let mut head = paragraph(
        &format!("{}  ", styled(STRONG, &identity.hostname)),
        &format!("Linux {}{}", identity.kernel, in_force(applied)),
    );
    let foot = foot(applied, program);
    let room = ROWS.saturating_sub(head.lines().count() + foot.lines().count());
    let answer = screen::screen(&Answer::new(report), room, None);
    // The interfaces have the lines that the answer leaves.
    let mut left = room.saturating_sub(answer.lines().count());
    for path in paths {
        let lines = paragraph(&format!("{}  ", styled(STRONG, path.nic.as_str())), &path.summary);
        let taken = lines.lines().count();
        if taken > left {
            break;
        }
        left -= taken;
        head += &lines;
    }
    head + &answer + &foot
}

fn in_force(applied: usize) -> String {
    if applied > 0 { format!(", {} by rxlab in force", plural(applied, "change")) } else { String::new() }
}

/// The commands that a user is likely to want next.
fn foot(applied: usize, program: &str) -> String {
    let commands =
        ["doctor", "show", "status", "help"].into_iter().filter(|name| applied > 0 || *name != "status");
    let mut text = String::from("next: ");
    let indent = text.len();
    let mut used = indent;
    for name in commands {
        // Help is of no machine.
        let command = if name == "help" { "rxlab help".to_owned() } else { format!("{program} {name}") };
        if used > indent {
            // A command that does not fit is on the next line, to be copied in one piece.
            let fits = used + " | ".len() + width(&command) <= columns();
            let between = if fits { " | ".to_owned() } else { format!(" |\n{:indent$}", "") };
            used = if fits { used + " | ".len() } else { indent };
            text += &between;
        }
        used += width(&command);
        text += &command;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::overview;
    use crate::report::text::plain;
    use rxlab_advise::doctor::{busiest_paths, doctor};
    use rxlab_path::sketch::Sketch;

    fn shown(sketch: Sketch, applied: usize) -> String {
        let (model, rates) = sketch.build();
        let report = doctor(&model, &rates, "rxlab");
        let text = plain(&overview(&report, &busiest_paths(&model, &rates), applied, "rxlab"));
        assert!(text.lines().count() <= super::ROWS, "{text}");
        text
    }

    #[test]
    fn a_hot_machine_in_ten_lines() {
        insta::assert_snapshot!(shown(Sketch::case_a(), 1));
    }

    #[test]
    fn a_healthy_machine_in_ten_lines() {
        let idle = Sketch::new(4).device("eth0", &[0, 1, 2, 3]).traffic("eth0", 2000.0);
        insta::assert_snapshot!(shown(idle, 0));
    }
}
