//! Whether the model that answered is the one that was asked. Pure: providers answer by the name of a dated release where
//! an alias was asked, and by names with their own prefixes.

/// Tells whether two names are those of one model, as far as names can tell.
///
/// Case, a path before the name (`models/`, `openai/`), a variant behind it (`:free`), and the order of its parts do not
/// count. A date does not where one of them has none; nor does a release (`001`), nor `latest`, which stands for any
/// version. What is left must be equal: `claude-sonnet-4-5` is `claude-sonnet-4-5-20250929` and no `claude-haiku-4-5`.
#[must_use]
pub fn is_same_model(asked: &str, served: &str) -> bool {
    let (asked, served) = (Name::of(asked), Name::of(served));
    let dates = asked.date.is_empty() || served.date.is_empty() || asked.date == served.date;
    let words = if asked.latest || served.latest {
        let (family, other) = (asked.family(), served.family());
        family == other
    } else {
        asked.words == served.words
    };
    dates && words
}

/// A name in its parts.
struct Name {
    /// In alphabetical order.
    words: Vec<String>,
    /// The digits of its date, in the order in which they came.
    date: String,
    latest: bool,
}

impl Name {
    fn of(name: &str) -> Self {
        let name = name.trim().to_ascii_lowercase();
        let name = name.rsplit('/').next().unwrap_or_default();
        let name = name.split(':').next().unwrap_or_default();
        let parts: Vec<&str> = name.split(['-', '.', '_', '@', ' ']).filter(|part| !part.is_empty()).collect();
        let is_dated = |at: usize| parts.get(at).is_some_and(|part| is_number(part) && part.len() >= 4);
        let is_year = |at: usize| is_dated(at) && parts[at].len() == 4 && parts[at].starts_with("20");
        let mut found = Self { words: Vec::new(), date: String::new(), latest: false };
        for (at, part) in parts.iter().enumerate() {
            // Months and days stand behind their year, or before it.
            let near =
                at.checked_sub(1).is_some_and(is_year) || at.checked_sub(2).is_some_and(is_year) || is_year(at + 1);
            if is_dated(at) || (near && is_number(part) && part.len() == 2) {
                found.date.push_str(part);
            } else if *part == "latest" {
                found.latest = true;
            } else if !is_release(part) {
                found.words.push((*part).to_owned());
            }
        }
        found.words.sort_unstable();
        found
    }

    /// The words that say which family it is of, without those that say which version.
    fn family(&self) -> Vec<&str> {
        let words = self.words.iter().map(String::as_str);
        words.filter(|word| !is_number(word) && *word != "preview" && *word != "exp").collect()
    }
}

fn is_number(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_digit())
}

/// `001` behind a version, or the `0` of `2.0` and of `4-0`.
fn is_release(part: &str) -> bool {
    part == "0" || (part.len() == 3 && part.starts_with('0') && is_number(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"; "a dated release")]
    #[test_case("claude-opus-4-0", "claude-opus-4-20250514"; "the first release of a version")]
    #[test_case("claude-3-5-haiku-latest", "claude-3-5-haiku-20241022"; "the latest of a version")]
    #[test_case("gpt-5", "gpt-5-2025-08-07"; "a date with hyphens")]
    #[test_case("gpt-4", "gpt-4-0613"; "a month and a day")]
    #[test_case("openai/gpt-5-mini", "gpt-5-mini-2025-08-07"; "a router's prefix")]
    #[test_case("anthropic/claude-sonnet-4.5", "anthropic/claude-4.5-sonnet-20250929"; "a router's order of words")]
    #[test_case("deepseek/deepseek-r1:free", "deepseek/deepseek-r1"; "a router's variant")]
    #[test_case("gemini-2.0-flash", "models/gemini-2.0-flash-001"; "a release number")]
    #[test_case("gemini-flash-latest", "gemini-2.5-flash-preview-09-2025"; "the latest of a family")]
    #[test_case("claude-sonnet-4-5", "claude-sonnet-4-5@20250929"; "a date behind a sign")]
    #[test_case("Qwen/Qwen3-Coder", "qwen3-coder"; "case and path")]
    fn one_model(asked: &str, served: &str) {
        assert!(is_same_model(asked, served) && is_same_model(served, asked));
    }

    #[test_case("claude-sonnet-4-5", "claude-haiku-4-5-20251001"; "another family")]
    #[test_case("claude-opus-4-5", "claude-opus-4-1-20250805"; "another version")]
    #[test_case("gpt-5", "gpt-5-mini-2025-08-07"; "a smaller one")]
    #[test_case("gpt-5", "gpt-4.1-2025-04-14"; "an older one")]
    #[test_case("claude-sonnet-4-20250514", "claude-sonnet-4-5-20250929"; "another version with another date")]
    #[test_case("gpt-4o-2024-05-13", "gpt-4o-2024-08-06"; "another date")]
    #[test_case("gemini-2.5-pro", "gemini-2.5-flash"; "what falls back")]
    #[test_case("gemini-flash-latest", "gemini-2.5-flash-lite"; "not of the family whose latest was asked")]
    #[test_case("gpt-5", ""; "none")]
    fn two_models(asked: &str, served: &str) {
        assert!(!is_same_model(asked, served) && !is_same_model(served, asked));
    }
}
