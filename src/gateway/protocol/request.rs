//! Reads what a request asks for, as its body passes.

use bytes::Bytes;

use super::api::Api;
use super::encoding::{Unpacker, Unreadable};
use super::json::{Key, Kind, Scalar, Scanner, Visit};

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The model that the body names. With Gemini the path names it: [`super::Route::model`].
    pub model: Option<String>,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// Hash of the body (BLAKE3): equal for a request and its retries.
    pub fingerprint: String,
    /// How to make the provider tell the usage of a stream whose client did not ask for it. The chunk that then comes
    /// is to be hidden by a [`super::UsageFilter`].
    pub usage_splice: Option<Splice>,
}

/// A change to a body that leaves all its other bytes alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Splice {
    /// Where it begins.
    pub at: u64,
    /// How many bytes are left out there: a `false` or `null` that something else takes the place of, mostly none.
    pub skip: u64,
    /// What is put in there.
    pub insert: &'static [u8],
}

impl Splice {
    /// Returns the length of a body that had this many bytes.
    #[must_use]
    pub const fn length(&self, body: u64) -> u64 {
        (body + self.insert.len() as u64).saturating_sub(self.skip)
    }

    /// Returns the changed body in its pieces, copying nothing.
    #[must_use]
    pub fn pieces(&self, mut body: Bytes) -> [Bytes; 3] {
        let length = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut rest = body.split_off(length(self.at).min(body.len()));
        let rest = rest.split_off(length(self.skip).min(rest.len()));
        [body, Bytes::from_static(self.insert), rest]
    }
}

/// Reads a body piece by piece, in constant memory. Of a body that is no JSON object, or is compressed in a way that is not
/// read, only the hash is known.
#[derive(Debug)]
pub struct RequestReader {
    api: Api,
    hash: blake3::Hasher,
    scanner: Scanner,
    wishes: Wishes,
    packed: bool,
    /// Says why, where the body cannot be read.
    unpacker: Result<Option<Unpacker>, Unreadable>,
}

impl RequestReader {
    /// Begins with the body of a request to this interface.
    #[must_use]
    pub fn new(api: Api) -> Self {
        Self::encoded(api, None)
    }

    /// Begins with a body that is compressed as its header says.
    #[must_use]
    pub fn encoded(api: Api, content_encoding: Option<&str>) -> Self {
        let unpacker = Unpacker::of(content_encoding);
        Self {
            api,
            hash: blake3::Hasher::new(),
            scanner: Scanner::new(),
            wishes: Wishes::default(),
            packed: !matches!(unpacker, Ok(None)),
            unpacker,
        }
    }

    /// Reads the next piece of the body.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.feed_through(bytes, |_| {});
    }

    /// Reads the next piece of the body, and hands on what it is without compression. Returns false for a body that cannot be
    /// read: what was handed on of it is not all.
    pub fn feed_through(&mut self, bytes: &[u8], mut plain: impl FnMut(&[u8])) -> bool {
        let Self { hash, scanner, wishes, unpacker, .. } = self;
        hash.update(bytes);
        let mut read = |bytes: &[u8]| {
            scanner.feed(bytes, wishes);
            plain(bytes);
        };
        match unpacker {
            Ok(None) => read(bytes),
            Ok(Some(unpacking)) => {
                if let Err(error) = unpacking.feed(bytes, read) {
                    *unpacker = Err(error);
                }
            }
            Err(_) => {}
        }
        unpacker.is_ok()
    }

    /// Says what the body asks for.
    #[must_use]
    pub fn finish(self) -> Asked {
        let Self { api, hash, scanner, wishes, packed, .. } = self;
        let whole = scanner.is_complete();
        let stream = match api {
            Api::GeminiStream => true,
            Api::AnthropicMessages | Api::OpenAiResponses | Api::OpenAiChat => wishes.stream,
            Api::GeminiGenerate | Api::AnthropicCountTokens | Api::GeminiCountTokens | Api::Models => false,
        };
        // Nothing can be put into a body that is packed.
        let usage_splice = if api == Api::OpenAiChat && stream && whole && !packed { wishes.splice() } else { None };
        Asked { model: wishes.model, stream, fingerprint: hash.finalize().to_hex().to_string(), usage_splice }
    }
}

