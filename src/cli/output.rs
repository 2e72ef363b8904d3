//! Printing: colour, tables, errors, logs.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table};
use tracing_subscriber::EnvFilter;

use super::Failed;

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Color {
    /// On terminals, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Makes the choice hold for everything that is printed from now on.
    pub(super) fn apply(self) {
        let choice = match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}

/// Sends the library's log to standard error; warnings only, unless `REFRAIN_LOG` asks for more.
pub(super) fn start_logging() {
    let filter = EnvFilter::try_from_env("REFRAIN_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(anstream::stderr)
        .without_time()
        .with_target(false);
    // A second call, in tests, finds a logger in place.
    let _ = log.compact().try_init();
}

/// Prints an error: message, causes, hint.
pub(super) fn failure(failed: &Failed) {
    let mut out = anstream::stderr();
    let mut text = String::new();
    if failed.rendered {
        text.push_str(failed.error.to_string().trim_end());
        text.push('\n');
    } else {
        text.push_str(&format!("\x1b[1;31merror\x1b[0m: {}\n", failed.error));
        for cause in causes(&failed.error) {
            text.push_str(&format!("  caused by: {cause}\n"));
        }
    }
    if let Some(hint) = &failed.hint {
        text.push_str(&format!("\n\x1b[1mhint\x1b[0m: {hint}\n"));
    }
    // Nothing is left to be done where even standard error is gone.
    let _ = out.write_all(text.as_bytes());
}

/// Returns why an error came about. A cause whose words end the error above it has been told there.
fn causes(error: &anyhow::Error) -> Vec<String> {
    let mut above = error.to_string();
    let mut told = Vec::new();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !above.ends_with(&cause) {
            told.push(cause.clone());
        }
        above = cause;
    }
    told
}

/// Writes text to standard output, in full or with an error (a closed pipe).
pub(super) fn write(text: &str) -> Result<(), Failed> {
    let mut out = anstream::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes a value as indented JSON to standard output, piece by piece: it may be a hundred thousand rows. JSON holds no
/// escape codes, so nothing needs to be taken out of it.
pub(super) fn write_json<T: serde::Serialize>(value: &T) -> Result<(), Failed> {
    let mut out = io::BufWriter::with_capacity(64 * 1024, io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// A table without lines: a head in capitals, columns two spaces apart.
pub(super) fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head.map(str::to_uppercase));
    for row in rows {
        table.add_row(row.map(|cell| crate::redact::printable(&cell).replace('\n', " ")));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text = table.to_string();
    let mut lines = String::new();
    for line in text.lines() {
        lines.push_str(line.trim_end());
        lines.push('\n');
    }
    lines
}

/// Returns by how many columns a text is wider than the terminal on standard output; `None` where it fits or is piped.
pub(super) fn overhang(text: &str) -> Option<usize> {
    let terminal = width()?;
    let widest = text.lines().map(|line| line.chars().count()).max()?;
    widest.checked_sub(terminal).filter(|extra| *extra > 0)
}

/// Returns the width of the terminal on standard output; `None` where there is none.
pub(super) fn width() -> Option<usize> {
    Table::new().width().filter(|_| io::stdout().is_terminal()).map(usize::from)
}

/// Tells whether progress can be drawn.
pub(super) fn can_draw() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_was_told_is_not_told_again() {
        let error =
            anyhow::anyhow!("no such address").context("no such address").context("cannot listen: no such address");
        assert_eq!(causes(&error), Vec::<String>::new());
        let error = anyhow::anyhow!("no such address").context("cannot listen").context("cannot start");
        assert_eq!(causes(&error), ["cannot listen", "no such address"]);
    }

    #[test]
    fn tables_have_no_trailing_blanks_and_no_escapes() {
        let text = table(["name", "state"], [["a\x1b[2Jb".to_owned(), "x\ny".to_owned()]]);
        assert_eq!(text, "NAME  STATE\nab    x y\n");
    }
}
