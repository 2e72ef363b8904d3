//! The program as a user meets it: help texts, messages, exit codes, and whole runs with the offline agent.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "cli")]
#![allow(clippy::disallowed_methods, reason = "tests wait for real processes")]

mod bed;
mod help;
mod hostile;
mod interruption;
mod login;
mod looking_on;
mod messages;
mod money;
mod reading;
mod refused;
mod reparsing;
mod resuming;
mod retrying;
mod runners;
mod running;
mod single;
mod started;
mod store_upkeep;
mod strategies;
mod trajectories;
mod upkeep;
