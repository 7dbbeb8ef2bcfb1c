//! Values that open transactions have set and that another target reaches as well. Each transaction restores what it found by its
//! own name: a value set by two names would not come back.
//!
//! An interrupt may be that of several queues. The CPUs of a process are those of its control groups too: what a process has in a
//! group that was set is not its own, and does not come back with it. And a process has a number in each PID namespace. One NAPI may
//! poll several queues, and its thread may be in a control group.

use super::ApplyError;
use super::backwards::{in_one_namespace, is_back};
use super::check::{knob_of, process_of};
use super::groups;
use super::locate::Place;
use crate::journal::{GroupId, History, Object, Touched};
use crate::knob::{Knob, KnobError, Site, has_napi_thread, is_in_group, napi_thread};
use rxlab_base::units::Direction;
use rxlab_path::model::Model;
use rxlab_setting::{Setting, Target, common_interrupt, is_of_napi};
use rxlab_sys::Host;

const INTERRUPT: &str = "irq_affinity";
const PROCESS: &str = "affinity";
const THREAD: &str = "napi_affinity";

fn has_other_names(knob: &str) -> bool {
    [INTERRUPT, PROCESS].contains(&knob) || is_of_napi(knob)
}

/// Open transactions that have set such values, by their ids.
#[derive(Default)]
pub(super) struct OtherNames(Vec<(String, History)>);

/// The transaction of a setting: its id, and what it has set.
type Own<'a> = (&'a str, &'a History);

impl OtherNames {
    /// Those of some transactions, without `own`.
    pub(super) fn of(transactions: Vec<(String, History)>, own: Option<&String>) -> Self {
        let counts = |(id, history): &(String, History)| {
            own != Some(id) && history.touched().iter().any(|touched| has_other_names(&touched.knob))
        };
        Self(transactions.into_iter().filter(counts).collect())
    }

    /// Refuses a setting of what is set by another name, by one of them or by `own`. `object` is that of its target.
    pub(super) fn refuse(
        &self,
        own: Own<'_>,
        (host, model): (&dyn Host, &Model),
        setting: &Setting,
        object: &Object,
    ) -> Result<(), ApplyError> {
        match &*setting.knob {
            INTERRUPT => self.refuse_interrupt(own, model, setting),
            PROCESS => self.refuse_process(own, (host, model), &setting.target, object),
            name if is_of_napi(name) => {
                let knob = knob_of(name)?;
                self.refuse_napi(own, model, (knob, &setting.target), object)?;
                if name == THREAD {
                    self.refuse_thread(own, (host, model), (knob, &setting.target), object)
                } else {
                    Ok(())
                }
            }
            _ => Ok(()),
        }
    }

