//! `refrain status`: how a run stands, read from its store while it runs.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::results::{find_run, open};
use super::{Failed, Outcome, exit, output};
use crate::clock::{Clock, SystemClock};
use crate::domain::event::RunSummary;
use crate::domain::{Micros, RunName};
use crate::report::text;
use crate::store::{HostRow, LedgerEntry, LedgerTotals, OpenAttempt, Store};

/// Show how a run stands: its hosts, what is under way, what it has cost
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain status\n  refrain status nightly --watch\n  \
                        refrain status nightly --json | jq .money")]
pub(super) struct Args {
    /// The run; by default the latest
    run: Option<String>,
    /// Keep showing it until nobody carries it out any more
    #[arg(long)]
    watch: bool,
    /// Print it as JSON; with --watch a line for each change
    #[arg(long)]
    json: bool,
    /// The results database
    #[arg(long, default_value = "refrain.db", env = "REFRAIN_DB")]
    db: PathBuf,
}

/// How often `--watch` looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Cells under way that a person is shown.
const SHOWN: usize = 20;

pub(super) fn main(args: &Args) -> Outcome {
    let store = open(&args.db)?;
    let run = find_run(&store, args.run.as_deref())?;
    let clock = SystemClock::new();
    let mut view = View::default();
    loop {
        let status = Status::read(&store, &run, clock.now())?;
        if args.json {
            view.json(&status, args.watch)?;
        } else {
            view.text(&status, args.watch)?;
        }
        if !args.watch || !status.is_running() {
            return Ok(exit::OK);
        }
        std::thread::sleep(PAUSE);
    }
}

/// How a run stands at a moment.
struct Status {
    run: RunName,
    now: Timestamp,
    hosts: Vec<HostRow>,
    attempts: Vec<OpenAttempt>,
    summary: RunSummary,
    money: LedgerTotals,
    /// What people have booked by hand.
    by_hand: Vec<LedgerEntry>,
}

impl Status {
    fn read(store: &Store, run: &RunName, now: Timestamp) -> Result<Self, Failed> {
        // The parts are moments apart; the hosts go last, so that a run which is called over has told everything.
        let attempts = store.open_attempts(run).wait()?;
        let money = store.ledger_totals(run).wait()?;
        let by_hand = store.settlements(run).wait()?;
        let summary = store.summary(run).wait()?;
        let hosts = store.hosts(run).wait()?;
        Ok(Self { run: run.clone(), now, hosts, attempts, summary, money, by_hand })
    }

    fn is_running(&self) -> bool {
        self.hosts.iter().any(|host| host.is_alive(self.now))
    }

    /// The hosts that are at work, or the one that was last.
    fn relevant_hosts(&self) -> Vec<&HostRow> {
        let alive: Vec<_> = self.hosts.iter().filter(|host| host.is_alive(self.now)).collect();
        if alive.is_empty() { self.hosts.first().into_iter().collect() } else { alive }
    }

    /// Attempts whose hosts live; the others wait for the next start.
    fn running(&self) -> impl Iterator<Item = &OpenAttempt> {
        self.attempts.iter().filter(|attempt| self.hosts.iter().any(|host| self.works_on(host, attempt)))
    }

    fn works_on(&self, host: &HostRow, attempt: &OpenAttempt) -> bool {
        host.owner.as_ref() == Some(&attempt.owner) && host.is_alive(self.now)
    }

    fn state(&self) -> &'static str {
        match self.hosts.first() {
            _ if self.is_running() => "running",
            None => "never started",
            Some(last) if last.finished_at.is_none() => "abandoned",
            Some(_) if self.summary.interrupted => "interrupted",
            Some(_) => "finished",
        }
    }

    fn waiting(&self) -> usize {
        self.summary.not_run.saturating_sub(self.running().count())
    }

    fn skipped(&self) -> usize {
        self.summary.skipped.iter().map(|(_, cells)| cells).sum()
    }

    fn since(&self, moment: Timestamp) -> String {
        text::duration(Duration::try_from(self.now.duration_since(moment)).unwrap_or_default())
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{:>12} {}: {}", "Run", self.run, self.state())];
        lines.extend(self.relevant_hosts().into_iter().map(|host| format!("{:>12} {}", "Host", self.host(host))));
        lines.push(format!(
            "{:>12} {} of {} decided or given up: {} passed, {} failed, {} errored; {} running, {} waiting, {} skipped",
            "Cells",
            self.summary.passed + self.summary.failed + self.summary.errored,
            self.summary.total,
            self.summary.passed,
            self.summary.failed,
            self.summary.errored,
            self.running().count(),
            self.waiting(),
            self.skipped(),
        ));
        lines.extend(self.summary.skipped.iter().map(|(reason, n)| format!("{:>12} {n} × {reason}", "Skipped")));
        lines.extend(self.money_lines());
        for attempt in self.running().take(SHOWN) {
            lines.push(format!(
                "{:>12} {}  attempt {}, {} for {}, {} session(s) ended, began {} ago",
                "Running",
                attempt.id.cell,
                attempt.id.number,
                attempt.state,
                self.since(attempt.since),
                attempt.sessions,
                self.since(attempt.started_at),
            ));
        }
        let hidden = self.running().count().saturating_sub(SHOWN);
        if hidden > 0 {
            lines.push(format!("{:>12} … and {hidden} more (--json lists all)", ""));
        }
        let next = match self.state() {
            "abandoned" | "interrupted" => Some("give its `refrain run` again: it goes on from here".to_owned()),
            "running" => None,
            _ => Some(format!("refrain results {}", self.run)),
        };
        lines.extend(next.map(|next| format!("{:>12} {next}", "Next")));
        lines.iter().map(|line| crate::redact::printable(line).replace('\n', " ")).collect()
    }

    fn host(&self, host: &HostRow) -> String {
        let who = host.owner.as_ref().map_or_else(
            || "unknown process".to_owned(),
            |owner| {
                let place = owner.host_id.rsplit('/').next().unwrap_or_default();
                format!("process {} on {place}", owner.pid)
            },
        );
        let began = format!("start {}, began {} ago", host.handle.start, self.since(host.started_at));
        let state = match (host.is_alive(self.now), host.finished_at, host.lost_at) {
            (true, ..) => host
                .cancel
                .map_or_else(|| "alive".to_owned(), |request| format!("alive, asked to {}", request.as_str())),
            (false, Some(at), _) => format!("ended {} ago", self.since(at)),
            (false, None, Some(at)) => format!("lost {} ago: its lease had run out", self.since(at)),
            (false, None, None) => "gone without having ended".to_owned(),
        };
        format!("{who}: {state} ({began})")
    }

    fn money_lines(&self) -> Vec<String> {
        let shown = |known| text::at_least(known, self.money.unknown == 0);
        let cap = self.summary.budget.map_or_else(|| "no".to_owned(), |cap| cap.to_string());
        let reserved = match self.money.reserved {
            Micros::ZERO => String::new(),
            reserved => format!(", {reserved} reserved by what runs"),
        };
        let mut lines = vec![format!(
            "{:>12} total {}, billable {} / {cap} budget cap{reserved}",
            "Cost",
            shown(self.money.total),
            shown(self.money.billable_spent)
        )];
        if self.money.assumed > Micros::ZERO {
            lines.push(format!(
                "{:>12} {} more counts against the cap for attempts that were cut off: what they spent is unknown",
                "Debt", self.money.assumed
            ));
        }
        lines.extend(self.by_hand.iter().map(|entry| format!("{:>12} {}", "By hand", super::settle::describe(entry))));
        lines
    }
}

