//! The relay: what an environment without a network reaches the host's gateway by.
//!
//! It listens on the environment's own loopback device and passes bytes on to a Unix socket, which the host has put
//! into the environment. It runs inside, as a program of the host (see [`parts`]), on one thread; a connection on which
//! nothing passes costs a few hundred bytes. It reads nothing of what passes and holds no secret.

pub mod parts;

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixStream, tcp, unix};
use tokio::task::JoinSet;

/// The most bytes that are passed on at a time.
const PIECE: usize = 128 * 1024;
/// How long a socket that has no room for another connection is tried again.
const ROOM_TRIES: u32 = 200;
/// How long is waited before anything is tried again.
const PAUSE: Duration = Duration::from_millis(25);

thread_local! {
    /// One for all connections: bytes stay in it only as long as the other side takes them at once.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; PIECE].into_boxed_slice());
}

/// Where a relay listens, and where it leads.
#[derive(Debug, Clone)]
pub struct Relay {
    /// Where clients come.
    pub listen: SocketAddr,
    /// The socket that they are passed on to; looked up anew for each connection.
    pub to: PathBuf,
}

impl Relay {
    /// Passes connections on for as long as the process lives. A socket that is not there closes the connection that
    /// wanted it, and nothing else.
    ///
    /// # Errors
    ///
    /// The address cannot be listened on.
    pub async fn serve(&self) -> io::Result<()> {
        self.serve_on(TcpListener::bind(self.listen).await?).await
    }

    async fn serve_on(&self, listener: TcpListener) -> io::Result<()> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((client, _)) => {
                        let to = self.to.clone();
                        // An end that breaks off is seen by both sides; there is nobody else to tell.
                        connections.spawn(async move { pass(client, &to).await.is_ok() });
                    }
                    // Out of descriptors or memory: connections that end make room.
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    /// Waits until both the relay and the socket behind it answer, for no longer than `patience`.
    ///
    /// # Errors
    ///
    /// What the one that does not answer said last, with its address.
    pub async fn check(&self, patience: Duration) -> io::Result<()> {
        let said = RefCell::new(None);
        let asking = async {
            loop {
                let relay = TcpStream::connect(self.listen).await.map_err(|error| named(&error, self.listen));
                let socket = UnixStream::connect(&self.to).await.map_err(|error| named(&error, self.to.display()));
                match relay.and(socket.map(|_| ())) {
                    Ok(()) => return,
                    Err(error) => said.replace(Some(error)),
                };
                tokio::time::sleep(PAUSE).await;
            }
        };
        let reached = tokio::time::timeout(patience, asking).await;
        reached.map_err(|_| said.take().unwrap_or_else(|| named(&io::ErrorKind::TimedOut.into(), self.listen)))
    }
}

fn named(error: &io::Error, place: impl std::fmt::Display) -> io::Error {
    io::Error::new(error.kind(), format!("{place}: {error}"))
}

async fn pass(client: TcpStream, to: &Path) -> io::Result<()> {
    let gateway = connect(to).await?;
    client.set_nodelay(true)?;
    let ((from_client, mut to_client), (from_gateway, mut to_gateway)) = (client.into_split(), gateway.into_split());
    // An error ends both directions, an end only its own.
    tokio::try_join!(copy(&from_client, &mut to_gateway), copy(&from_gateway, &mut to_client))?;
    Ok(())
}

async fn connect(to: &Path) -> io::Result<UnixStream> {
    let mut tries = 0;
    loop {
        match UnixStream::connect(to).await {
            // More connections wait to be taken than the listener has room for.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && tries < ROOM_TRIES => tries += 1,
            done => return done,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Passes on what comes until it ends, and then the end.
async fn copy<R: Readable, W: Writable>(from: &R, to: &mut W) -> io::Result<()> {
    loop {
        from.readable().await?;
        match BUFFER.with_borrow_mut(|buffer| pass_piece(from, to, buffer)) {
            Ok(Piece::End) => break,
            Ok(Piece::Passed) => {}
            Ok(Piece::Rest(rest)) => write_all(to, &rest).await?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    tokio::io::AsyncWriteExt::shutdown(to).await
}

/// What became of a piece.
enum Piece {
    /// Nothing more comes.
    End,
    /// It was taken at once.
    Passed,
    /// The other side was not ready for all of it.
    Rest(Vec<u8>),
}

fn pass_piece(from: &impl Readable, to: &impl Writable, buffer: &mut [u8]) -> io::Result<Piece> {
    let length = from.try_read(buffer)?;
    if length == 0 {
        return Ok(Piece::End);
    }
    let taken = match to.try_write(&buffer[..length]) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        taken => taken?,
    };
    Ok(if taken == length { Piece::Passed } else { Piece::Rest(buffer[taken..length].to_vec()) })
}

async fn write_all(to: &impl Writable, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        to.writable().await?;
        match to.try_write(rest) {
            Ok(taken) => rest = &rest[taken..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The half of a connection that bytes come from.
trait Readable {
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send;
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize>;
}

/// The half of a connection that bytes go to.
trait Writable: tokio::io::AsyncWrite + Unpin {
    fn writable(&self) -> impl Future<Output = io::Result<()>> + Send;
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;
}

macro_rules! halves {
    ($($family:ident)*) => { $(
        impl Readable for $family::OwnedReadHalf {
            fn readable(&self) -> impl Future<Output = io::Result<()>> + Send {
                Self::readable(self)
            }

            fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
                Self::try_read(self, buffer)
            }
        }

        impl Writable for $family::OwnedWriteHalf {
            fn writable(&self) -> impl Future<Output = io::Result<()>> + Send {
                Self::writable(self)
            }

            fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
                Self::try_write(self, bytes)
            }
        }
    )* };
}

halves!(tcp unix);

#[cfg(test)]
mod tests;
