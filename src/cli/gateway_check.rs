//! `refrain gateway --check`: one small request to each provider, and what the meter makes of it against what the
//! provider itself says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use super::run::eprint_line;
use super::{Outcome, exit, output};
use crate::domain::Usage;
use crate::host::{StandaloneDoor, StandaloneGateway};

/// How long a provider may take for a few tokens.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is asked.
const PROMPT: &str = "Answer with the one word: ready";

/// How a provider is asked.
struct Question {
    path: String,
    body: Value,
    /// Where it counts tokens without answering, where it does.
    count: Option<(String, Value)>,
    read: fn(&Value) -> Option<Usage>,
}

/// Asks each provider; the exit code says whether all numbers are equal.
pub(super) async fn run(gateway: &StandaloneGateway, model: Option<&str>) -> Outcome {
    let mut equal = true;
    let mut lines = String::new();
    for door in gateway.doors() {
        let found = check(gateway.listen(), door, model).await;
        let line = match found {
            Ok(None) => {
                let usage = door.spent().1;
                format!("{}: equal ({})", door.provider(), tokens(&usage))
            }
            Ok(Some(difference)) => format!("{}: DIFFERS: {difference}", door.provider()),
            Err(error) => format!("{}: not checked: {error:#}", door.provider()),
        };
        equal &= line.contains(": equal (");
        lines.push_str(&line);
        lines.push('\n');
    }
    output::write(&lines)?;
    if !equal {
        eprint_line("the calls are kept under the run `gateway`; see docs/guide/gateway.md");
    }
    Ok(if equal { exit::OK } else { exit::DIFFERS })
}

/// Asks one provider; returns the difference, if there is one.
async fn check(listen: SocketAddr, door: &StandaloneDoor, model: Option<&str>) -> anyhow::Result<Option<String>> {
    let question = question(door.provider(), model);
    let answer = ask(listen, door, &question.path, &question.body).await?;
    let told =
        (question.read)(&answer).ok_or_else(|| anyhow::anyhow!("the answer tells no tokens: {}", short(&answer)))?;
    // Before anything else is asked: the meter has counted this one request.
    let counted = door.spent().1;
    let mut differences = differences(&counted, &told);
    if let Some((path, body)) = question.count {
        let counted_before = ask(listen, door, &path, &body).await?["input_tokens"].as_u64();
        let all =
            [told.input, told.cache_read, told.cache_write].into_iter().try_fold(0, |sum, part| Some(sum + part?));
        if counted_before.is_some() && counted_before != all {
            differences.push(format!("count_tokens says {counted_before:?}, the answer {all:?}"));
        }
    }
    Ok((!differences.is_empty()).then(|| differences.join("; ")))
}

fn differences(counted: &Usage, told: &Usage) -> Vec<String> {
    let classes = [
        ("input", counted.input, told.input),
        ("output", counted.output, told.output),
        ("cache read", counted.cache_read, told.cache_read),
        ("cache write", counted.cache_write, told.cache_write),
    ];
    let show = |count: Option<u64>| count.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
    classes
        .into_iter()
        .filter(|(_, counted, told)| told.is_some() && counted != told)
        .map(|(name, counted, told)| format!("{name}: counted {}, told {}", show(counted), show(told)))
        .collect()
}

