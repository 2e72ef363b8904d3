//! Long texts in columns: the last part of a stream, with a notice of what is not there.

/// The most bytes of output that a column keeps: the end, where the errors are.
pub const MAX_TEXT: usize = 50 * 1024;

/// The most bytes of a diff that a column keeps: the beginning, as whole lines. The whole diff lies in a file.
pub(super) const MAX_DIFF: usize = 4 * 1024 * 1024;

/// Keeps the last [`MAX_TEXT`] bytes of an output, from the beginning of a character on, behind a notice.
///
/// Bytes that are no UTF-8 become the replacement character.
pub(super) fn last_part(output: &[u8]) -> String {
    if output.len() <= MAX_TEXT {
        return String::from_utf8_lossy(output).into_owned();
    }
    let mut start = output.len() - MAX_TEXT;
    // A character of UTF-8 has at most three bytes that continue it.
    let continues = |byte: &u8| (*byte & 0b1100_0000) == 0b1000_0000;
    start += output[start..].iter().take(3).take_while(|byte| continues(byte)).count();
    format!("[the first {start} bytes are left out]\n{}", String::from_utf8_lossy(&output[start..]))
}

/// Keeps the first [`MAX_DIFF`] bytes of a diff, to the end of a line, before a notice.
pub(super) fn first_part(diff: &[u8]) -> Vec<u8> {
    if diff.len() <= MAX_DIFF {
        return diff.to_vec();
    }
    let end = diff[..MAX_DIFF].iter().rposition(|byte| *byte == b'\n').map_or(MAX_DIFF, |newline| newline + 1);
    let mut kept = diff[..end].to_vec();
    kept.extend_from_slice(format!("[the last {} bytes are left out]\n", diff.len() - end).as_bytes());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_output_is_kept_whole() {
        assert_eq!(last_part(b"all of it"), "all of it");
        assert_eq!(last_part(&vec![b'x'; MAX_TEXT]).len(), MAX_TEXT);
        assert_eq!(last_part(b"\xff\xfe"), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn a_long_output_keeps_its_end_and_says_so() {
        // Three bytes a character: the cut falls inside one and moves to the next.
        let output = "€".repeat(40_000) + "end";
        let kept = last_part(output.as_bytes());
        let (notice, rest) = kept.split_once('\n').expect("two lines");
        let left_out: usize = notice.split(' ').nth(2).expect("a number").parse().expect("a number");
        assert_eq!(left_out + rest.len(), output.len());
        assert!(rest.len() <= MAX_TEXT && rest.len() > MAX_TEXT - 3);
        assert!(rest.starts_with('€') && rest.ends_with("€end"));
    }

    #[test]
    fn a_long_diff_ends_at_a_line() {
        let diff = b"+a line of some length\n".repeat(300_000);
        let kept = String::from_utf8(first_part(&diff)).expect("text");
        let (body, notice) = kept.trim_end().rsplit_once('\n').expect("two lines");
        assert!(body.ends_with("+a line of some length"));
        assert_eq!(notice, format!("[the last {} bytes are left out]", diff.len() - body.len() - 1));
    }
}
