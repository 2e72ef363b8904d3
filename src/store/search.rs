//! Looks for bytes in every column: a proof that something is not there.

use rusqlite::Connection;

use super::Store;
use super::error::Fault;
use super::worker::Ticket;

impl Store {
    /// Returns every `table.column` in which `matches` finds what it looks for, sorted. Reads every row of every table.
    pub fn columns_with<F>(&self, matches: F) -> Ticket<Vec<String>>
    where
        F: Fn(&[u8]) -> bool + Send + 'static,
    {
        self.read(move |tx| {
            let mut found = Vec::new();
            for (table, column) in columns(tx)? {
                if holds(tx, &table, &column, &matches)? {
                    found.push(format!("{table}.{column}"));
                }
            }
            Ok(found)
        })
    }
}

fn columns(tx: &Connection) -> Result<Vec<(String, String)>, Fault> {
    let mut statement = tx.prepare(
        "SELECT s.name, c.name FROM sqlite_schema AS s JOIN pragma_table_info(s.name) AS c
         WHERE s.type = 'table' ORDER BY s.name, c.name",
    )?;
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn holds(tx: &Connection, table: &str, column: &str, matches: &impl Fn(&[u8]) -> bool) -> Result<bool, Fault> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let mut statement = tx.prepare(&format!("SELECT CAST({} AS BLOB) FROM {}", quoted(column), quoted(table)))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if row.get_ref(0)?.as_bytes_or_null().map_err(rusqlite::Error::from)?.is_some_and(matches) {
            return Ok(true);
        }
    }
    Ok(false)
}
