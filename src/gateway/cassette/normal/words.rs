//! Words of a text that are other ones in each run: ids, dates, times, names of temporary folders.

/// From this length on, hexadecimal digits of both kinds, letters and figures, are an id: git shortens its own to seven.
const SHORTEST_ID: usize = 6;

/// What comes after these is an id, however short.
const LABELS: &[&str] = &["chunk id: ", "session id: ", "process id: ", "pgid: ", "pid: ", "pid "];

/// From this length on, digits are a moment or an id.
const SHORTEST_NUMBER: usize = 10;

/// Folders for temporary files. What is directly below has a name of the run.
const TEMPORARY: &[&str] = &["/private/tmp/", "/var/tmp/", "/var/folders/", "/dev/shm/", "/tmp/"];

const DAYS: &[&str] = &["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Replaces such words by what they are.
pub(super) fn quiet(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut in_word) = (text, false);
    while let Some(next) = rest.chars().next() {
        let found = if in_word { None } else { word(rest) };
        if let Some((length, name)) = found {
            out.push_str(name);
            rest = &rest[length..];
            in_word = true;
            continue;
        }
        in_word = next.is_alphanumeric();
        out.push(next);
        rest = &rest[next.len_utf8()..];
    }
    out
}

/// A word at the beginning of the text that changes from run to run: its length and what it is.
fn word(text: &str) -> Option<(usize, &'static str)> {
    let first = text.as_bytes().first()?;
    match first {
        b'/' => home(text).or_else(|| temporary(text)),
        b'0'..=b'9' => {
            uuid(text).or_else(|| date(text)).or_else(|| time(text)).or_else(|| duration(text)).or_else(|| id(text))
        }
        b'a'..=b'f' | b'A'..=b'F' => {
            uuid(text).or_else(|| spelled_date(text)).or_else(|| labelled(text)).or_else(|| id(text))
        }
        b'g'..=b'z' | b'G'..=b'Z' => spelled_date(text).or_else(|| labelled(text)),
        _ => None,
    }
}

/// What stands before a hidden folder, as in `/home/me/.config`: where a program keeps its own.
fn home(text: &str) -> Option<(usize, &'static str)> {
    let path = text.find(|next: char| !(next.is_alphanumeric() || "/._-+@".contains(next))).unwrap_or(text.len());
    let at = text[..path].find("/.")?;
    let named = text[at + 2..].starts_with(|next: char| next.is_alphanumeric());
    (at > 0 && named).then_some((at, "<home>"))
}

/// `PID: 4711`, with its label.
fn labelled(text: &str) -> Option<(usize, &'static str)> {
    let fits = |label: &&&str| text.get(..label.len()).is_some_and(|start| start.eq_ignore_ascii_case(label));
    let label = LABELS.iter().find(fits)?.len();
    let length = text[label..].bytes().take_while(u8::is_ascii_hexdigit).count();
    (length > 0 && ends(text, label + length)).then_some((label + length, "<id>"))
}

/// `/tmp/<name>`, with what stands before the name.
fn temporary(text: &str) -> Option<(usize, &'static str)> {
    let folder = TEMPORARY.iter().find(|folder| text.starts_with(*folder))?;
    let rest = &text[folder.len()..];
    let name = rest.find(|next: char| !(next.is_alphanumeric() || "._-+".contains(next))).unwrap_or(rest.len());
    (name > 0).then_some((folder.len() + name, "<temporary>"))
}

fn uuid(text: &str) -> Option<(usize, &'static str)> {
    let bytes = text.as_bytes().get(..36)?;
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    (bytes.iter().enumerate().all(fits) && ends(text, 36)).then_some((36, "<uuid>"))
}

fn id(text: &str) -> Option<(usize, &'static str)> {
    let length = text.bytes().take_while(u8::is_ascii_hexdigit).count();
    if !ends(text, length) {
        return None;
    }
    let digits = text.bytes().take(length).filter(u8::is_ascii_digit).count();
    if digits == length {
        return (length >= SHORTEST_NUMBER).then_some((length, "<number>"));
    }
    (length >= SHORTEST_ID && digits > 0).then_some((length, "<id>"))
}

