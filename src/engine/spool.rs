//! Turns a session's raw output into what is kept: redacted, compressed, with a size cap.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::redact::Redactor;

/// Bytes of each stream that are kept, from its beginning; sessions rarely print a hundredth of it.
const CAP: u64 = 256 * 1024 * 1024;

/// Moves `stdout.log` and `stderr.log` from `spool` to compressed files in `folder`; empty streams leave no file.
///
/// # Errors
///
/// What the disk refuses. The raw files stay where they were then.
pub(crate) fn keep(spool: &Path, folder: &Path, redactor: &Redactor) -> io::Result<()> {
    for name in ["stdout.log", "stderr.log"] {
        let raw = spool.join(name);
        match fs::metadata(&raw) {
            Ok(metadata) if metadata.len() > 0 => {
                fs::create_dir_all(folder)?;
                compress(&raw, &folder.join(format!("{name}.gz")), redactor)?;
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        }
        fs::remove_file(&raw)?;
    }
    Ok(())
}

fn compress(raw: &Path, kept: &Path, redactor: &Redactor) -> io::Result<()> {
    let file = File::open(raw)?;
    let total = file.metadata()?.len();
    let mut source = BufReader::with_capacity(64 * 1024, file).take(CAP);
    let mut sink = GzEncoder::new(File::create(kept)?, Compression::fast());
    let mut stream = redactor.stream();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = source.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        sink.write_all(&stream.push(&buffer[..read]))?;
    }
    sink.write_all(&stream.finish())?;
    if total > CAP {
        writeln!(sink, "\n[refrain: {} of {total} bytes left out]", total - CAP)?;
    }
    sink.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn what_is_kept_holds_no_secret_and_the_raw_file_is_gone() {
        let dir = tempfile::tempdir().expect("a folder");
        let (spool, folder) = (dir.path().join("raw"), dir.path().join("kept"));
        fs::create_dir_all(&spool).expect("a folder");
        fs::write(spool.join("stdout.log"), "before hunter2-hunter2 after\n").expect("written");
        fs::write(spool.join("stderr.log"), "").expect("written");
        let redactor = Redactor::new([("PASSWORD".to_owned(), "hunter2-hunter2".to_owned())]);
        keep(&spool, &folder, &redactor).expect("kept");
        let mut text = String::new();
        let file = File::open(folder.join("stdout.log.gz")).expect("kept");
        GzDecoder::new(file).read_to_string(&mut text).expect("valid");
        assert_eq!(text, "before [redacted:PASSWORD] after\n");
        assert!(!folder.join("stderr.log.gz").exists());
        assert!(!spool.join("stdout.log").exists());
    }
}
