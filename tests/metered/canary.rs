//! `refrain canary`: against stand-ins that speak each interface over HTTP.

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use refrain::domain::Trace;
use refrain::store::Store;
use serde_json::Value;

use crate::alone::command;
use crate::requests;
use crate::run_named;

/// Changes what a stand-in answers: its path and what it would say.
type Twist = dyn Fn(&str, String) -> String + Send + Sync;

/// Starts a provider that speaks all interfaces; returns its address.
fn stand_in(twist: impl Fn(&str, String) -> String + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("http://{}", listener.local_addr().unwrap());
    let twist: Arc<Twist> = Arc::new(twist);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let twist = Arc::clone(&twist);
            thread::spawn(move || serve(&stream, &*twist));
        }
    });
    place
}

fn serve(stream: &TcpStream, twist: &Twist) {
    let mut reader = BufReader::new(stream);
    while let Some(asked) = requests::read(&mut reader) {
        let asked_of: Value = serde_json::from_str(&asked.body).unwrap();
        let streams = asked_of["stream"] == true || asked.path.contains(":streamGenerateContent");
        let answer = twist(&asked.path, answer(&asked.path, streams));
        let mut out = stream;
        let (kind, framed) = if streams {
            // In pieces that are cut anywhere.
            let pieces = answer
                .as_bytes()
                .chunks(23)
                .map(|piece| [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
            let pieces = pieces.chain([b"0\r\n\r\n".to_vec()]).collect::<Vec<_>>().concat();
            ("text/event-stream\r\ntransfer-encoding: chunked".to_owned(), pieces)
        } else {
            (format!("application/json\r\ncontent-length: {}", answer.len()), answer.into_bytes())
        };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n\r\n");
        if out.write_all(&[head.as_bytes(), &framed].concat()).is_err() {
            return;
        }
    }
}

/// Of 20 tokens of input 8 come from a cache; 5 are said, 3 of them thought.
fn answer(path: &str, streams: bool) -> String {
    let event = |data: &str| format!("data: {data}\n\n");
    let openai = |input: &str, output: &str| {
        format!(
            r#"{{"{input}_tokens":20,"{input}_tokens_details":{{"cached_tokens":8}},"{output}_tokens":5,"{output}_tokens_details":{{"reasoning_tokens":3}},"total_tokens":25}}"#
        )
    };
    let path = path.split('?').next().unwrap();
    match path.rsplit(['/', ':']).next().unwrap() {
        "count_tokens" => r#"{"input_tokens":20}"#.to_owned(),
        "countTokens" => r#"{"totalTokens":20}"#.to_owned(),
        "messages" if streams => [
            r#"{"type":"message_start","message":{"id":"m","model":"claude-haiku-4-5-20251001","usage":{"input_tokens":12,"cache_read_input_tokens":8,"cache_creation_input_tokens":0,"output_tokens":1}}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ready"}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}"#,
            r#"{"type":"message_stop"}"#,
        ]
        .map(event)
        .concat(),
        "messages" => r#"{"id":"m","type":"message","model":"claude-haiku-4-5-20251001","content":[],"stop_reason":"end_turn","usage":{"input_tokens":12,"cache_read_input_tokens":8,"cache_creation_input_tokens":0,"output_tokens":5}}"#.to_owned(),
        "responses" => {
            let usage = openai("input", "output");
            let whole = format!(r#"{{"id":"r","object":"response","status":"completed","model":"gpt-5-mini-2025-08-07","output":[],"usage":{usage}}}"#);
            if !streams {
                return whole;
            }
            let created = whole.replace(&usage, "null");
            event(&format!(r#"{{"type":"response.created","response":{created}}}"#))
                + &event(&format!(r#"{{"type":"response.completed","response":{whole}}}"#))
        }
        "completions" => {
            let usage = openai("prompt", "completion");
            if !streams {
                return format!(
                    r#"{{"id":"c","object":"chat.completion","model":"gpt-5-mini-2025-08-07","choices":[{{"index":0,"message":{{"role":"assistant","content":"ready"}},"finish_reason":"stop"}}],"usage":{usage}}}"#
                );
            }
            let chunk = |choices: &str, usage: &str| {
                event(&format!(
                    r#"{{"id":"c","object":"chat.completion.chunk","model":"gpt-5-mini-2025-08-07","choices":{choices},"usage":{usage}}}"#
                ))
            };
            let says = chunk(r#"[{"index":0,"delta":{"content":"ready"},"finish_reason":"stop"}]"#, "null");
            says + &chunk("[]", &usage) + &event("[DONE]")
        }
        "generateContent" | "streamGenerateContent" => {
            let whole = r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"ready"}]},"finishReason":"STOP"}],"modelVersion":"gemini-2.5-flash-lite","usageMetadata":{"promptTokenCount":20,"cachedContentTokenCount":8,"candidatesTokenCount":2,"thoughtsTokenCount":3,"totalTokenCount":25}}"#;
            if streams { event(whole) } else { whole.to_owned() }
        }
        other => panic!("{other}"),
    }
}

/// What a run of it left: its exit code, what it printed, and the folder.
fn canary(args: &[&str]) -> (Option<i32>, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let output = command(&folder, &[&["canary"], args].concat()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!told.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), told, folder)
}

fn findings(args: &[&str]) -> (Option<i32>, Vec<Value>) {
    let (code, told, _) = canary(&[args, &["--json"]].concat());
    let told: Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["agree"], code == Some(0), "{told}");
    (code, told["findings"].as_array().expect("findings").clone())
}

