//! Events as JSON lines, the machine-readable stream of a run.

use std::io::{self, Write};

use super::Reporter;
use crate::domain::Event;

/// Writes each event as one line of JSON.
#[derive(Debug)]
pub struct JsonReporter<W> {
    out: W,
}

impl<W: Write + Send> JsonReporter<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out }
    }
}

impl<W: Write + Send> Reporter for JsonReporter<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, event)?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }
}
