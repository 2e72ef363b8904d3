//! A provider on 127.0.0.1: every request costs the same, one that asks to hang is never answered, and one that asks to fail does.

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::requests::{self, Asked};

/// What each answer of the provider costs by the price table: 1,000 input and 100 output tokens of claude-sonnet-4-5.
pub(crate) const COST: i64 = 4_500;

/// A provider.
pub(crate) struct Provider {
    pub(crate) base_url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Provider {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let base_url = format!("http://{}", listener.local_addr().expect("bound"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = Arc::clone(&log);
                thread::spawn(move || serve(&stream, &log));
            }
        });
        Self { base_url, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(stream: &TcpStream, log: &Mutex<Vec<Asked>>) {
    let mut reader = BufReader::new(stream);
    while let Some(asked) = requests::read(&mut reader) {
        let body = asked.body.clone();
        let counts = asked.path.ends_with("/count_tokens");
        log.lock().unwrap().push(asked);
        if body.contains("hang") {
            thread::park();
        }
        let model = serves(&body);
        let answer = format!(
            r#"{{"id":"msg_1","type":"message","role":"assistant","model":"{model}","content":[{{"type":"text","text":"done"}}],"stop_reason":"end_turn","usage":{{"input_tokens":1000,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":100}}}}"#
        );
        // Says what it is asked to say.
        let said = body.split_once("say ").and_then(|(_, rest)| rest.split('"').next()).unwrap_or("done");
        let answer = answer.replace("done", said);
        let answer = if counts { r#"{"input_tokens":1000}"#.to_owned() } else { answer };
        let mut stream = stream;
        // Fails as it is asked to fail: `status 503`.
        let status = body.split_once("status ").map_or("200", |(_, rest)| &rest[..3]);
        let head = format!(
            "HTTP/1.1 {status} As Asked\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(answer.as_bytes())).is_err() {
            return;
        }
    }
}

/// Returns the model that answers: the one that is asked, or the one that the prompt wants: `as NAME`.
fn serves(body: &str) -> String {
    let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let prompt = body["messages"][0]["content"].as_str().unwrap_or_default();
    prompt.strip_prefix("as ").or(body["model"].as_str()).unwrap_or("claude-sonnet-4-5").to_owned()
}
