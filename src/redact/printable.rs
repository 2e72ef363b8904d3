//! Text from agents, made safe for a terminal.

/// Drops what moves a cursor, sets a clipboard or turns text around; keeps newline and tab.
///
/// Dropped are CSI, OSC, DCS and the other control strings with their content, C0 and C1 controls, DEL, and the
/// bidirectional controls of Unicode. A control string that does not end on its line loses only its opening, so it
/// cannot swallow what follows.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '\u{1b}' => skip_escape(after),
            '\u{9b}' => skip_csi(after),
            '\u{9d}' | '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => skip_string(after),
            _ => {
                if is_shown(c) {
                    out.push(c);
                }
                after
            }
        };
    }
    out
}

fn is_shown(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        c => !c.is_control(),
    }
}

/// Skips what follows an ESC.
fn skip_escape(text: &str) -> &str {
    match text.as_bytes().first() {
        Some(b'[') => skip_csi(&text[1..]),
        Some(b']' | b'P' | b'X' | b'^' | b'_') => skip_string(&text[1..]),
        Some(0x20..=0x7e) => {
            let intermediates = text.bytes().take_while(|b| (0x20..=0x2f).contains(b)).count();
            let last = usize::from(text.as_bytes().get(intermediates).is_some_and(|b| (0x30..=0x7e).contains(b)));
            &text[intermediates + last..]
        }
        _ => text,
    }
}

/// Skips parameters, intermediates and the final byte of a control sequence.
fn skip_csi(text: &str) -> &str {
    let inner = text.bytes().take_while(|b| (0x20..=0x3f).contains(b)).count();
    match text.as_bytes().get(inner) {
        Some(0x40..=0x7e) => &text[inner + 1..],
        _ => text,
    }
}

/// Skips a control string up to its terminator, if that stands on the same line.
fn skip_string(text: &str) -> &str {
    let mut previous = '\0';
    for (at, c) in text.char_indices() {
        match c {
            '\n' => break,
            '\u{7}' | '\u{9c}' => return &text[at + c.len_utf8()..],
            '\\' if previous == '\u{1b}' => return &text[at + 1..],
            _ => previous = c,
        }
    }
    text
}

/// Quotes the last lines of what a program printed, to stand behind the message of its failure: without escape codes and
/// without empty lines. Secrets are taken out by whoever calls it.
#[must_use]
pub fn last_lines(output: &str, count: usize) -> String {
    let lines: Vec<String> = output.lines().map(printable).collect();
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(count)..];
    if last.is_empty() {
        "; it printed nothing".to_owned()
    } else {
        format!("; its last lines:\n  {}", last.join("\n  "))
    }
}
