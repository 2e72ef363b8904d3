//! `refrain gateway`: without a run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use refrain::store::Store;

use crate::project::KEY;
use crate::provider::{COST, Provider};
use crate::run_named;

fn gateway(folder: &tempfile::TempDir, args: &[&str]) -> Command {
    command(folder, &[&["gateway"], args].concat())
}

/// The program in a folder of its own, with the key of one provider.
pub(crate) fn command(folder: &tempfile::TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refrain"));
    command.args(args).current_dir(folder.path()).stdin(Stdio::null());
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
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("no provider's key is set"), "{text}");
    assert_eq!(text.matches("GEMINI_API_KEY").count(), 1, "{text}");
    for (args, expected) in [
        (["--provider", "=http://127.0.0.1:1"], "a provider has a name"),
        (["--provider", "lab="], "`lab` has no address"),
        (["--max-cost", "-1"], "zero or more"),
        (["--max-cost", "much"], "invalid value 'much'"),
    ] {
        let (code, text) = told(&args);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}

/// Starts the gateway, and returns what it says to set: names and values.
fn start(command: &mut Command, lines: usize) -> (Child, Vec<(String, String)>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let settings = stdout.lines().map_while(Result::ok).take(lines);
    let settings = settings.filter_map(|line| {
        let (name, value) = line.strip_prefix("export ")?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    let settings = settings.collect();
    (child, settings)
}

/// Ends it, and returns what it had said.
fn end(mut child: Child) -> String {
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{told}");
    told
}

#[test]
fn a_ceiling_refuses_what_has_no_price_and_says_so_and_without_one_that_is_said_too() {
    let ask = |args: &[&str]| {
        let (provider, folder) = (Provider::start(), tempfile::tempdir().unwrap());
        let place = format!("anthropic={}", provider.base_url);
        let args = [&["--port", "0", "--provider", &place], args].concat();
        let (child, settings) = start(&mut gateway(&folder, &args), 3);
        let status = ask_for("mystery-1", &settings[0].1, &settings[1].1);
        assert_eq!(ask_for("claude-sonnet-4-5", &settings[0].1, &settings[1].1), "200");
        (status, end(child), provider.asked().len())
    };
    let (status, told, asked) = ask(&["--max-cost", "1"]);
    assert_eq!((status.as_str(), asked), ("403", 1), "{told}");
    assert!(told.contains("Refused anthropic: mystery-1: --max-cost cannot hold"), "{told}");
    for args in [&["--max-cost", "1", "--allow-unpriced"][..], &[]] {
        let (status, told, asked) = ask(args);
        assert_eq!((status.as_str(), asked), ("200", 2), "{told}");
        assert!(told.contains("Unpriced anthropic: mystery-1: what it costs is unknown"), "{told}");
        assert!(told.contains("2 request(s), 2000 in") && told.contains("cost unknown"), "{told}");
    }
}

#[test]
fn a_price_file_of_ones_own_gives_a_price() {
    let (provider, folder) = (Provider::start(), tempfile::tempdir().unwrap());
    let prices = "[[price]]\nmodel = \"mystery-1\"\ninput = 1\noutput = 1\ncache_read = 0\ncache_write = 0\n\
                  date = \"2026-01-01\"\nsource = \"ours\"\n";
    std::fs::write(folder.path().join("ours.toml"), prices).unwrap();
    let place = format!("anthropic={}", provider.base_url);
    let args = ["--port", "0", "--provider", &place, "--max-cost", "1", "--prices", "ours.toml"];
    let (child, settings) = start(&mut gateway(&folder, &args), 3);
    assert_eq!(ask_for("mystery-1", &settings[0].1, &settings[1].1), "200");
    let told = end(child);
    assert!(told.contains("$0.0011"), "{told}");
}

#[test]
fn one_that_listens_everywhere_says_where_it_is_at_home_and_sets_no_variable_twice() {
    let (provider, folder) = (Provider::start(), tempfile::tempdir().unwrap());
    let (lab, other) = (format!("lab={}", provider.base_url), format!("other={}", provider.base_url));
    let args = ["--host", "0.0.0.0", "--port", "0", "--provider", &lab, "--provider", &other];
    let (child, settings) = start(gateway(&folder, &args).env("LAB_API_KEY", "a-key-of-the-lab"), 6);
    let names: Vec<&str> = settings.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["OPENAI_BASE_URL", "OPENAI_API_KEY", "OTHER_BASE_URL", "OTHER_API_KEY"]);
    assert!(settings[0].1.starts_with("http://127.0.0.1:") && settings[2].1.starts_with("http://127.0.0.1:"));
    let told = end(child);
    assert!(told.contains("http://0.0.0.0:") && told.contains("in the place of 127.0.0.1"), "{told}");
    assert!(told.contains("OTHER_API_KEY is not set") && !told.contains("LAB_API_KEY is not set"), "{told}");
}

/// Makes a request like a program would; returns the status.
fn ask(url: &str, token: &str) -> String {
    ask_for("claude-sonnet-4-5", url, token)
}

fn ask_for(model: &str, url: &str, token: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let body = format!(r#"{{"model":"{model}","max_tokens":9,"messages":[{{"role":"user","content":"x"}}]}}"#);
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
