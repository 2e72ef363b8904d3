//! The cases: a bad input each, and the message it must bring about.

use std::fs;
use std::path::Path;

/// The run file that each case changes.
pub(crate) const RUN: &str = r#"name: nightly
harnesses:
  - name: agent
    adapter: command
    config: {command: "true"}
models: [{name: gpt}]
tasks: [fix]
"#;

/// The task library that each case changes.
pub(crate) const TASKS: &str = r"tasks:
  - id: fix
    task_prompt: Fix it.
    test_command: make test
";

const MANIFEST: &str = "slug = \"mine\"\napi = 1\n";

const HARNESS: &str = "name = \"mine\"\n[run]\nargv = [\"agent\", \"{prompt}\"]\n";

/// Cases that belong together.
pub(crate) struct Group {
    pub(crate) title: &'static str,
    pub(crate) cases: Vec<Case>,
}

/// A bad input.
pub(crate) struct Case {
    /// What the author did, for the reference.
    pub(crate) cause: String,
    pub(crate) files: Vec<(&'static str, String)>,
    pub(crate) flags: Vec<(&'static str, &'static str)>,
    pub(crate) path: &'static str,
    pub(crate) prepare: Option<fn(&Path)>,
    /// How the one message begins.
    pub(crate) message: &'static str,
}

fn case(cause: impl Into<String>, message: &'static str) -> Case {
    let cause = cause.into();
    Case { cause, files: Vec::new(), flags: Vec::new(), path: "runs/run.yaml", prepare: None, message }
}

impl Case {
    fn file(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.files.push((name, text.into()));
        self
    }

    fn flag(mut self, flag: &'static str, value: &'static str) -> Self {
        self.flags.push((flag, value));
        self
    }

    fn path(mut self, path: &'static str) -> Self {
        self.path = path;
        self
    }

