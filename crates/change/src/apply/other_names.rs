//! Interrupts that open transactions have sent somewhere, by whatever name: each transaction restores what it found by its own
//! name, so that an interrupt set by two names would not come back.

use super::ApplyError;
use super::backwards::{in_one_namespace, is_back};
use crate::journal::History;
use rxlab_path::model::Model;
use rxlab_setting::{Setting, Target, common_interrupt};

/// Open transactions that send interrupts, by their ids.
#[derive(Default)]
pub(super) struct Sent(Vec<(String, History)>);

impl Sent {
    /// Those of some transactions, without `own`.
    pub(super) fn of(transactions: Vec<(String, History)>, own: Option<&String>) -> Self {
        let sends = |(id, history): &(String, History)| {
            own != Some(id) && history.touched().iter().any(|touched| touched.knob == "irq_affinity")
        };
        Self(transactions.into_iter().filter(sends).collect())
    }

    /// Refuses a setting of an interrupt that is set by another name, by one of them or by `own`.
    pub(super) fn refuse(
        &self,
        own: (&str, &History),
        model: &Model,
        setting: &Setting,
    ) -> Result<(), ApplyError> {
        if setting.knob != "irq_affinity" {
            return Ok(());
        }
        let others = self.0.iter().map(|(id, history)| (id.as_str(), history));
        for (id, history) in others.chain([own]) {
            let touched = history.touched().into_iter().filter(|touched| {
                touched.knob == setting.knob && !is_back(touched) && in_one_namespace(own.1, touched, history)
            });
            let targets: Vec<Target> = touched.map(|touched| touched.target).collect();
            let by_another = targets
                .iter()
                .filter(|other| **other != setting.target)
                .find_map(|other| Some((other.clone(), common_interrupt(model, other, &setting.target)?)));
            // By its own name, the journal has it.
            if let Some((other, irq)) = by_another.filter(|_| !targets.contains(&setting.target)) {
                let (target, id) = (setting.target.clone(), id.to_owned());
                let [target, other] = [target, other].map(Box::new);
                return Err(ApplyError::OtherName { target, other, irq, id });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{begin, set, setting};
    use crate::apply::ApplyError;
    use crate::journal::{Memory, Store};
    use crate::knob::testbed::model;
    use rxlab_path::model::Model;
    use rxlab_sys::RecordedHost;

    /// Both queues of the test machine on one interrupt.
    fn shared() -> Model {
        let mut model = model();
        model.nics[0].rx[1].irqs = model.nics[0].rx[0].irqs.clone();
        model
    }

    fn host() -> RecordedHost {
        [24, 25, 26]
            .into_iter()
            .fold(RecordedHost::new(), |host, irq| {
                host.with(&format!("proc/irq/{irq}/smp_affinity"), "01\n")
                    .with(&format!("proc/irq/{irq}/effective_affinity"), "01\n")
            })
            .with("sys/class/net/eth0/queues/rx-1/rps_cpus", "0\n")
    }

    #[test]
    fn an_interrupt_is_not_set_by_another_name() {
        let (store, host) = (Store::new(Memory::default()), host());
        let id = set(&store, &host, &["irq_affinity eth0/rx-0 = 1"]);
        let error = begin(&store, None)
            .set(&host, &mut shared(), &setting("irq_affinity eth0/rx-1 = 0"))
            .expect_err("the same interrupt");
        assert!(matches!(&error, ApplyError::OtherName { id: by, .. } if *by == id), "{error}");
        assert!(error.to_string().contains("eth0/rx-0"), "{error}");
    }

    #[test]
    fn its_own_name_and_other_interrupts_are_free() {
        let (store, host) = (Store::new(Memory::default()), host());
        set(&store, &host, &["irq_affinity eth0/rx-0 = 1"]);
        let mut transaction = begin(&store, None);
        for text in ["irq_affinity eth0/rx-0 = 0", "rps eth0/rx-1 = 2"] {
            transaction.set(&host, &mut shared(), &setting(text)).expect("set");
        }
        let twice = transaction.set(&host, &mut shared(), &setting("irq_affinity eth0/rx-1 = 2"));
        assert!(matches!(twice, Err(ApplyError::OtherName { .. })), "{twice:?}");
        transaction
            .set(&host, &mut model(), &setting("irq_affinity eth0/rx-1 = 2"))
            .expect("interrupts of their own");
    }
}
