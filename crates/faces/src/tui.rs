//! The live screen of `rxlab top`: its state, how keys and the mouse change it, and how it is drawn.
//!
//! Nothing here reads a machine or a terminal: [`App`] takes frames, keys and clicks, [`draw()`] fills a buffer. `commands::top`
//! runs the loop.

mod app;
mod draw;
mod findings;
mod heat;
mod input;
mod look;
mod tables;
#[cfg(test)]
mod tests;

pub use app::{App, Moment, Origin, Request, View};
pub use draw::draw;
pub use input::{Input, of_key, of_mouse};
pub use look::{Colours, Look};