/// What was shown last.
#[derive(Default)]
struct View {
    lines: Vec<String>,
    json: String,
}

impl View {
    fn json(&mut self, status: &Status, watch: bool) -> Result<(), Failed> {
        let value = JsonStatus::of(status);
        if !watch {
            return output::write_json(&value);
        }
        let line = serde_json::to_string(&value).map_err(Failed::usage)?;
        if line != self.json {
            output::write(&format!("{line}\n"))?;
            self.json = line;
        }
        Ok(())
    }

    /// On a terminal the new text takes the place of the old; elsewhere lines follow lines.
    fn text(&mut self, status: &Status, watch: bool) -> Result<(), Failed> {
        let mut lines = status.lines();
        let width = output::width().filter(|_| watch);
        if let Some(width) = width {
            // A line that wraps would make two, and the next text would not cover it.
            for line in &mut lines {
                *line = line.chars().take(width).collect();
            }
        }
        let back = match self.lines.len() {
            shown if shown > 0 && width.is_some() => format!("\x1b[{shown}A\x1b[J"),
            shown if shown > 0 => "\n".to_owned(),
            _ => String::new(),
        };
        if lines != self.lines {
            output::write(&format!("{back}{}\n", lines.join("\n")))?;
            self.lines = lines;
        }
        Ok(())
    }
}

/// The machine-readable status: a public surface, so its names are written out here.
#[derive(Serialize)]
struct JsonStatus {
    schema: u32,
    run: RunName,
    state: &'static str,
    hosts: Vec<serde_json::Value>,
    cells: serde_json::Value,
    money: serde_json::Value,
    running: Vec<serde_json::Value>,
}

impl JsonStatus {
    fn of(status: &Status) -> Self {
        let hosts = status.relevant_hosts().into_iter().map(|host| {
            serde_json::json!({
                "start": host.handle.start,
                "pid": host.owner.as_ref().map(|owner| owner.pid),
                "host": host.owner.as_ref().map(|owner| owner.host_id.clone()),
                "alive": host.is_alive(status.now),
                "started_at": host.started_at,
                "finished_at": host.finished_at,
                "lease_expires_at": host.lease_expires_at,
                "cancel": host.cancel.map(crate::store::CancelRequest::as_str),
            })
        });
        let running = status.running().map(|attempt| {
            serde_json::json!({
                "cell_id": attempt.id.cell,
                "attempt": attempt.id.number,
                "state": attempt.state.as_str(),
                "since": attempt.since,
                "started_at": attempt.started_at,
                "sessions": attempt.sessions,
                "pid": attempt.owner.pid,
            })
        });
        let (summary, money) = (&status.summary, &status.money);
        let by_hand = status.by_hand.iter().map(|entry| {
            serde_json::json!({
                "cell_id": entry.attempt.cell,
                "attempt": entry.attempt.number,
                "what": entry.reference,
                "amount_micros": entry.amount,
                "billable_micros": entry.billable,
                "at": entry.at,
                "note": entry.note,
            })
        });
        Self {
            schema: 1,
            run: status.run.clone(),
            state: status.state(),
            hosts: hosts.collect(),
            cells: serde_json::json!({
                "total": summary.total,
                "passed": summary.passed,
                "failed": summary.failed,
                "errored": summary.errored,
                "skipped": status.skipped(),
                "running": status.running().count(),
                "waiting": status.waiting(),
            }),
            money: serde_json::json!({
                "total_micros": money.total,
                "billable_micros": money.billable_spent,
                "budget_micros": summary.budget,
                "reserved_micros": money.reserved,
                "assumed_micros": money.assumed,
                "unknown_costs": money.unknown,
                "by_hand": by_hand.collect::<Vec<_>>(),
            }),
            running: running.collect(),
        }
    }
}
