//! How long a provider asks to be left alone: in a header, or in the body of its error.

use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::{CONTENT_ENCODING, HeaderName, RETRY_AFTER};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::capture::unpacked;

/// The most of an error's body that is looked at.
const LONGEST_ERROR: usize = 64 << 10;

/// Looks for the wish for a pause in an answer.
#[derive(Debug)]
pub(super) struct PauseReader {
    in_headers: Option<Duration>,
    coding: Option<String>,
    body: Vec<u8>,
}

impl PauseReader {
    /// Begins with an answer's head; `None` where its status asks for no pause.
    pub(super) fn of(status: u16, headers: &HeaderMap, now: Timestamp) -> Option<Self> {
        matches!(status, 429 | 503 | 529).then(|| Self {
            in_headers: in_headers(headers, now),
            coding: headers.get(CONTENT_ENCODING).and_then(|coding| coding.to_str().ok()).map(str::to_owned),
            body: Vec::new(),
        })
    }

    /// Takes a piece of the body.
    pub(super) fn feed(&mut self, piece: &[u8]) {
        if self.in_headers.is_none() {
            let room = LONGEST_ERROR.saturating_sub(self.body.len());
            self.body.extend_from_slice(&piece[..piece.len().min(room)]);
        }
    }

    /// Returns the pause that is asked for, as far as the answer is read.
    pub(super) fn pause(&mut self) -> Option<Duration> {
        self.in_headers.or_else(|| {
            let body = unpacked(std::mem::take(&mut self.body), self.coding.as_deref(), LONGEST_ERROR);
            in_error(&body)
        })
    }
}

/// Seconds, milliseconds in a header of its own, or a date.
fn in_headers(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok();
    if let Some(millis) = text(&HeaderName::from_static("retry-after-ms")).and_then(number) {
        return Duration::try_from_secs_f64(millis / 1000.0).ok();
    }
    let asked = text(&RETRY_AFTER)?;
    if let Some(seconds) = number(asked) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(asked).ok()?;
    let left: SignedDuration = until.duration_since(now);
    Duration::try_from(left).ok()
}

/// Gemini puts `RetryInfo` among the details of an error: `"retryDelay": "34.5s"`. A stream wraps the error in an array.
fn in_error(body: &[u8]) -> Option<Duration> {
    let told: Value = serde_json::from_slice(body).ok()?;
    let object = told.get(0).unwrap_or(&told);
    let details = object.pointer("/error/details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;
    use test_case::test_case;

    fn reader(status: u16, pairs: &[(&'static str, &'static str)]) -> Option<PauseReader> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        PauseReader::of(status, &headers, Timestamp::UNIX_EPOCH)
    }

    #[test_case(&[("retry-after", "7")], Some(7_000); "seconds")]
    #[test_case(&[("retry-after", "0.5")], Some(500); "part of a second")]
    #[test_case(&[("retry-after-ms", "1500"), ("retry-after", "9")], Some(1_500); "milliseconds")]
    #[test_case(&[("retry-after", "Thu, 01 Jan 1970 00:00:30 GMT")], Some(30_000); "date")]
    #[test_case(&[("retry-after", "soon")], None; "no time")]
    #[test_case(&[("retry-after", "-3")], None; "past")]
    #[test_case(&[], None; "none")]
    fn headers_are_read(pairs: &[(&'static str, &'static str)], millis: Option<u64>) {
        assert_eq!(reader(429, pairs).expect("a reader").pause(), millis.map(Duration::from_millis));
    }

    #[test_case(r#"{"error":{"code":429,"details":[{"@type":"x"},{"@type":"RetryInfo","retryDelay":"34.5s"}]}}"#, Some(34_500); "object")]
    #[test_case(r#"[{"error":{"code":429,"details":[{"retryDelay":"2s"}]}}]"#, Some(2_000); "array")]
    #[test_case(r#"{"error":{"message":"\"retryDelay\": \"2s\""}}"#, None; "in a text")]
    #[test_case("<html>", None; "no JSON")]
    fn errors_are_read(body: &str, millis: Option<u64>) {
        let mut reader = reader(429, &[]).expect("a reader");
        for piece in body.as_bytes().chunks(5) {
            reader.feed(piece);
        }
        assert_eq!(reader.pause(), millis.map(Duration::from_millis));
    }

    #[test]
    fn other_answers_ask_for_no_pause() {
        assert!(reader(200, &[("retry-after", "7")]).is_none());
        assert!(reader(401, &[("retry-after", "7")]).is_none());
    }
}
