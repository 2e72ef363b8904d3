//! Upkeep: whether a database is sound and complete, copies of it, and the space it takes.

use std::path::Path;

use rusqlite::Connection;

use super::error::{Fault, StoreError};
use super::layout::Layout;
use super::record_file::read_record;
use super::recovery::record_files;
use super::worker::Ticket;
use super::{Store, attempts, connection, schema};

/// What a check found; empty lists are good news.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// What SQLite finds wrong with the file.
    pub integrity: Vec<String>,
    /// Rows that point to rows which are not there.
    pub foreign_keys: Vec<String>,
    /// Tables, columns and indexes that are not there.
    pub schema: Vec<String>,
    /// Records on disk that the database lacks, and files that are no records.
    pub records: Vec<String>,
    /// Sessions and sums that tell other figures than the ledger's entries.
    pub money: Vec<String>,
}

impl CheckReport {
    /// Tells whether nothing was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }
}

impl Store {
    /// Checks file, references, schema, money, and the records below `layout` against the rows. Changes nothing.
    pub fn check(&self, layout: Option<&Layout>) -> Ticket<CheckReport> {
        let layout = layout.cloned();
        self.read(move |tx| {
            let mut report = CheckReport {
                integrity: lines(
                    tx,
                    "SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
                )?,
                foreign_keys: lines(
                    tx,
                    "SELECT format('row %d of `%s` points to nothing in `%s`', \"rowid\", \"table\", \"parent\")
                     FROM pragma_foreign_key_check",
                )?,
                schema: schema::missing(tx)?,
                records: Vec::new(),
                money: lines(tx, MONEY)?,
            };
            if let Some(layout) = &layout {
                report.records = unmatched_records(tx, layout)?;
            }
            Ok(report)
        })
    }

    /// Copies the database, as it is now, to a new file that appears under its name whole or not at all. Blocks.
    ///
    /// # Errors
    ///
    /// [`StoreError::File`] if `target` exists or cannot be written.
    pub fn backup(&self, target: &Path) -> Result<(), StoreError> {
        connection::copy_to(self.path(), target)
    }

    /// Gives space that is free inside the file back to the file system. Blocks; other processes wait meanwhile.
    ///
    /// # Errors
    ///
    /// [`StoreError::Locked`] where another process works on the database, [`StoreError::Full`] where there is no
    /// room for the copy that this needs.
    pub fn vacuum(&self) -> Result<(), StoreError> {
        if self.inner.writer.is_none() {
            return Err(StoreError::ReadOnly { path: self.path().to_path_buf() });
        }
        connection::vacuum(self.path())
    }
}

/// Sessions and judges whose cost, or the known part of it, differs in the ledger or from that of their calls, and runs whose
/// kept sums differ from the sum of their entries.
const MONEY: &str = "SELECT format('%s/%s/a%d, session %d', s.run_name, s.cell_id, s.attempt, s.session)
 FROM sessions AS s LEFT JOIN ledger AS l ON l.run_name = s.run_name AND l.cell_id = s.cell_id
 AND l.attempt = s.attempt AND l.kind = 'spend' AND (l.reference = format('s%d', s.session)
      OR l.reference = format('s%d, open', s.session) OR l.reference LIKE format('s%d reparsed%%', s.session))
  WHERE s.cost_micros IS NOT NULL OR NOT EXISTS (SELECT 1 FROM ledger AS h WHERE h.run_name = s.run_name
    AND h.cell_id = s.cell_id AND h.attempt = s.attempt AND h.reference LIKE 'settled by hand%')
  GROUP BY s.run_name, s.cell_id, s.attempt, s.session
  HAVING count(l.id) = 0 OR iif(s.cost_micros IS NULL AND count(l.amount_micros) < count(l.id), 0,
    iif(count(l.id) = count(l.amount_micros), sum(l.amount_micros), NULL)
      IS NOT coalesce(s.cost_micros, nullif(json_extract(s.record_json, '$.cost_at_least'), 0)))
 UNION ALL
 SELECT format('the sums of run %s', run_name) FROM (
   SELECT run_name, total(iif(kind = 'spend', amount_micros, 0)) AS total,
     total(iif(kind = 'spend', billable_micros, 0)) AS billable,
     total(iif(kind = 'spend', 0, billable_micros)) AS reserved, sum(amount_micros IS NULL) AS unknown
   FROM ledger GROUP BY run_name) AS entries
 LEFT JOIN ledger_sums AS kept USING (run_name)
 WHERE kept.total_micros IS NOT entries.total OR kept.billable_micros IS NOT entries.billable
   OR kept.reserved_micros IS NOT entries.reserved OR kept.unknown IS NOT entries.unknown
 UNION ALL
 SELECT format('the calls of %s/%s/a%d, session %d', s.run_name, s.cell_id, s.attempt, s.session)
 FROM sessions AS s JOIN captured_calls AS c USING (run_name, cell_id, attempt, session)
 WHERE c.booked_as = format('s%d', s.session) AND json_extract(s.record_json, '$.usage_source') = 'gateway'
 GROUP BY s.run_name, s.cell_id, s.attempt, s.session
 HAVING s.cost_micros IS NOT iif(count(*) = count(c.cost_micros), sum(c.cost_micros), NULL)
 UNION ALL
 SELECT format('the judge of %s/%s/a%d', c.run_name, c.cell_id, c.attempt)
 FROM captured_calls AS c LEFT JOIN ledger AS l ON l.run_name = c.run_name AND l.cell_id = c.cell_id
   AND l.attempt = c.attempt AND l.kind = 'spend' AND l.reference = c.booked_as
 WHERE c.trace = 'judge' AND c.booked_as LIKE 'judge%'
 GROUP BY c.run_name, c.cell_id, c.attempt, c.booked_as
 HAVING max(l.amount_micros) IS NOT sum(coalesce(c.cost_micros, 0))";

fn lines(tx: &Connection, sql: &str) -> Result<Vec<String>, Fault> {
    let mut statement = tx.prepare(sql)?;
    let found = statement.query_map([], |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn unmatched_records(tx: &Connection, layout: &Layout) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    for path in record_files(&layout.runs())? {
        match read_record(&path) {
            Ok(record) if attempts::has_record(tx, &record.attempt)? => {}
            Ok(record) => found.push(format!("{} is on disk, not in the database", record.attempt)),
            Err(error) => found.push(error.to_string()),
        }
    }
    Ok(found)
}
