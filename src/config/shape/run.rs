//! The run file.

use super::{Kind, Section, optional, required};
use crate::config::judge::JudgeInterface;
use crate::domain::{Network, Pull};

/// `runs/*.yaml`.
pub(crate) const RUN: Section = Section {
    name: "run file",
    fields: &[
        optional("version", Kind::Whole { min: 1, max: 1 }, "Version of this format."),
        required("name", Kind::Name, "Name of the run; results are kept under it."),
        optional("description", Kind::Text, "For people."),
        required("harnesses", Kind::List { of: &Kind::Section(&HARNESS), empty: false }, "The coding agents to run."),
        required("models", Kind::List { of: &Kind::Section(&MODEL), empty: false }, "The models to run them with."),
        optional(
            "orchestrators",
            Kind::List { of: &Kind::Either(&Kind::Line, &Kind::Section(&ORCHESTRATOR)), empty: false },
            "The scripts that drive the sessions; `one-shot`, the default, stands for `phases` where a task has phases.",
        ),
        required(
            "tasks",
            Kind::Either(&Kind::Line, &Kind::List { of: &Kind::Line, empty: false }),
            "Ids of tasks, or `*` for the whole library.",
        ),
        optional(
            "task_library_path",
            Kind::Path,
            "Folder of the task library; by default `tasks` beside the run files' folder.",
        ),
        optional("repeats", Kind::Whole { min: 1, max: 10_000 }, "How often each coordinate is run (5)."),
        optional("budget_usd", Kind::Money, "The most the run may cost; 0 is a real cap, left out is none."),
        optional("allow_unpriced", Kind::Bool, "Whether a capped run may use models without a price (false)."),
        optional(
            "prices",
            Kind::Either(&Kind::Path, &Kind::List { of: &Kind::Path, empty: false }),
            "Price files that go before the prices that come with Refrain, the last one first.",
        ),
        optional("parallel_runs", Kind::Whole { min: 1, max: 1024 }, "How many cells run at a time (1)."),
        optional("docker_image", Kind::Line, "Image of the environments."),
        optional("runtime", Kind::Name, "Where cells run: `docker` (default), `local`."),
        optional("limits", Kind::Section(&LIMITS), "Limits of attempts and sessions."),
        optional("network", Kind::Choice(Network::NAMES), "Network of the environments (`bridge`)."),
        optional("container", Kind::Section(&CONTAINER), "What environments that are containers may use."),
        optional("retry", Kind::Section(&RETRY), "How infrastructure faults are retried."),
        optional("max_runtime_seconds", Kind::Duration, "Bound of every attempt, over the tasks' own."),
        optional("gateway", Kind::Section(&GATEWAY), "The meter between harnesses and providers."),
        optional(
            "providers",
            Kind::Map(&Kind::Section(&PROVIDER)),
            "Providers by their names, beside `anthropic`, `openai`, `gemini` (or `google`) and `openrouter`.",
        ),
        optional("judge", Kind::Section(&JUDGE), "What scores the work on `open_ended` tasks that have a rubric."),
        optional("gateway_host", Kind::Line, "The same as `gateway.host`."),
        optional("gateway_port", Kind::Whole { min: 0, max: 65_535 }, "The same as `gateway.port`."),
        optional("gateway_db", Kind::Path, "Database of `refrain gateway`; a run's traffic is with its results."),
        optional("results_db", Kind::Path, "The results database (`refrain.db`)."),
        optional("workdir", Kind::Path, "Folder for everything else a run leaves (`.refrain`)."),
    ],
};

/// `gateway`.
pub(crate) const GATEWAY: Section = Section {
    name: "gateway",
    fields: &[
        optional(
            "mode",
            Kind::Choice(&["auto", "on", "off"]),
            "Whether sessions go through it: those that can (`auto`), all or it is an error (`on`), none (`off`).",
        ),
        optional("host", Kind::Line, "The address it listens at; by default what the runtime's environments reach."),
        optional("port", Kind::Whole { min: 0, max: 65_535 }, "The port it listens at (a free one)."),
        optional(
            "record",
            Kind::Choice(&["meta", "bodies"]),
            "What is kept of each exchange: figures (`meta`), or what was said too (`bodies`).",
        ),
        optional(
            "cassette",
            Kind::Choice(&["off", "record", "replay"]),
            "A tape of the traffic: `record` writes it, `replay` answers from it in place of the providers (`off`).",
        ),
        optional("cassette_file", Kind::Path, "The tape."),
        optional(
            "matching",
            Kind::Choice(&["exact", "shape"]),
            "Which answer of the tape a request gets: that of an equal one (`exact`), else of one built alike (`shape`).",
        ),
    ],
};

/// `judge`.
pub(crate) const JUDGE: Section = Section {
    name: "judge",
    fields: &[
        required("model", Kind::Line, "The provider's id of the judge's model."),
        required("provider", Kind::Line, "The provider."),
        optional("api_key_env", Kind::Variable, "Name of the environment variable that holds the key; never the key."),
        optional("base_url", Kind::Line, "Where the provider is for the judge, over its own address."),
        optional(
            "interface",
            Kind::Choice(JudgeInterface::NAMES),
            "How it is asked (by the provider; `openai_chat` where that is not a known one).",
        ),
        optional("cost_mode", Kind::Choice(&["platform", "subscription"]), "Who pays (`platform`: by token)."),
        optional("samples", Kind::Whole { min: 1, max: 99 }, "How many answers the score is the median of (1)."),
        optional("retries", Kind::Whole { min: 0, max: 20 }, "Further tries at an answer that could not be used (2)."),
        optional("timeout", Kind::Duration, "Bound of one request (5m)."),
        optional("max_cost", Kind::Money, "Most dollars for the judgement of one attempt."),
        optional("max_tokens", Kind::Whole { min: 64, max: 1_000_000 }, "Most tokens of an answer (8192)."),
        optional(
            "evidence_bytes",
            Kind::Whole { min: 1024, max: 10_000_000 },
            "Most bytes that it is shown of the diff, and of each chosen file (60000).",
        ),
        optional(
            "min_agreement",
            Kind::Positive { max: 1.0 },
            "Refuse to start unless `refrain calibrate` found at least this agreement for the judge and each rubric.",
        ),
    ],
};

