//! Files of the host on their way into a container, packed while they are sent: none is held in memory whole.

use std::io::{self, Write};
use std::path::Path;

use bollard::Docker;
use bollard::query_parameters::UploadToContainerOptionsBuilder;
use tokio::sync::mpsc;

use super::error::failed;
use crate::runtime::RuntimeError;

/// Pieces that wait to be sent.
const WAITING: usize = 16;

/// Copies one file to a place in a container, executable and root's.
pub(super) async fn send_file(client: &Docker, id: &str, from: &Path, to: &str) -> Result<(), RuntimeError> {
    let (path, name) = (from.to_owned(), to.trim_start_matches('/').to_owned());
    send(client, id, from, move |archive| {
        let mut file = std::fs::File::open(&path)?;
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_mode(0o755);
        header.set_size(file.metadata()?.len());
        archive.append_data(&mut header, &name, &mut file)
    })
    .await
}

/// Copies a folder to a place in a container. Links stay links; files are root's and readable for all.
pub(super) async fn send_folder(client: &Docker, id: &str, from: &Path, to: &str) -> Result<(), RuntimeError> {
    let (path, name) = (from.to_owned(), to.trim_start_matches('/').to_owned());
    send(client, id, from, move |archive| {
        archive.follow_symlinks(false);
        archive.mode(tar::HeaderMode::Deterministic);
        archive.append_dir_all(&name, &path)
    })
    .await
}

/// Runs `pack` on a thread for blocking work while what it packs is sent.
async fn send(
    client: &Docker,
    id: &str,
    from: &Path,
    pack: impl FnOnce(&mut tar::Builder<Pieces>) -> io::Result<()> + Send + 'static,
) -> Result<(), RuntimeError> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let packing = tokio::task::spawn_blocking(move || {
        let mut archive = tar::Builder::new(Pieces(sender.clone()));
        let packed = pack(&mut archive).and_then(|()| archive.into_inner().map(|_| ()));
        if let Err(error) = &packed {
            // The request must break off: a whole archive that lacks files would be taken for the folder.
            let _ = sender.blocking_send(Err(io::Error::new(error.kind(), error.to_string())));
        }
        packed
    });
    let body = futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|piece: io::Result<Vec<u8>>| (piece.map(Into::into), receiver))
    });
    let options = UploadToContainerOptionsBuilder::new().path("/").build();
    let sent = client.upload_to_container(id, Some(options), bollard::body_try_stream(body)).await;
    let packed = packing.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    packed.map_err(|source| RuntimeError::File { action: "read", path: from.to_owned(), source })?;
    sent.map_err(|error| failed("copy into a container", &error))
}

/// Takes bytes and hands them on in pieces.
struct Pieces(mpsc::Sender<io::Result<Vec<u8>>>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.blocking_send(Ok(bytes.to_vec())).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
