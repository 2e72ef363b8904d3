//! `refrain gateway`: without a run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use refrain::domain::Trace;
use refrain::store::Store;

use crate::project::KEY;
use crate::provider::{COST, Provider};
use crate::run_named;

fn gateway(folder: &tempfile::TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refrain"));
    command.arg("gateway").args(args).current_dir(folder.path()).stdin(Stdio::null());
    for name in ["OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "REFRAIN_LOG"] {
        command.env_remove(name);
    }
    command.env("ANTHROPIC_API_KEY", KEY);
    command
}

#[test]
fn it_says_what_to_set_counts_and_keeps() {
    let (provider, folder) = (Provider::start(), tempfile::tempdir().unwrap());
    let place = format!("anthropic={}", provider.base_url);
    let mut command = gateway(&folder, &["--port", "0", "--provider", &place]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut setting = |name: &str| {
        let wanted = format!("export {name}=");
        lines.by_ref().flatten().find_map(|line| line.strip_prefix(&wanted).map(str::to_owned)).expect("it is told")
    };
    let (url, token) = (setting("ANTHROPIC_BASE_URL"), setting("ANTHROPIC_API_KEY"));
    assert_eq!(ask(&url, &token), "200");
    assert_eq!(ask(&url, "sk-refrain-of-somebody-else"), "401");
    let killed = Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(killed.success());
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{told}");
    assert!(told.contains("1000 in") && told.contains("100 out") && told.contains("$0.0045"), "{told}");
    assert!(!told.contains(&token), "tokens are shown on standard output alone");
    assert!(provider.asked().iter().all(|asked| asked.headers.contains(KEY)));
    let store = Store::open_read_only(&folder.path().join("gateway.db")).unwrap();
    let calls = store.calls(&run_named("gateway"), None).wait().unwrap();
    let served: Vec<_> = calls.iter().filter(|call| call.exchange.end.as_str() == "complete").collect();
    assert_eq!(served.len(), 1, "{calls:?}");
    assert_eq!(served[0].exchange.cost.map(refrain::domain::Micros::get), Some(COST));
    assert!(store.check(None).wait().unwrap().is_clean());
}

#[test]
fn a_check_compares_the_meter_with_the_provider() {
    let (provider, folder) = (Provider::start(), tempfile::tempdir().unwrap());
    let place = format!("anthropic={}", provider.base_url);
    let args = ["--check", "--port", "0", "--provider", &place, "--model", "claude-sonnet-4-5"];
    let output = gateway(&folder, &args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(told, "anthropic: equal (1000 in, 100 out)\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
    let store = Store::open_read_only(&folder.path().join("gateway.db")).unwrap();
    let calls = store.calls(&run_named("gateway"), None).wait().unwrap();
    assert!(!calls.is_empty() && calls.iter().all(|call| call.exchange.attribution.trace == Trace::Check), "{calls:?}");
    // Nobody is there: that is not equal.
    let nobody = ["--check", "--port", "0", "--provider", "anthropic=http://127.0.0.1:1"];
    let output = gateway(&folder, &nobody).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("anthropic: not checked: "));
}

#[test]
fn what_is_in_its_way_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port().to_string();
    let told = |args: &[&str]| {
        let output = gateway(&folder, args).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = told(&["--port", &port]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains(&format!("127.0.0.1:{port}")) && text.contains("free"), "{text}");
    let (code, text) = told(&["--host", "203.0.113.7"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("203.0.113.7") && text.contains("hint"), "{text}");
    let (code, text) = told(&["--provider", "antropic"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("there is no provider `antropic`"), "{text}");
    let output = gateway(&folder, &[]).env_remove("ANTHROPIC_API_KEY").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no provider's key is set"));
}

/// Makes a request like a program would; returns the status.
fn ask(url: &str, token: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let body = r#"{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":"x"}]}"#;
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST /{path}/v1/messages HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nx-api-key: {token}\r\ncontent-type: \
         application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}
