//! The `refrain` program: one command a file, nothing but the public API beneath.
//!
//! Data goes to standard output, everything else to standard error. Errors say what happened, then why, then a hint.

#[cfg(feature = "gateway")]
mod calibrate;
#[cfg(feature = "gateway")]
mod canary;
mod cancel;
mod check;
mod completions;
mod doctor;
mod doctor_canary;
mod dollars;
mod exit;
mod export;
#[cfg(feature = "gateway")]
mod gateway;
mod init;
mod judged;
mod list;
mod new;
mod output;
mod prepare;
#[cfg(feature = "gateway")]
mod providers;
#[cfg(feature = "docker")]
mod relay;
mod reparse;
mod replay;
mod results;
mod resume;
mod run;
mod schema;
mod scripted;
mod settle;
mod show;
mod single;
mod started;
mod status;
mod store;
mod sweep;
mod test;
mod test_report;
mod trajectory;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use output::Color;

/// Evaluates coding agents: harness × model × task × orchestrator × repeat, with strategies as small Lua scripts.
#[derive(Debug, Parser)]
#[command(name = "refrain", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Start here:\n  refrain init                    write a starter run file\n  \
                        refrain run runs/starter.yaml   run it\n  refrain results                 what came of it")]
struct Cli {
    /// When to use colour.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, hide_possible_values = true)]
    color: Color,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Args>),
    Prepare(prepare::Args),
    Resume(resume::Args),
    Status(status::Args),
    Cancel(cancel::Args),
    Results(results::Args),
    Show(show::Args),
    #[cfg(feature = "gateway")]
    Calibrate(calibrate::Args),
    Export(export::Args),
    Replay(replay::Args),
    Reparse(reparse::Args),
    List(list::Args),
    New(new::Args),
    Check(check::Args),
    Test(test::Args),
    Init(init::Args),
    Schema(schema::Args),
    Sweep(sweep::Args),
    #[command(subcommand)]
    Store(store::Command),
    #[cfg(feature = "gateway")]
    Gateway(gateway::Args),
    #[cfg(feature = "gateway")]
    Canary(canary::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    #[command(name = "scripted-agent", hide = true)]
    Scripted(scripted::Args),
    #[cfg(feature = "docker")]
    #[command(hide = true)]
    Relay(relay::Args),
}

/// What a command says when it cannot do its work.
#[derive(Debug)]
struct Failed {
    code: u8,
    error: anyhow::Error,
    hint: Option<String>,
    /// The message is whole: no `error:` before it.
    rendered: bool,
}

type Outcome = Result<u8, Failed>;

impl Failed {
    fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { code: exit::USAGE, error: error.into(), hint: None, rendered: false }
    }

    fn rendered(text: String) -> Self {
        Self { code: exit::USAGE, error: anyhow::anyhow!(text), hint: None, rendered: true }
    }

    fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<crate::config::ConfigError> for Failed {
    fn from(error: crate::config::ConfigError) -> Self {
        Self::rendered(error.render(true))
    }
}

impl From<crate::store::StoreError> for Failed {
    fn from(error: crate::store::StoreError) -> Self {
        let hint = error.hints().into_iter().next();
        Self { code: exit::STORE, error: error.into(), hint, rendered: false }
    }
}

impl From<crate::host::Error> for Failed {
    fn from(error: crate::host::Error) -> Self {
        use crate::host::ErrorKind;
        let code = match error.kind() {
            ErrorKind::Runtime => exit::RUNTIME,
            ErrorKind::Store => exit::STORE,
            ErrorKind::Cancelled => exit::INTERRUPTED,
            _ => exit::USAGE,
        };
        Self { code, hint: error.hint().map(str::to_owned), error: error.into(), rendered: false }
    }
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Self::usage(error)
    }
}

/// Runs the program and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output and are no error.
            let code = if error.use_stderr() { exit::USAGE } else { exit::OK };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    cli.color.apply();
    output::start_logging();
    match dispatch(cli.command) {
        Ok(code) => ExitCode::from(code),
        // Whoever reads our output has seen enough: `refrain results | head` is no error.
        Err(failed) if is_broken_pipe(&failed.error) => ExitCode::from(exit::OK),
        Err(failed) => {
            output::failure(&failed);
            ExitCode::from(failed.code)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}

fn dispatch(command: Command) -> Outcome {
    match command {
        Command::Run(args) => run::main(*args),
        Command::Prepare(args) => prepare::main(&args),
        Command::Resume(args) => resume::main(&args),
        Command::Status(args) => status::main(&args),
        Command::Cancel(args) => cancel::main(&args),
        Command::Results(args) => results::main(&args),
        Command::Show(args) => show::main(&args),
        #[cfg(feature = "gateway")]
        Command::Calibrate(args) => calibrate::main(&args),
        Command::Export(args) => export::main(&args),
        Command::Replay(args) => replay::main(&args),
        Command::Reparse(args) => reparse::main(&args),
        Command::List(args) => list::main(&args),
        Command::New(args) => new::main(&args),
        Command::Check(args) => check::main(&args),
        Command::Test(args) => test::main(&args),
        Command::Init(args) => init::main(&args),
        Command::Schema(args) => schema::main(&args),
        Command::Sweep(args) => sweep::main(&args),
        Command::Store(command) => store::main(&command),
        #[cfg(feature = "gateway")]
        Command::Gateway(args) => gateway::main(&args),
        #[cfg(feature = "gateway")]
        Command::Canary(args) => canary::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Completions(args) => completions::main(&args),
        Command::Scripted(args) => scripted::main(&args),
        #[cfg(feature = "docker")]
        Command::Relay(args) => relay::main(args),
    }
}
