//! Which lines differ, in bounded time.
//!
//! Lines that repeat make every exact algorithm quadratic, and an agent decides what a file holds. Ordinary files go
//! through the exact one. Very large ones are first split at lines that occur once on both sides; what lies between is
//! compared exactly if it is small, and replaced as a whole if not. Both give a correct patch.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, Hunk, InternedInput, Token};

/// Up to this product of lines the exact algorithm takes well under a second.
const EXACT: usize = 400_000_000;
/// The same for one of many pieces.
const EXACT_PIECE: usize = 4_000_000;

/// Returns the differing lines of two texts, in order; neighbours are separated by at least one equal line.
pub(super) fn between(input: &InternedInput<&[u8]>) -> Vec<Hunk> {
    let (before, after) = trimmed(&input.before, &input.after, 0..input.before.len(), 0..input.after.len());
    if before.len().saturating_mul(after.len()) <= EXACT {
        let mut diff = Diff::compute(Algorithm::Histogram, input);
        diff.postprocess_lines(input);
        return diff.hunks().collect();
    }
    let mut hunks = Vec::new();
    let (mut b, mut a) = (before.start, after.start);
    let anchors = anchors(input, before.clone(), after.clone());
    for (next_b, next_a) in anchors.into_iter().chain([(before.end, after.end)]) {
        piece(input, b..next_b, a..next_a, &mut hunks);
        (b, a) = (next_b + 1, next_a + 1);
    }
    hunks
}

/// Compares one piece between two anchors.
fn piece(input: &InternedInput<&[u8]>, before: Range<usize>, after: Range<usize>, hunks: &mut Vec<Hunk>) {
    let (before, after) = trimmed(&input.before, &input.after, before, after);
    if before.is_empty() && after.is_empty() {
        return;
    }
    let (b, a) = (number(before.start), number(after.start));
    if before.len().saturating_mul(after.len()) > EXACT_PIECE {
        hunks.push(Hunk { before: b..number(before.end), after: a..number(after.end) });
        return;
    }
    let mut diff = Diff::default();
    // This algorithm makes no table of all lines, which would be made anew for each piece.
    diff.compute_with(Algorithm::Myers, &input.before[before], &input.after[after], input.interner.num_tokens());
    hunks.extend(diff.hunks().map(|hunk| Hunk {
        before: hunk.before.start + b..hunk.before.end + b,
        after: hunk.after.start + a..hunk.after.end + a,
    }));
}

/// Takes equal lines off both ends.
fn trimmed(
    b: &[Token],
    a: &[Token],
    mut before: Range<usize>,
    mut after: Range<usize>,
) -> (Range<usize>, Range<usize>) {
    let start = b[before.clone()].iter().zip(&a[after.clone()]).take_while(|(x, y)| x == y).count();
    before.start += start;
    after.start += start;
    let end = b[before.clone()].iter().rev().zip(a[after.clone()].iter().rev()).take_while(|(x, y)| x == y).count();
    before.end -= end;
    after.end -= end;
    (before, after)
}

/// How often a line occurs on a side, and where first.
#[derive(Clone, Copy, Default)]
struct Place {
    count: u32,
    at: usize,
}

/// The longest row of lines that occur exactly once on each side and stand in the same order.
fn anchors(input: &InternedInput<&[u8]>, before: Range<usize>, after: Range<usize>) -> Vec<(usize, usize)> {
    let mut places = vec![Place::default(); input.interner.num_tokens() as usize];
    for at in after {
        let place = &mut places[input.after[at].0 as usize];
        *place = Place { count: place.count + 1, at };
    }
    let mut counts = vec![0u32; places.len()];
    for at in before.clone() {
        counts[input.before[at].0 as usize] += 1;
    }
    let unique = before.filter_map(|at| {
        let token = input.before[at].0 as usize;
        (counts[token] == 1 && places[token].count == 1).then(|| (at, places[token].at))
    });
    longest_rising(&unique.collect::<Vec<_>>())
}

/// The longest part of the pairs in which the second numbers rise too.
fn longest_rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // `ends[n]` is the pair that ends the best row of length n + 1 so far; `previous` links the rows.
    let mut ends: Vec<usize> = Vec::new();
    let mut previous = vec![None; pairs.len()];
    for (index, pair) in pairs.iter().enumerate() {
        let length = ends.partition_point(|&end| pairs[end].1 < pair.1);
        previous[index] = length.checked_sub(1).map(|shorter| ends[shorter]);
        if length == ends.len() {
            ends.push(index);
        } else {
            ends[length] = index;
        }
    }
    let mut row = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied();
    while let Some(index) = at {
        row.push(pairs[index]);
        at = previous[index];
    }
    row.reverse();
    row
}

fn number(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: impl Iterator<Item = usize>) -> Vec<u8> {
        lines.flat_map(|line| format!("{line}\n").into_bytes()).collect()
    }

    /// Replays the hunks on the old side and counts the lines they touch.
    fn replayed(old: &[u8], new: &[u8]) -> usize {
        let input = InternedInput::new(old, new);
        let mut result = Vec::new();
        let (mut at, mut touched) = (0, 0);
        for hunk in between(&input) {
            result.extend_from_slice(&input.before[at..hunk.before.start as usize]);
            result.extend_from_slice(&input.after[hunk.after.start as usize..hunk.after.end as usize]);
            at = hunk.before.end as usize;
            touched += hunk.before.len() + hunk.after.len();
        }
        result.extend_from_slice(&input.before[at..]);
        assert!(result == input.after, "the hunks turn one text into the other");
        touched
    }

    #[test]
    fn large_files_with_small_changes_give_small_hunks() {
        // Every other line repeats, as closing braces do.
        let lines =
            |skip: usize| text((0..60_000).filter(move |n| n % 10_007 != skip).map(|n| if n % 2 == 0 { n } else { 1 }));
        assert!(replayed(&lines(3), &lines(8)) < 50);
        assert_eq!(replayed(&text(0..60_000), &text((0..60_000).map(|n| if n % 30_000 == 5 { 7 } else { n }))), 4);
    }

    #[test]
    fn large_files_of_repeating_lines_end_soon() {
        let noise = |seed: usize| text((0..100_000).map(move |n: usize| n.wrapping_mul(seed) / 7919 % 3));
        assert!(replayed(&noise(7_654_321), &noise(1_234_577)) > 0);
        assert!(replayed(&text(0..60_000), &text((0..60_000).rev())) > 0);
    }
}
