//! `xps_cpus` and `xps_rxqs`: the senders that use a transmit queue, by CPU or by the receive queue of their
//! flow.

use rustix::io::Errno;

use super::{Doc, Knob, KnobError, value};
use crate::host::{Cause, Host, HostError};
use crate::journal::Armed;
use crate::model::{Fact, Model, Nic};
use crate::plan::Target;
use crate::units::{CpuId, CpuMask, QueueId};

/// Transmit packet steering of one queue.
///
/// Kernel: `Documentation/networking/scaling.rst`, "XPS: Transmit Packet Steering".
pub(super) struct Xps {
    name: &'static str,
    doc: &'static Doc,
    /// Kind of the numbers in the file.
    of: Of,
}

#[derive(Clone, Copy, PartialEq)]
enum Of {
    Cpus,
    // The kernel prints these as the same kind of mask.
    RxQueues,
}

const SOURCE: &str = "Documentation/networking/scaling.rst, \"XPS: Transmit Packet Steering\"";
const LOST: &str = "Removing the queue, even if it comes back later. Some drivers reset it for all queues \
                    when the link comes up, the number of queues changes or a CPU goes on- or offline \
                    (virtio_net, mlx5).";

/// By the CPU that sends.
pub(super) static XPS_CPUS: Xps = Xps {
    name: "xps_cpus",
    doc: &Doc {
        summary: "CPUs that send through a transmit queue. Without any, the kernel spreads flows over the \
                  queues by their hash.",
        target: "`NIC/tx-N`, of an interface with several transmit queues",
        values: "a list of CPUs, or `off`",
        example: "xps_cpus eth0/tx-0 = 0-1",
        source: SOURCE,
        since: "2.6.38",
        lost: LOST,
        beware: "The kernel silently drops offline CPUs; rxlab refuses them by name and reads back every \
                 write. `xps_rxqs` of any queue takes precedence.",
    },
    of: Of::Cpus,
};

/// By the receive queue of the flow.
pub(super) static XPS_RXQS: Xps = Xps {
    name: "xps_rxqs",
    doc: &Doc {
        summary: "Receive queues whose connections send through a transmit queue, so that one CPU handles \
                  both directions.",
        target: "`NIC/tx-N`, of an interface with several transmit queues",
        values: "a list of receive queues by number, or `off`",
        example: "xps_rxqs eth0/tx-0 = 0",
        source: SOURCE,
        since: "4.18",
        lost: LOST,
        beware: "As soon as one queue has it, it takes precedence over `xps_cpus` for every socket that \
                 remembers its receive queue.",
    },
    of: Of::RxQueues,
};

impl Xps {
    fn path(&self, model: &Model, target: &Target) -> Result<String, KnobError> {
        let (nic, queue) = value::tx_queue(self.name, model, target)?;
        // The kernel has no `xps_cpus` there, and an `xps_rxqs` without effect.
        if queue.xps_cpus == Fact::Unsupported {
            return Err(self.one_queue(target));
        }
        Ok(format!("sys/class/net/{}/queues/tx-{}/{}", nic.name, queue.index, self.name))
    }

    fn one_queue(&self, target: &Target) -> KnobError {
        let why =
            "the interface has one transmit queue, so there is nothing to choose, or its kernel has no XPS";
        KnobError::Lacks { knob: self.name, target: target.clone(), why }
    }

    fn error(&self, target: &Target, value: Option<&str>, error: &HostError) -> KnobError {
        match error.cause {
            Cause::Missing if self.of == Of::Cpus => self.one_queue(target),
            _ => {
                let meaning = match self.of {
                    Of::Cpus => cpus_meaning,
                    Of::RxQueues => queues_meaning,
                };
                KnobError::from_host(self.name, target, value, error, " (needs CAP_NET_ADMIN)", meaning)
            }
        }
    }

