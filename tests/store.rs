//! The store on real files: what it keeps, what it refuses, and what survives crashes, locks and full disks.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "store/calls.rs"]
mod calls;
#[path = "store/crash.rs"]
mod crash;
#[path = "store/fencing.rs"]
mod fencing;
#[path = "store/ledger.rs"]
mod ledger;
#[path = "store/lifecycle.rs"]
mod lifecycle;
#[path = "store/migration.rs"]
mod migration;
#[path = "store/opening.rs"]
mod opening;
#[path = "store/recovery.rs"]
mod recovery;
#[path = "store/results.rs"]
mod results;
#[path = "store/round_trip.rs"]
mod round_trip;
#[path = "store/sample.rs"]
mod sample;
