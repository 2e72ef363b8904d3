//! Bounded pipes between threads that block on files and tasks that speak to the daemon.

use std::io::{self, Read, Write};

use futures_util::stream::{Stream, unfold};
use tokio::sync::mpsc;
use tokio_util::bytes::{Buf, Bytes};

/// Bytes that are sent at once to the daemon.
const PIECE: usize = 256 * 1024;
/// Pieces that wait in a pipe.
const WAITING: usize = 8;

/// The end of a pipe to the daemon that a thread writes to. Clones write to the same pipe.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    pieces: mpsc::Sender<io::Result<Bytes>>,
    buffer: Vec<u8>,
}

/// Makes a pipe to the daemon: the writing end, and the body of a request.
pub(super) fn to_daemon() -> (Sender, impl Stream<Item = io::Result<Bytes>> + Send + 'static) {
    let (pieces, body) = mpsc::channel(WAITING);
    let body = unfold(body, |mut body| async move { body.recv().await.map(|piece| (piece, body)) });
    (Sender { pieces, buffer: Vec::new() }, body)
}

impl Sender {
    /// Breaks the request off.
    pub(super) fn abort(&self, why: &io::Error) {
        // If nobody listens, the request is over already.
        let _ = self.pieces.blocking_send(Err(io::Error::new(why.kind(), why.to_string())));
    }
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > PIECE {
            self.flush()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.buffer));
        self.pieces.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Tells whether writing failed because nobody listens at the other end.
pub(super) fn is_unheard(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// The end of a pipe from the daemon that a thread reads from.
#[derive(Debug)]
pub(super) struct Receiver {
    pieces: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

/// Makes a pipe from the daemon.
pub(super) fn from_daemon() -> (mpsc::Sender<Bytes>, Receiver) {
    let (sender, pieces) = mpsc::channel(WAITING);
    (sender, Receiver { pieces, piece: Bytes::new() })
}

impl Read for Receiver {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let taken = into.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut into[..taken]);
        Ok(taken)
    }
}
