//! `rxlab flow`: where the packets of one flow land.

use std::net::SocketAddr;

use std::time::Duration;

use super::machine::{From, Source};
use super::{Global, machine, output};
use crate::error::{CommandError, Result};
use rxlab_base::units::NicName;
use rxlab_faces::report::receive_path;
use rxlab_path::model::{Flow, FlowPath, Model, Nic, NicKind};

/// Show where the packets of one flow land: hash, queue, IRQ, CPU, RPS CPU
///
/// Says how certain each step is. Works without privileges, and changes nothing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Transport, local end, remote end: 'tcp 10.0.0.1:443 198.51.100.7:50000'
    #[arg(value_name = "FLOW", required = true, num_args = 1..=3)]
    flow: Vec<String>,
    /// The interface that receives the flow; needed if there are several
    #[arg(long, value_name = "NIC")]
    nic: Option<NicName>,
    #[command(flatten)]
    from: From,
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    let flow: Flow = args.flow.join(" ").parse().map_err(CommandError::usage)?;
    let source = Source::open(global, &args.from, Duration::ZERO)?;
    let model = source.model(args.nic.as_ref())?;
    let nic = receiving(&model, args.nic.as_ref(), &flow.local)?;
    let path = FlowPath::new(&model, nic, &flow, source.is_redacted());
    output::print(global, &path, || receive_path::flow(&path))
}

/// Returns the device that takes the packets of flows to `local`: that of the interface `nic`, or of the only one that
/// receives them.
pub(super) fn receiving<'a>(model: &'a Model, nic: Option<&NicName>, local: &SocketAddr) -> Result<&'a Nic> {
    let nic = match nic {
        Some(name) => machine::nic(model, name)?,
        None => receiver(model, local)?,
    };
    carrier(model, nic)
}

/// Returns the interface that receives flows to `local`, if there is only one.
fn receiver<'a>(model: &'a Model, local: &SocketAddr) -> Result<&'a Nic> {
    let is_local = local.ip().is_loopback();
    let receives = |nic: &&Nic| nic.up && (nic.kind == NicKind::Loopback) == is_local;
    let nics: Vec<&Nic> = model.nics.iter().filter(receives).collect();
    match nics[..] {
        [nic] => Ok(nic),
        [] => Err(CommandError::usage(format!("no interface that is up receives {local}"))),
        _ => Err(choose(format!("several interfaces may receive {local}"), &nics)),
    }
}

/// Returns the device that takes the packets of an interface: the member of a bond, the parent of a VLAN, the virtual
/// function below a paravirtual device, or the interface itself.
fn carrier<'a>(model: &'a Model, nic: &'a Nic) -> Result<&'a Nic> {
    match model.carriers(nic)[..] {
        [] => Ok(nic),
        [device] => Ok(device),
        ref devices => Err(choose(format!("packets of {} arrive on several devices", nic.name), devices)),
    }
}

fn choose(message: String, nics: &[&Nic]) -> CommandError {
    let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
    CommandError::usage(message).hint(format!("choose one with --nic: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::receiving;
    use rxlab_base::parse::ethtool::DriverInfo;
    use rxlab_path::model::{Fact, Function};
    use rxlab_path::sketch::Sketch;

    /// The hash, the table and the interrupts of the paravirtual device were once taken for those of the packets.
    #[test]
    fn packets_arrive_at_the_virtual_function_below() {
        let sketch = Sketch::new(4).device("eth0", &[0]).device("eth1", &[1]);
        let (model, _) = sketch
            .driven_by("eth0", "hv_netvsc", Function::Paravirtual)
            .edit("eth0", |nic| nic.stack.lower = vec!["eth1".parse().expect("a name")])
            .build();
        let of = |name: &str| {
            let nic = name.parse().expect("a name");
            let local = "10.0.0.1:443".parse().expect("an address");
            receiving(&model, Some(&nic), &local).ok().map(|nic| nic.name.to_string())
        };
        assert_eq!(of("eth0").as_deref(), Some("eth1"));
        assert_eq!(of("eth1").as_deref(), Some("eth1"));
    }

    /// "packets arrive on several devices" was once said although only one has them.
    #[test]
    fn packets_of_a_failover_arrive_at_the_primary_while_it_is_up() {
        let of = |is_up| {
            let sketch = Sketch::new(4).device("eth0", &[0]).device("stby", &[1]).device("vf", &[2]);
            let (model, _) = sketch
                .driven_by("stby", "virtio_net", Function::Paravirtual)
                .driven_by("vf", "iavf", Function::Virtual { physical: None })
                .edit("stby", |nic| nic.up = true)
                .edit("vf", |nic| nic.up = is_up)
                .edit("eth0", |nic| {
                    nic.stack.lower = ["stby", "vf"].map(|name| name.parse().expect("a name")).into();
                    nic.hardware.driver = Fact::Known(DriverInfo {
                        driver: "net_failover".to_owned(),
                        version: "0.1".to_owned(),
                        firmware: String::new(),
                        bus: String::new(),
                    });
                })
                .build();
            let (nic, local) = ("eth0".parse().expect("a name"), "10.0.0.1:443".parse().expect("an address"));
            receiving(&model, Some(&nic), &local).ok().map(|nic| nic.name.to_string())
        };
        assert_eq!(of(true).as_deref(), Some("vf"));
        assert_eq!(of(false).as_deref(), Some("stby"));
    }
}
