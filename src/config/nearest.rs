//! The nearest spelling of a name.

/// Returns the known name that is most like `name`, if one is like it at all.
pub(crate) fn find<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = fold(name);
    known
        .into_iter()
        .filter_map(|candidate| {
            let folded = fold(candidate);
            let score = strsim::jaro_winkler(&wanted, &folded);
            let close = strsim::damerau_levenshtein(&wanted, &folded) <= 2 && wanted.len() > 3;
            let begins = wanted.len() > 2 && (folded.starts_with(&wanted) || wanted.starts_with(&folded));
            (score > 0.82 || close || begins).then_some((score, candidate))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(a.1)))
        .map(|(_, candidate)| candidate)
}

/// Returns a hint: the nearest name where there is one, else what is known.
pub(crate) fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    if let Some(near) = find(name, known.clone()) {
        return format!("did you mean `{near}`?");
    }
    listed(known)
}

/// Lists known names, at most a dozen.
pub(crate) fn listed<'a>(known: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<&str> = known.into_iter().collect();
    if all.is_empty() {
        return "there are none".to_owned();
    }
    let shown: Vec<String> = all.iter().take(12).map(|name| format!("`{name}`")).collect();
    let rest = all.len() - shown.len();
    let more = if rest > 0 { format!(", … and {rest} more") } else { String::new() };
    format!("known: {}{more}", shown.join(", "))
}

/// Differences that people do not see: case, and `-` for `_`.
fn fold(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("max_round", Some("max_rounds"); "one letter")]
    #[test_case("Max-Rounds", Some("max_rounds"); "case and dash")]
    #[test_case("budget", Some("budget_usd"); "beginning")]
    #[test_case("colour", None; "nothing near")]
    fn finds(name: &str, expected: Option<&str>) {
        assert_eq!(find(name, ["max_rounds", "budget_usd", "repeats"]), expected);
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..20).map(|n| format!("task-{n}")).collect();
        let text = listed(names.iter().map(String::as_str));
        assert!(text.ends_with("`task-11`, … and 8 more"), "{text}");
    }
}
