//! State shared by the threads of a load.

use std::sync::Arc;

use super::block::Block;
use super::request;
use super::tls::Setup;
use crate::load::spec::Spec;

/// Built once: requests can have long bodies.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(super) block: Arc<Block>,
    pub(super) tls: Option<Setup>,
}

impl Shared {
    /// The requests of `spec`, with the TLS settings if it is used.
    pub(crate) fn new(spec: &Spec, tls: Option<Setup>) -> Self {
        Self { block: Arc::new(request::block(spec)), tls }
    }
}
