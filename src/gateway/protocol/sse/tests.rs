use proptest::prelude::*;

use super::*;

/// Keeps the data of events.
#[derive(Debug, Default, PartialEq)]
struct Kept {
    events: Vec<String>,
    parts: String,
}

impl Events for Kept {
    fn event(&mut self, data: &[u8]) {
        self.events.push(String::from_utf8_lossy(data).into_owned());
    }

    fn part(&mut self, data: &[u8]) {
        self.parts.push_str(&String::from_utf8_lossy(data));
    }

    fn end(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        self.events.push(format!("parts {}", if parts.len() > 99 { parts.len().to_string() } else { parts }));
    }
}

fn split(pieces: &[&[u8]]) -> Kept {
    let (mut splitter, mut kept) = (Splitter::default(), Kept::default());
    for piece in pieces {
        splitter.feed(piece, &mut kept);
    }
    splitter.finish(&mut kept);
    kept
}

#[test]
fn only_data_is_told() {
    let text = b": hi\n\nevent: a\ndata: one\nid: 3\nretry: 1\n\n\ndata:two\ndata\ndatas: no\n\ndata: {\rdata: }\r\r\ndata:  x\r\n\r\ndata: last";
    assert_eq!(split(&[text]).events, ["one", "parts two\n", "parts {\n}", " x", "last"]);
}

#[test]
fn long_lines_are_handed_on_and_not_kept() {
    let long = format!("data: {}\n\nevent: {}\ndata: x\n\n", "a".repeat(300_000), "b".repeat(300_000));
    let kept = split(&[long.as_bytes()]);
    assert_eq!(kept.events, ["parts 300000", "x"]);
    let pieces: Vec<&[u8]> = long.as_bytes().chunks(1000).collect();
    assert_eq!(split(&pieces), kept);
    let mut splitter = Splitter::default();
    for piece in pieces {
        splitter.feed(piece, &mut Kept::default());
        assert!(splitter.line.len() + splitter.held.len() <= 2 * LONGEST_LINE);
    }
}

proptest! {
    #[test]
    fn cuts_are_no_part_of_it(text in "(data: ?|data|event:|: |[a-c]|\n|\n\n|\r|\r\n){0,40}", cuts in prop::collection::vec(1..6usize, 0..60)) {
        let whole = split(&[text.as_bytes()]);
        let (mut pieces, mut rest) = (Vec::new(), text.as_bytes());
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        prop_assert_eq!(split(&pieces), whole);
    }

    #[test]
    fn lines_around_the_limit_are_cut_anywhere(length in LONGEST_LINE - 8..LONGEST_LINE + 8, step in 1..LONGEST_LINE, two: bool) {
        let second = if two { "data: y\n" } else { "" };
        let text = format!("data: {}\n{second}\ndata: z\n\n", "x".repeat(length));
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(step).collect();
        prop_assert!(split(&pieces) == split(&[text.as_bytes()]));
    }
}
