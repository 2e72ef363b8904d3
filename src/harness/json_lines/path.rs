//! Dotted paths into JSON, and sums of them.

use serde_json::Value;

/// `message.content.0.text`: keys and indices; `*` stands for every key or index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path(Vec<String>);

impl Path {
    pub(super) fn parse(text: &str) -> Self {
        Self(text.split('.').map(str::to_owned).collect())
    }

    pub(super) fn steps(&self) -> &[String] {
        &self.0
    }

    /// Returns what is at the path; several values only where it has a `*`.
    pub(super) fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        let mut found = vec![value];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| children(value, step)).collect();
        }
        found
    }

    /// Returns the first text at the path; numbers count as texts.
    pub(super) fn text(&self, value: &Value) -> Option<String> {
        self.find(value).into_iter().find_map(|value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        })
    }

    /// Returns the first yes or no at the path: a boolean, an exit code, or a word for how something ended.
    pub(super) fn flag(&self, value: &Value) -> Option<bool> {
        self.find(value).into_iter().find_map(|value| match value {
            Value::Bool(flag) => Some(*flag),
            Value::Number(code) => code.as_i64().map(|code| code == 0),
            Value::String(word) => match word.as_str() {
                "completed" | "success" | "ok" => Some(true),
                "failed" | "error" | "cancelled" => Some(false),
                _ => None,
            },
            _ => None,
        })
    }

    /// Returns the sum of the numbers at the path.
    fn number(&self, value: &Value) -> Option<f64> {
        let numbers: Vec<f64> = self.find(value).into_iter().filter_map(Value::as_f64).collect();
        (!numbers.is_empty()).then(|| numbers.iter().sum())
    }
}

/// Paths of a text, of which the first that leads to one counts: `result | errors.0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextPath(Vec<Path>);

impl TextPath {
    pub(super) fn parse(text: &str) -> Self {
        Self(text.split('|').map(|path| Path::parse(path.trim())).collect())
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter()
    }

    pub(super) fn text(&self, value: &Value) -> Option<String> {
        self.0.iter().find_map(|path| path.text(value).filter(|text| !text.is_empty()))
    }

    /// Returns all texts at the first path that leads to one, a line for each; empty ones count too.
    pub(super) fn all_texts(&self, value: &Value) -> Option<String> {
        self.0.iter().find_map(|path| {
            let texts: Vec<_> = path.find(value).into_iter().filter_map(Value::as_str).collect();
            (!texts.is_empty()).then(|| texts.join("\n"))
        })
    }
}

/// What a line must have at a path: one of some values; where the path ends with ` ~`, a text that holds one; where it ends
/// with ` =`, what is at one of some other paths.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    path: Path,
    wanted: Wanted,
}

#[derive(Debug, Clone, PartialEq)]
enum Wanted {
    Values(Vec<Value>),
    Parts(Vec<String>),
    Paths(Vec<Path>),
}

impl Condition {
    pub(super) fn new(path: &str, wanted: &Value) -> Self {
        let values = if let Value::Array(items) = wanted { items.clone() } else { vec![wanted.clone()] };
        let texts = || values.iter().filter_map(Value::as_str);
        let (path, wanted) = if let Some(path) = path.strip_suffix(" ~") {
            (path, Wanted::Parts(texts().map(str::to_owned).collect()))
        } else if let Some(path) = path.strip_suffix(" =") {
            (path, Wanted::Paths(texts().map(Path::parse).collect()))
        } else {
            (path, Wanted::Values(values))
        };
        Self { path: Path::parse(path), wanted }
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        let others: &[Path] = if let Wanted::Paths(paths) = &self.wanted { paths } else { &[] };
        std::iter::once(&self.path).chain(others)
    }

    pub(super) fn fits(&self, line: &Value) -> bool {
        self.path.find(line).into_iter().any(|found| match &self.wanted {
            Wanted::Values(values) => values.contains(found),
            Wanted::Parts(parts) => found.as_str().is_some_and(|found| parts.iter().any(|part| found.contains(part))),
            Wanted::Paths(paths) => paths.iter().any(|path| path.find(line).contains(&found)),
        })
    }
}