fn question(provider: &str, model: Option<&str>) -> Question {
    let messages = json!([{"role": "user", "content": PROMPT}]);
    match provider {
        "anthropic" => {
            let model = model.unwrap_or("claude-haiku-4-5");
            Question {
                path: "/v1/messages".to_owned(),
                body: json!({"model": model, "max_tokens": 16, "messages": messages}),
                count: Some(("/v1/messages/count_tokens".to_owned(), json!({"model": model, "messages": messages}))),
                read: |answer| {
                    let usage = answer.get("usage")?;
                    let count = |name: &str| usage.get(name).and_then(Value::as_u64);
                    Some(Usage {
                        input: count("input_tokens"),
                        output: count("output_tokens"),
                        cache_read: count("cache_read_input_tokens"),
                        cache_write: count("cache_creation_input_tokens"),
                        reasoning: None,
                    })
                },
            }
        }
        "gemini" | "google" => {
            let model = model.unwrap_or("gemini-2.5-flash-lite");
            Question {
                path: format!("/v1beta/models/{model}:generateContent"),
                body: json!({"contents": [{"role": "user", "parts": [{"text": PROMPT}]}]}),
                count: None,
                read: |answer| {
                    let usage = answer.get("usageMetadata")?;
                    let count = |name: &str| usage.get(name).and_then(Value::as_u64);
                    let cached = count("cachedContentTokenCount").unwrap_or(0);
                    Some(Usage {
                        input: count("promptTokenCount").map(|all| all.saturating_sub(cached)),
                        output: count("candidatesTokenCount")
                            .map(|said| said + count("thoughtsTokenCount").unwrap_or(0)),
                        cache_read: Some(cached),
                        ..Usage::UNKNOWN
                    })
                },
            }
        }
        _ => {
            let default = if provider == "openrouter" { "openai/gpt-5-mini" } else { "gpt-5-mini" };
            Question {
                path: "/v1/chat/completions".to_owned(),
                body: json!({"model": model.unwrap_or(default), "messages": messages}),
                count: None,
                read: |answer| {
                    let usage = answer.get("usage")?;
                    let count = |path: &str| usage.pointer(path).and_then(Value::as_u64);
                    let cached = count("/prompt_tokens_details/cached_tokens").unwrap_or(0);
                    let written = count("/prompt_tokens_details/cache_write_tokens").unwrap_or(0);
                    Some(Usage {
                        input: count("/prompt_tokens").map(|all| all.saturating_sub(cached + written)),
                        output: count("/completion_tokens"),
                        cache_read: Some(cached),
                        ..Usage::UNKNOWN
                    })
                },
            }
        }
    }
}

/// Asks through the gateway, as a program would: it speaks plain HTTP on this machine.
async fn ask(listen: SocketAddr, door: &StandaloneDoor, path: &str, body: &Value) -> anyhow::Result<Value> {
    let place = door.base_url().splitn(4, '/').nth(3).unwrap_or_default();
    let body = body.to_string();
    let request = format!(
        "POST /{place}{path} HTTP/1.1\r\nhost: {listen}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         anthropic-version: 2023-06-01\r\nx-api-key: {token}\r\nauthorization: Bearer {token}\r\nx-goog-api-key: {token}\r\n\
         accept-encoding: identity\r\ncontent-length: {}\r\n\r\n{body}",
        body.len(),
        token = door.token(),
    );
    tokio::task::spawn_blocking(move || exchange(listen, &request)).await?
}

fn exchange(listen: SocketAddr, request: &str) -> anyhow::Result<Value> {
    let mut stream = TcpStream::connect(listen)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut chunked = false;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        if line.trim_end().is_empty() {
            break;
        }
        chunked |= line.to_ascii_lowercase().starts_with("transfer-encoding: chunked");
    }
    let body = if chunked { chunks(&mut reader)? } else { rest(&mut reader)? };
    let answer: Value = serde_json::from_slice(&body)
        .map_err(|error| anyhow::anyhow!("status {status}, and the answer is no JSON: {error}"))?;
    anyhow::ensure!(status == "200", "status {status}: {}", short(&answer));
    Ok(answer)
}

fn rest(reader: &mut impl Read) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    reader.read_to_end(&mut body)?;
    Ok(body)
}

fn chunks(reader: &mut impl BufRead) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = u64::from_str_radix(size.trim(), 16)?;
        if size == 0 {
            return Ok(body);
        }
        reader.by_ref().take(size).read_to_end(&mut body)?;
        let mut end = String::new();
        reader.read_line(&mut end)?;
    }
}

fn short(value: &Value) -> String {
    let text: String = value.to_string().chars().take(300).collect();
    crate::redact::printable(&text)
}

fn tokens(usage: &Usage) -> String {
    let show = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
    format!("{} in, {} out", show(usage.input), show(usage.output))
}
