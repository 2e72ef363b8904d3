//! The wrapper's own words, told from a command's output by a nonce that the command does not know.
//!
//! They stand between the output in the same streams, so that they come behind all output before them; the closing one
//! also stands in a file, for a host that has lost the stream.

use std::time::Duration;

/// Begins a line of the wrapper.
const MARK: u8 = 0o36;

/// What the wrapper says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// The program is about to start.
    Begun(Begun),
    /// The program cannot be started, for this reason.
    Refused(String),
    /// It has ended.
    Ended(Record),
    /// Standard output is over.
    Over,
}

/// Who looks after the command in the container: pids there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begun {
    /// The wrapper.
    pub(super) wrapper: u32,
    /// What streams the log; 0 where nothing does.
    pub(super) poller: u32,
}

/// The closing record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// What the shell made of the end: the exit code, or 128 and the signal.
    pub(super) status: i64,
    pub(super) how: How,
    /// Processes that outlived the program and were killed.
    pub(super) killed: usize,
    /// How long the program ran.
    pub(super) duration: Duration,
    /// Processes of the container that were killed for want of memory meanwhile.
    pub(super) ooms: u64,
    /// How often the container's own limit was ever met.
    pub(super) hits: u64,
    /// That limit in bytes.
    pub(super) limit: Option<u64>,
    /// Sizes of the logs of standard output and standard error; unknown where there is no log.
    pub(super) sizes: [Option<u64>; 2],
}

/// How a program ended, as far as the shell can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Exit,
    Signal,
    /// The shell that waited for it was killed.
    Unknown,
}

/// Takes the wrapper's words out of a stream.
#[derive(Debug)]
pub(super) struct Scanner {
    start: Vec<u8>,
    /// What may become a word.
    held: Vec<u8>,
}

impl Scanner {
    pub(super) fn new(nonce: &str) -> Self {
        Self { start: format!("\u{1e}refrain {nonce} ").into_bytes(), held: Vec::new() }
    }

    /// Takes bytes, cut anywhere; hands on output, and returns the words that they complete.
    pub(super) fn push(&mut self, bytes: &[u8], output: &mut dyn FnMut(&[u8])) -> Vec<Word> {
        if self.held.is_empty() && !bytes.contains(&MARK) {
            output(bytes);
            return Vec::new();
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let mut words = Vec::new();
        let (mut sent, mut at) = (0, 0);
        while let Some(mark) = all[at..].iter().position(|&byte| byte == MARK).map(|found| at + found) {
            let rest = &all[mark..];
            if rest.starts_with(&self.start) {
                output(&all[sent..mark]);
                let Some(length) = rest.iter().position(|&byte| byte == b'\n') else {
                    self.held = rest.to_vec();
                    return words;
                };
                words.extend(parse(&String::from_utf8_lossy(&rest[self.start.len()..length])));
                (sent, at) = (mark + length + 1, mark + length + 1);
            } else if self.start.starts_with(rest) {
                output(&all[sent..mark]);
                self.held = rest.to_vec();
                return words;
            } else {
                at = mark + 1;
            }
        }
        output(&all[sent..]);
        words
    }

    /// Hands on what was held back when the stream ended.
    pub(super) fn finish(&mut self, output: &mut dyn FnMut(&[u8])) {
        output(&std::mem::take(&mut self.held));
    }
}

/// Finds the closing record in the file that a lost connection leaves.
pub(super) fn closing_record(file: &[u8], nonce: &str) -> Option<Record> {
    let words = Scanner::new(nonce).push(file, &mut |_| {});
    words.into_iter().find_map(|word| if let Word::Ended(record) = word { Some(record) } else { None })
}

fn parse(line: &str) -> Option<Word> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let value = |name: &str| {
        rest.split(' ').find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name)).map(|(_, value)| value)
    };
    let number = |name: &str| value(name).and_then(|text| text.parse::<u64>().ok());
    Some(match word {
        "begun" => Word::Begun(Begun {
            wrapper: u32::try_from(number("wrapper")?).ok()?,
            poller: number("poller").and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0),
        }),
        "refused" => Word::Refused(rest.to_owned()),
        "over" => Word::Over,
        "ended" => Word::Ended(Record {
            status: i64::try_from(number("status")?).ok()?,
            how: match value("how")? {
                "exit" => How::Exit,
                "signal" => How::Signal,
                _ => How::Unknown,
            },
            killed: usize::try_from(number("killed")?).ok()?,
            duration: hundredths(value("to")?)?.saturating_sub(hundredths(value("from")?)?),
            ooms: number("ooms").unwrap_or(0),
            hits: number("hits").unwrap_or(0),
            limit: number("limit"),
            sizes: [number("out"), number("err")],
        }),
        _ => return None,
    })
}

/// Reads seconds with two decimals, as the kernel tells the time since boot.
fn hundredths(text: &str) -> Option<Duration> {
    let (seconds, rest) = text.split_once('.')?;
    let hundredths: u64 = rest.parse().ok()?;
    Some(Duration::from_secs(seconds.parse().ok()?) + Duration::from_millis(hundredths * 10))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: &str = "\u{1e}refrain N ended status=137 how=signal killed=2 from=10.05 to=12.55 ooms=1 hits=3 \
                        limit=64 out=5 err=none\n";

    fn scan(pieces: &[&[u8]]) -> (Vec<u8>, Vec<Word>) {
        let (mut output, mut words) = (Vec::new(), Vec::new());
        let mut scanner = Scanner::new("N");
        for piece in pieces {
            words.extend(scanner.push(piece, &mut |bytes| output.extend_from_slice(bytes)));
        }
        scanner.finish(&mut |bytes| output.extend_from_slice(bytes));
        (output, words)
    }

    #[test]
    fn a_record_is_read_and_leaves_no_trace_in_the_output() {
        let (output, words) = scan(&[b"before", LINE.as_bytes(), b"after"]);
        assert_eq!(output, b"beforeafter");
        let record = Record {
            status: 137,
            how: How::Signal,
            killed: 2,
            duration: Duration::from_millis(2500),
            ooms: 1,
            hits: 3,
            limit: Some(64),
            sizes: [Some(5), None],
        };
        assert_eq!(words, [Word::Ended(record.clone())]);
        assert_eq!(closing_record(LINE.as_bytes(), "N"), Some(record));
        assert_eq!(closing_record(LINE.as_bytes(), "M"), None);
    }

    #[test]
    fn words_with_another_nonce_are_output() {
        let forged = LINE.replace(" N ", " M ");
        assert_eq!(scan(&[forged.as_bytes()]), (forged.into_bytes(), vec![]));
    }

    #[test]
    fn half_a_word_at_the_end_is_output() {
        assert_eq!(scan(&[b"x\x1erefr"]), (b"x\x1erefr".to_vec(), vec![]));
    }

    proptest! {
        #[test]
        fn where_the_stream_is_cut_does_not_matter(cut in 0_usize..200, second in 0_usize..200) {
            let whole = format!("a\u{1e}\u{1e}refrain M x\n{LINE}\u{1e}refrain N over\nb").into_bytes();
            let (first, rest) = whole.split_at(cut.min(whole.len()));
            let (middle, last) = rest.split_at(second.min(rest.len()));
            prop_assert_eq!(scan(&[&whole]), scan(&[first, middle, last]));
        }
    }
}
