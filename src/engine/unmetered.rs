//! Runs without a gateway: the feature is off, and every session goes to its provider by itself.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::reconcile::Seen;
use super::world::Attempt;
use crate::domain::{Failure, Micros, Model, ModelRole};
use crate::harness::ceiling::Ceiling;
use crate::runtime::GatewayDoors;

/// No gateway.
#[derive(Default)]
pub struct Metering(());

impl Metering {
    #[expect(clippy::unused_self, reason = "the shape of the one with a gateway")]
    pub(crate) fn doors(&self) -> Option<GatewayDoors> {
        None
    }

    #[expect(clippy::unused_async, reason = "the shape of the one with a gateway")]
    pub(crate) async fn shutdown(&self) {}
}

/// A session that is about to begin.
#[expect(dead_code, reason = "nothing is asked of it without a gateway")]
pub(crate) struct Begins<'a> {
    pub(crate) index: u32,
    pub(crate) phase: Option<String>,
    pub(crate) role: Option<ModelRole>,
    pub(crate) model: &'a Model,
    pub(crate) harness: &'a str,
    pub(crate) max_cost: Option<Micros>,
}

/// A session's way through a gateway: there is none, and so no value of this.
pub(crate) enum Metered {}

impl Metered {
    pub(crate) fn token(&self) -> &str {
        match *self {}
    }

    pub(crate) fn base_url(&self) -> &str {
        match *self {}
    }

    pub(crate) fn ceiling(&self) -> &Arc<Ceiling> {
        match *self {}
    }

    pub(crate) fn seen(&self) -> &Arc<AtomicBool> {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "the shape of the one with a gateway")]
    pub(crate) async fn close(self) -> Seen {
        match self {}
    }
}

/// Every session goes by itself.
#[expect(clippy::unused_async, reason = "the shape of the one with a gateway")]
pub(crate) async fn open(_: &Arc<Attempt>, _: Begins<'_>) -> Result<Option<Metered>, Failure> {
    Ok(None)
}