/// A word ends here: no letter or digit follows.
fn ends(text: &str, at: usize) -> bool {
    text.get(at..).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// The rest after this pattern, in which `d` is a digit and all else is itself.
fn after<'a>(text: &'a str, pattern: &str) -> Option<&'a str> {
    let fits = |(byte, mark): (&u8, u8)| if mark == b'd' { byte.is_ascii_digit() } else { *byte == mark };
    let bytes = text.as_bytes().get(..pattern.len())?;
    if bytes.iter().zip(pattern.bytes()).all(fits) { text.get(pattern.len()..) } else { None }
}

/// `2026-11-30`, `2026/11/30`, `11/30/2026`, each also with a time after it.
fn date(text: &str) -> Option<(usize, &'static str)> {
    let patterns = ["dddd-dd-dd", "dddd/dd/dd", "dd/dd/dddd", "d/dd/dddd", "dd/d/dddd", "d/d/dddd", "dd.dd.dddd"];
    let rest = patterns.iter().find_map(|pattern| after(text, pattern))?;
    let timed = rest.strip_prefix(['T', ' ']).and_then(|rest| Some(&rest[time(rest)?.0..]));
    let rest = timed.unwrap_or(rest);
    let length = text.len() - rest.len();
    ends(text, length).then_some((length, "<date>"))
}

/// `12:34:56.789+01:00`.
fn time(text: &str) -> Option<(usize, &'static str)> {
    let rest = after(text, "dd:dd:dd").or_else(|| after(text, "d:dd:dd")).or_else(|| after(text, "dd:dd"))?;
    let digit = |next: char| next.is_ascii_digit();
    let fraction = rest.strip_prefix(['.', ',']).filter(|rest| rest.starts_with(digit));
    let rest = fraction.map_or(rest, |rest| rest.trim_start_matches(digit));
    let zone = rest
        .strip_prefix('Z')
        .or_else(|| ["+dd:dd", "-dd:dd", "+dddd", "-dddd"].iter().find_map(|pattern| after(rest, pattern)));
    let rest = zone.unwrap_or(rest);
    let length = text.len() - rest.len();
    ends(text, length).then_some((length, "<time>"))
}

/// `0.0920 seconds`, `1.5s`, `12 ms`: what was measured. `5 seconds` may be meant, and stays.
fn duration(text: &str) -> Option<(usize, &'static str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &text[digits(text)..];
    let fraction = rest.strip_prefix('.').map(|rest| &rest[digits(rest)..]);
    let rest = fraction.unwrap_or(rest);
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let unit = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
    let measured = match &rest[..unit] {
        "ms" | "milliseconds" => true,
        "s" | "sec" | "secs" | "second" | "seconds" => fraction.is_some(),
        _ => false,
    };
    let length = text.len() - rest.len() + unit;
    (measured && ends(text, length)).then_some((length, "<duration>"))
}

/// `Monday, November 30, 2026`, `Nov 30 2026`, `Mon Nov 30 00:30:24 UTC 2026`, `Nov 30 00:30`, `30 Nov` not.
fn spelled_date(text: &str) -> Option<(usize, &'static str)> {
    let rest = name(text, DAYS).map_or(text, |rest| rest.trim_start_matches([',', ' ']));
    let rest = name(rest, MONTHS)?.strip_prefix(' ')?.trim_start();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if !(1..=2).contains(&digits) {
        return None;
    }
    let mut rest = &rest[digits..];
    let follows = rest.trim_start_matches([',', ' ']);
    if let Some((length, _)) = time(follows) {
        rest = &follows[length..];
        let zone = rest.trim_start_matches(|next: char| next == ' ' || next.is_ascii_uppercase());
        if zone.len() < rest.len() && after(zone, "dddd").is_some() {
            rest = zone;
        }
    }
    if let Some(year) = after(rest.trim_start_matches([',', ' ']), "dddd") {
        rest = year;
    }
    let length = text.len() - rest.len();
    ends(text, length).then_some((length, "<date>"))
}

/// The rest after a name of the list, whole or its first three letters.
fn name<'a>(text: &'a str, names: &[&str]) -> Option<&'a str> {
    let length = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let word = text.get(..length)?.to_ascii_lowercase();
    let long = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
        .iter()
        .chain(&["january", "february", "march", "april", "june", "july", "august", "september", "october"])
        .chain(&["november", "december", "sept"]);
    let known = names.contains(&word.as_str())
        || (long.into_iter().any(|name| *name == word) && names.contains(&word.get(..3)?));
    known.then(|| &text[length..])
}
