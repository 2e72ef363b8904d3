//! The files of a new orchestrator: a strategy that works, with a test.

/// Why a name is no slug.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no slug: use lower-case letters, digits and single hyphens, beginning with a letter, as in `my-strategy`"
)]
pub struct BadSlug(pub String);

const RUNNER: &str = r#"-- {slug}: one session, and another one where the checks fail.
local checks = require("@std/checks")
local prompt = require("@std/prompt")

local last = session(task.prompt, { label = "first try" })
local report = checks.run()

if not report.ok and params.second_try then
    last = session(prompt.join({
        "The checks fail. Fix the code.",
        prompt.section("Output of the checks", prompt.fence(report.output)),
    }), { label = "second try", continue = if last.resumable then last else nil })
    report = checks.run()
end

return { note = if report.ok then "the checks pass" else `the checks fail; {last.reason}` }
"#;

const TEST: &str = r#"local t = require("@std/test")

t.test("one session is enough where the checks pass", function()
    local run = t.run({ checks = true })
    t.equal(#run.sessions, 1)
    t.equal(run.note, "the checks pass")
end)

t.test("tells the second session what failed", function()
    local run = t.run({ checks = { { ok = false, output = "1 failed" }, true } })
    t.equal(#run.sessions, 2)
    t.contains(run.sessions[2].prompt, "1 failed")
end)

t.test("can do without the second session", function()
    local run = t.run({ params = { second_try = false }, checks = false })
    t.equal(#run.sessions, 1)
end)
"#;

const MANIFEST: &str = r#"slug = "{slug}"
name = "{slug}"
description = "One session, and another one where the checks fail."
runner = "runner.lua"
api = 1

[params.second_try]
type = "boolean"
default = true
help = "Whether to try again where the checks fail."
"#;

const README: &str = "# {slug}

One session, and another one where the visible checks fail.

| parameter | default | meaning |
|---|---|---|
| `second_try` | `true` | whether to try again where the checks fail |

Test it with `refrain test`, check it with `refrain check`.
";

/// Returns the files of a new orchestrator: relative path and content.
///
/// # Errors
///
/// [`BadSlug`] for a name that is no slug.
pub fn scaffold(slug: &str) -> Result<Vec<(&'static str, String)>, BadSlug> {
    let plain = slug.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let begins = slug.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    if !plain || !begins || slug.ends_with('-') || slug.contains("--") || slug.len() > 64 {
        return Err(BadSlug(slug.to_owned()));
    }
    let fill = |text: &str| text.replace("{slug}", slug);
    Ok(vec![
        ("orchestrator.toml", fill(MANIFEST)),
        ("runner.lua", fill(RUNNER)),
        ("runner_test.lua", TEST.to_owned()),
        ("README.md", fill(README)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::check::check_dir;
    use crate::script::testing::{TestOptions, run_dir};
    use test_case::test_case;

    #[test]
    fn a_new_orchestrator_is_clean_and_its_tests_pass() {
        let folder = tempfile::tempdir().expect("temporary folder");
        for (name, content) in scaffold("my-strategy").expect("a slug") {
            std::fs::write(folder.path().join(name), content).expect("writes");
        }
        assert_eq!(check_dir(folder.path()).expect("readable"), []);
        let report = run_dir(folder.path(), &TestOptions::default()).expect("readable");
        assert_eq!((report.passed(), report.failed()), (3, 0), "{report:?}");
    }

    #[test_case(""; "empty")]
    #[test_case("My"; "capital")]
    #[test_case("../x"; "path")]
    #[test_case("a b"; "space")]
    #[test_case("-a"; "hyphen first")]
    #[test_case("a-"; "hyphen last")]
    #[test_case("a--b"; "two hyphens")]
    #[test_case("1a"; "digit first")]
    fn refuses(slug: &str) {
        assert_eq!(scaffold(slug), Err(BadSlug(slug.to_owned())));
    }
}
