-- Schema 4: sessions whose logs were read once more, by later adapters.

-- One row for each time that this changed a session's record. Append-only: what stood there before stays.
CREATE TABLE reparsed_sessions (
    run_name        TEXT    NOT NULL,
    cell_id         TEXT    NOT NULL,
    attempt         INTEGER NOT NULL,
    session         INTEGER NOT NULL,
    seq             INTEGER NOT NULL CHECK (seq >= 1),
    at              TEXT    NOT NULL,
    refrain_version TEXT    NOT NULL,
    -- The harness as the run declares it, and a digest of its manifest and adapter.
    harness         TEXT    NOT NULL,
    adapter         TEXT    NOT NULL,
    -- The version of the real program that the manifest was tried with.
    verified        TEXT,
    former_json     TEXT    NOT NULL CHECK (json_valid(former_json)),
    record_json     TEXT    NOT NULL CHECK (json_valid(record_json)),
    PRIMARY KEY (run_name, cell_id, attempt, session, seq),
    FOREIGN KEY (run_name, cell_id, attempt, session) REFERENCES sessions (run_name, cell_id, attempt, session)
) WITHOUT ROWID;
CREATE TRIGGER reparsed_changed BEFORE UPDATE ON reparsed_sessions BEGIN
    SELECT raise(ABORT, 'what a session was before is never changed');
END;
CREATE TRIGGER reparsed_removed BEFORE DELETE ON reparsed_sessions BEGIN
    SELECT raise(ABORT, 'what a session was before is never removed');
END;
