-- Schema 1. Kept as it is for ever: later versions add files beside it.
--
-- Conventions: NULL means nobody measured it, never zero. Money is INTEGER micro-dollars in columns that end in
-- `_micros`. Times are RFC 3339 text in UTC with nine digits of a second, so that they sort as text. Names of enum
-- values are those of the domain. Long texts stand last in a row: columns behind them would be slow to read.

-- One row for each start of a run, so that an edited run file never overwrites what an earlier start was made of.
CREATE TABLE run_metadata (
    run_name        TEXT    NOT NULL,
    start           INTEGER NOT NULL CHECK (start >= 1),
    config_digest   TEXT    NOT NULL,
    refrain_version TEXT    NOT NULL,
    total_cells     INTEGER NOT NULL CHECK (total_cells >= 0),
    budget_micros   INTEGER CHECK (budget_micros >= 0),
    owner           TEXT    CHECK (owner IS NULL OR json_valid(owner)),
    started_at      TEXT    NOT NULL,
    finished_at     TEXT,
    interrupted     INTEGER CHECK (interrupted IN (0, 1)),
    image_digests   TEXT    NOT NULL CHECK (json_valid(image_digests)),
    config_json     TEXT    NOT NULL CHECK (json_valid(config_json)),
    PRIMARY KEY (run_name, start)
);

-- One row for each try at a cell, written before anything of it starts.
CREATE TABLE attempts (
    run_name           TEXT    NOT NULL,
    cell_id            TEXT    NOT NULL,
    attempt            INTEGER NOT NULL CHECK (attempt >= 1),
    cell_key           TEXT    NOT NULL,
    scratch_dir        TEXT    NOT NULL,
    owner_pid          INTEGER NOT NULL,
    owner_started      INTEGER NOT NULL,
    owner_boot_id      TEXT    NOT NULL,
    owner_host_id      TEXT    NOT NULL,
    lease_expires_at   TEXT,
    started_at         TEXT    NOT NULL,
    ended_at           TEXT,
    terminal_state     TEXT CHECK (terminal_state IN ('completed', 'failed', 'timeout', 'cancelled',
                           'infrastructure_error', 'invalid_configuration', 'evaluation_error')),
    exit_class         TEXT CHECK (exit_class IN ('pass', 'fail', 'retryable_kill', 'non_retryable_kill')),
    error_class        TEXT,
    error_message      TEXT,
    success            INTEGER CHECK (success IN (0, 1)),
    orphaned           INTEGER NOT NULL DEFAULT 0 CHECK (orphaned IN (0, 1)),
    duration_ms        INTEGER CHECK (duration_ms >= 0),
    total_cost_micros  INTEGER,
    billable_micros    INTEGER,
    record_json        TEXT CHECK (record_json IS NULL OR json_valid(record_json)),
    PRIMARY KEY (run_name, cell_id, attempt),
    CHECK ((ended_at IS NULL) = (terminal_state IS NULL))
);

-- The claim: a cell has at most one attempt under way, whichever process holds it.
CREATE UNIQUE INDEX attempts_under_way ON attempts (run_name, cell_id) WHERE ended_at IS NULL;
-- Those that a recovery looks at.
CREATE INDEX attempts_without_record ON attempts (run_name) WHERE record_json IS NULL;

-- Where each cell stands: small rows, read as a whole by resume.
CREATE TABLE run_state (
    run_name       TEXT    NOT NULL,
    cell_id        TEXT    NOT NULL,
    cell_key       TEXT    NOT NULL,
    state          TEXT    NOT NULL CHECK (state IN ('pending', 'preparing', 'validating', 'configuring_runtime',
                       'creating_workspace', 'starting_agent', 'executing', 'collecting', 'evaluating', 'finalizing',
                       'completed', 'failed', 'timeout', 'cancelled', 'infrastructure_error',
                       'invalid_configuration', 'evaluation_error', 'skipped')),
    attempt        INTEGER CHECK (attempt >= 1),
    exit_class     TEXT CHECK (exit_class IN ('pass', 'fail', 'retryable_kill', 'non_retryable_kill')),
    error_class    TEXT,
    success        INTEGER CHECK (success IN (0, 1)),
    skip_reason    TEXT,
    updated_at     TEXT    NOT NULL,
    PRIMARY KEY (run_name, cell_id),
    CHECK ((state = 'skipped') = (skip_reason IS NOT NULL))
) WITHOUT ROWID;

