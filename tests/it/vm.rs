//! Real drivers, real interrupts, several nodes, another kernel: guests of `lab/vm`. A boot takes seconds of one CPU, so
//! each test boots once and checks everything on that machine. Guests run next to each other, but not next
//! to tests that count or send packets.

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
