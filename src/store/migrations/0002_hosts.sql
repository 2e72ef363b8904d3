-- Schema 2: who carries out a run right now, until when it is believed, and what it was asked to do.

-- One row for each start of a run, written with it. Its process renews the lease while it works; a lease that has run
-- out may be declared lost, and from then on that process can neither claim a cell nor decide one.
CREATE TABLE hosts (
    run_name         TEXT    NOT NULL,
    start            INTEGER NOT NULL CHECK (start >= 1),
    owner            TEXT    NOT NULL CHECK (json_valid(owner)),
    lease_expires_at TEXT    NOT NULL,
    lost_at          TEXT,
    -- How far somebody asked it to stop; only ever raised.
    cancel           TEXT    CHECK (cancel IN ('drain', 'stop', 'kill')),
    cancel_at        TEXT,
    PRIMARY KEY (run_name, start),
    FOREIGN KEY (run_name, start) REFERENCES run_metadata (run_name, start),
    CHECK ((cancel IS NULL) = (cancel_at IS NULL))
) WITHOUT ROWID;

-- Spends whose amount nobody knows: few, and asked for with every balance.
CREATE INDEX ledger_unknown ON ledger (run_name) WHERE amount_micros IS NULL;
