//! Content that is not text, as git writes it into a patch: compressed, in base 85.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// Git looks for a NUL in so many first bytes to tell binary from text.
const LOOK: usize = 8000;
/// Compressed bytes in one line.
const LINE: usize = 52;

const ALPHABET: &[u8; 85] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Tells whether git would take content for binary.
pub(super) fn is_binary(content: &[u8]) -> bool {
    content[..content.len().min(LOOK)].contains(&0)
}

/// Appends both directions of a binary change.
pub(super) fn write(old: &[u8], new: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"GIT binary patch\n");
    literal(new, out);
    literal(old, out);
}

fn literal(content: &[u8], out: &mut Vec<u8>) {
    // Writing to vectors cannot fail.
    let _ = writeln!(out, "literal {}", content.len());
    for piece in compressed(content).chunks(LINE) {
        out.push(length_mark(piece.len()));
        for group in piece.chunks(4) {
            let mut word = [0; 4];
            word[..group.len()].copy_from_slice(group);
            out.extend_from_slice(&encode(u32::from_be_bytes(word)));
        }
        out.push(b'\n');
    }
    out.push(b'\n');
}

fn compressed(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let _ = encoder.write_all(content);
    encoder.finish().unwrap_or_default()
}

/// The letter that tells a line's length: `A` for 1 to `Z` for 26, `a` for 27 to `z` for 52.
fn length_mark(length: usize) -> u8 {
    let n = u8::try_from(length).unwrap_or(0);
    if n <= 26 { b'A' + n - 1 } else { b'a' + n - 27 }
}

fn encode(mut word: u32) -> [u8; 5] {
    let mut digits = [0; 5];
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[(word % 85) as usize];
        word /= 85;
    }
    digits
}
