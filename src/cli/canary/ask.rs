//! Asks through the gateway, as a program would: plain HTTP on this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use super::told::short;
use crate::host::StandaloneDoor;

/// How long a provider may take for a few tokens.
const PATIENCE: Duration = Duration::from_secs(120);

/// The most that is read of an answer.
const MOST: u64 = 16 << 20;

/// Makes a request and returns the body of its answer; a status that is no success is an error.
pub(super) async fn post(
    address: SocketAddr,
    door: &StandaloneDoor,
    path: &str,
    body: &Value,
) -> anyhow::Result<Vec<u8>> {
    let place = door.base_url().splitn(4, '/').nth(3).unwrap_or_default();
    let body = body.to_string();
    let request = format!(
        "POST /{place}{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         anthropic-version: 2023-06-01\r\nx-api-key: {token}\r\nauthorization: Bearer {token}\r\nx-goog-api-key: {token}\r\n\
         accept-encoding: identity\r\ncontent-length: {}\r\n\r\n{body}",
        body.len(),
        token = door.token(),
    );
    tokio::task::spawn_blocking(move || exchange(address, &request)).await?
}

fn exchange(address: SocketAddr, request: &str) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
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
    let body = if chunked { chunks(&mut reader) } else { rest(&mut reader) };
    let body = body.context("the answer broke off")?;
    anyhow::ensure!(status == "200", "status {status}: {}", why(&body));
    Ok(body)
}

/// What an error says, in its own words.
fn why(body: &[u8]) -> String {
    let told: Option<Value> = serde_json::from_slice(body).ok();
    let message = told.as_ref().and_then(|told| told.pointer("/error/message")).and_then(Value::as_str);
    message.map_or_else(|| short(body), str::to_owned)
}

fn rest(reader: &mut impl Read) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    reader.take(MOST).read_to_end(&mut body)?;
    Ok(body)
}

fn chunks(reader: &mut impl BufRead) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = u64::from_str_radix(size.trim(), 16).context("a piece of it has no size")?;
        if size == 0 {
            return Ok(body);
        }
        anyhow::ensure!(body.len() as u64 + size <= MOST, "it is larger than {MOST} bytes");
        reader.by_ref().take(size).read_to_end(&mut body)?;
        let mut end = String::new();
        reader.read_line(&mut end)?;
    }
}