    /// What they and `own` have set by a knob, and not put back.
    fn all<'a>(&'a self, own: Own<'a>, knob: &'a str) -> impl Iterator<Item = (&'a str, Vec<Touched>)> {
        let others = self.0.iter().map(|(id, history)| (id.as_str(), history));
        others.chain([own]).map(move |(id, history)| {
            let mut touched = history.touched();
            touched.retain(|t| t.knob == knob && !is_back(t) && in_one_namespace(own.1, t, history));
            (id, touched)
        })
    }

    fn refuse_interrupt(&self, own: Own<'_>, model: &Model, setting: &Setting) -> Result<(), ApplyError> {
        for (id, touched) in self.all(own, &setting.knob) {
            let targets: Vec<Target> = touched.into_iter().map(|touched| touched.target).collect();
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

    fn refuse_process(
        &self,
        own: Own<'_>,
        (host, model): (&dyn Host, &Model),
        target: &Target,
        object: &Object,
    ) -> Result<(), ApplyError> {
        let knob = knob_of(PROCESS)?;
        let site = knob.site(host, model, target);
        // What this transaction has set has to go back.
        if own.1.touched().iter().any(|t| t.is_of(PROCESS, target, object)) {
            return Ok(());
        }
        let why = |other: &Touched| shared(site, (target, object), other);
        self.refuse_by((own, PROCESS), (knob, target), why)?;
        if object.group.is_none() {
            return Ok(());
        }
        // The thread of a queue in another network namespace cannot be told from here.
        let why = |_: &Touched| Ok(has_napi_thread(site)?.then_some("may be polled by a thread in it"));
        self.refuse_by((own, THREAD), (knob, target), why)
    }

    /// Refuses a value of a NAPI that is set by another queue which it polls.
    fn refuse_napi(
        &self,
        own: Own<'_>,
        model: &Model,
        (knob, target): (&'static dyn Knob, &Target),
        object: &Object,
    ) -> Result<(), ApplyError> {
        let is_it = |t: &Touched| t.is_of(knob.name(), target, object);
        if own.1.touched().iter().any(is_it) {
            return Ok(());
        }
        let napi = napi_of(model, target, target);
        let why = |other: &Touched| {
            let is_one = napi.is_some() && napi_of(model, target, &other.target) == napi;
            let is_other = !is_it(other) && other.object().is_same(object);
            Ok((is_one && is_other).then_some("is polled by the same NAPI"))
        };
        self.refuse_by((own, knob.name()), (knob, target), why)
    }

    /// Refuses CPUs of the thread of a queue that are set by the thread's number, which earlier versions did, or by its control
    /// group.
    fn refuse_thread(
        &self,
        own: Own<'_>,
        (host, model): (&dyn Host, &Model),
        (knob, target): (&'static dyn Knob, &Target),
        object: &Object,
    ) -> Result<(), ApplyError> {
        let site = knob.site(host, model, target);
        if own.1.touched().iter().any(|t| t.is_of(THREAD, target, object)) {
            return Ok(());
        }
        let thread = Target::Process(napi_thread(site)?);
        let device = process_of(host, &thread).map_err(|error| site.unreadable(&error))?;
        let object = Object { device, ..Object::default() };
        let why = |other: &Touched| {
            let is_it = matches!(other.target, Target::Process(_)) && other.object().is_same(&object);
            if is_it { Ok(Some("is its thread")) } else { shared(site, (&thread, &object), other) }
        };
        self.refuse_by((own, PROCESS), (knob, target), why)
    }

    /// Refuses to set a target if `why` says what one is to it that they or `own` have set by the knob `by`.
    fn refuse_by(
        &self,
        (own, by): (Own<'_>, &str),
        (knob, target): (&'static dyn Knob, &Target),
        why: impl Fn(&Touched) -> Result<Option<&'static str>, KnobError>,
    ) -> Result<(), ApplyError> {
        for (id, touched) in self.all(own, by) {
            for other in touched {
                if let Some(why) = why(&other)? {
                    let (knob, id) = (knob.name(), id.to_owned());
                    let (target, other) = (Box::new(target.clone()), Box::new(other.target));
                    return Err(ApplyError::OtherTarget { knob, target, other, why, id });
                }
            }
        }
        Ok(())
    }
}

/// The NAPI that polls a receive queue with the number of `queue`, of the interface of `target`.
fn napi_of(model: &Model, target: &Target, queue: &Target) -> Option<u32> {
    let Target::Queue { queue, .. } = queue else { return None };
    let nic = model.nic(target.nic()?).filter(|_| queue.direction == Direction::Rx)?;
    let queue = nic.rx.iter().find(|rx| rx.index == queue.index)?;
    queue.napi.as_ref().map(|napi| napi.id)
}

/// How the CPUs of a target are those of another one that was set, if they are. An error if that cannot be told.
fn shared(
    site: Site<'_>,
    (target, object): (&Target, &Object),
    other: &Touched,
) -> Result<Option<&'static str>, KnobError> {
    Ok(match (target, &other.target, object.group, other.group) {
        (Target::Process(_), Target::Process(_), ..) => {
            let both = object.device.as_ref().zip(other.device.as_ref());
            both.is_some_and(|(one, other)| one.may_be_same_process(other))
                .then_some("may be the same process by its number in another PID namespace")
        }
        (Target::Process(pid), _, _, Some(group)) => {
            is_in_this(site, *pid, &other.target, group)?.then_some("is its control group")
        }
        (_, Target::Process(pid), Some(_), _) => {
            let now = process_of(site.host, &other.target).map_err(|error| site.unreadable(&error))?;
            let is_it = now.zip(other.device.as_ref()).is_some_and(|(now, then)| now.is_same(then));
            (is_it && is_in_group(site.host, site.model, target, *pid)?).then_some("is a process in it")
        }
        _ => None,
    })
}

/// True if a process is in the group that was `target` when it was set, wherever that is now.
fn is_in_this(site: Site<'_>, pid: u32, target: &Target, group: GroupId) -> Result<bool, KnobError> {
    match groups::locate(site.host, target, group) {
        Place::Here(now) => is_in_group(site.host, site.model, &now, pid),
        Place::Unknown(why) => Err(site.unknown("control groups", &why)),
        // A group has no interface that could be elsewhere.
        Place::Gone | Place::There(..) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{begin, set, setting};
    use super::THREAD;
    use crate::apply::ApplyError;
    use crate::journal::{Memory, Store};
    use crate::knob::testbed::model;
    use rxlab_base::parse::{NapiSetting, attribute, one_message};
    use rxlab_path::model::Model;
    use rxlab_sys::{
        Cause, Host, HostError, INITIAL_PID_NAMESPACE, Operation, OtherNumbers, OwnNumbering, RecordedHost,
    };

    const CPUSETS: &str = "sys/fs/cgroup/cpuset";

    /// Groups a, a/b and c; processes 812 and 2 are in a/b. Seen from a PID namespace.
    struct Grouped {
        host: RecordedHost,
        numbering: u64,
    }

    impl Grouped {
        fn new(numbering: u64) -> Self {
            let stat = |pid: u32| format!("{pid} (x) S 1 {}5137\n", "0 ".repeat(17));
            let mut host = RecordedHost::new();
            for (group, threads) in [("a", ""), ("a/b", "812\n2\n"), ("c", "")] {
                let of = |name: &str| format!("{CPUSETS}/{group}/{name}");
                host = host
                    .with(&of("cpuset.cpus"), "0-3\n")
                    .with(&of("cpuset.effective_cpus"), "0-3\n")
                    .with(&of("tasks"), threads);
            }
            for pid in [812, 2, 813] {
                host = host
                    .with(&format!("proc/{pid}/stat"), stat(pid))
                    .with(&format!("proc/{pid}/task/{pid}/status"), "Name:\tx\nCpus_allowed_list:\t0-3\n");
            }
            Self { host, numbering }
        }
    }

    impl Host for Grouped {
        rxlab_sys::pass_on!([host] read, write, list, link, query, act, now_ns);

        fn inode(&self, path: &str) -> Result<u64, HostError> {
            let inodes = [("a", 11), ("a/b", 12), ("c", 13)];
            let found = inodes.iter().find(|(group, _)| path == format!("{CPUSETS}/{group}"));
            let missing = || HostError::new(Operation::List, path, Cause::Missing);
            found.map(|(_, inode)| *inode).ok_or_else(missing)
        }

        fn numbering(&self) -> Result<Option<OwnNumbering>, OtherNumbers> {
            Ok(Some(OwnNumbering::new(self.numbering, 0)))
        }
    }

    fn refused(store: &Store, host: &dyn Host, text: &str) -> Option<String> {
        refused_on(store, host, &mut model(), text)
    }

    fn refused_on(store: &Store, host: &dyn Host, model: &mut Model, text: &str) -> Option<String> {
        let set = begin(store, None).set(host, model, &setting(text));
        match set {
            Err(error @ ApplyError::OtherTarget { .. }) => Some(error.to_string()),
            set => {
                set.expect("set");
                None
            }
        }
    }

    /// A process in a group of fewer CPUs was put back to those, as its own, and the older of two changes took the value that the
    /// other had made for a foreign one.
    #[test]
    fn a_process_and_its_group_are_not_both_set() {
        for (first, second, why) in [
            ("cgroup:/a", "pid:812", Some("is its control group")),
            ("cgroup:/a/b", "pid:812", Some("is its control group")),
            ("pid:812", "cgroup:/a", Some("is a process in it")),
            ("cgroup:/c", "pid:812", None),
            ("cgroup:/a", "pid:813", None),
            ("pid:813", "cgroup:/a", None),
            ("cgroup:/a", "cgroup:/a/b", None),
        ] {
            let (store, host) = (Store::new(Memory::default()), Grouped::new(INITIAL_PID_NAMESPACE));
            let id = set(&store, &host, &[&format!("affinity {first} = 0-2")]);
            let expected = why.map(|why| {
                format!("affinity {second}: {first}, which transaction {id} has set, {why}: undo {id} first")
            });
            let second = format!("affinity {second} = 1");
            assert_eq!(refused(&store, &host, &second), expected, "{first}, {second}");
            // In one transaction as well, where each goes back nevertheless.
            let mut both = begin(&Store::new(Memory::default()), None);
            let host = Grouped::new(INITIAL_PID_NAMESPACE);
            let first = setting(&format!("affinity {first} = 0-2"));
            both.set(&host, &mut model(), &first).expect("set");
            let set = both.set(&host, &mut model(), &setting(&second));
            assert_eq!(set.is_err(), why.is_some(), "{first}, {second}");
            both.set_back(&host, &mut model(), "affinity", &first.target).expect("set back");
        }
    }

    /// A process that procfs hides once counted as another, and its group was set as well.
    #[test]
    fn a_process_that_is_not_shown_may_be_in_the_group() {
        let store = Store::new(Memory::default());
        set(&store, &Grouped::new(INITIAL_PID_NAMESPACE), &["affinity pid:812 = 0-2"]);
        let hidden = |is_running: bool| {
            let Grouped { host, numbering } = Grouped::new(INITIAL_PID_NAMESPACE);
            let missing = ["proc/812/stat", "proc/812/task"];
            let host = missing.iter().fold(host, |host, path| host.with_failure(path, Cause::Missing));
            let host = host.with("proc/812/status", "Name:\tx\nCpus_allowed_list:\t0-3\n");
            let query = ("syscall/sched_getattr/812", [0; 16]);
            Grouped { host: if is_running { host.with(query.0, query.1) } else { host }, numbering }
        };
        let group = setting("affinity cgroup:/a = 1");
        let set = begin(&store, None).set(&hidden(true), &mut model(), &group);
        let said = set.expect_err("it may be in it").to_string();
        assert!(said.contains("/proc/812/stat: /proc does not show this process"), "{said}");
        assert_eq!(refused(&store, &hidden(false), "affinity cgroup:/a = 1"), None, "it has ended");
    }

    /// Its value was put back by one number, and what the other transaction had set was the value before.
    #[test]
    fn a_process_is_not_set_by_two_numbers() {
        let store = Store::new(Memory::default());
        let id = set(&store, &Grouped::new(INITIAL_PID_NAMESPACE), &["affinity pid:812 = 0-2"]);
        let by_the_other =
            refused(&store, &Grouped::new(8), "affinity pid:2 = 1").expect("it may be the same");
        assert_eq!(
            by_the_other,
            format!(
                "affinity pid:2: pid:812, which transaction {id} has set, may be the same process by its number in another \
                 PID namespace: undo {id} first"
            )
        );
        assert_eq!(
            refused(&store, &Grouped::new(INITIAL_PID_NAMESPACE), "affinity pid:2 = 1"),
            None,
            "another one of the same namespace"
        );
    }

    /// The queues of eth0 with one NAPI each, or the first NAPI for both, as ixgbe has with more queues than vectors.
    fn napis(of_one: bool) -> Model {
        let mut model = model();
        if of_one {
            model.nics[0].rx[1].napi = model.nics[0].rx[0].napi.clone();
        }
        model
    }

    /// Two NAPIs of eth0, of which thread 500 polls the first, in group a/b with process 812.
    fn polled() -> Grouped {
        let mut grouped = Grouped::new(INITIAL_PID_NAMESPACE);
        let napi = |id: u32, pid: u32| {
            let attributes = [(1, 4), (2, id), (4, pid)]
                .map(|(kind, value): (u16, u32)| attribute(kind, value.to_ne_bytes()));
            let values =
                [NapiSetting::DeferHardIrqs, NapiSetting::IrqSuspendTimeout].map(|value| value.attribute(0));
            one_message(&[attributes.concat(), values.concat()].concat())
        };
        grouped.host = [500, 501].into_iter().fold(grouped.host, |host, pid| {
            let group = if pid == 500 { "/a/b" } else { "/" };
            let task = |name: &str| format!("proc/{pid}/task/{pid}/{name}");
            host.with(&format!("proc/{pid}/comm"), "napi/eth0-8193\n")
                .with(&format!("proc/{pid}/stat"), format!("{pid} (napi/eth0-8193) S 2 0{}", " 0".repeat(47)))
                .with(&task("status"), "Name:\tnapi\nCpus_allowed_list:\t0-3\n")
                .with(&task("cgroup"), format!("3:cpuset:{group}\n0::/\n"))
        });
        grouped.host = grouped
            .host
            .with("netlink/netdev/napi-get", [napi(8193, 500), napi(8194, 501)].concat())
            .with(&format!("{CPUSETS}/a/cpuset.effective_cpus"), "0-3\n")
            .with(&format!("{CPUSETS}/c/cpuset.effective_cpus"), "0-3\n")
            .with(&format!("{CPUSETS}/a/tasks"), "")
            .with(&format!("{CPUSETS}/a/b/tasks"), "500\n812\n")
            .with(&format!("{CPUSETS}/c/tasks"), "501\n")
            .with("proc/501/comm", "web\n");
        grouped
    }

    /// The value of the second name was put back to that of the first.
    #[test]
    fn a_napi_is_not_set_by_two_queues() {
        for (knob, value, other) in [
            ("napi_affinity", "1", "2"),
            ("napi_priority", "nice:1", "nice:2"),
            ("queue_defer_hard_irqs", "2", "3"),
            ("irq_suspend_timeout", "20", "30"),
        ] {
            let (store, host) = (Store::new(Memory::default()), polled());
            let id = set(&store, &host, &[&format!("{knob} eth0/rx-0 = {value}")]);
            let second = format!("{knob} eth0/rx-1 = {other}");
            let by = |id: &str| {
                format!(
                    "{knob} eth0/rx-1: eth0/rx-0, which transaction {id} has set, is polled by the same NAPI: undo {id} first"
                )
            };
            assert_eq!(refused_on(&store, &host, &mut napis(true), &second), Some(by(&id)));
            let again = format!("{knob} eth0/rx-0 = {other}");
            assert_eq!(refused_on(&store, &host, &mut napis(true), &again), None, "by its own name");
        }
        let (store, host) = (Store::new(Memory::default()), polled());
        set(&store, &host, &["queue_defer_hard_irqs eth0/rx-0 = 2"]);
        assert_eq!(refused_on(&store, &host, &mut napis(false), "queue_defer_hard_irqs eth0/rx-1 = 3"), None);
        assert_eq!(refused_on(&store, &host, &mut napis(true), "irq_suspend_timeout eth0/rx-1 = 3"), None);
    }

    /// The thread kept the CPUs that one of the two had set.
    #[test]
    fn the_thread_of_a_napi_and_its_group_are_not_both_set() {
        for (first, second, why) in [
            (
                "napi_affinity eth0/rx-0 = 0-2",
                "affinity cgroup:/a = 1",
                Some("may be polled by a thread in it"),
            ),
            ("napi_affinity eth0/rx-0 = 0-2", "affinity cgroup:/c = 1", None),
            ("napi_affinity eth0/rx-0 = 0-2", "affinity pid:812 = 1", None),
            ("affinity cgroup:/a = 0-2", "napi_affinity eth0/rx-0 = 1", Some("is its control group")),
            ("affinity cgroup:/c = 0-2", "napi_affinity eth0/rx-0 = 1", None),
        ] {
            let (store, host) = (Store::new(Memory::default()), polled());
            let id = set(&store, &host, &[first]);
            let named = |text: &str| text.split(" = ").next().unwrap_or_default().to_owned();
            let other = named(first).split(' ').next_back().unwrap_or_default().to_owned();
            let expected = why.map(|why| {
                format!("{}: {other}, which transaction {id} has set, {why}: undo {id} first", named(second))
            });
            let mut model = model();
            model.identity.kernel = "6.18.0".to_owned();
            assert_eq!(refused_on(&store, &host, &mut model, second), expected, "{first}, {second}");
        }
    }

    /// Only a rollback would have been refused, and left what was set.
    #[test]
    fn the_thread_of_a_napi_goes_back_in_a_group_that_it_was_moved_to() {
        let (store, host) = (Store::new(Memory::default()), polled());
        let mut model = model();
        model.identity.kernel = "6.18.0".to_owned();
        set(&store, &host, &["affinity cgroup:/c = 0-2"]);
        let of_queue = setting("napi_affinity eth0/rx-0 = 1");
        let mut own = begin(&store, None);
        own.set(&host, &mut model, &of_queue).expect("set");
        host.host.write(&format!("{CPUSETS}/c/tasks"), b"500\n").expect("written");
        own.set_back(&host, &mut model, THREAD, &of_queue.target).expect("set back");
    }

    /// Earlier versions took the number of a thread.
    #[test]
    fn the_thread_of_a_napi_is_not_set_by_its_number_as_well() {
        let (store, host) = (Store::new(Memory::default()), polled());
        host.host.write("proc/500/comm", b"web\n").expect("written");
        let id = set(&store, &host, &["affinity pid:500 = 1"]);
        host.host.write("proc/500/comm", b"napi/eth0-8193\n").expect("written");
        let expected = format!(
            "napi_affinity eth0/rx-0: pid:500, which transaction {id} has set, is its thread: undo {id} first"
        );
        assert_eq!(refused(&store, &host, "napi_affinity eth0/rx-0 = 2"), Some(expected));
    }

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
