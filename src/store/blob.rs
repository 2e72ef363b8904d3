//! Content-addressed blobs: whole streams and artifacts, compressed, each stored once.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::error::StoreError;
use super::layout::Layout;
use super::record_file::write_atomic;

/// The most bytes of one blob, before compression.
pub const MAX_BLOB: usize = 64 * 1024 * 1024;

/// What was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// The hash of its content, which is its name.
    pub hash: String,
    /// Its length before compression.
    pub bytes: u64,
    /// How many bytes were left out because of [`MAX_BLOB`]; the beginning is kept.
    pub cut: u64,
}

/// Stores bytes and returns their name. Storing the same again changes nothing. Blocks.
///
/// # Errors
///
/// [`StoreError::File`] with the path that failed.
pub fn put(layout: &Layout, bytes: &[u8]) -> Result<Blob, StoreError> {
    let kept = &bytes[..bytes.len().min(MAX_BLOB)];
    let hash = blake3::hash(kept).to_hex().to_string();
    let path = path_of(layout, &hash);
    if !path.exists() {
        let failed = |source| StoreError::File { action: "write", path: path.clone(), source };
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(kept).and_then(|()| encoder.try_finish()).map_err(failed)?;
        write_atomic(&path, encoder.get_ref()).map_err(failed)?;
    }
    Ok(Blob { hash, bytes: kept.len() as u64, cut: (bytes.len() - kept.len()) as u64 })
}

/// Reads a blob and checks that it is what its name says. Blocks.
///
/// # Errors
///
/// [`StoreError::File`]; its source has the kind `InvalidData` where the content does not fit the name.
pub fn get(layout: &Layout, hash: &str) -> Result<Vec<u8>, StoreError> {
    let path = path_of(layout, hash);
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // One byte more than a blob can have: a file that inflates beyond that is not one of ours.
        ZlibDecoder::new(File::open(&path)?).take(MAX_BLOB as u64 + 1).read_to_end(&mut bytes)?;
        if blake3::hash(&bytes).to_hex().as_str() == hash {
            Ok(bytes)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, "the content does not fit the name"))
        }
    };
    read().map_err(|source| StoreError::File { action: "read", path: path.clone(), source })
}

fn path_of(layout: &Layout, hash: &str) -> PathBuf {
    // A name that is no hash becomes one, so that none leads out of the folder.
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = if is_hash { hash.to_owned() } else { blake3::hash(hash.as_bytes()).to_hex().to_string() };
    layout.blobs().join(&name[..2]).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_stored_once_and_comes_back() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let layout = Layout::new(folder.path());
        let content = b"same line\n".repeat(10_000);
        let first = put(&layout, &content).expect("stored");
        assert_eq!(put(&layout, &content).expect("stored again"), first);
        assert_eq!((first.bytes, first.cut), (100_000, 0));
        assert_eq!(get(&layout, &first.hash).expect("read"), content);
        let path = path_of(&layout, &first.hash);
        assert!(std::fs::metadata(&path).expect("there").len() < 5_000, "it is compressed");
    }

    #[test]
    fn a_damaged_blob_is_not_believed() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let layout = Layout::new(folder.path());
        let blob = put(&layout, b"content").expect("stored");
        let other = put(&layout, b"other").expect("stored");
        std::fs::copy(path_of(&layout, &other.hash), path_of(&layout, &blob.hash)).expect("copied");
        let error = get(&layout, &blob.hash).expect_err("refused");
        assert!(matches!(error, StoreError::File { ref source, .. } if source.kind() == io::ErrorKind::InvalidData));
        assert!(get(&layout, "../../etc/passwd").is_err());
    }
}