#[test]
fn by_each_interface_streaming_and_not_the_meter_counts_what_the_provider_tells() {
    let place = stand_in(|_, answer| answer);
    let of = |name: &str| format!("{name}={place}");
    let (anthropic, openai, gemini) = (of("anthropic"), of("openai"), of("gemini"));
    let lab = format!("lab={place}/v1");
    for (provider, model, apis, counter) in [
        (&anthropic, "claude-haiku-4-5", &["messages"][..], Some(20)),
        (&openai, "gpt-5-mini", &["responses", "chat"], None),
        (&gemini, "gemini-2.5-flash-lite", &["gemini"], Some(20)),
        (&lab, "gpt-5-mini", &["chat"], None),
    ] {
        let (code, found) = findings(&["--provider", provider, "--model", model]);
        assert_eq!(code, Some(0), "{found:#?}");
        let asked: Vec<_> = found.iter().map(|one| (one["api"].as_str(), one["stream"].as_bool())).collect();
        let all: Vec<_> = apis.iter().flat_map(|api| [false, true].map(|way| (Some(*api), Some(way)))).collect();
        assert_eq!(asked, all);
        for one in &found {
            let counted = &one["counted"];
            assert_eq!(
                (&counted["input"], &counted["cache_read"], &counted["output"]),
                (&12.into(), &8.into(), &5.into())
            );
            assert_eq!(one["counter_input"].as_u64(), counter, "{one}");
            assert!(one["cost_micros"].as_i64().is_some_and(|cost| cost > 0), "{one}");
            assert!(one["model_served"].as_str().is_some_and(|served| served.starts_with(model)), "{one}");
        }
    }
}

#[test]
fn the_table_names_interfaces_tokens_and_costs_and_the_calls_are_kept() {
    let place = format!("anthropic={}", stand_in(|_, answer| answer));
    let (code, told, folder) = canary(&["--provider", &place]);
    assert_eq!(code, Some(0), "{told}");
    let lines: Vec<Vec<&str>> =
        told.lines().map(|line| line.split("  ").filter(|word| !word.is_empty()).map(str::trim).collect()).collect();
    // 12 of input at 1, 8 from the cache at 0.1, 5 of output at 5 dollars a million.
    let row = ["claude-haiku-4-5-20251001", "12", "8", "0", "5", "20", "$0.000038", "agrees"];
    assert_eq!(lines[1], [&["anthropic", "messages"][..], &row].concat(), "{told}");
    assert_eq!(lines[2], [&["anthropic", "messages, stream"][..], &row].concat(), "{told}");
    assert!(told.ends_with("\n2 of 2 agree; cost: $0.000076\n"), "{told}");
    let store = Store::open_read_only(&folder.path().join("gateway.db")).unwrap();
    let calls = store.calls(&run_named("gateway"), None).wait().unwrap();
    assert_eq!(calls.len(), 4, "{calls:?}");
    assert!(calls.iter().all(|call| call.exchange.attribution.trace == Trace::Check), "{calls:?}");
}

#[test]
fn what_differs_is_told_and_so_is_what_was_not_checked() {
    let counter = format!(
        "anthropic={}",
        stand_in(|path, answer| {
            if path.ends_with("/count_tokens") { r#"{"input_tokens":21}"#.to_owned() } else { answer }
        })
    );
    let (code, found) = findings(&["--provider", &counter]);
    assert_eq!(code, Some(1));
    assert_eq!(found[0]["differences"][0], "input: the answer tells 20, the provider's counter 21");
    // More from the cache than there is: the meter believes none of it.
    let odd =
        format!("lab={}/v1", stand_in(|_, answer| answer.replace(r#""cached_tokens":8"#, r#""cached_tokens":80"#)));
    let (code, found) = findings(&["--provider", &odd, "--model", "m"]);
    assert_eq!(code, Some(1));
    assert!(
        found.iter().all(|one| one["differences"][0].as_str().is_some_and(|text| text.contains("counted ?"))),
        "{found:#?}"
    );
    assert!(found.iter().all(|one| one["cost_micros"].is_null()), "a model without a price: {found:#?}");
    // Nobody is there.
    let (code, told, _) = canary(&["--provider", "anthropic=http://127.0.0.1:1"]);
    assert_eq!(code, Some(1));
    assert!(told.contains("NOT CHECKED: status 502: ") && told.contains("0 of 2 agree"), "{told}");
    let (code, told, _) = canary(&["--provider", "lab=http://127.0.0.1:1"]);
    assert!(code == Some(1) && told.contains("which model? name it by --model"), "{told}");
}

#[test]
fn gateway_check_does_the_same() {
    let place = format!("anthropic={}", stand_in(|_, answer| answer));
    let folder = tempfile::tempdir().unwrap();
    let output = command(&folder, &["gateway", "--check", "--provider", &place]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("2 of 2 agree"));
}
