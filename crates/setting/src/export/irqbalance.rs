//! A policy script of irqbalance (`--policyscript`): irqbalance calls it for each interrupt, with the
//! device's directory and the number, and it answers `ban=true` for those that the plan places.

use super::expression::Expression;
use super::{Draft, ExportFile, Said};
use rxlab_base::grammar::sh::word;
use rxlab_base::grammar::terminal::shown;

pub(super) fn files(draft: &mut Draft<'_>) -> Vec<ExportFile> {
    let patterns = draft.pick(|said| match patterns(said) {
        patterns if patterns.is_empty() => Err("irqbalance handles only interrupts".to_owned()),
        patterns => Ok(patterns),
    });
    if patterns.is_empty() {
        return Vec::new();
    }
    let mut lines = String::new();
    for (said, patterns) in &patterns {
        lines += &format!("    # {}\n", shown(&said.setting.to_string()));
        patterns.iter().for_each(|pattern| lines += &format!("    {pattern}) echo ban=true ;;\n"));
    }
    let head = draft.head("keeps irqbalance away from the interrupts that the plan places");
    let text = format!(
        "#!/bin/sh\n{head}#\n\
         # For irqbalance --policyscript: $1 is the directory of a device, $2 the number of an interrupt.\n\
         # This does not place the interrupts. They are matched by name, as numbers change at each boot.\n\
         line=$(grep \"^ *$2:\" /proc/interrupts) || exit 0\n\
         case \"${{1##*/}} $line\" in\n{lines}esac\n"
    );
    vec![ExportFile { name: "rxlab-policy".to_owned(), text, executable: true }]
}

/// Patterns of `DEVICE LINE`, where the line is that of /proc/interrupts.
fn patterns(said: &Said<'_>) -> Vec<String> {
    match &said.expression {
        Expression::Irqs { pci, irqs, .. } => {
            let device = pci.as_ref().map(|pci| word(&format!("{pci} "))).unwrap_or_default();
            irqs.iter().map(|(action, _)| format!("{device}*{}", word(&format!(" {action}")))).collect()
        }
        Expression::Banned { pci } => vec![format!("{}*", word(&format!("{pci} ")))],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::sketch::{exported, text};

    #[test]
    fn interrupts_of_the_plan_are_banned() {
        let settings = ["irq_affinity eth0/rx-1 = 1", "irqbalance eth0 = banned", "rps eth0/rx-0 = 1"];
        insta::assert_snapshot!(text(Format::IrqbalancePolicy, &settings));
        assert!(exported(Format::IrqbalancePolicy, &["rps eth0/rx-0 = 1"]).files.is_empty());
    }
}
