//! The changed lines of a text file with their surroundings.

use std::io::Write as _;

use imara_diff::{Hunk, InternedInput, Token};

use super::edits;

/// Unchanged lines shown before and after a change.
const CONTEXT: u32 = 3;

/// Lines added and removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) added: u64,
    pub(super) removed: u64,
}

/// Appends the hunks that turn `old` into `new`.
pub(super) fn write(old: &[u8], new: &[u8], out: &mut Vec<u8>) -> Lines {
    let input = InternedInput::new(old, new);
    let hunks = edits::between(&input);
    let mut group: Vec<Hunk> = Vec::new();
    let mut lines = Lines::default();
    for hunk in hunks {
        lines.added += u64::from(hunk.after.end - hunk.after.start);
        lines.removed += u64::from(hunk.before.end - hunk.before.start);
        if group.last().is_some_and(|last| hunk.before.start - last.before.end > 2 * CONTEXT) {
            write_group(&input, &group, out);
            group.clear();
        }
        group.push(hunk);
    }
    write_group(&input, &group, out);
    lines
}

/// Writes hunks that stand so close together that their surroundings meet.
fn write_group(input: &InternedInput<&[u8]>, group: &[Hunk], out: &mut Vec<u8>) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    // What stands before the first change and after the last is equal on both sides, so one offset serves both.
    let lead = CONTEXT.min(first.before.start);
    let trail = CONTEXT.min(count(&input.before) - last.before.end);
    let before = (first.before.start - lead, last.before.end + trail);
    let after = (first.after.start - lead, last.after.end + trail);
    // Writing to a vector cannot fail.
    let _ = writeln!(out, "@@ -{} +{} @@", range(before), range(after));
    let mut at = before.0;
    for hunk in group {
        write_run(input, b' ', &input.before, (at, hunk.before.start), out);
        write_run(input, b'-', &input.before, (hunk.before.start, hunk.before.end), out);
        write_run(input, b'+', &input.after, (hunk.after.start, hunk.after.end), out);
        at = hunk.before.end;
    }
    write_run(input, b' ', &input.before, (at, before.1), out);
}

fn write_run(input: &InternedInput<&[u8]>, sign: u8, side: &[Token], (from, to): (u32, u32), out: &mut Vec<u8>) {
    for &token in &side[from as usize..to as usize] {
        let line = input.interner[token];
        out.push(sign);
        out.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            out.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
}

/// A range of lines as hunk headers write it: an empty one names the line before it, a single one has no length.
fn range((start, end): (u32, u32)) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

fn count(tokens: &[Token]) -> u32 {
    u32::try_from(tokens.len()).unwrap_or(u32::MAX)
}
