//! What the adversary's moves do to the machine, the disk, the clock and the commands.

use super::schedule::{Area, Move, Slot};
use super::{BEGIN_NS, Fault, State};

impl State {
    /// A move that only changes the world.
    pub(super) fn make(&mut self, act: &Move) {
        match act {
            Move::Rename(device) => self.machine.rename(*device),
            Move::RenameOdd(device) => self.machine.rename_odd(*device),
            Move::OddName(netns) => self.machine.add_odd(*netns),
            Move::Swap(one, other) => self.machine.swap_names(*one, *other),
            Move::Netns(device, netns) => self.machine.move_to(*device, *netns),
            Move::Remake(device) => self.machine.remake(*device),
            Move::Delete(device) => self.machine.delete(*device),
            Move::LinkReset(device) => self.machine.reset_link(*device),
            Move::Channels(device, count) => {
                let (slot, count) = (Slot::Channels(*device), u64::from(*count));
                if self.machine.value(slot).is_some_and(|value| value.now != count) {
                    self.machine.write_foreign(slot, count, self.counts[0]);
                }
            }
            Move::Write(slot, what) => {
                let value = self.machine.foreign(*slot, *what);
                self.machine.write_foreign(*slot, value, self.counts[0]);
            }
            Move::Cpu(cpu, online) => self.machine.set_online(*cpu, *online),
            Move::Reboot(survives) => {
                self.machine.boot();
                self.disk.reboot(*survives);
                self.machine.clock = BEGIN_NS;
                self.healed_at = self.healed_at.map(|_| BEGIN_NS);
                self.faults.clear();
                self.guards.iter_mut().for_each(|guard| guard.stands = false);
                self.stack.iter_mut().for_each(|running| running.killed = true);
            }
            Move::Fault(area, errno, operations) => {
                let until = u64::from(self.counts[0]) + u64::from(*operations);
                if *area == Area::DiskGone {
                    self.gone_until = until;
                }
                self.faults.push(Fault { area: *area, errno: *errno as i32, until });
            }
            Move::Kill => self.kill_running(),
            Move::KillInCall => {
                if let Some(top) = self.stack.last_mut() {
                    top.dies_in_call = true;
                }
            }
            Move::KillGuard => self.kill_guard(),
            Move::KillBoth => {
                self.kill_running();
                self.kill_guard();
            }
            Move::Slow(milliseconds, operations) => {
                let until = u64::from(self.counts[0]) + u64::from(*operations);
                self.slow = (u64::from(*milliseconds) * 1_000_000, until);
            }
            Move::Clock(seconds) => self.machine.clock += u64::from(*seconds) * 1_000_000_000,
            Move::Damage(file, part) => self.disk.damage(*file, *part),
            Move::Reuse(netns) => self.machine.reuse(*netns),
            Move::Process(process, act) => self.machine.move_thread(*process, *act),
            Move::Group(group, act) => self.machine.move_group(*group, *act),
            Move::Mount(is_mounted) => self.disk.is_mounted = *is_mounted,
            Move::Stop(_) | Move::Run(_) | Move::RunElsewhere(_) => {}
        }
    }

    fn kill_running(&mut self) {
        if let Some(top) = self.stack.last_mut() {
            top.killed = true;
        }
    }

    fn kill_guard(&mut self) {
        if let Some(guard) = self.guards.iter_mut().rev().find(|guard| guard.stands) {
            guard.stands = false;
            if let Some(pid) = guard.pid {
                self.kill(pid);
            }
        }
    }

    /// The running command is killed inside a write to a slot, if a move said so: the kernel has done what it was asked
    /// for, except for threads that it was about to make.
    pub(crate) fn die_in_call(&mut self, slot: Slot) {
        let Some(top) = self.stack.last_mut().filter(|top| top.dies_in_call) else { return };
        (top.dies_in_call, top.killed) = (false, true);
        if let Slot::Channels(device) | Slot::Threaded(device) | Slot::Gro(device) | Slot::Ring(device) = slot
        {
            let (before, writer) = (self.values(), self.writer(slot, None));
            self.machine.lose_threads(device, &writer);
            self.changed_since(&before, 0);
        }
    }

    /// A command is killed, and loses the lock at once.
    pub(crate) fn kill(&mut self, pid: u32) {
        if let Some(running) = self.stack.iter_mut().find(|running| running.pid == pid) {
            running.killed = true;
        }
        if self.disk.holder == Some(pid) {
            self.disk.holder = None;
        }
    }
}
