//! Where two records of a session differ, field by field.

use serde::Serialize;
use serde_json::Value;

use crate::domain::{Micros, SessionRecord, UsageSource};

/// Characters of a text that a table shows.
const SHOWN: usize = 60;

/// A field that differs. What is unknown is null.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Difference {
    /// Its name in the record; `usage.input` for a class of tokens.
    pub(super) field: String,
    old: Value,
    new: Value,
}

impl Difference {
    /// Compares two records. What only says how the log was read is no difference.
    pub(super) fn between(former: &SessionRecord, record: &SessionRecord) -> Vec<Self> {
        let fields = |record: &SessionRecord| match serde_json::to_value(record) {
            Ok(Value::Object(fields)) => fields,
            _ => serde_json::Map::new(),
        };
        let (old, new) = (fields(former), fields(record));
        let mut found = Vec::new();
        for (name, old) in old.iter().filter(|(name, _)| *name != "from_log") {
            let new = new.get(name).unwrap_or(&Value::Null);
            match (old, new) {
                (Value::Object(classes), Value::Object(_)) if name.ends_with("usage") => {
                    found.extend(
                        classes.iter().map(|(class, old)| Self::of(format!("{name}.{class}"), old, &new[class])),
                    );
                }
                _ => found.push(Self::of(name.clone(), old, new)),
            }
        }
        found.retain(|difference| difference.old != difference.new);
        found
    }

    fn of(field: String, old: &Value, new: &Value) -> Self {
        Self { field, old: old.clone(), new: new.clone() }
    }

    /// Tells whether it repeats another one: where the harness's figures are the session's.
    pub(super) fn is_told_twice(&self, record: &SessionRecord) -> bool {
        let reported = self.field.starts_with("reported_usage.") || self.field == "reported_priced";
        reported && record.usage_source != Some(UsageSource::Gateway)
    }

    /// Returns the old and the new value in words.
    pub(super) fn words(&self) -> [String; 2] {
        let [old, new] = [&self.old, &self.new].map(|value| self.shown(value));
        let (mut shown, from) = ([shortened(&old), shortened(&new)], common_prefix(&old, &new));
        if shown[0] == shown[1] {
            shown = [&old, &new].map(|text| shortened(&format!("…{}", &text[from..])));
        }
        shown
    }

    fn shown(&self, value: &Value) -> String {
        let is_money = self.field.contains("cost") || self.field == "reported_priced";
        match (self.field.as_str(), value) {
            (_, Value::Null) => "unknown".to_owned(),
            ("end", Value::Object(end)) => {
                let text = |name: &str| end.get(name).and_then(Value::as_str).unwrap_or_default();
                let parts: Vec<_> = ["kind", "fault", "limit", "message"].map(text).into_iter().collect();
                parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
            }
            ("price", Value::Object(price)) => {
                let text = |name: &str| price.get(name).and_then(Value::as_str).unwrap_or_default();
                format!("{} of {}", text("model"), text("date"))
            }
            (_, Value::Number(micros)) if is_money => {
                micros.as_i64().map_or_else(|| value.to_string(), |micros| Micros::new(micros).to_string())
            }
            (_, Value::String(text)) => text.clone(),
            (_, Value::Array(items)) if items.is_empty() => "none".to_owned(),
            (_, Value::Array(items)) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; "),
            _ => value.to_string(),
        }
    }
}

/// Returns how many bytes two texts have in common at their beginnings.
fn common_prefix(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).map(|(same, _)| same.len_utf8()).sum()
}

/// The beginning of a text, in one line.
fn shortened(text: &str) -> String {
    let line = crate::redact::printable(text).lines().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= SHOWN { line } else { line.chars().take(SHOWN - 1).collect::<String>() + "…" }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::domain::Usage;
    use crate::domain::session::SessionEnd;

    #[test]
    fn differences_are_told_by_field_and_class_and_in_words() {
        let former = SessionRecord {
            cost: None,
            usage: Usage { input: Some(7), ..Usage::UNKNOWN },
            ..SessionRecord::completed(1, Timestamp::UNIX_EPOCH, "done")
        };
        let record = SessionRecord {
            cost: Some(Micros::new(1_500_000)),
            usage: Usage { input: Some(8), output: Some(2), ..Usage::UNKNOWN },
            end: SessionEnd::AgentFailed { message: "it\nbroke".to_owned() },
            discrepancies: vec!["a".to_owned(), "b".to_owned()],
            ..former.clone()
        };
        let told: Vec<_> = Difference::between(&former, &record)
            .into_iter()
            .map(|difference| (difference.field.clone(), difference.words()))
            .collect();
        let expected = [
            ("cost", ["unknown", "$1.5000"]),
            ("discrepancies", ["none", "a; b"]),
            ("end", ["completed", "agent_failed: it broke"]),
            ("usage.input", ["7", "8"]),
            ("usage.output", ["unknown", "2"]),
        ];
        let mut told = told;
        told.sort();
        let told: Vec<_> =
            told.iter().map(|(field, [old, new])| (field.as_str(), [old.as_str(), new.as_str()])).collect();
        assert_eq!(told, expected);
        assert!(Difference::between(&former, &former).is_empty());
    }
}
