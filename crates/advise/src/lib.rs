//! Findings on a receive path, and plans that act on them.
//!
//! [`diagnose`] has the rules, one per file: a model and its rates become findings with evidence, which name plans
//! ([`family`]). [`plan`] chooses values and predicts their effect. Each plan of an interface is decided once; [`doctor`] joins
//! findings, plans and the commands that try them.
//!
//! Never: sees a host. Everything here is a function from values to values.
//!
//! ```
//! use rxlab_advise::diagnose::diagnose;
//! use rxlab_path::model::{Model, Rates};
//!
//! assert!(diagnose(&Model::default(), &Rates::default()).is_empty(), "nothing is known, so nothing is said");
//! ```

mod decision;
pub mod diagnose;
pub mod doctor;
pub mod family;
pub mod plan;
