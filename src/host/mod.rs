//! host.
