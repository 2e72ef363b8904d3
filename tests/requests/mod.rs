//! HTTP requests as providers of tests read them.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;

/// A request as it reached a provider.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    /// A line for each, in small letters.
    pub(crate) headers: String,
    pub(crate) body: String,
}

/// Reads a request with its body, which has a length or comes in chunks.
pub(crate) fn read(reader: &mut BufReader<&TcpStream>) -> Option<Asked> {
    let line = |reader: &mut BufReader<&TcpStream>| {
        let mut line = String::new();
        (reader.read_line(&mut line).ok()? > 0).then(|| line.trim_end().to_owned())
    };
    let path = line(reader)?.split(' ').nth(1)?.to_owned();
    let mut headers = String::new();
    loop {
        let header = line(reader)?;
        if header.is_empty() {
            break;
        }
        headers.push_str(&header.to_lowercase());
        headers.push('\n');
    }
    let length = headers.lines().find_map(|header| header.strip_prefix("content-length: ")?.parse::<usize>().ok());
    let mut body = Vec::new();
    if let Some(length) = length {
        body.resize(length, 0);
        reader.read_exact(&mut body).ok()?;
    } else if headers.contains("transfer-encoding: chunked") {
        loop {
            let size = usize::from_str_radix(&line(reader)?, 16).ok()?;
            let start = body.len();
            body.resize(start + size + 2, 0);
            reader.read_exact(&mut body[start..]).ok()?;
            body.truncate(start + size);
            if size == 0 {
                break;
            }
        }
    }
    Some(Asked { path, headers, body: String::from_utf8_lossy(&body).into_owned() })
}