-- The result of each cell: that of its latest ended attempt.
CREATE TABLE run_results (
    run_name                 TEXT    NOT NULL,
    cell_id                  TEXT    NOT NULL,
    attempt                  INTEGER NOT NULL CHECK (attempt >= 1),
    harness                  TEXT    NOT NULL,
    model                    TEXT    NOT NULL,
    review_model             TEXT,
    task_id                  TEXT    NOT NULL,
    track                    TEXT    NOT NULL,
    repeat                   INTEGER NOT NULL,
    orchestrator             TEXT    NOT NULL,
    terminal_state           TEXT    NOT NULL CHECK (terminal_state IN ('completed', 'failed', 'timeout', 'cancelled',
                                 'infrastructure_error', 'invalid_configuration', 'evaluation_error')),
    exit_class               TEXT    NOT NULL CHECK (exit_class IN ('pass', 'fail', 'retryable_kill',
                                 'non_retryable_kill')),
    success                  INTEGER CHECK (success IN (0, 1)),
    error_class              TEXT    NOT NULL,
    tests_passed             INTEGER CHECK (tests_passed >= 0),
    tests_total              INTEGER CHECK (tests_total >= 0),
    input_tokens             INTEGER CHECK (input_tokens >= 0),
    output_tokens            INTEGER CHECK (output_tokens >= 0),
    cache_read_tokens        INTEGER CHECK (cache_read_tokens >= 0),
    cache_write_tokens       INTEGER CHECK (cache_write_tokens >= 0),
    reasoning_tokens         INTEGER CHECK (reasoning_tokens >= 0),
    -- Dollars for readers of other tools' databases; `total_cost_micros` is the exact figure. Both over all attempts.
    total_cost               REAL,
    total_cost_micros        INTEGER,
    billable_micros          INTEGER,
    latency_ms               INTEGER CHECK (latency_ms >= 0),
    time_to_first_attempt_ms INTEGER CHECK (time_to_first_attempt_ms >= 0),
    duration_ms              INTEGER NOT NULL CHECK (duration_ms >= 0),
    num_sessions             INTEGER NOT NULL CHECK (num_sessions >= 0),
    num_api_calls            INTEGER CHECK (num_api_calls >= 0),
    num_tool_calls           INTEGER CHECK (num_tool_calls >= 0),
    timestamp                TEXT    NOT NULL,
    retry_count              INTEGER NOT NULL CHECK (retry_count >= 0),
    cost_mode                TEXT CHECK (cost_mode IN ('platform', 'subscription')),
    harness_metadata         TEXT    NOT NULL CHECK (json_valid(harness_metadata)),
    error_message            TEXT,
    test_output              TEXT,
    harness_stdout           TEXT,
    harness_stderr           TEXT,
    diff                     BLOB,
    PRIMARY KEY (run_name, cell_id),
    FOREIGN KEY (run_name, cell_id, attempt) REFERENCES attempts (run_name, cell_id, attempt)
);

-- Sums over the sessions of each named phase of an attempt.
CREATE TABLE phase_results (
    run_name           TEXT    NOT NULL,
    cell_id            TEXT    NOT NULL,
    attempt            INTEGER NOT NULL,
    phase              TEXT    NOT NULL,
    position           INTEGER NOT NULL CHECK (position >= 0),
    model              TEXT    NOT NULL,
    status             TEXT    NOT NULL CHECK (status IN ('completed', 'failed', 'timed_out', 'limit', 'not_started')),
    sessions           INTEGER NOT NULL CHECK (sessions >= 1),
    input_tokens       INTEGER CHECK (input_tokens >= 0),
    output_tokens      INTEGER CHECK (output_tokens >= 0),
    cache_read_tokens  INTEGER CHECK (cache_read_tokens >= 0),
    cache_write_tokens INTEGER CHECK (cache_write_tokens >= 0),
    reasoning_tokens   INTEGER CHECK (reasoning_tokens >= 0),
    total_cost         REAL,
    total_cost_micros  INTEGER,
    latency_ms         INTEGER NOT NULL CHECK (latency_ms >= 0),
    PRIMARY KEY (run_name, cell_id, attempt, phase),
    FOREIGN KEY (run_name, cell_id, attempt) REFERENCES attempts (run_name, cell_id, attempt)
) WITHOUT ROWID;

-- Every session of every attempt, the failed and retried ones too.
CREATE TABLE sessions (
    run_name             TEXT    NOT NULL,
    cell_id              TEXT    NOT NULL,
    attempt              INTEGER NOT NULL,
    session              INTEGER NOT NULL CHECK (session >= 1),
    phase                TEXT,
    label                TEXT,
    harness              TEXT    NOT NULL,
    model                TEXT    NOT NULL,
    status               TEXT    NOT NULL CHECK (status IN ('completed', 'failed', 'timed_out', 'limit',
                             'not_started')),
    exit_code            INTEGER,
    input_tokens         INTEGER CHECK (input_tokens >= 0),
    output_tokens        INTEGER CHECK (output_tokens >= 0),
    cache_read_tokens    INTEGER CHECK (cache_read_tokens >= 0),
    cache_write_tokens   INTEGER CHECK (cache_write_tokens >= 0),
    reasoning_tokens     INTEGER CHECK (reasoning_tokens >= 0),
    cost_micros          INTEGER,
    billable_micros      INTEGER,
    reported_cost_micros INTEGER,
    turns                INTEGER CHECK (turns >= 0),
    tool_calls           INTEGER CHECK (tool_calls >= 0),
    started_at           TEXT    NOT NULL,
    duration_ms          INTEGER NOT NULL CHECK (duration_ms >= 0),
    record_json          TEXT    NOT NULL CHECK (json_valid(record_json)),
    PRIMARY KEY (run_name, cell_id, attempt, session),
    FOREIGN KEY (run_name, cell_id, attempt) REFERENCES attempts (run_name, cell_id, attempt)
);