fn children<'v>(value: &'v Value, step: &str) -> Vec<&'v Value> {
    match value {
        Value::Object(object) if step == "*" => object.values().collect(),
        Value::Array(items) if step == "*" => items.iter().collect(),
        Value::Object(object) => object.get(step).into_iter().collect(),
        Value::Array(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Paths added and subtracted: `usage.input_tokens - usage.cached_input_tokens?`. A path with `?` counts as 0 where it
/// is absent; any other that is absent makes the whole unknown.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expression(Vec<Term>);

#[derive(Debug, Clone, PartialEq)]
struct Term {
    path: Path,
    sign: f64,
    optional: bool,
}

impl Expression {
    pub(super) fn parse(text: &str) -> Self {
        let mut sign = 1.0;
        let mut terms = Vec::new();
        for word in text.split_whitespace() {
            match word {
                "+" => sign = 1.0,
                "-" => sign = -1.0,
                word => {
                    let (path, optional) = word.strip_suffix('?').map_or((word, false), |path| (path, true));
                    terms.push(Term { path: Path::parse(path), sign, optional });
                }
            }
        }
        Self(terms)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|term| &term.path)
    }

    /// Returns the value as a number.
    pub(super) fn number(&self, value: &Value) -> Option<f64> {
        let mut sum = 0.0;
        for term in &self.0 {
            match term.path.number(value) {
                Some(number) => sum += term.sign * number,
                None if term.optional => {}
                None => return None,
            }
        }
        Some(sum).filter(|sum| sum.is_finite() && !self.0.is_empty())
    }

    /// Returns the value as a count. What is negative or no whole number is not one.
    pub(super) fn whole(&self, value: &Value) -> Option<u64> {
        let number = self.number(value)?;
        // Beyond 2^53 a float is no count any more.
        let is_count = number >= 0.0 && number.fract() == 0.0 && number < 9_007_199_254_740_992.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked")]
        is_count.then_some(number as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use test_case::test_case;

    #[test_case("a.b", Some(7); "keys")]
    #[test_case("list.1.n", Some(5); "index")]
    #[test_case("list.*.n", Some(9); "all")]
    #[test_case("a.b - list.0.n", Some(3); "difference")]
    #[test_case("list.0.n + list.1.n", Some(9); "sum")]
    #[test_case("list.0.n - a.b", None; "a negative count is none")]
    #[test_case("a.b - a.absent", None; "absent")]
    #[test_case("a.b - a.absent?", Some(7); "absent and optional")]
    #[test_case("a.half", None; "no whole number")]
    #[test_case("a.text", None; "no number")]
    #[test_case("a.huge", None; "no count")]
    #[test_case("", None; "nothing")]
    fn counts(text: &str, expected: Option<u64>) {
        let value = json!({"a": {"b": 7, "half": 0.5, "text": "7", "huge": 1e300}, "list": [{"n": 4}, {"n": 5}]});
        assert_eq!(Expression::parse(text).whole(&value), expected);
    }

    #[test_case("kind", json!("a"), true; "equal")]
    #[test_case("kind", json!("b"), false; "not equal")]
    #[test_case("kind", json!(["b", "a"]), true; "one of")]
    #[test_case("code", json!(401), true; "number")]
    #[test_case("list.*.kind", json!("y"), true; "anywhere")]
    #[test_case("message ~", json!(["402", "401 Un"]), true; "holds one of")]
    #[test_case("message ~", json!("403"), false; "holds none")]
    #[test_case("message", json!("401"), false; "a part is not the whole")]
    #[test_case("absent", json!("a"), false; "absent")]
    #[test_case("flag", json!(true), true; "boolean")]
    #[test_case("code =", json!("limit"), true; "as much as another")]
    #[test_case("code =", json!("kind"), false; "not as another")]
    #[test_case("code =", json!("absent"), false; "another that is absent")]
    fn conditions(path: &str, wanted: Value, expected: bool) {
        let line = json!({"kind": "a", "code": 401, "limit": 401, "message": "status 401 Unauthorized", "flag": true,
            "list": [{"kind": "x"}, {"kind": "y"}]});
        assert_eq!(Condition::new(path, &wanted).fits(&line), expected);
    }

    #[test]
    fn the_first_text_counts() {
        let line = json!({"result": "", "errors": ["e"]});
        assert_eq!(TextPath::parse("result | errors.0").text(&line).as_deref(), Some("e"));
        assert_eq!(TextPath::parse("result | absent").text(&line), None);
    }
}