/// `providers.NAME`.
pub(crate) const PROVIDER: Section = Section {
    name: "provider",
    fields: &[
        optional("base_url", Kind::Line, "Where it is, as its documentation says."),
        optional("concurrency", Kind::Whole { min: 1, max: 100_000 }, "Most requests under way at a time; no limit."),
        optional(
            "requests_per_minute",
            Kind::Whole { min: 1, max: 10_000_000 },
            "Most requests begun within a minute; no limit.",
        ),
        optional("api_key_env", Kind::Variable, "Variable with the key of models that name none themselves."),
        optional(
            "proxy",
            Kind::Line,
            "The proxy on the way to it, or `off`; by default what `HTTPS_PROXY` and `NO_PROXY` say.",
        ),
    ],
};

/// `container`.
pub(crate) const CONTAINER: Section = Section {
    name: "container",
    fields: &[
        optional("pull", Kind::Choice(Pull::NAMES), "When the image is pulled (`missing`)."),
        optional("memory_mb", Kind::Whole { min: 16, max: 1 << 30 }, "Most MiB of memory, swap included; no limit."),
        optional("cpus", Kind::Positive { max: 4096.0 }, "Most CPUs; no limit."),
        optional("pids", Kind::Whole { min: 16, max: 4_194_304 }, "Most processes and threads (4096)."),
        optional(
            "disk_mb",
            Kind::Whole { min: 64, max: 1 << 40 },
            "Most MiB written, where the daemon's storage can tell; no limit.",
        ),
        optional("read_only", Kind::Bool, "Whether the image's own files are read-only (true)."),
    ],
};

/// `harnesses[]`.
pub(crate) const HARNESS: Section = Section {
    name: "harness",
    fields: &[
        required("name", Kind::Name, "Name of the harness in this run."),
        optional(
            "adapter",
            Kind::Line,
            "A built-in harness, or the path of a folder with a `harness.toml` (its name).",
        ),
        optional("version", Kind::Line, "Version of the agent."),
        optional("docker_image", Kind::Line, "Image of its cells, over the run's."),
        optional(
            "observability_tier",
            Kind::Choice(&["full", "partial", "minimal"]),
            "How much of it can be observed (`full`).",
        ),
        optional("config", Kind::Map(&Kind::Any), "Settings that its manifest declares."),
    ],
};

/// `models[]`.
pub(crate) const MODEL: Section = Section {
    name: "model",
    fields: &[
        required("name", Kind::Line, "The provider's id of the model."),
        optional("provider", Kind::Line, "The provider."),
        optional("api_key_env", Kind::Variable, "Name of the environment variable that holds the key; never the key."),
        optional(
            "role",
            Kind::Choice(&["implementation", "review"]),
            "What it is for in tasks with phases (`implementation`).",
        ),
        optional("cost_mode", Kind::Choice(&["platform", "subscription"]), "Who pays (`platform`: by token)."),
        optional("auth_mode", Kind::Choice(&["api_key", "subscription"]), "How the harness authenticates (`api_key`)."),
        optional("credentials_path", Kind::Path, "Where a subscription's credential files are."),
        optional("config", Kind::Map(&Kind::Any), "Free settings for the harness's templates."),
    ],
};

/// `orchestrators[]` in its long form.
pub(crate) const ORCHESTRATOR: Section = Section {
    name: "orchestrator",
    fields: &[
        optional("slug", Kind::Line, "A built-in orchestrator, or one on the search path."),
        optional("dir", Kind::Path, "Or: the folder of one, relative to this file."),
        optional("as", Kind::Name, "Label in cell ids (the slug)."),
        optional("params", Kind::Map(&Kind::Any), "Parameters that its manifest declares."),
    ],
};

/// `limits`.
pub(crate) const LIMITS: Section = Section {
    name: "limits",
    fields: &[
        optional("cell_cost", Kind::Money, "Most dollars for a cell."),
        optional("session_cost", Kind::Money, "Most dollars for a session."),
        optional("sessions", Kind::Whole { min: 1, max: 10_000 }, "Most sessions of an attempt (100)."),
        optional("idle_timeout", Kind::Duration, "No output and no CPU for this long ends a session (30m)."),
        optional("setup_timeout", Kind::Duration, "Bound of setup scripts (10m)."),
        optional("evaluation_timeout", Kind::Duration, "Bound of test commands (10m)."),
        optional(
            "output_bytes",
            Kind::Whole { min: 1024, max: 1 << 40 },
            "Most bytes of output of a session (64 MiB).",
        ),
    ],
};

/// `retry`.
pub(crate) const RETRY: Section = Section {
    name: "retry",
    fields: &[
        optional(
            "infrastructure",
            Kind::Whole { min: 0, max: 100 },
            "Further attempts after an infrastructure fault (3).",
        ),
        optional("on_timeout", Kind::Bool, "Whether timeouts are retried too (false)."),
    ],
};