-- The transition log, append-only.
CREATE TABLE transitions (
    run_name   TEXT    NOT NULL,
    cell_id    TEXT    NOT NULL,
    attempt    INTEGER NOT NULL,
    seq        INTEGER NOT NULL CHECK (seq >= 0),
    from_state TEXT    NOT NULL,
    to_state   TEXT    NOT NULL,
    at         TEXT    NOT NULL,
    reason     TEXT,
    PRIMARY KEY (run_name, cell_id, attempt, seq),
    FOREIGN KEY (run_name, cell_id, attempt) REFERENCES attempts (run_name, cell_id, attempt)
) WITHOUT ROWID;

-- Money: signed entries, never changed. A balance is a sum.
CREATE TABLE ledger (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    run_name        TEXT    NOT NULL,
    cell_id         TEXT    NOT NULL,
    attempt         INTEGER NOT NULL CHECK (attempt >= 1),
    kind            TEXT    NOT NULL CHECK (kind IN ('reserve', 'release', 'spend')),
    -- What the entry is for. With the columns before it, it makes an entry unique: nothing is booked twice.
    reference       TEXT    NOT NULL,
    amount_micros   INTEGER,
    billable_micros INTEGER,
    at              TEXT    NOT NULL,
    note            TEXT,
    CHECK (kind = 'spend' OR (amount_micros IS NOT NULL AND billable_micros IS NOT NULL)),
    CHECK (kind <> 'reserve' OR billable_micros >= 0),
    CHECK (kind <> 'release' OR billable_micros <= 0)
);
CREATE UNIQUE INDEX ledger_once ON ledger (run_name, cell_id, attempt, kind, reference);

-- The sums over each run's ledger, kept by triggers: an admission must not read every entry of a large run.
CREATE TABLE ledger_sums (
    run_name        TEXT    NOT NULL PRIMARY KEY,
    total_micros    INTEGER NOT NULL,
    billable_micros INTEGER NOT NULL,
    reserved_micros INTEGER NOT NULL,
    unknown         INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER ledger_added AFTER INSERT ON ledger BEGIN
    INSERT INTO ledger_sums (run_name, total_micros, billable_micros, reserved_micros, unknown)
    SELECT NEW.run_name, 0, 0, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM ledger_sums WHERE run_name = NEW.run_name);
    UPDATE ledger_sums SET
        total_micros = total_micros + iif(NEW.kind = 'spend', coalesce(NEW.amount_micros, 0), 0),
        billable_micros = billable_micros + iif(NEW.kind = 'spend', coalesce(NEW.billable_micros, 0), 0),
        reserved_micros = reserved_micros + iif(NEW.kind = 'spend', 0, NEW.billable_micros),
        unknown = unknown + (NEW.amount_micros IS NULL)
    WHERE run_name = NEW.run_name;
END;
-- The one change an entry may see: a spend whose amount was unknown becomes known.
CREATE TRIGGER ledger_became_known AFTER UPDATE ON ledger BEGIN
    SELECT raise(ABORT, 'a ledger entry is never changed') WHERE OLD.amount_micros IS NOT NULL;
    UPDATE ledger_sums SET
        total_micros = total_micros + coalesce(NEW.amount_micros, 0),
        billable_micros = billable_micros + coalesce(NEW.billable_micros, 0) - coalesce(OLD.billable_micros, 0),
        unknown = unknown - (NEW.amount_micros IS NOT NULL)
    WHERE run_name = NEW.run_name;
END;
CREATE TRIGGER ledger_removed BEFORE DELETE ON ledger BEGIN
    SELECT raise(ABORT, 'a ledger entry is never removed');
END;

-- What a script asked and was answered, in order.
CREATE TABLE journal (
    run_name  TEXT    NOT NULL,
    cell_id   TEXT    NOT NULL,
    attempt   INTEGER NOT NULL,
    seq       INTEGER NOT NULL CHECK (seq >= 0),
    call      TEXT    NOT NULL,
    args_hash TEXT    NOT NULL,
    at        TEXT    NOT NULL,
    -- NULL while the call is under way.
    answer    TEXT CHECK (answer IS NULL OR json_valid(answer)),
    PRIMARY KEY (run_name, cell_id, attempt, seq),
    FOREIGN KEY (run_name, cell_id, attempt) REFERENCES attempts (run_name, cell_id, attempt)
);

-- The event stream of each start of a run.
CREATE TABLE events (
    run_name   TEXT    NOT NULL,
    start      INTEGER NOT NULL,
    seq        INTEGER NOT NULL CHECK (seq >= 0),
    at         TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    event_json TEXT    NOT NULL CHECK (json_valid(event_json)),
    PRIMARY KEY (run_name, start, seq),
    FOREIGN KEY (run_name, start) REFERENCES run_metadata (run_name, start)
) WITHOUT ROWID;
