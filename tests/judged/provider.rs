//! A provider on 127.0.0.1 that answers a judge's requests by a list; the last answer stays.

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::requests::{self, Asked};

/// What each answer costs by the price table: 2,000 input and 200 output tokens of claude-sonnet-4-5.
pub(crate) const COST: i64 = 9_000;

/// What the provider does with a request.
#[derive(Debug, Clone)]
pub(crate) enum Does {
    /// Its model says this.
    Says(String),
    /// It answers with an error.
    Refuses(u16),
    /// It never answers.
    Hangs,
}

/// An answer with these points for `clear` and `right`.
pub(crate) fn scores(clear: f64, right: f64) -> Does {
    let reasons = json!({"clear": "as clear as it gets", "right": "the sum is named"});
    Does::Says(json!({"scores": {"clear": clear, "right": right}, "reasons": reasons}).to_string())
}

impl Asked {
    /// What the judge was told by the user's part of the prompt.
    pub(crate) fn prompt(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).expect("JSON");
        body["messages"].as_array().expect("messages").last().expect("one")["content"]
            .as_str()
            .expect("text")
            .to_owned()
    }
}

/// A provider.
pub(crate) struct Provider {
    pub(crate) base_url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Provider {
    pub(crate) fn start(does: Vec<Does>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let base_url = format!("http://{}", listener.local_addr().expect("bound"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, does) = (Arc::clone(&asked), Arc::new(does));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, does) = (Arc::clone(&log), Arc::clone(&does));
                thread::spawn(move || serve(&stream, &log, &does));
            }
        });
        Self { base_url, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(stream: &TcpStream, log: &Mutex<Vec<Asked>>, does: &[Does]) {
    let mut reader = BufReader::new(stream);
    while let Some(asked) = requests::read(&mut reader) {
        let is_chat = asked.path.ends_with("/chat/completions");
        let number = {
            let mut log = log.lock().unwrap();
            log.push(asked);
            log.len() - 1
        };
        let (status, body) = match does.get(number).or(does.last()).expect("something to do") {
            Does::Says(text) if is_chat => (
                200,
                json!({
                    "id": "chatcmpl-1", "object": "chat.completion", "model": "claude-sonnet-4-5",
                    "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 2000, "completion_tokens": 200, "total_tokens": 2200},
                }),
            ),
            Does::Says(text) => (
                200,
                json!({
                    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
                    "content": [{"type": "thinking", "thinking": "{\"scores\": {}}", "signature": ""}, {"type": "text", "text": text}],
                    "stop_reason": "end_turn",
                    "usage": {"input_tokens": 2000, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 200},
                }),
            ),
            Does::Refuses(status) => {
                (*status, json!({"type": "error", "error": {"type": "overloaded_error", "message": "come back later"}}))
            }
            Does::Hangs => {
                thread::park();
                return;
            }
        };
        let (mut stream, body) = (stream, body.to_string());
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).is_err() {
            return;
        }
    }
}
