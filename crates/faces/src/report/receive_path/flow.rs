//! The way of one flow's packets: a row for each step.

use super::cells::ranges;
use crate::report::text::{CAUTION, Cell, FAINT, Table, left, paragraph, wrapping};
use rxlab_path::model::{Certainty, FlowPath, Step, Transport};

pub fn flow(path: &FlowPath) -> String {
    let flow = &path.flow;
    let nic = match &path.driver {
        Some(driver) => format!("{} ({driver})", path.nic),
        None => path.nic.to_string(),
    };
    let transport = match flow.transport {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
    };
    let head = format!("{transport} packets from {} to {}, received by {nic}", flow.remote, flow.local);
    let mut table = Table::new([left("step"), wrapping("where"), left("certainty"), wrapping("why")]);
    let hash = path.hash.only().map_or_else(|| "-".to_owned(), |hash| format!("0x{hash:08x}"));
    row(&mut table, "hash", hash, &path.hash);
    if let Some(entry) = &path.entry {
        row(&mut table, "table entry", ranges_of(entry, |entry| *entry), entry);
    }
    let queue = match path.queue.only() {
        Some(queue) => format!("rx-{queue}"),
        None => ranges_of(&path.queue, |queue| *queue),
    };
    row(&mut table, "queue", queue, &path.queue);
    row(&mut table, "IRQ", ranges_of(&path.irq, |irq| irq.0), &path.irq);
    row(&mut table, "CPU", ranges_of(&path.cpu, |cpu| cpu.0), &path.cpu);
    row(&mut table, "RPS CPU", ranges_of(&path.rps_cpu, |cpu| cpu.0), &path.rps_cpu);
    format!("{}\n{}", paragraph("", &head), table.render())
}

fn row<T>(table: &mut Table, name: &str, value: String, step: &Step<T>) {
    let certainty = match step.certainty {
        Certainty::NotKnown => Cell::styled(CAUTION, "unknown"),
        Certainty::Assumed => Cell::styled(CAUTION, "assumed"),
        Certainty::Computed => "computed".into(),
        Certainty::Certain => "certain".into(),
    };
    table.row([name.into(), value.into(), certainty, Cell::styled(FAINT, step.why.join("; "))]);
}

/// Possible values as ranges; `-` if there are none to name.
fn ranges_of<T>(step: &Step<T>, number: impl Fn(&T) -> u32) -> String {
    if step.among.is_empty() { "-".to_owned() } else { ranges(step.among.iter().map(number)) }
}

#[cfg(test)]
mod tests {
    use super::flow;
    use crate::report::sample_model::{name, rich};
    use crate::report::text::plain;
    use rxlab_base::parse::ethtool::HashFields;
    use rxlab_path::model::{Fact, FlowPath, Model};

    fn shown(model: &Model, nic: &str, text: &str) -> String {
        let nic = model.nic(&name(nic)).expect("there");
        plain(&flow(&FlowPath::new(model, nic, &text.parse().expect("a flow"), false)))
    }

    /// The first of the published values of the hash.
    const PUBLISHED: &str = "tcp 161.142.100.80:1766 66.9.149.187:2794";

    #[test]
    fn every_step_is_computed() {
        let mut model = rich();
        model.rps_sock_flow_entries = Fact::Known(0);
        let eth0 = model.nics.iter_mut().find(|nic| nic.name == name("eth0")).expect("there");
        eth0.driver = Some("ice".into());
        let Fact::Known(rss) = &mut eth0.hardware.rss else { panic!("eth0 has a table") };
        let key = "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa";
        rss.key = Some(key.into());
        let fields = ["ip-src", "ip-dst", "l4-b-0-1", "l4-b-2-3"].map(String::from).into();
        eth0.hardware.hash_fields = Fact::Known(vec![HashFields { kind: "tcp4".into(), fields }]);
        insta::assert_snapshot!(shown(&model, "eth0", PUBLISHED));
    }

    #[test]
    fn little_is_known_of_a_queue_of_the_kernel() {
        insta::assert_snapshot!(shown(&rich(), "veth0", PUBLISHED));
    }

    #[test]
    fn a_rule_comes_first() {
        insta::assert_snapshot!(shown(&rich(), "eth0", "tcp 10.0.0.1:443 198.51.100.7:50000"));
    }
}
