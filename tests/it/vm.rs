//! Real drivers, real interrupts, several nodes, another kernel: guests of `lab/vm`. A boot takes many seconds and
//! both CPUs, so each test boots once and checks everything on that machine. Tests wait for each other, and for tests
//! that count packets.

mod console;
mod e1000e;
mod firewall;
mod flows;
mod guest;
mod hotspot;
mod interference;
mod interrupts;
mod irqbalance;
mod killed;
mod knobs;
mod moved;
mod persist;
mod random_flows;
mod there_and_back;
mod two_nodes;
