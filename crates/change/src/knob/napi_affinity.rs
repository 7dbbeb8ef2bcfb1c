//! `napi_affinity`: the CPUs that the kernel thread of a NAPI may run on.

use super::affinity::{ALL, move_thread, thread_cpus};
use super::priority::{napi_thread, napi_thread_began};
use super::{Knob, Result, Site, queue_napi};
use crate::journal::Armed;
use rxlab_base::units::CpuMask;
use rxlab_path::model::Model;
use rxlab_setting::Target;
use rxlab_sys::Host;

/// CPUs of the thread that polls a receive queue: sched_setaffinity(2).
pub(super) struct NapiAffinity;

impl Knob for NapiAffinity {
    fn name(&self) -> &'static str {
        "napi_affinity"
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        queue_napi::targets(model, |napi| napi.thread.is_some())
    }

    // Does not require a thread: `threaded` earlier in the same plan creates one.
    fn check(&self, site: Site<'_>, value: &str) -> Result<String> {
        site.rx_queue()?;
        if value == ALL {
            return Ok(ALL.to_owned());
        }
        let cpus = site.online_cpus(value)?;
        if cpus.is_empty() {
            return Err(site.bad(value, "expected a list of CPUs such as 2-5, or all"));
        }
        let everywhere = site.model.online().difference(&cpus).is_empty();
        Ok(if everywhere { ALL.to_owned() } else { cpus.to_string() })
    }

    fn read(&self, site: Site<'_>) -> Result<String> {
        let pid = napi_thread(site)?;
        thread_cpus(site, pid, pid)?.ok_or_else(|| site.not_there("its thread has ended"))
    }

    fn write(&self, site: Site<'_>, value: &str, _armed: &Armed) -> Result {
        let pid = napi_thread(site)?;
        move_thread(site, pid, pid, value)
    }

    fn is_fleeting(&self) -> bool {
        true
    }

    fn cpus(&self, value: &str) -> Option<CpuMask> {
        value.parse().ok()
    }

    // A new thread keeps off some CPUs (`HK_TYPE_KTHREAD` of kernel/sched/isolation.c): those of `nohz_full`, but before Linux 6.13
    // not those of `isolcpus=nohz`; later isolated ones too.
    fn is_fresh(&self, host: &dyn Host, value: &str) -> bool {
        let list = |name: &str| -> Option<CpuMask> {
            host.read_text(&format!("sys/devices/system/cpu/{name}")).ok()?.trim().parse().ok()
        };
        if value == ALL {
            return true;
        }
        // The thread may have CPUs that are possible and not online.
        let (Some(online), Ok(cpus)) = (list("online"), value.parse::<CpuMask>()) else { return false };
        let [tickless, isolated] = ["nohz_full", "isolated"].map(|name| list(name).unwrap_or_default());
        let all = online.union(&cpus);
        [&tickless, &tickless.union(&isolated)].iter().any(|left_out| all.difference(left_out) == cpus)
    }

    fn began_ns(&self, site: Site<'_>) -> Option<u64> {
        napi_thread_began(site)
    }
}

#[cfg(test)]
mod tests {
    use super::NapiAffinity;
    use crate::knob::Knob;
    use crate::knob::testbed::{check, read, refusal, with_thread, write};
    use rxlab_sys::{Host, RecordedHost};

    #[test]
    fn the_thread_of_a_queue_is_moved() {
        let (host, queue) = (with_thread(RecordedHost::new(), 0, "0-15"), "eth0/rx-0");
        assert_eq!(read(&NapiAffinity, &host, queue).as_deref(), Ok("all"));
        assert_eq!(check(&NapiAffinity, &host, queue, "5,4").as_deref(), Ok("4-5"));
        assert_eq!(check(&NapiAffinity, &host, queue, "0-6").as_deref(), Ok("all"));
        write(&NapiAffinity, &host, queue, "4-5").expect("moved");
        assert_eq!(read(&NapiAffinity, &host, queue).as_deref(), Ok("4-5"));
        assert!(refusal(&NapiAffinity, &host, queue, "").contains("expected a list of CPUs"));
        host.write("proc/500/comm", b"web\n").expect("written");
        assert!(read(&NapiAffinity, &host, queue).is_err(), "a process of that number");
    }

    #[test]
    fn a_new_thread_keeps_off_some_cpus() {
        let with =
            |name: &str, host: RecordedHost| host.with(&format!("sys/devices/system/cpu/{name}"), "2-6\n");
        let host = || RecordedHost::new().with("sys/devices/system/cpu/online", "0-6\n");
        let fresh = |host: RecordedHost| {
            ["all", "0-1", "0-1,7-15", "4-5", "0-2"].map(|cpus| NapiAffinity.is_fresh(&host, cpus))
        };
        assert_eq!(fresh(host()), [true, false, false, false, false]);
        assert_eq!(
            [fresh(with("nohz_full", host())), fresh(with("isolated", host()))],
            [[true, true, true, false, false]; 2]
        );
    }
}
