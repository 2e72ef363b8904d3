//! Places to listen.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::error::GatewayError;
use super::options::Listen;

/// A place that is listened on.
#[derive(Debug)]
pub(super) struct Door {
    address: Listen,
    listener: Listener,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _file: SocketFile },
}

/// A socket's file, which goes with it.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(path = %self.0.display(), %error, "a socket was not removed");
        }
    }
}

/// Somebody who came in.
#[derive(Debug)]
pub(super) enum Visitor {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Visitor {
    /// Says something to somebody who is sent away, if that takes no waiting.
    pub(super) fn tell(&self, text: &[u8]) {
        let told = match self {
            Self::Tcp(stream) => stream.try_write(text),
            Self::Unix(stream) => stream.try_write(text),
        };
        if let Err(error) = told {
            tracing::debug!(%error, "somebody who was sent away was not told why");
        }
    }
}

impl Door {
    /// Listens.
    pub(super) async fn open(listen: &Listen) -> Result<Self, GatewayError> {
        match listen {
            Listen::Tcp(address) => Self::tcp(*address).await,
            Listen::Unix(path) => Self::unix(path).await,
        }
        .map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => GatewayError::Taken { listen: listen.clone() },
            _ => GatewayError::Bind { listen: listen.clone(), source },
        })
    }

    async fn tcp(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { address: Listen::Tcp(listener.local_addr()?), listener: Listener::Tcp(listener) })
    }

    async fn unix(path: &Path) -> io::Result<Self> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_dead(path).await => {
                tokio::fs::remove_file(path).await?;
                UnixListener::bind(path)?
            }
            bound => bound?,
        };
        let file = SocketFile(path.to_owned());
        Ok(Self { address: Listen::Unix(path.to_owned()), listener: Listener::Unix { listener, _file: file } })
    }

    /// Returns the place, with the port that was found.
    pub(super) fn address(&self) -> &Listen {
        &self.address
    }

    /// Waits for the next to come in.
    pub(super) async fn next(&self) -> io::Result<Visitor> {
        match &self.listener {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Each piece of an answer is wanted at once.
                stream.set_nodelay(true)?;
                Ok(Visitor::Tcp(stream))
            }
            Listener::Unix { listener, .. } => listener.accept().await.map(|(stream, _)| Visitor::Unix(stream)),
        }
    }
}

/// A socket whose program is gone refuses. Any other file is not ours to replace.
async fn is_dead(path: &Path) -> bool {
    UnixStream::connect(path).await.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        && std::fs::symlink_metadata(path).is_ok_and(|found| {
            use std::os::unix::fs::FileTypeExt;
            found.file_type().is_socket()
        })
}