    fn rx_queues(&self, nic: &Nic, value: &str) -> Result<CpuMask, KnobError> {
        let mask: CpuMask = value.parse().map_err(|_| KnobError::BadValue {
            knob: self.name,
            value: value.to_owned(),
            why: "expected a list of receive queues such as 0-3, or off".to_owned(),
        })?;
        let there: CpuMask = nic.rx.iter().map(|queue| CpuId(queue.index)).collect();
        match mask.difference(&there).first() {
            None => Ok(mask),
            Some(CpuId(missing)) => Err(KnobError::UnknownQueue {
                nic: nic.name.clone(),
                queue: QueueId::rx(missing),
                known: nic.rx.iter().map(|queue| QueueId::rx(queue.index)).collect(),
            }),
        }
    }
}

fn cpus_meaning(errno: i32) -> Option<&'static str> {
    (Errno::from_raw_os_error(errno) == Errno::OVERFLOW).then_some("this kernel has no such CPU")
}

fn queues_meaning(errno: i32) -> Option<&'static str> {
    (Errno::from_raw_os_error(errno) == Errno::OVERFLOW).then_some("the interface has no such receive queue")
}

impl Knob for Xps {
    fn name(&self) -> &'static str {
        self.name
    }

    fn doc(&self) -> &'static Doc {
        self.doc
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        value::tx_targets(model, |queue| queue.xps_cpus != Fact::Unsupported)
    }

    fn check(
        &self,
        _host: &dyn Host,
        model: &Model,
        target: &Target,
        value: &str,
    ) -> Result<String, KnobError> {
        self.path(model, target)?;
        if value == "off" {
            return Ok("off".to_owned());
        }
        let mask = match self.of {
            Of::Cpus => value::online_cpus(self.name, model, target, value)?,
            Of::RxQueues => self.rx_queues(value::tx_queue(self.name, model, target)?.0, value)?,
        };
        if mask.is_empty() {
            let why = "expected a list such as 0-3, or off".to_owned();
            return Err(KnobError::BadValue { knob: self.name, value: value.to_owned(), why });
        }
        Ok(value::mask_text(&mask))
    }

    fn locate(&self, model: &Model, target: &Target) -> Result<Vec<String>, KnobError> {
        Ok(vec![self.path(model, target)?])
    }

    fn read(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<String, KnobError> {
        let path = self.path(model, target)?;
        let content = host.read_text(&path).map_err(|error| self.error(target, None, &error))?;
        Ok(value::mask_text(&value::mask(&path, &content)?))
    }

    fn write(
        &self,
        host: &dyn Host,
        model: &Model,
        target: &Target,
        value: &str,
        _armed: &Armed,
    ) -> Result<(), KnobError> {
        let path = self.path(model, target)?;
        host.write(&path, value::hex(self.name, value)?.as_bytes())
            .map_err(|error| self.error(target, Some(value), &error))
    }

    fn difference(&self, want: &str, got: &str) -> String {
        let dropped = value::dropped(want, got);
        if dropped.is_empty() || self.of == Of::RxQueues {
            return format!("asked for {want}, the kernel kept {got}");
        }
        format!("asked for {want}, the kernel kept {got}: it dropped CPU {dropped} (offline)")
    }

    // The kernel's default. Some drivers then spread the CPUs over the queues, each in its own way.
    fn is_fresh(&self, _host: &dyn Host, value: &str) -> bool {
        value == "off"
    }

    // A write that was not read back may have lost any of its CPUs.
    fn left_by(&self, ours: &[String], unsettled: &[String], live: &str) -> bool {
        let subset = |value: &String| value::is_part(live, value);
        ours.iter().any(|value| self.same(value, live)) || unsettled.iter().any(subset)
    }
}

#[cfg(test)]
mod tests {
    use super::{Knob, XPS_CPUS, XPS_RXQS};
    use crate::host::{Cause, Host, RecordedHost};
    use crate::knob::KnobError;
    use crate::knob::testbed::{model, target, write};

