//! What people and scripts read: values made from the pipeline's results, and their renderers.

pub mod findings;