    fn prepare(mut self, prepare: fn(&Path)) -> Self {
        self.prepare = Some(prepare);
        self
    }
}

/// A run file as it is given.
pub(crate) fn run_text(text: &str) -> Case {
    case("", "").file("runs/run.yaml", text)
}

/// A run file with problems of every kind, and a library with more.
pub(crate) fn many_problems() -> Case {
    let run = format!("{}naem: 1\nrepeats: 0\n", RUN.replace("name: nightly", "name: a b"));
    case("", "")
        .file("runs/run.yaml", run)
        .file("tasks/fix.yaml", "tasks:\n  - idd: fix\n")
        .file("tasks/more.yaml", "- x\n")
}

/// The run file with a line in place of the one of that key, or behind it.
fn run(line: &str, message: &'static str) -> Case {
    let key = line.split(':').next().unwrap();
    let mut text = String::new();
    let mut replaced = false;
    for known in RUN.lines() {
        let same = known.starts_with(&format!("{key}:"));
        replaced |= same && key != "harnesses";
        text.push_str(if same && key != "harnesses" { line } else { known });
        text.push('\n');
    }
    if key == "harnesses" {
        text = format!("name: nightly\n{line}\nmodels: [{{name: gpt}}]\ntasks: [fix]\n");
    } else if !replaced {
        text.push_str(line);
        text.push('\n');
    }
    case(format!("`{line}`"), message).file("runs/run.yaml", text)
}

/// A run whose harness can be pointed at the gateway, with this model.
fn pointable(model: &str, mode: &str) -> String {
    format!(
        "name: nightly\nharnesses: [{{name: claude-code}}]\nmodels: [{model}]\ntasks: [fix]\ngateway: {{mode: \"{mode}\"}}\n"
    )
}

/// The task with further lines.
fn task(lines: &str, message: &'static str) -> Case {
    let shown = lines.replace('\n', "` `");
    let indented: Vec<String> = lines.lines().map(|line| format!("    {line}")).collect();
    case(format!("`{shown}` in a task"), message).file("tasks/fix.yaml", format!("{TASKS}{}\n", indented.join("\n")))
}

/// An orchestrator of one's own with this text behind its manifest.
fn orchestrator(lines: &str, message: &'static str) -> Case {
    let shown = lines.trim().replace('\n', "` `");
    case(format!("`{shown}` in `orchestrator.toml`"), message)
        .file("runs/run.yaml", format!("{RUN}orchestrators: [{{dir: ../mine}}]\n"))
        .file("mine/orchestrator.toml", format!("{MANIFEST}{lines}"))
        .file("mine/runner.lua", "return {}")
}

/// A run that gives parameters to an orchestrator that declares some.
fn params(given: &str, message: &'static str) -> Case {
    let declared = "[params]\nrounds = 3\nname = \"x\"\n[params.share]\ntype = \"number\"\ndefault = 0.5\nmin = 0\nmax = 1\n[params.style]\ndefault = \"short\"\nchoices = [\"short\", \"long\"]\n";
    case(format!("`params: {given}`"), message)
        .file("runs/run.yaml", format!("{RUN}orchestrators:\n  - dir: ../mine\n    params: {given}\n"))
        .file("mine/orchestrator.toml", format!("{MANIFEST}{declared}"))
        .file("mine/runner.lua", "return {}")
}

/// A harness of one's own with this manifest.
fn harness(cause: &str, manifest: &str, message: &'static str) -> Case {
    case(format!("{cause} in `harness.toml`"), message)
        .file(
            "runs/run.yaml",
            "name: nightly\nharnesses: [{name: agent, adapter: ../agent}]\nmodels: [{name: gpt}]\ntasks: [fix]\n",
        )
        .file("agent/harness.toml", manifest)
}

/// All cases.
pub(crate) fn all() -> Vec<Group> {
    vec![
        Group { title: "Files", cases: files() },
        Group { title: "YAML", cases: yaml() },
        Group { title: "Values", cases: values() },
        Group { title: "Run files", cases: runs() },
        Group { title: "Tasks", cases: tasks() },
        Group { title: "The matrix", cases: matrix() },
        Group { title: "Orchestrators and their parameters", cases: orchestrators() },
        Group { title: "Harnesses", cases: harnesses() },
        Group { title: "Flags", cases: flags() },
        Group { title: "Warnings", cases: warnings() },
    ]
}

fn files() -> Vec<Case> {
    vec![
        case("a run file that is not there", "`runs/runn.yaml` does not exist").path("runs/runn.yaml"),
        case("a folder that is not there", "`rnus/run.yaml` does not exist").path("rnus/run.yaml"),
        case("a folder in place of a file", "`runs` is a directory, not a file").path("runs"),
        case("a device in place of a file", "`runs/run.yaml` is not a regular file").prepare(|dir| {
            let path = dir.join("runs/run.yaml");
            fs::remove_file(&path).unwrap();
            drop(std::os::unix::net::UnixListener::bind(path).unwrap());
        }),
        case("a file of 50 MB", "`runs/run.yaml` is larger than 4 MB").prepare(|dir| {
            fs::File::create(dir.join("runs/run.yaml")).unwrap().set_len(50 * 1024 * 1024).unwrap();
        }),
        case("bytes that are not UTF-8", "`runs/run.yaml` is not UTF-8: line 2, byte offset 10").prepare(|dir| {
            fs::write(dir.join("runs/run.yaml"), b"name: x\n# \xa0\xff\n").unwrap();
        }),
        case("an empty file", "`runs/run.yaml` is empty").file("runs/run.yaml", ""),
        case("a file with remarks only", "`runs/run.yaml` is empty").file("runs/run.yaml", "# nothing\n"),
    ]
}

fn yaml() -> Vec<Case> {
    let bomb: Vec<String> =
        (1..9).map(|n| format!("b{n}: &b{n} [{}]", vec![format!("*b{}", n - 1); 9].join(", "))).collect();
    vec![
        case("a key that is written twice", "key `docker_image` is written twice")
            .file("runs/run.yaml", format!("{RUN}docker_image: a\nrepeats: 2\ndocker_image: b\n")),
        case("two documents in a file", "a second document begins here")
            .file("runs/run.yaml", format!("{RUN}---\nname: x\n")),
        case("a tab as indentation", "a tab cannot indent YAML")
            .file("runs/run.yaml", format!("{RUN}limits:\n\tsessions: 3\n")),
        case("`description: a: b`", "this is not YAML: mapping values are not allowed in this context")
            .file("runs/run.yaml", format!("{RUN}description: a: b\n")),
        case("a bracket that is not closed", "this is not YAML: ").file("runs/run.yaml", "name: x\ntasks: [a, b\n"),
        case("an alias bomb", "aliases expand to more than 10000 values")
            .file("runs/run.yaml", format!("b0: &b0 [x, x, x, x, x, x, x, x, x]\n{}\n", bomb.join("\n"))),
        case("an alias inside its own anchor", "an alias refers to a value that contains it")
            .file("runs/run.yaml", "tasks: &a [*a]\n"),
        case("70 brackets", "values are nested deeper than 64 levels")
            .file("runs/run.yaml", format!("tasks: {}{}\n", "[".repeat(70), "]".repeat(70))),
        case("a list as a key", "a key must be text, not a collection").file("runs/run.yaml", "[a, b]: x\n"),
        case("`<<: text`", "`<<` takes a mapping, not text").file("runs/run.yaml", "<<: text\n"),
        case("a tag of one's own", "the tag `!secret` has no meaning here").file("runs/run.yaml", "name: !secret x\n"),
        case("a list in place of the whole", "the run file must be a mapping, not a list")
            .file("runs/run.yaml", "- name\n"),
    ]
}

fn values() -> Vec<Case> {
    vec![
        run("name: no", "`name` is text, but some readers take `no` for a boolean"),
        run("name: 007", "`name` is text, but `007` without quotes is a whole number"),
        run("name: 1e3", "`name` is text, but `1e3` without quotes is a number"),
        run("name: 0o17", "`name` is text, but `0o17` without quotes is a whole number"),
        run("name: 1.10", "`name` is text, but `1.10` without quotes is a number"),
        run("name: true", "`name` is text, but `true` without quotes is a boolean"),
        run("name: ~", "`name` is text, but `~` without quotes means nothing at all"),
        run("name: 2024-01-01", "`name` is text, but some readers take `2024-01-01` for a date"),
        run("name: 12:30:00", "`name` is text, but some readers take `12:30:00` for a number"),
        run("name: [a]", "`name` takes text, not a list"),
        run("name: \"\"", "`name` is no name: a name must not be empty"),
        run("name: nightly run", "`name` is no name: ` ` cannot stand in a name"),
        run("name: ../etc", "`name` is no name: a name starts with a letter, a digit or `_`"),
        run("name: \"a\\0b\"", "`name` holds a NUL character"),
        run("docker_image: \" \"", "`docker_image` is empty"),
        run("docker_image: \"a\\nb\"", "`docker_image` must be one line without control characters"),
        run("repeats: 0", "`repeats` must be between 1 and 10000"),
        run("repeats: 1.5", "`repeats` takes a whole number between 1 and 10000"),
        run("repeats: 1e1", "`repeats` takes a whole number"),
        run("repeats: 010", "`repeats` is a number that readers disagree about"),
        run("repeats: many", "`repeats` takes a whole number between 1 and 10000"),
        run("parallel_runs: 0", "`parallel_runs` must be between 1 and 1024"),
        run("gateway_port: 70000", "`gateway_port` must be between 0 and 65535"),
        run("gateway: { port: 70000 }", "`port` must be between 0 and 65535"),
        run("gateway: { mode: sometimes }", "`mode` must be one of `auto`, `on`, `off`"),
        run("gateway: { record: all }", "`record` must be"),
        run("gateway: { recrod: meta }", "the gateway has no key `recrod`"),
        run("gateway: { host: my-laptop }", "the gateway's host is an address of this machine, not `my-laptop`"),
        run("container: { cpus: 0 }", "`cpus` takes a number above 0, at most 4096"),
        run("container: { cpus: many }", "`cpus` takes a number above 0, at most 4096"),
        run("container: { pull: sometimes }", "`pull` must be"),
        run("container: { pids: 1 }", "`pids` must be between 16 and 4194304"),
        run("budget_usd: -1", "`budget_usd` must not be negative"),
        run("budget_usd: .nan", "`budget_usd` takes dollars: an amount of money must be a finite number"),
        run("budget_usd: .inf", "`budget_usd` takes dollars: an amount of money must be a finite number"),
        run("budget_usd: 1e30", "`budget_usd` takes dollars: the amount is too large"),
        run("budget_usd: 20 EUR", "`budget_usd` takes dollars: expected dollars such as"),
        run("budget_usd: true", "`budget_usd` takes dollars, not a boolean"),
        run("budget_usd: 010", "`budget_usd` is a number that readers disagree about"),
        run("max_runtime_seconds: 0", "`max_runtime_seconds` must be longer than zero"),
        run("max_runtime_seconds: .inf", "`max_runtime_seconds` takes a finite number of seconds"),
        run("max_runtime_seconds: soon", "`max_runtime_seconds` takes seconds, or text such as `30m`"),
        run("max_runtime_seconds: 400d", "`max_runtime_seconds` must not be longer than 366 days"),
        run("retry: {on_timeout: yes}", "`on_timeout` takes `true` or `false`"),
        run("network: gateway", "`network` must be one of `none`, `bridge`, `gateway-only`"),
        run("limits: none at all", "the limits must be a mapping, not text"),
    ]
}

fn runs() -> Vec<Case> {
    let twice = "harnesses: [{name: a, adapter: command, config: {command: x}}, {name: a, adapter: command, config: {command: z}}]";
    vec![
        case("no `models`", "the run file has no `models`")
            .file("runs/run.yaml", RUN.replace("models: [{name: gpt}]\n", "")),
        run("budget: 3", "the run file has no key `budget`"),
        run("models: [{name: gpt, rol: review}]", "the model has no key `rol`"),
        run("models: [{name: gpt, api_key: sk-live-0123456789abcdef}]", "`api_key` holds what looks like a key"),
        run(
            "models: [{name: gpt, api_key_env: sk-live-0123456789abcdef}]",
            "`api_key_env` holds what looks like a key",
        ),
        run("models: [{name: gpt, api_key_env: $KEY}]", "`api_key_env` takes the name of an environment variable"),
        run("models: [{name: gpt, config: {db_password: hunter2}}]", "`db_password` holds what looks like a key"),
        run("models: [{name: gpt, config: [a]}]", "`config` takes a mapping, not a list"),
        run("models: []", "`models` is empty"),
        run("models:", "`models` is empty"),
        run("models: gpt", "`models` takes a list, not text"),
        run("models: [{name: gpt}, {name: gpt}]", "two models are called `gpt`"),
        run(twice, "two harnesses are called `a`"),
        run("judge: {model: m}", "the judge has no `provider`"),
        run("judge: {model: m, provider: openai, sample: 3}", "the judge has no key `sample`"),
        run("judge: {model: m, provider: openai, samples: 0}", "`samples` must be between 1 and 99"),
        run("judge: {model: m, provider: mine}", "the judge's provider `mine` is not known"),
        run("providers: {mine: {concurrency: 3}}", "provider `mine` has no `base_url`"),
        run("providers: {mine: {base_url: mine.example}}", "`base_url` is no address of a provider"),
        run("providers: {mine: {base_url: https://key@mine.example}}", "`base_url` is no address of a provider"),
        run("providers: {openai: {proxy: socks5://proxy:1080}}", "`proxy` is no address of a proxy"),
        run("providers: {openai: {proxy: http://me:secret@proxy:3128}}", "`proxy` is no address of a proxy"),
        run("providers: {openai: {concurency: 3}}", "the provider has no key `concurency`"),
        run("providers: {openai: {concurrency: 0}}", "`concurrency` must be between 1 and 100000"),
        run("gateway: { cassette: replay }", "the cassette has no file"),
        run("gateway: { matching: nearly }", "`matching` must be"),
        run(
            "gateway: { mode: \"off\", cassette: record, cassette_file: t }",
            "a cassette needs the gateway, and `mode` is `off`",
        ),
        case("`gateway.port` and `gateway_port`", "`gateway.port` and `gateway_port` are both given")
            .file("runs/run.yaml", format!("{RUN}gateway: {{port: 1}}\ngateway_port: 2\n")),
        run(
            "gateway: { mode: \"on\" }",
            "the gateway is on, but harness `agent` cannot be pointed at it: nothing of it names `{base_url}`",
        ),
        case(
            "`gateway: {mode: \"on\"}`, and a model whose provider nobody knows",
            "the gateway is on, but provider `acme` is not known: add it to `providers`",
        )
        .file("runs/run.yaml", pointable("{name: gpt, provider: acme}", "on")),
        case(
            "`gateway: {mode: \"on\"}`, and a model with `auth_mode: subscription`",
            "the gateway is on, but model `gpt` is used by a subscription, which has no key to be put in",
        )
        .file("runs/run.yaml", pointable("{name: gpt, provider: openai, auth_mode: subscription}", "on")),
        case(
            "a model with a key for a provider that nobody knows",
            "sessions go past the gateway: provider `acme` is not known: add it to `providers`",
        )
        .file("runs/run.yaml", pointable("{name: gpt, provider: acme, api_key_env: KEY}", "auto")),
        run("harnesses: [{name: comand}]", "there is no harness `comand`"),
        run("harnesses: [{name: agent, adapter: ./agent}]", "`adapter` names no folder: `./agent`"),
        run("harnesses: [{name: agent, adapter: scripted}]", "harness `agent` needs the setting `play`"),
        run(
            "harnesses: [{name: agent, adapter: command, config: {command: x, comand: x}}]",
            "harness `agent` has no setting `comand`",
        ),
        run("tasks: [fixx]", "there is no task `fixx` in `tasks`"),
        run("task_library_path: ../taks", "the task library `taks` does not exist"),
        run("task_library_path: ../runs/run.yaml", "the task library `runs/run.yaml` is not a folder"),
        run("orchestrators: [refined]", "there is no orchestrator `refined`"),
        run("orchestrators: [./mine]", "there is no orchestrator `./mine`"),
        run("orchestrators: [{dir: ../mine}]", "`dir` names no folder"),
        run("orchestrators: [{as: x}]", "an orchestrator has neither `slug` nor `dir`"),
        run("orchestrators: [{slug: one-shot, dir: .}]", "an orchestrator is named twice: by `slug` and by `dir`"),
    ]
}

fn tasks() -> Vec<Case> {
    vec![
        case("an id in two files", "two tasks have the id `fix`").file("tasks/more.yaml", TASKS),
        case("`id: 007`", "`id` is text, but `007` without quotes is a whole number")
            .file("tasks/more.yaml", TASKS.replace("id: fix", "id: 007")),
        case("an empty library", "the task library `tasks` holds no task").file("tasks/fix.yaml", "tasks: []\n"),
        case("no prompt", "task `fix` has no prompt")
            .file("tasks/fix.yaml", TASKS.replace("task_prompt: Fix it.", "task_prompt:")),
        task("timeout: 5", "the task has no key `timeout`"),
        task("track: swee", "`track` must be one of `swe`, `open_ended`, `multi_phase`"),
        task("track: multi_phase", "task `fix` is `multi_phase` but has no phases"),
        task("track: multi_phase\nphases: []", "`phases` is empty"),
        task("phases: [{name: a}]", "task `fix` has phases, but its track is `swe`"),
        task("track: multi_phase\nphases: [{name: a}, {name: a}]", "two phases are called `a`"),
        task("expected_files: [../outside]", "`expected_files` must stay inside, but `../outside` leads out"),
        task("expected_files: [/etc/hosts]", "`expected_files` must stay inside, but `/etc/hosts` is absolute"),
        task(
            "expected_files: ['C:/x']",
            "`expected_files` must stay inside, but `C:/x` holds a character that not every",
        ),
        task("expected_files: [aux.txt]", "`expected_files` must stay inside, but `aux.txt` names a device on Windows"),
        task("expected_files: ['a. /b']", "`expected_files` must stay inside, but `a. /b` has a part that ends with"),
        task("expected_files: ['a\\b']", "`expected_files` must stay inside, but `a\\b` holds a `\\`"),
        task("expected_files: [a//b]", "`expected_files` must stay inside, but `a//b` holds an empty part"),
        task("expected_files: ['']", "`expected_files` must stay inside, but `` is empty"),
        task("rubric: {pass_score: 0.5}", "the rubric has no `criteria`"),
        task("rubric: {criteria: [{question: Is it?, wieght: 2}]}", "the criterion has no key `wieght`"),
        task("rubric: [{weight: 2}]", "a criterion asks nothing"),
        task("rubric: [{name: a, question: Is it?}, {name: a, question: Was it?}]", "two criteria are called `a`"),
        task(
            "rubric: [{question: Is it?, points: 5, anchors: {6: very much}}]",
            "an anchor stands at `6`, which is no number of points",
        ),
        task("fail_to_pass: [a]\npass_to_pass: [a]", "test `a` is both in `fail_to_pass` and in `pass_to_pass`"),
        task("test_patch: hidden.patch", "`test_patch` names a file that cannot be read: "),
        task("tests: hidden", "`tests` must be a folder"),
        task("tests: .\ntest_patch: |\n  a\n  b", "hidden tests are given twice"),
        task("repo_url: repos/none", "`repo_url` names no folder: `repos/none`"),
        task("repo_commit: abc", "`repo_commit` without `repo_url`"),
        task("workspace: /testbed", "`workspace` names no folder of an image: `/testbed`"),
        task("workspace: image:/a/../b", "`workspace` names no folder of an image: `image:/a/../b`"),
        task("workspace: image:/refrain/home", "`workspace` may not be in `/refrain` of the image"),
        task("workspace: image:/testbed\nrepo_url: .", "`repo_url` beside `workspace`"),
        case(
            "`workspace: image:/testbed` in a task, `runtime: local` in the run",
            "task `fix` works in a folder of an image, and `runtime: local` has no images",
        )
        .file("runs/run.yaml", format!("{RUN}runtime: local\n"))
        .file("tasks/fix.yaml", format!("{TASKS}    workspace: image:/testbed\n")),
    ]
}

fn matrix() -> Vec<Case> {
    let phases = "track: multi_phase\nphases: [{name: a}, {name: b, model_role: review}]";
    let single = TASKS.replace("id: fix", "id: fix\n    multi_session: false");
    let mine = format!("{RUN}orchestrators: [{{dir: ../mine}}]\n");
    let met = "harnesses:\n  - {name: agent__x, adapter: command, config: {command: make}}\n";
    let two = "orchestrators: [one-shot, {slug: one-shot}]";
    let tasks: Vec<String> =
        (0..200).map(|n| format!("  - {{id: t{n}, task_prompt: x, test_command: make}}")).collect();
    vec![
        task(phases, "task `fix` needs a model with the role `review`"),
        case("`multi_session: false` under another orchestrator", "task `fix` does not allow orchestrator `mine`")
            .file("runs/run.yaml", mine)
            .file("tasks/fix.yaml", single)
            .file("mine/orchestrator.toml", MANIFEST)
            .file("mine/runner.lua", "return {}"),
        run(two, "two orchestrators are called `one-shot`"),
        case("names with `__` that meet", "two cells have the id `agent__x__y__fix__r1`").file(
            "runs/run.yaml",
            RUN.replace("{name: gpt}", "{name: x__y}, {name: \"y\"}").replace("harnesses:\n", met),
        ),
        case("two million cells", "the run has 2000000 cells, more than 1000000")
            .file("runs/run.yaml", format!("{}repeats: 10000\n", RUN.replace("[fix]", "['*']")))
            .file("tasks/fix.yaml", format!("tasks:\n{}\n", tasks.join("\n"))),
    ]
}

fn orchestrators() -> Vec<Case> {
    vec![
        orchestrator("slog = \"x\"\n", "the orchestrator manifest has no key `slog`"),
        orchestrator("name = \n", "this is not TOML: "),
        orchestrator("name = 5\n", "`name` is text, but `5` without quotes is a whole number"),
        orchestrator("name = 2024-01-01\n", "a date has no meaning here"),
        orchestrator("[params]\na = 99999999999999999999\n", "the number is too large"),
        orchestrator("runner = \"main.lua\"\n", "the runner `main.lua` does not exist"),
        orchestrator("runner = \"../main.lua\"\n", "`runner` must stay inside, but `../main.lua` leads out"),
        orchestrator("[params]\nmax-rounds = 3\n", "`max-rounds` cannot name a parameter"),
        orchestrator("[params]\na = nan\n", "parameter `a` takes a finite number"),
        orchestrator("[params.a]\nhelp = \"x\"\n", "parameter `a` has neither a type nor a default"),
        orchestrator(
            "[params.a]\ntype = \"float\"\n",
            "`type` must be one of `boolean`, `integer`, `number`, `string`, `list`",
        ),
        orchestrator(
            "[params.a]\ntype = \"integer\"\ndefault = \"x\"\n",
            "parameter `a` takes an integer, not a string",
        ),
        orchestrator("[params.a]\ndefault = 9\nmax = 5\n", "parameter `a` must be at most 5"),
        orchestrator("[params.a]\ntype = \"integer\"\nmin = 9\nmax = 5\n", "parameter `a`: `max` is less than `min`"),
        orchestrator("[params.a]\ntype = \"integer\"\nmin = \"x\"\n", "`min` takes a finite number"),
        orchestrator("[params.a]\ntype = \"string\"\nmin = 1\n", "`min` has no meaning for a string"),
        orchestrator("[params.a]\ndefault = 1\nitems = \"integer\"\n", "`items` has no meaning for an integer"),
        orchestrator(
            "[params.a]\ntype = \"list\"\nitems = \"integer\"\ndefault = [1, \"x\"]\n",
            "parameter `a` (item 2) takes an integer, not a string",
        ),
        orchestrator("[params.a]\ntype = \"string\"\n", "orchestrator `mine` needs parameter `a`"),
        params("{round: 5}", "orchestrator `mine` rejected parameter `round`"),
        params("{rounds: many}", "parameter `rounds` takes an integer, not a string"),
        params("{rounds: {a: 1}}", "parameter `rounds` cannot hold a mapping"),
        params("{name: no}", "`name` is text, but some readers take `no` for a boolean"),
        params("{share: 2}", "parameter `share` must be at most 1"),
        params("{share: -0.5}", "parameter `share` must be at least 0"),
        params("{share: .nan}", "parameter `share` takes a finite number"),
        params("{style: medium}", "parameter `style` must be one of `short`, `long`"),
        case("an empty `orchestrator.toml`", "`mine/orchestrator.toml` is empty")
            .file("runs/run.yaml", format!("{RUN}orchestrators: [{{dir: ../mine}}]\n"))
            .file("mine/orchestrator.toml", "\n"),
        case("a folder without `orchestrator.toml`", "`mine/orchestrator.toml` does not exist")
            .file("runs/run.yaml", format!("{RUN}orchestrators: [{{dir: ../mine}}]\n"))
            .file("mine/orchestrator.tml", ""),
    ]
}

fn harnesses() -> Vec<Case> {
    let with = |lines: &str| format!("{HARNESS}{lines}");
    let deep = format!("{HARNESS}[config.a]\ntype = \"text\"\ndefault = {}1{}\n", "[".repeat(70), "]".repeat(70));
    vec![
        harness("no `[run]`", "name = \"mine\"\n", "the harness manifest has no `run`"),
        harness("`argv = []`", "name = \"mine\"\n[run]\nargv = []\n", "`argv` is empty"),
        harness("`argv = \"agent\"`", "name = \"mine\"\n[run]\nargv = \"agent\"\n", "`argv` takes a list, not text"),
        harness(
            "an `[install]` whose script is too long",
            &with(&format!("[install]\nscript = \"{}\"\n", "x".repeat(65_537))),
            "the install script has 65537 bytes; at most 65536 fit",
        ),
        harness(
            "`base_path = \"v1\"`",
            &format!("base_path = \"v1\"\n{HARNESS}"),
            "`base_path` begins with `/` and ends without one",
        ),
        harness(
            "`tolerance = 2`",
            &format!("tolerance = 2\n{HARNESS}"),
            "`tolerance` takes a number above 0, at most 1",
        ),
        harness("an empty `[install]`", &with("[install]\ntimeout = 60\n"), "`[install]` installs nothing"),
        harness(
            "`argv` without `{prompt}`",
            "name = \"mine\"\n[run]\nargv = [\"agent\"]\n",
            "the prompt never reaches the harness: `argv` has no `{prompt}`",
        ),
        harness("`[config.a]` without a type", &with("[config.a]\nhelp = \"x\"\n"), "the setting has no `type`"),
        harness(
            "a default of another type",
            &with("[config.a]\ntype = \"number\"\ndefault = \"x\"\n"),
            "`a` takes a finite number, not text",
        ),
        harness(
            "a rule without JSON lines",
            &with("[[output.rule]]\nis = \"data\"\n"),
            "rules read JSON lines, but the output is text",
        ),
        harness(
            "`is = \"mesage\"`",
            &with("[output]\nformat = \"json-lines\"\n[[output.rule]]\nis = \"mesage\"\n"),
            "`is` must be one of `data`, `message`",
        ),
        harness(
            "`exit_codes = {x = \"failed\"}`",
            &with("[output]\nformat = \"json-lines\"\nexit_codes = {x = \"failed\"}\n"),
            "`x` is no exit code",
        ),
        harness(
            "`credentials = [\"../x\"]`",
            "name = \"mine\"\ncredentials = [\"../x\"]\n[run]\nargv = [\"agent\", \"{prompt}\"]\n",
            "`../x` is no path below the home folder",
        ),
        harness(
            "rules beside an `adapter.lua`",
            &with("[output]\nformat = \"json-lines\"\n[[output.rule]]\nis = \"data\"\n"),
            "rules and an `adapter.lua` beside the manifest",
        )
        .file("agent/adapter.lua", "return {}\n"),
        harness("70 brackets", &deep, "values are nested deeper than 64 levels"),
    ]
}

fn flags() -> Vec<Case> {
    let flagged =
        |flag: &'static str, value: &'static str, message| case(format!("`{flag} {value}`"), message).flag(flag, value);
    vec![
        flagged("--set", "repeats", "`--set` takes `key=value`"),
        flagged("--set", "repeats=0", "`repeats` must be between 1 and 10000"),
        flagged("--set", "budgetusd=3", "the run file has no key `budgetusd`"),
        flagged("--set", "models.3.name=x", "`--set` names element `3` of a list of 1"),
        flagged("--set", "name.first=x", "`--set` goes into text"),
        flagged("--set", "tasks=[a", "this is not YAML: "),
        flagged("--param", "rounds", "`--param` takes `key=value`"),
        flagged("--param", "rounds=3", "no orchestrator of this run has a parameter `rounds`"),
        flagged("--param", "refine.rounds=3", "the run has no orchestrator `refine`"),
        flagged("--only", "[z", "`--only [z` is no pattern: "),
        flagged("--only", "*nothing*", "`--only *nothing*` matches none of the 5 cells"),
        flagged("--orchestrator-dir", "none", "cannot read the folder `none`: "),
    ]
}

fn warnings() -> Vec<Case> {
    vec![
        run("limits: {session_cost: 3, cell_cost: 2}", "`session_cost` is larger than `cell_cost`"),
        task("track: open_ended\nrubric: Is it clear?", "task `fix` has a rubric, but the run has no `judge`"),
        task(
            "track: multi_phase\nphases: [{name: a, timeout_seconds: 20m}]",
            "a phase may take 1200 s, but its task only 600 s",
        ),
        case("no `test_command`", "task `fix` has no `test_command`: nothing judges it")
            .file("tasks/fix.yaml", TASKS.replace("    test_command: make test\n", "")),
        task("repo_url: .\nrepo_commit: abc", "`repo_commit` is not used: `repo_url` is a plain folder"),
    ]
}
