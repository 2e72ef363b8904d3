//! `refrain canary`: the smallest questions to each provider, and what the meter counts of them against what the provider
//! itself says.

mod ask;
mod question;
mod told;

use std::net::SocketAddr;

use serde::Serialize;

use self::question::{Api, Question};
use super::providers::{self, Choice};
use super::run::eprint_line;
use super::{Failed, Outcome, exit, output};
use crate::config::RunPlan;
use crate::domain::{Micros, Trace, Usage};
use crate::host::StandaloneGateway;
use crate::report::text;

/// Check the meter's numbers against the providers' own, by the smallest questions
///
/// Through a gateway of its own it asks by each interface of a provider, streaming and not, compares the tokens that the
/// meter counts with those in the provider's answer, and the input with what the provider's counter says where it has one.
/// That costs a few tokens each. (`refrain doctor --canary` is something else: it looks for keys that leak.)
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  refrain canary\n  refrain canary --provider anthropic --model claude-haiku-4-5\n  \
                        refrain canary --provider lab=http://127.0.0.1:8000/v1 --model my-model --json\n\n\
                        Exit codes: 0 all numbers agree, 1 some differ or a provider gave none, 2 usage or configuration, \
                        4 store"
)]
pub(super) struct Args {
    #[command(flatten)]
    choice: providers::Args,
    /// The model to ask for; by default that of the run file, or a small one of a known provider
    #[arg(long)]
    model: Option<String>,
    /// An interface to ask by; may be given several times. By default those of a known provider, and `chat` for others
    #[arg(long, value_enum)]
    api: Vec<Api>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// What is to be asked, and how it is shown.
#[derive(Debug, Default)]
pub(super) struct Wish {
    pub(super) model: Option<String>,
    pub(super) apis: Vec<Api>,
    pub(super) json: bool,
}

/// What came of one question.
#[derive(Debug, Serialize)]
struct Finding {
    provider: String,
    api: Api,
    stream: bool,
    model_asked: String,
    model_served: Option<String>,
    /// What the meter counted.
    counted: Usage,
    /// What the provider's answer says.
    told: Usage,
    /// The input by the provider's counter, where it has one.
    counter_input: Option<u64>,
    cost_micros: Option<Micros>,
    differences: Vec<String>,
    /// Why nothing was compared.
    error: Option<String>,
}

impl Finding {
    fn agrees(&self) -> bool {
        self.error.is_none() && self.differences.is_empty()
    }
}

pub(super) fn main(args: &Args) -> Outcome {
    let choice = args.choice.choose(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    run(choice, &Wish { model: args.model.clone(), apis: args.api.clone(), json: args.json })
}

/// Asks all that is to be asked; the exit code says whether all numbers agree.
pub(super) fn run(choice: Choice, wish: &Wish) -> Outcome {
    let Choice { plan, names, options } = choice;
    let runtime = super::run::async_runtime()?;
    let findings = runtime.block_on(async {
        let mut gateway = StandaloneGateway::start(options).await?;
        let mut findings = Vec::new();
        for provider in &names {
            let apis = if wish.apis.is_empty() { Api::usual(provider) } else { wish.apis.as_slice() };
            for (api, stream) in apis.iter().flat_map(|api| [(*api, false), (*api, true)]) {
                let model = model(provider, api, wish, plan.as_ref());
                findings.push(find(&mut gateway, provider, Question { api, stream, model }).await?);
            }
        }
        gateway.close().await;
        Ok::<_, Failed>(findings)
    })?;
    let agree = findings.iter().all(Finding::agrees);
    if wish.json {
        output::write_json(&serde_json::json!({"schema": 1, "agree": agree, "findings": findings}))?;
    } else {
        show(&findings)?;
    }
    Ok(if agree { exit::OK } else { exit::DIFFERS })
}

/// Which model is asked for; empty where nothing says.
fn model(provider: &str, api: Api, wish: &Wish, plan: Option<&RunPlan>) -> String {
    let of_plan = || plan?.models.iter().find(|model| model.provider == provider).map(|model| model.name.clone());
    let known = || question::small_model(provider, api).map(str::to_owned);
    wish.model.clone().or_else(of_plan).or_else(known).unwrap_or_default()
}

/// Asks one question, through a door of its own: what that has counted is of this question alone.
async fn find(gateway: &mut StandaloneGateway, provider: &str, question: Question) -> Result<Finding, Failed> {
    let address = gateway.address();
    let door = gateway.open(provider, Trace::Check)?;
    let asked = if question.model.is_empty() {
        Err(anyhow::anyhow!("which model? name it by --model"))
    } else {
        ask::post(address, door, &question.path(), &question.body()).await
    };
    let told = asked.and_then(|answer| told::read(question.api, &answer));
    // Before anything else is asked.
    let (_, counted, cost_micros) = door.spent();
    let mut finding = Finding {
        provider: provider.to_owned(),
        api: question.api,
        stream: question.stream,
        model_asked: question.model.clone(),
        model_served: None,
        counted,
        told: Usage::UNKNOWN,
        counter_input: None,
        cost_micros,
        differences: Vec::new(),
        error: None,
    };
    match told {
        Ok(told) => {
            finding.differences = differences(&counted, &told.usage);
            (finding.told, finding.model_served) = (told.usage, told.model);
        }
        Err(error) => finding.error = Some(crate::redact::printable(&format!("{error:#}"))),
    }
    if let (Some((path, body)), None) = (question.counter(), &finding.error) {
        let answer = ask::post(address, door, &path, &body).await;
        match answer.and_then(|answer| told::counter(&answer)) {
            Ok(count) => {
                finding.counter_input = Some(count);
                finding.differences.extend(counter_difference(count, &finding.told));
            }
            Err(error) => finding.error = Some(crate::redact::printable(&format!("its counter: {error:#}"))),
        }
    }
    Ok(finding)
}

/// Compares class by class what the provider tells; what it does not tell is compared with nothing.
fn differences(counted: &Usage, told: &Usage) -> Vec<String> {
    let classes = [
        ("input", counted.input, told.input),
        ("output", counted.output, told.output),
        ("cache read", counted.cache_read, told.cache_read),
        ("cache write", counted.cache_write, told.cache_write),
        ("reasoning", counted.reasoning, told.reasoning),
    ];
    classes
        .into_iter()
        .filter(|(_, counted, told)| told.is_some() && counted != told)
        .map(|(name, counted, told)| format!("{name}: counted {}, told {}", tokens(counted), tokens(told)))
        .collect()
}

fn counter_difference(count: u64, told: &Usage) -> Option<String> {
    let parts = [told.input, told.cache_read, told.cache_write];
    let input = parts.into_iter().try_fold(0, |sum, part| Some(sum + part?))?;
    (count != input).then(|| format!("input: the answer tells {input}, the provider's counter {count}"))
}

fn show(findings: &[Finding]) -> Result<(), Failed> {
    let rows = findings.iter().map(|finding| {
        let Finding { provider, api, stream, counted, .. } = finding;
        let model = finding.model_served.as_ref().unwrap_or(&finding.model_asked);
        let result = match &finding.error {
            Some(error) => format!("NOT CHECKED: {error}"),
            None if finding.differences.is_empty() => "agrees".to_owned(),
            None => format!("DIFFERS: {}", finding.differences.join("; ")),
        };
        [
            provider.clone(),
            format!("{}{}", api.name(), if *stream { ", stream" } else { "" }),
            model.clone(),
            tokens(counted.input),
            tokens(counted.cache_read),
            tokens(counted.cache_write),
            tokens(counted.output),
            finding.counter_input.map_or_else(|| "-".to_owned(), |count| count.to_string()),
            finding.cost_micros.map_or_else(|| "unknown".to_owned(), |cost| text::cost(Some(cost))),
            result,
        ]
    });
    let head = ["provider", "interface", "model", "in", "cached", "written", "out", "counter", "cost", "result"];
    output::write(&output::table(head, rows))?;
    let (agree, all) = (findings.iter().filter(|finding| finding.agrees()).count(), findings.len());
    let known: Micros = findings.iter().filter_map(|finding| finding.cost_micros).sum();
    let is_whole = findings.iter().all(|finding| finding.cost_micros.is_some());
    output::write(&format!("\n{agree} of {all} agree; cost: {}\n", text::at_least(known, is_whole)))?;
    if agree < all {
        eprint_line("the calls are kept under the run `gateway`; see docs/guide/gateway.md");
    }
    Ok(())
}

fn tokens(count: Option<u64>) -> String {
    count.map_or_else(|| "?".to_owned(), |count| count.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64) -> Usage {
        Usage { input: Some(input), output: Some(output), ..Usage::ZERO }
    }

    #[test]
    fn what_is_told_is_compared_and_what_is_not_is_left_alone() {
        let told = Usage { reasoning: None, ..usage(14, 5) };
        assert_eq!(differences(&usage(14, 5), &told), Vec::<String>::new());
        assert_eq!(differences(&usage(14, 4), &told), ["output: counted 4, told 5"]);
        assert_eq!(
            differences(&Usage::UNKNOWN, &Usage { input: Some(1), ..Usage::UNKNOWN }),
            ["input: counted ?, told 1"]
        );
    }

    #[test]
    fn a_counter_counts_all_of_the_input() {
        let told = Usage { cache_read: Some(10), ..usage(14, 5) };
        assert_eq!(counter_difference(24, &told), None);
        let differs = counter_difference(14, &told).expect("a difference");
        assert_eq!(differs, "input: the answer tells 24, the provider's counter 14");
    }
}
