-- A database of schema 4 with a row in every table, as SQLite writes it out. Kept for tests of later migrations.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
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
INSERT INTO attempts VALUES('nightly','a__r1',1,'key','/scratch/nightly-a__r1-1-29b13be0f7af',1,2,'boot','host',NULL,'2027-01-15T08:00:01.000000000Z','2027-01-15T08:00:20.000000000Z','completed','pass','success',NULL,1,0,19000,10,10,'{"schema":1,"refrain_version":"0.1.0","attempt":{"run":"nightly","cell":"a__r1","number":1},"cell_key":"key","inputs":{"harness":"scripted","harness_version":"1.0","model":"model-a","review_model":null,"task":"fix","track":"swe","orchestrator":"one-shot","orchestrator_hash":"hash","params":{},"repeat":1,"runtime":"local","image":null},"terminal":"completed","exit_class":"pass","error_class":"success","failure":null,"solved":true,"started_at":"2027-01-15T08:00:01Z","finished_at":"2027-01-15T08:00:20Z","duration_ms":19000,"workspace":{"base_commit":null,"base_fingerprint":null,"final_fingerprint":null,"files_changed":null,"lines_added":null,"lines_removed":null,"notes":[]},"sessions":[{"index":1,"phase":"implement","label":"try 1","harness":"scripted","model":"model-a","end":{"kind":"completed"},"exit_code":0,"signal":null,"text":"done","usage":{"input":100,"output":20,"cache_read":0,"cache_write":0,"reasoning":5},"cost":10,"reported_cost":null,"turns":3,"tool_calls":7,"harness_session":null,"started_at":"2027-01-15T08:00:02Z","duration":{"secs":1,"nanos":500000000},"longest_silence":null,"warnings":[]}],"usage":{"input":100,"output":20,"cache_read":0,"cache_write":0,"reasoning":5},"cost":10,"billable_cost":10,"verdict":null,"note":null,"script_log":[],"transitions":[{"from":"pending","to":"preparing","at":"2027-01-15T08:00:01Z"},{"from":"preparing","to":"validating","at":"2027-01-15T08:00:02Z"},{"from":"validating","to":"configuring_runtime","at":"2027-01-15T08:00:03Z"},{"from":"configuring_runtime","to":"creating_workspace","at":"2027-01-15T08:00:04Z"},{"from":"creating_workspace","to":"starting_agent","at":"2027-01-15T08:00:05Z"},{"from":"starting_agent","to":"executing","at":"2027-01-15T08:00:06Z"},{"from":"executing","to":"collecting","at":"2027-01-15T08:00:07Z"},{"from":"collecting","to":"evaluating","at":"2027-01-15T08:00:08Z"},{"from":"evaluating","to":"finalizing","at":"2027-01-15T08:00:09Z"},{"from":"finalizing","to":{"ended":"completed"},"at":"2027-01-15T08:00:10Z"}],"warnings":[]}');
INSERT INTO attempts VALUES('nightly','b__r1',1,'key','/scratch/nightly-b__r1-1-876ae4e7424d',1,2,'boot','host',NULL,'2027-01-15T08:00:01.000000000Z','2027-01-15T08:00:20.000000000Z','infrastructure_error','retryable_kill','retry_exhausted','the runtime failed: daemon gone',NULL,0,19000,10,10,'{"schema":1,"refrain_version":"0.1.0","attempt":{"run":"nightly","cell":"b__r1","number":1},"cell_key":"key","inputs":{"harness":"scripted","harness_version":"1.0","model":"model-a","review_model":null,"task":"fix","track":"swe","orchestrator":"one-shot","orchestrator_hash":"hash","params":{},"repeat":1,"runtime":"local","image":null},"terminal":"infrastructure_error","exit_class":"retryable_kill","error_class":"retry_exhausted","failure":{"kind":"runtime","message":"daemon gone"},"solved":null,"started_at":"2027-01-15T08:00:01Z","finished_at":"2027-01-15T08:00:20Z","duration_ms":19000,"workspace":{"base_commit":null,"base_fingerprint":null,"final_fingerprint":null,"files_changed":null,"lines_added":null,"lines_removed":null,"notes":[]},"sessions":[{"index":1,"phase":"implement","label":"try 1","harness":"scripted","model":"model-a","end":{"kind":"completed"},"exit_code":0,"signal":null,"text":"done","usage":{"input":100,"output":20,"cache_read":0,"cache_write":0,"reasoning":5},"cost":10,"reported_cost":null,"turns":3,"tool_calls":7,"harness_session":null,"started_at":"2027-01-15T08:00:02Z","duration":{"secs":1,"nanos":500000000},"longest_silence":null,"warnings":[]}],"usage":{"input":100,"output":20,"cache_read":0,"cache_write":0,"reasoning":5},"cost":10,"billable_cost":10,"verdict":null,"note":null,"script_log":[],"transitions":[{"from":"pending","to":"preparing","at":"2027-01-15T08:00:01Z"},{"from":"preparing","to":"validating","at":"2027-01-15T08:00:02Z"},{"from":"validating","to":"configuring_runtime","at":"2027-01-15T08:00:03Z"},{"from":"configuring_runtime","to":"creating_workspace","at":"2027-01-15T08:00:04Z"},{"from":"creating_workspace","to":"starting_agent","at":"2027-01-15T08:00:05Z"},{"from":"starting_agent","to":"executing","at":"2027-01-15T08:00:06Z"},{"from":"executing","to":"collecting","at":"2027-01-15T08:00:07Z"},{"from":"collecting","to":"evaluating","at":"2027-01-15T08:00:08Z"},{"from":"evaluating","to":"finalizing","at":"2027-01-15T08:00:09Z"},{"from":"finalizing","to":{"ended":"infrastructure_error"},"at":"2027-01-15T08:00:10Z"}],"warnings":[]}');
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
INSERT INTO events VALUES('nightly',1,0,'2027-01-15T08:00:00.000000000Z','warning','{"schema":1,"seq":0,"at":"2027-01-15T08:00:00Z","run":"nightly","event":"warning","message":"w"}');
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
INSERT INTO journal VALUES('nightly','a__r1',1,0,'remaining','h','2027-01-15T08:00:03.000000000Z','{"answer":"unit"}');
INSERT INTO journal VALUES('nightly','b__r1',1,0,'remaining','h','2027-01-15T08:00:03.000000000Z','{"answer":"unit"}');
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
INSERT INTO ledger VALUES(1,'nightly','a__r1',1,'reserve','cell',50,50,'2027-01-15T08:00:00.000000000Z',NULL);
INSERT INTO ledger VALUES(2,'nightly','a__r1',1,'spend','s1',10,10,'2027-01-15T08:00:03.500000000Z',NULL);
INSERT INTO ledger VALUES(3,'nightly','a__r1',1,'release','s1',-10,-10,'2027-01-15T08:00:03.500000000Z',NULL);
INSERT INTO ledger VALUES(4,'nightly','a__r1',1,'release','ended',-40,-40,'2027-01-15T08:00:20.000000000Z',NULL);
INSERT INTO ledger VALUES(5,'nightly','b__r1',1,'reserve','cell',50,50,'2027-01-15T08:00:00.000000000Z',NULL);
INSERT INTO ledger VALUES(6,'nightly','b__r1',1,'spend','s1',10,10,'2027-01-15T08:00:03.500000000Z',NULL);
INSERT INTO ledger VALUES(7,'nightly','b__r1',1,'release','s1',-10,-10,'2027-01-15T08:00:03.500000000Z',NULL);
INSERT INTO ledger VALUES(8,'nightly','b__r1',1,'release','ended',-40,-40,'2027-01-15T08:00:20.000000000Z',NULL);
CREATE TABLE ledger_sums (
    run_name        TEXT    NOT NULL PRIMARY KEY,
    total_micros    INTEGER NOT NULL,
    billable_micros INTEGER NOT NULL,
    reserved_micros INTEGER NOT NULL,
    unknown         INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO ledger_sums VALUES('nightly',20,20,0,0);
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
INSERT INTO phase_results VALUES('nightly','a__r1',1,'implement',0,'model-a','completed',1,100,20,0,0,5,1.0000000000000000817e-05,10,1500);
INSERT INTO phase_results VALUES('nightly','b__r1',1,'implement',0,'model-a','completed',1,100,20,0,0,5,1.0000000000000000817e-05,10,1500);
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
INSERT INTO run_metadata VALUES('nightly',1,'digest','0.1.0',2,5000000,'{"pid":1,"started":2,"boot_id":"boot","host_id":"host"}','2027-01-15T08:00:00.000000000Z','2027-01-15T08:00:30.000000000Z',0,'{"debian:12":"sha256:1"}','{"name":"nightly","repeats":1}');
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
INSERT INTO run_results VALUES('nightly','a__r1',1,'scripted','model-a',NULL,'fix','swe',1,'one-shot','completed','pass',1,'success',NULL,NULL,100,20,0,0,5,1.0000000000000000817e-05,10,10,NULL,NULL,19000,1,3,7,'2027-01-15T08:00:20.000000000Z',0,NULL,'{"harness_version":"1.0","image":null,"runtime":"local","orchestrator_hash":"hash","params":{},"cell_key":"key","refrain_version":"0.1.0","workspace":{"base_commit":null,"base_fingerprint":null,"final_fingerprint":null,"files_changed":null,"lines_added":null,"lines_removed":null,"notes":[]},"warnings":[]}',NULL,NULL,NULL,NULL,X'2b6c696e650a');
INSERT INTO run_results VALUES('nightly','b__r1',1,'scripted','model-a',NULL,'fix','swe',1,'one-shot','infrastructure_error','retryable_kill',NULL,'retry_exhausted',NULL,NULL,100,20,0,0,5,1.0000000000000000817e-05,10,10,NULL,NULL,19000,1,3,7,'2027-01-15T08:00:20.000000000Z',0,NULL,'{"harness_version":"1.0","image":null,"runtime":"local","orchestrator_hash":"hash","params":{},"cell_key":"key","refrain_version":"0.1.0","workspace":{"base_commit":null,"base_fingerprint":null,"final_fingerprint":null,"files_changed":null,"lines_added":null,"lines_removed":null,"notes":[]},"warnings":[]}','the runtime failed: daemon gone',NULL,NULL,NULL,X'2b6c696e650a');
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
INSERT INTO run_state VALUES('nightly','a__r1','key','completed',1,'pass','success',1,NULL,'2027-01-15T08:00:20.000000000Z');
INSERT INTO run_state VALUES('nightly','b__r1','key','infrastructure_error',1,'retryable_kill','retry_exhausted',NULL,NULL,'2027-01-15T08:00:20.000000000Z');
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
INSERT INTO sessions VALUES('nightly','a__r1',1,1,'implement','try 1','scripted','model-a','completed',0,100,20,0,0,5,10,10,NULL,3,7,'2027-01-15T08:00:02.000000000Z',1500,'{"index":1,"phase":"implement","label":"try 1","harness":"scripted","model":"model-a","end":{"kind":"completed"},"exit_code":0,"signal":null,"text":"done","usage":{"input":100,"output":20,"cache_read":0,"cache_write":0,"reasoning":5},"cost":10,"reported_cost":null,"turns":3,"tool_calls":7,"harness_session":null,"started_at":"2027-01-15T08:00:02Z","duration":{"secs":1,"nanos":500000000},"longest_silence":null,"warnings":[]}');
INSERT INTO sessions VALUES('nightly','b__r1',1,1,'implement','try 1','scripted','model-a','completed',0,100,20,0,0,5,10,10,NULL,3,7,'2027-01-15T08:00:02.000000000Z',1500,'{"index":1,"phase":"implement","label":"try 1","harness":"scripted","model":"model-a","end":{"kind":"completed"},"exit_code":0,"signal":null,"text":"done","usage":{"input":100,"output":20,"cache_read":0,"cache_write":0,"reasoning":5},"cost":10,"reported_cost":null,"turns":3,"tool_calls":7,"harness_session":null,"started_at":"2027-01-15T08:00:02Z","duration":{"secs":1,"nanos":500000000},"longest_silence":null,"warnings":[]}');
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
INSERT INTO transitions VALUES('nightly','a__r1',1,0,'pending','preparing','2027-01-15T08:00:01.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','a__r1',1,1,'preparing','validating','2027-01-15T08:00:02.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','a__r1',1,2,'validating','configuring_runtime','2027-01-15T08:00:03.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','a__r1',1,3,'configuring_runtime','creating_workspace','2027-01-15T08:00:04.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','a__r1',1,4,'creating_workspace','starting_agent','2027-01-15T08:00:05.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','a__r1',1,5,'starting_agent','executing','2027-01-15T08:00:06.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','a__r1',1,6,'executing','collecting','2027-01-15T08:00:07.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','a__r1',1,7,'collecting','evaluating','2027-01-15T08:00:08.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','a__r1',1,8,'evaluating','finalizing','2027-01-15T08:00:09.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','a__r1',1,9,'finalizing','completed','2027-01-15T08:00:10.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','b__r1',1,0,'pending','preparing','2027-01-15T08:00:01.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','b__r1',1,1,'preparing','validating','2027-01-15T08:00:02.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','b__r1',1,2,'validating','configuring_runtime','2027-01-15T08:00:03.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','b__r1',1,3,'configuring_runtime','creating_workspace','2027-01-15T08:00:04.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','b__r1',1,4,'creating_workspace','starting_agent','2027-01-15T08:00:05.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','b__r1',1,5,'starting_agent','executing','2027-01-15T08:00:06.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','b__r1',1,6,'executing','collecting','2027-01-15T08:00:07.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','b__r1',1,7,'collecting','evaluating','2027-01-15T08:00:08.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','b__r1',1,8,'evaluating','finalizing','2027-01-15T08:00:09.000000000Z',NULL);
INSERT INTO transitions VALUES('nightly','b__r1',1,9,'finalizing','infrastructure_error','2027-01-15T08:00:10.000000000Z',NULL);
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
INSERT INTO hosts VALUES('nightly',1,'{"pid":4711,"started":1,"boot_id":"boot","host_id":"elsewhere"}','2027-01-15T08:01:00.000000000Z',NULL,'drain','2027-01-15T08:00:30.000000000Z');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('ledger',8);
CREATE UNIQUE INDEX attempts_under_way ON attempts (run_name, cell_id) WHERE ended_at IS NULL;
CREATE INDEX attempts_without_record ON attempts (run_name) WHERE record_json IS NULL;
CREATE UNIQUE INDEX ledger_once ON ledger (run_name, cell_id, attempt, kind, reference);
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
CREATE INDEX ledger_unknown ON ledger (run_name) WHERE amount_micros IS NULL;
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
INSERT INTO captured_calls VALUES('x1','nightly','a__r1',1,1,1,'0011223344556677',NULL,'implementation','agent','anthropic','anthropic_messages','m','m-1',200,'complete',10,2,3,4,0,125,0,'2027-01-15T08:00:02.000000000Z',1500,20000,300,400,'s1',NULL);
CREATE TABLE captured_bodies (
    id      TEXT    NOT NULL PRIMARY KEY REFERENCES captured_calls (id),
    cut     INTEGER NOT NULL CHECK (cut IN (0, 1)),
    request BLOB    NOT NULL,
    answer  BLOB    NOT NULL
);
INSERT INTO captured_bodies VALUES('x1',0,X'789C030000000001',X'789C030000000001');
CREATE INDEX captured_calls_of ON captured_calls (run_name, cell_id, attempt, session);
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
INSERT INTO reparsed_sessions VALUES('nightly','a__r1',1,1,1,'2027-01-15T09:00:00.000000000Z','0.1.0','scripted','0011','1.0, runs','{"index":1,"phase":"implement","label":"try 1","harness":"scripted","model":"model-a","end":{"kind":"completed"},"exit_code":0,"signal":null,"text":"done","usage":{"input":100,"output":20,"cache_read":0,"cache_write":0,"reasoning":5},"cost":10,"reported_cost":null,"turns":3,"tool_calls":7,"harness_session":null,"started_at":"2027-01-15T08:00:02Z","duration":{"secs":1,"nanos":500000000},"longest_silence":null,"warnings":[]}','{"index":1,"phase":"implement","label":"try 1","harness":"scripted","model":"model-a","end":{"kind":"completed"},"exit_code":0,"signal":null,"text":"done","usage":{"input":100,"output":20,"cache_read":0,"cache_write":0,"reasoning":5},"cost":10,"reported_cost":null,"turns":3,"tool_calls":7,"harness_session":null,"started_at":"2027-01-15T08:00:02Z","duration":{"secs":1,"nanos":500000000},"longest_silence":null,"warnings":[]}');
CREATE TRIGGER reparsed_changed BEFORE UPDATE ON reparsed_sessions BEGIN
    SELECT raise(ABORT, 'what a session was before is never changed');
END;
CREATE TRIGGER reparsed_removed BEFORE DELETE ON reparsed_sessions BEGIN
    SELECT raise(ABORT, 'what a session was before is never removed');
END;
PRAGMA application_id = 1380340302;
PRAGMA user_version = 4;
COMMIT;
