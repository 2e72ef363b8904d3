//! The schema: its numbered migrations, its version, and what a database of that version must have.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, Transaction};

use super::error::{Fault, StoreError};

/// What `PRAGMA application_id` says of our databases: `RFRN`.
pub const APPLICATION_ID: i32 = 0x5246_524e;

/// The SQL that leads from each version to the next; the first starts from nothing. Never edited, only added to.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_initial.sql"),
    include_str!("migrations/0002_hosts.sql"),
    include_str!("migrations/0003_captured_calls.sql"),
    include_str!("migrations/0004_reparsed_sessions.sql"),
];

/// The version that this library writes.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "a handful of migrations")]
pub const SCHEMA_VERSION: i32 = MIGRATIONS.len() as i32;

/// Brings a database from `found` to [`SCHEMA_VERSION`] within the caller's transaction.
pub(crate) fn migrate(tx: &Transaction<'_>, found: i32) -> Result<(), Fault> {
    apply(tx, found, MIGRATIONS)
}

/// Applies what `migrations` has beyond `found`, and stamps the database with the version that this leads to.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "a handful of migrations")]
fn apply(tx: &Transaction<'_>, found: i32, migrations: &[&str]) -> Result<(), Fault> {
    let done = usize::try_from(found).unwrap_or(0);
    for sql in migrations.iter().skip(done) {
        tx.execute_batch(sql)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", migrations.len() as i32)?;
    Ok(())
}

/// Reads application id and version.
pub(crate) fn stamp(connection: &Connection) -> Result<(i32, i32), Fault> {
    let id = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok((id, version))
}

/// Refuses a database that a newer version has migrated, within the caller's transaction.
pub(crate) fn refuse_newer(tx: &Connection, path: &Path) -> Result<(), Fault> {
    let found = tx.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))?;
    if found > SCHEMA_VERSION {
        return Err(StoreError::Newer { path: path.to_path_buf(), found, known: SCHEMA_VERSION }.into());
    }
    Ok(())
}

/// Tells whether a database has no tables at all.
pub(crate) fn is_empty(connection: &Connection) -> Result<bool, Fault> {
    let objects: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(objects == 0)
}

/// Lists what the current schema has and `connection` has not, such as ``table `ledger` ``.
pub(crate) fn missing(connection: &Connection) -> Result<Vec<String>, Fault> {
    let mut reference = Connection::open_in_memory()?;
    let tx = reference.transaction()?;
    migrate(&tx, 0)?;
    tx.commit()?;
    let expected = objects(&reference)?;
    let present = objects(connection)?;
    let mut lacking = Vec::new();
    for (name, (kind, columns)) in &expected {
        match present.get(name) {
            None => lacking.push(format!("{kind} `{name}`")),
            Some((_, there)) => lacking.extend(
                columns
                    .iter()
                    .filter(|column| !there.contains(column))
                    .map(|column| format!("column `{name}.{column}`")),
            ),
        }
    }
    Ok(lacking)
}

type Objects = BTreeMap<String, (String, Vec<String>)>;

/// Every named table, index and trigger with its columns. Indexes that SQLite makes by itself belong to their tables.
fn objects(connection: &Connection) -> Result<Objects, Fault> {
    let mut statement = connection.prepare(
        "SELECT s.name, s.type, c.name FROM sqlite_schema AS s LEFT JOIN pragma_table_info(s.name) AS c
         WHERE s.type IN ('table', 'index', 'trigger') AND s.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )?;
    let mut rows = statement.query([])?;
    let mut found = Objects::new();
    while let Some(row) = rows.next()? {
        let entry = found.entry(row.get(0)?).or_insert((row.get(1)?, Vec::new()));
        if let Some(column) = row.get::<_, Option<String>>(2)? {
            entry.1.push(column);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_applied() {
        let mut connection = Connection::open_in_memory().expect("opens");
        let tx = connection.transaction().expect("begins");
        migrate(&tx, 0).expect("creates");
        tx.commit().expect("commits");
        // The first migration would fail if it ran again.
        let tx = connection.transaction().expect("begins");
        let more: Vec<_> = MIGRATIONS.iter().copied().chain(["CREATE TABLE added (x)"]).collect();
        apply(&tx, SCHEMA_VERSION, &more).expect("migrates");
        tx.commit().expect("commits");
        assert_eq!(stamp(&connection).expect("stamped"), (APPLICATION_ID, SCHEMA_VERSION + 1));
        assert!(missing(&connection).expect("compared").is_empty(), "more than the schema has is no fault");
    }

    #[test]
    fn a_migration_that_fails_leaves_nothing() {
        let mut connection = Connection::open_in_memory().expect("opens");
        let tx = connection.transaction().expect("begins");
        apply(&tx, 0, &[MIGRATIONS[0], "CREATE TABLE added (x); CREATE TABLE added (x)"]).expect_err("fails");
        drop(tx);
        assert_eq!(stamp(&connection).expect("read"), (0, 0));
        assert!(is_empty(&connection).expect("read"));
    }
}
