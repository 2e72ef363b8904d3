//! Files in and out of a container, as tar streams through the daemon: no program of the image is needed, and it works
//! as well when nothing runs in the container any more.
//!
//! What goes in is unpacked by the daemon, which follows a link that lies in the way of a member, but replaces one that
//! a member names. So every folder on the way from a place that no agent can exchange (`place`) is a member of its own.
//! What comes out was shaped by an agent: `members` reads the stream, `unpack` writes it. Memory is bounded in both
//! directions, whatever the size.

mod failure;
mod members;
mod pack;
mod pipe;
mod place;
mod unpack;

use std::io;
use std::path::Path;

use bollard::query_parameters::{DownloadFromContainerOptionsBuilder, UploadToContainerOptionsBuilder};
use jiff::Timestamp;

use self::failure::{file_error, of_daemon};
use self::pack::Packer;
use self::place::Place;
use super::container::Container;
use super::exec::daemon::next_piece;
use crate::runtime::RuntimeError;
use crate::runtime::folder::{CopyError, Folder};

/// Copies the tree below a host folder into the container. `now` is the time that new folders get.
pub(super) async fn put(container: &Container, from: &Path, to: &Path, now: Timestamp) -> Result<(), RuntimeError> {
    let place = Place::find(container, to).await?;
    let source = Folder::open_trusted(from).map_err(|source| file_error("open", from, source))?;
    let (sink, body) = pipe::to_daemon();
    let (owner, below) = (place.owner, place.below.clone());
    let packing = tokio::task::spawn_blocking(move || {
        let sent = sink.clone();
        let packed = pack_tree(&source, Packer::new(sink, owner, now), &below);
        if let Err(error) = &packed {
            // An archive that simply ended here would be taken for whole.
            sent.abort(&error.source);
        }
        packed
    });
    let options = UploadToContainerOptionsBuilder::new().path(&place.base).build();
    let sent = container.client.upload_to_container(&container.id, Some(options), bollard::body_try_stream(body)).await;
    let packed =
        packing.await.map_err(|error| RuntimeError::Io { action: "copy into a container", source: error.into() })?;
    match (packed, sent) {
        // The daemon stopped listening: it knows why.
        (Err(error), Err(refused)) if pipe::is_unheard(&error.source) => Err(of_daemon(container, to, &refused).await),
        (Err(error), _) => Err(file_error("copy", &from.join(error.at), error.source)),
        (Ok(()), Err(refused)) => Err(of_daemon(container, to, &refused).await),
        (Ok(()), Ok(())) => Ok(()),
    }
}

fn pack_tree(source: &Folder, mut packer: Packer<pipe::Sender>, below: &Path) -> Result<(), CopyError> {
    let failed = |source| CopyError { at: Path::new("").to_owned(), source };
    packer.folders_to(below).map_err(failed)?;
    source.walk(&mut packer)?;
    packer.finish().map_err(failed)
}

/// Writes one file inside the container. What is in its way, a link or a file, is replaced.
pub(super) async fn put_file(
    container: &Container,
    content: &[u8],
    to: &Path,
    executable: bool,
    now: Timestamp,
) -> Result<(), RuntimeError> {
    let place = Place::find(container, to).await?;
    let pack = || -> io::Result<Vec<u8>> {
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
        let parent = place.below.parent().ok_or_else(no_name)?;
        let name = place.below.file_name().ok_or_else(no_name)?;
        let mut archive = Vec::new();
        let mut packer = Packer::new(&mut archive, place.owner, now);
        packer.folders_to(parent)?;
        packer.content(Path::new(name), content, executable)?;
        packer.finish()?;
        Ok(archive)
    };
    let archive = pack().map_err(|source| file_error("write", to, source))?;
    let options = UploadToContainerOptionsBuilder::new().path(&place.base).build();
    let body = bollard::body_full(archive.into());
    match container.client.upload_to_container(&container.id, Some(options), body).await {
        Ok(()) => Ok(()),
        Err(error) => Err(of_daemon(container, to, &error).await),
    }
}

/// Copies the tree below a folder of the container to the host. Where the folder itself is a link, or one of those
/// above it that an agent could have exchanged, that is an error: no link is followed.
pub(super) async fn get(container: &Container, from: &Path, to: &Path) -> Result<Vec<String>, RuntimeError> {
    let source = place::source(container, from).await?;
    let to = to.to_owned();
    let (pieces, incoming) = pipe::from_daemon();
    let unpacking = tokio::task::spawn_blocking(move || {
        let open = std::fs::create_dir_all(&to).and_then(|()| Folder::open_trusted(&to));
        let folder = open.map_err(|source| CopyError { at: Path::new("").to_owned(), source })?;
        unpack::unpack(incoming, &folder)
    });
    let options = DownloadFromContainerOptionsBuilder::new().path(&source).build();
    let stream = container.client.download_from_container(&container.id, Some(options));
    tokio::pin!(stream);
    let mut broken = None;
    while let Some(piece) = next_piece(&mut stream).await {
        match piece {
            Ok(piece) => {
                if pieces.send(piece).await.is_err() {
                    // Whoever unpacks has given up, and says why.
                    break;
                }
            }
            Err(error) => {
                broken = Some(error);
                break;
            }
        }
    }
    drop(pieces);
    let unpacked = unpacking
        .await
        .map_err(|error| RuntimeError::Io { action: "copy out of a container", source: error.into() })?;
    match (unpacked, broken) {
        (_, Some(error)) => Err(of_daemon(container, from, &error).await),
        (Ok(notes), None) => Ok(notes),
        (Err(error), None) => Err(file_error("copy", &from.join(error.at), error.source)),
    }
}
