//! A client of HTTP/1.1 that shows what comes when.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A request to be made.
pub(crate) struct Request {
    address: SocketAddr,
    head: String,
    body: Vec<u8>,
}

/// An answer whose head has come.
pub(crate) struct Reply {
    stream: BufReader<TcpStream>,
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    left: Length,
}

enum Length {
    Chunked,
    Bytes(usize),
    Over,
}

impl Request {
    pub(crate) fn post(address: SocketAddr, path: &str) -> Self {
        Self::new(address, "POST", path)
    }

    pub(crate) fn new(address: SocketAddr, method: &str, path: &str) -> Self {
        Self { address, head: format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n"), body: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends the request on a new connection and waits for the answer's head.
    pub(crate) async fn send(self) -> io::Result<Reply> {
        let stream = TcpStream::connect(self.address).await?;
        self.send_on(BufReader::new(stream)).await
    }

    pub(crate) async fn send_on(self, mut stream: BufReader<TcpStream>) -> io::Result<Reply> {
        let head = format!("{}content-length: {}\r\n\r\n", self.head, self.body.len());
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&self.body).await?;
        Reply::read(stream).await
    }

    /// Sends the request and returns the connection without waiting for an answer.
    pub(crate) async fn leave(self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.expect("connects");
        let head = format!("{}content-length: {}\r\n\r\n", self.head, self.body.len());
        stream.write_all(head.as_bytes()).await.expect("writes");
        stream.write_all(&self.body).await.expect("writes");
        stream
    }

    /// Sends the request, and returns status and body of the whole answer.
    pub(crate) async fn text(self) -> (u16, String) {
        let mut reply = self.send().await.expect("an answer");
        let body = reply.rest().await.expect("a whole answer");
        (reply.status, String::from_utf8(body).expect("text"))
    }
}

impl Reply {
    pub(crate) async fn read(mut stream: BufReader<TcpStream>) -> io::Result<Self> {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, format!("{line:?}")))?;
        let mut headers = Vec::new();
        loop {
            line.clear();
            stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut reply = Self { stream, status, headers, left: Length::Over };
        reply.left = match reply.header("content-length") {
            Some(length) => Length::Bytes(length.parse().expect("a number")),
            None if reply.header("transfer-encoding") == Some("chunked") => Length::Chunked,
            None => Length::Over,
        };
        Ok(reply)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the next piece of the body: a chunk, or what has come; `None` at the end, an error where it breaks off.
    pub(crate) async fn piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self.left {
            Length::Over | Length::Bytes(0) => Ok(None),
            Length::Bytes(left) => {
                let mut piece = vec![0; left.min(1 << 16)];
                let count = self.stream.read(&mut piece).await?;
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                piece.truncate(count);
                self.left = Length::Bytes(left - count);
                Ok(Some(piece))
            }
            Length::Chunked => {
                let mut line = String::new();
                self.stream.read_line(&mut line).await?;
                let length = usize::from_str_radix(line.trim(), 16).map_err(|_| io::ErrorKind::UnexpectedEof)?;
                let mut piece = vec![0; length + 2];
                self.stream.read_exact(&mut piece).await?;
                piece.truncate(length);
                if length == 0 {
                    self.left = Length::Over;
                    return Ok(None);
                }
                Ok(Some(piece))
            }
        }
    }

    pub(crate) async fn next_text(&mut self) -> String {
        let piece = self.piece().await.expect("no break").expect("not the end");
        String::from_utf8(piece).expect("text")
    }

    /// Reads the rest of the body.
    pub(crate) async fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece().await? {
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    /// Gives the connection back, for another request.
    pub(crate) fn into_stream(self) -> BufReader<TcpStream> {
        self.stream
    }
}
