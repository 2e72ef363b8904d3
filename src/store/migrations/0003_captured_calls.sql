-- Schema 3: what the gateway saw, request by request.

-- One row for each request to a provider, written before it is sent and completed when it ends. Sums over a session's
-- rows are what it used and cost.
CREATE TABLE captured_calls (
    id                 TEXT    NOT NULL PRIMARY KEY,
    run_name           TEXT    NOT NULL,
    -- NULL outside a run's cells, as for `refrain gateway`.
    cell_id            TEXT,
    attempt            INTEGER NOT NULL CHECK (attempt >= 0),
    session            INTEGER NOT NULL CHECK (session >= 0),
    number             INTEGER NOT NULL CHECK (number >= 0),
    -- The process whose gateway it was.
    host               TEXT    NOT NULL,
    phase              TEXT,
    role               TEXT    CHECK (role IN ('implementation', 'review')),
    trace              TEXT    NOT NULL CHECK (trace IN ('agent', 'judge', 'calibration', 'check')),
    provider           TEXT    NOT NULL,
    api                TEXT    NOT NULL,
    model_asked        TEXT,
    model_served       TEXT,
    status             INTEGER,
    -- NULL while it is under way.
    outcome            TEXT    CHECK (outcome IN ('complete', 'client_gone', 'upstream_cut', 'upstream_stalled',
                           'unreachable', 'refused', 'lost')),
    input_tokens       INTEGER CHECK (input_tokens >= 0),
    output_tokens      INTEGER CHECK (output_tokens >= 0),
    cache_read_tokens  INTEGER CHECK (cache_read_tokens >= 0),
    cache_write_tokens INTEGER CHECK (cache_write_tokens >= 0),
    reasoning_tokens   INTEGER CHECK (reasoning_tokens >= 0),
    cost_micros        INTEGER,
    retry              INTEGER NOT NULL CHECK (retry >= 0),
    started_at         TEXT    NOT NULL,
    first_byte_us      INTEGER CHECK (first_byte_us >= 0),
    duration_us        INTEGER CHECK (duration_us >= 0),
    request_bytes      INTEGER CHECK (request_bytes >= 0),
    answer_bytes       INTEGER CHECK (answer_bytes >= 0),
    -- The entry of the ledger that its cost is part of: `s1`, `s1 cut off 1`; NULL until its session is booked.
    booked_as          TEXT,
    message            TEXT,
    FOREIGN KEY (run_name, cell_id, attempt) REFERENCES attempts (run_name, cell_id, attempt)
) WITHOUT ROWID;
CREATE INDEX captured_calls_of ON captured_calls (run_name, cell_id, attempt, session);

-- What was asked and answered, where a run keeps it: redacted, cut to size, compressed by zlib.
CREATE TABLE captured_bodies (
    id      TEXT    NOT NULL PRIMARY KEY REFERENCES captured_calls (id),
    cut     INTEGER NOT NULL CHECK (cut IN (0, 1)),
    request BLOB    NOT NULL,
    answer  BLOB    NOT NULL
);