    const CPUS: &str = "sys/class/net/eth0/queues/tx-1/xps_cpus";
    const RXQS: &str = "sys/class/net/eth0/queues/tx-1/xps_rxqs";

    #[test]
    fn masks_are_lists() {
        let host = RecordedHost::new().with(CPUS, "00000000,00000006\n").with(RXQS, "0\n");
        let tx = target("eth0/tx-1");
        assert_eq!(XPS_CPUS.read(&host, &model(), &tx).as_deref(), Ok("1-2"));
        assert_eq!(XPS_RXQS.read(&host, &model(), &tx).as_deref(), Ok("off"));
        write(&XPS_CPUS, &host, "eth0/tx-1", "4-5").expect("written");
        write(&XPS_RXQS, &host, "eth0/tx-1", "0-1").expect("written");
        assert_eq!((host.read_text(CPUS).as_deref(), host.read_text(RXQS).as_deref()), (Ok("30"), Ok("3")));
        write(&XPS_CPUS, &host, "eth0/tx-1", "off").expect("written");
        assert_eq!(host.read_text(CPUS).as_deref(), Ok("0"));
    }

    /// CPU 3 of the test machine is isolated, which XPS does not mind; CPU 7 is offline.
    #[test]
    fn what_is_not_there_is_refused_by_name() {
        let tx = target("eth0/tx-1");
        assert_eq!(XPS_CPUS.check(&RecordedHost::new(), &model(), &tx, "3,2").as_deref(), Ok("2-3"));
        let says = |knob: &dyn Knob, at: &str, value: &str| {
            knob.check(&RecordedHost::new(), &model(), &target(at), value).expect_err(value).to_string()
        };
        assert_eq!(says(&XPS_CPUS, "eth0/tx-1", "6-7"), "xps_cpus eth0/tx-1: CPU 7 is offline (online: 0-6)");
        assert_eq!(says(&XPS_RXQS, "eth0/tx-1", "1-2"), "eth0 has no queue rx-2 (it has rx-0, rx-1)");
        assert!(says(&XPS_RXQS, "eth0/tx-1", "a").contains("expected a list of receive queues"));
        assert_eq!(says(&XPS_CPUS, "eth0/tx-9", "1"), "eth0 has no queue tx-9 (it has tx-0, tx-1)");
        assert_eq!(
            says(&XPS_CPUS, "eth0/rx-0", "1"),
            "xps_cpus acts on a transmit queue (NIC/tx-N), not on eth0/rx-0"
        );
    }

    /// The kernel's ENOENT, for a file that exists.
    #[test]
    fn an_interface_with_one_transmit_queue_has_none() {
        for knob in [&XPS_CPUS, &XPS_RXQS] {
            assert!(knob.targets(&model()).iter().all(|t| t.to_string().starts_with("eth0/")));
            let error = knob
                .check(&RecordedHost::new(), &model(), &target("veth0/tx-0"), "1")
                .expect_err("one queue");
            assert!(matches!(error, KnobError::Lacks { .. }), "{error}");
            assert!(error.to_string().contains("has one transmit queue"), "{error}");
        }
        let host = RecordedHost::new().with_failure(CPUS, Cause::Missing);
        let error = XPS_CPUS.read(&host, &model(), &target("eth0/tx-1")).expect_err("gone since");
        assert!(matches!(error, KnobError::Lacks { .. }), "{error}");
    }

    #[test]
    fn dropped_cpus_are_named_and_known_as_ours() {
        assert_eq!(
            XPS_CPUS.difference("1-4", "1-2"),
            "asked for 1-4, the kernel kept 1-2: it dropped CPU 3-4 (offline)"
        );
        let ours = ["off".to_owned(), "1-4".to_owned()];
        assert!(XPS_CPUS.left_by(&ours, &ours[1..], "1-2"));
        assert!(!XPS_CPUS.left_by(&ours, &[], "1-2"));
    }
}
