//! Relative paths that stay where they belong, on every system.

/// Names that are devices on Windows, with any extension.
const DEVICES: &[&str] = &["con", "prn", "aux", "nul"];

/// Checks a path below some folder; says what is wrong with it.
pub(crate) fn check(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("is empty");
    }
    if path.starts_with('/') {
        return Err("is absolute");
    }
    if path.contains('\\') {
        return Err("holds a `\\`");
    }
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "" => return Err("holds an empty part"),
            ".." => return Err("leads out"),
            "." => continue,
            _ => {}
        }
        if part.chars().any(|c| c.is_control() || matches!(c, ':' | '*' | '?' | '"' | '<' | '>' | '|')) {
            return Err("holds a character that not every system can store");
        }
        if part.ends_with(['.', ' ']) {
            return Err("has a part that ends with a dot or a space");
        }
        let stem = part.split('.').next().unwrap_or(part).to_ascii_lowercase();
        let numbered = stem.len() == 4
            && (stem.starts_with("com") || stem.starts_with("lpt"))
            && stem.ends_with(|c: char| c.is_ascii_digit() && c != '0');
        if DEVICES.contains(&stem.as_str()) || numbered {
            return Err("names a device on Windows");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("src/main.rs", true)]
    #[test_case("./a b/c.txt", true; "dot and space inside")]
    #[test_case("../x", false; "parent")]
    #[test_case("a/../../x", false; "parent inside")]
    #[test_case("/etc/hosts", false; "absolute")]
    #[test_case("C:/x", false; "drive")]
    #[test_case("a\\b", false; "backslash")]
    #[test_case("aux.txt", false; "device")]
    #[test_case("dir/COM1", false; "numbered device")]
    #[test_case("common", true; "begins like a device")]
    #[test_case("a./b", false; "trailing dot")]
    #[test_case("", false; "empty")]
    fn checks(path: &str, expected: bool) {
        assert_eq!(check(path).is_ok(), expected);
    }
}
