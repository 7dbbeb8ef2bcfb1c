//! Fixture of the suspects' tests: the knobs' test machine, and one value that changed.

use super::{Scene, Suspect, suspects};
use crate::journal::{DeviceThen, Environment, Intent, Touched};
use crate::knob::{self, testbed};
use rxlab_base::units::IrqId;
use rxlab_path::model::{DeviceAddress, Fact, Irq, Model};
use rxlab_path::sample::Irqbalance;
use rxlab_setting::Setting;
use rxlab_sys::RecordedHost;

/// The transaction that set the value.
pub(super) const ID: &str = "000001-abcd";

/// When it began.
const BEGAN_NS: u64 = 1_000_000_000;

/// A value of ours, its fate, and the visible context.
#[derive(Clone)]
pub(super) struct Case {
    setting: Setting,
    live: Option<String>,
    later: Option<Setting>,
    model: Model,
    then: DeviceThen,
    now: DeviceThen,
    online: (String, String),
    files: Vec<(String, String)>,
    itself: Option<u32>,
    thread: Option<u64>,
}

impl Case {
    /// The value was set like this and is gone.
    pub(super) fn new(setting: &str) -> Self {
        let setting: Setting = setting.parse().expect("a setting");
        let model = testbed::model();
        let nic = setting.target.nic().and_then(|nic| model.nic(nic));
        let device = nic.map_or_else(|| DeviceAddress(String::new()), |nic| nic.address.clone());
        let then =
            DeviceThen { device, ifindex: None, carrier_downs: None, rx_queues: None, tx_queues: None };
        Self {
            setting,
            live: None,
            later: None,
            model,
            now: then.clone(),
            then,
            online: ("0-6".into(), "0-6".into()),
            files: Vec::new(),
            itself: None,
            thread: None,
        }
    }

    pub(super) fn live(mut self, live: &str) -> Self {
        self.live = Some(live.to_owned());
        self
    }

    /// A later transaction set this.
    pub(super) fn later(mut self, setting: &str) -> Self {
        self.later = Some(setting.parse().expect("a setting"));
        self
    }

    pub(super) fn without_nics(mut self) -> Self {
        self.model.nics.clear();
        self
    }

    pub(super) fn ifindex(mut self, then: u32, now: u32) -> Self {
        (self.then.ifindex, self.now.ifindex) = (Some(then), Some(now));
        self
    }

    pub(super) fn downs(mut self, then: u64, now: u64) -> Self {
        (self.then.carrier_downs, self.now.carrier_downs) = (Some(then), Some(now));
        self
    }

    pub(super) fn rx_queues(mut self, then: u32, now: u32) -> Self {
        (self.then.rx_queues, self.now.rx_queues) = (Some(then), Some(now));
        self
    }

    pub(super) fn online(mut self, then: &str, now: &str) -> Self {
        self.online = (then.to_owned(), now.to_owned());
        self
    }

    pub(super) fn driver(mut self, driver: &str) -> Self {
        self.model.nics[0].driver = Some(driver.to_owned());
        self
    }

    pub(super) fn irqbalance(mut self, banned_irqs: Fact<Vec<IrqId>>) -> Self {
        self.model.irqbalance =
            Fact::Known(Some(Irqbalance { pid: 700, banned_irqs, ..Irqbalance::default() }));
        self
    }

    /// Gives the device its own interrupt, `virtio0-config`.
    pub(super) fn config(mut self, number: u32) -> Self {
        let irq = Irq { number: IrqId(number), action: "virtio0-config".to_owned(), ..Irq::default() };
        self.model.nics[0].other_irqs.push(irq);
        self
    }

    pub(super) fn process(self, pid: u32, comm: &str, cmdline: &str) -> Self {
        let with_comm = self.file(&format!("proc/{pid}/comm"), &format!("{comm}\n"));
        with_comm.file(&format!("proc/{pid}/cmdline"), cmdline)
    }

    pub(super) fn file(mut self, path: &str, content: &str) -> Self {
        self.files.push((path.to_owned(), content.to_owned()));
        self
    }

    /// The first queue of eth0 is polled by a thread that began in this tick.
    pub(super) fn thread(mut self, tick: u64) -> Self {
        self.thread = Some(tick);
        self
    }

    pub(super) fn itself(mut self, pid: u32) -> Self {
        self.itself = Some(pid);
        self
    }

    pub(super) fn suspects(&self) -> Vec<Suspect> {
        let mut host =
            RecordedHost::new().with("sys/devices/system/cpu/online", format!("{}\n", self.online.1));
        if let Some(tick) = self.thread {
            host = testbed::with_thread(host, tick, "0-6");
        }
        for (path, content) in &self.files {
            host = host.with(path, content);
        }
        if let Some(pid) = self.itself {
            host = host.with_link("proc/self", &pid.to_string());
        }
        let address = &self.then.device;
        let Setting { knob, target, value } = &self.setting;
        let touched = Touched {
            device: (!address.0.is_empty()).then(|| address.clone()),
            ..Touched::new(&Intent::sample(knob, &target.to_string(), "1", value))
        };
        let around = |online: &str, device: &DeviceThen| Environment {
            online: Some(online.parse().expect("a list")),
            devices: vec![device.clone()],
        };
        let later = self.later.as_ref().map(|Setting { knob, target, value }| {
            Touched::new(&Intent::sample(knob, &target.to_string(), "0", value))
        });
        let scene = Scene {
            host: &host,
            model: &self.model,
            id: ID,
            began: Some(BEGAN_NS),
            knob: knob::find(&self.setting.knob).expect("a knob"),
            touched: &touched,
            target: (!self.model.nics.is_empty()).then_some(&self.setting.target),
            live: self.live.as_deref(),
            later: later.as_ref().map(|write| ("000002-abcd", write)),
            then: Some(&around(&self.online.0, &self.then)),
            now: &around(&self.online.1, &self.now),
        };
        suspects(&scene)
    }
}