/// What the top level of the body says. Of a key that is there twice the last one counts, as it does with providers.
#[derive(Debug, Default)]
struct Wishes {
    model: Option<String>,
    stream: bool,
    options: Options,
    /// Where the body's closing brace is.
    end: Option<u64>,
}

/// What stands at `stream_options`.
#[derive(Debug, Default, Clone, Copy)]
enum Options {
    #[default]
    Absent,
    Null {
        at: u64,
    },
    Object {
        /// The offset after its opening brace.
        inside: u64,
        empty: bool,
        wish: Wish,
    },
    /// Something that the provider will refuse.
    Wrong,
}

/// What stands at `include_usage` in it.
#[derive(Debug, Default, Clone, Copy)]
enum Wish {
    #[default]
    Absent,
    Asked,
    /// A `false` or a `null`.
    Declined {
        at: u64,
        length: u64,
    },
    Wrong,
}

impl Wishes {
    fn splice(&self) -> Option<Splice> {
        match self.options {
            // At the end: there `stream` at least stands before it.
            Options::Absent => {
                Some(Splice { at: self.end?, skip: 0, insert: br#","stream_options":{"include_usage":true}"# })
            }
            Options::Null { at } => Some(Splice { at, skip: 4, insert: br#"{"include_usage":true}"# }),
            Options::Object { inside, empty, wish: Wish::Absent } => {
                let insert: &[u8] = if empty { br#""include_usage":true"# } else { br#""include_usage":true,"# };
                Some(Splice { at: inside, skip: 0, insert })
            }
            Options::Object { wish: Wish::Declined { at, length }, .. } => {
                Some(Splice { at, skip: length, insert: b"true" })
            }
            Options::Object { wish: Wish::Asked | Wish::Wrong, .. } | Options::Wrong => None,
        }
    }

    fn option(&mut self, key: Key, wish: Wish) {
        if let Options::Object { empty, wish: standing, .. } = &mut self.options {
            *empty = false;
            if key == Key::IncludeUsage {
                *standing = wish;
            }
        }
    }
}

impl Visit for Wishes {
    fn begins(&mut self, path: &[Key], kind: Kind, at: u64) -> bool {
        match path {
            [Key::Model] => return kind == Kind::String,
            [Key::Stream] => {
                self.stream = false;
                return kind == Kind::Word;
            }
            [Key::StreamOptions] => {
                self.options = match kind {
                    Kind::Object => Options::Object { inside: at + 1, empty: true, wish: Wish::Absent },
                    _ => Options::Wrong,
                };
                return kind == Kind::Word;
            }
            [Key::StreamOptions, key] => {
                self.option(*key, Wish::Wrong);
                return kind == Kind::Word && *key == Key::IncludeUsage;
            }
            _ => {}
        }
        false
    }

    fn scalar(&mut self, path: &[Key], value: Scalar<'_>, end: u64) {
        match (path, value) {
            ([Key::Model], Scalar::String(name)) => self.model = Some(name.to_owned()),
            ([Key::Stream], value) => self.stream = value == Scalar::True,
            ([Key::StreamOptions], Scalar::Null) => self.options = Options::Null { at: end.saturating_sub(4) },
            ([Key::StreamOptions, key], value) => {
                let declined = |length: u64| Wish::Declined { at: end.saturating_sub(length), length };
                let wish = match value {
                    Scalar::True => Wish::Asked,
                    Scalar::False => declined(5),
                    Scalar::Null => declined(4),
                    Scalar::String(_) | Scalar::Number(_) => Wish::Wrong,
                };
                self.option(*key, wish);
            }
            _ => {}
        }
    }

    fn closes(&mut self, path: &[Key], kind: Kind, at: u64) {
        if path.is_empty() && kind == Kind::Object {
            self.end = Some(at);
        }
    }
}

#[cfg(test)]
mod tests;
