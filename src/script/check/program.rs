//! Checks of a runner that is no script but a program of its own.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{Finding, Severity, finding};

/// Checks that the operating system can run the runner of a directory.
#[must_use]
pub fn check_program(directory: &Path, runner: &str) -> Vec<Finding> {
    let path = directory.join(runner);
    let mut findings = Vec::new();
    let mut head = [0; 256];
    let read = std::fs::File::open(&path).and_then(|mut file| Ok((file.read(&mut head)?, file.metadata()?)));
    let (length, about) = match read {
        Ok(read) => read,
        Err(error) => return vec![finding(Severity::Error, runner, 1, format!("cannot be read: {error}"))],
    };
    if about.permissions().mode() & 0o111 == 0 {
        let message = format!("is not executable; `chmod +x {runner}` makes it so");
        findings.push(finding(Severity::Error, runner, 1, message));
    }
    let first = head[..length].split(|byte| *byte == b'\n').next().unwrap_or_default();
    if first.starts_with(b"#!") && first.ends_with(b"\r") {
        let message =
            "the first line ends with a carriage return, which the kernel takes for a part of the interpreter";
        findings.push(finding(Severity::Error, runner, 1, message.to_owned()));
    } else if !first.starts_with(b"#!") && !head.starts_with(b"\x7fELF") {
        let message = "names no interpreter: begin it with `#!/bin/sh` or the like";
        findings.push(finding(Severity::Error, runner, 1, message.to_owned()));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("#!/bin/sh\ntrue\n", 0o755, &[]; "a program")]
    #[test_case("#!/bin/sh\ntrue\n", 0o644, &["is not executable"]; "no mode")]
    #[test_case("#!/bin/sh\r\ntrue\r\n", 0o755, &["the first line ends with"]; "carriage return")]
    #[test_case("true\n", 0o600, &["is not executable", "names no interpreter"]; "both")]
    #[test_case("", 0o755, &["names no interpreter"]; "empty")]
    fn checks(text: &str, mode: u32, expected: &[&str]) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("runner.sh");
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
        let found = check_program(dir.path(), "runner.sh");
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(found.iter().zip(expected).all(|(found, begins)| found.message.starts_with(begins)), "{found:?}");
    }

    #[test]
    fn a_missing_runner_is_told() {
        let found = check_program(Path::new("/nonexistent"), "runner.sh");
        assert!(found[0].message.starts_with("cannot be read"), "{found:?}");
    }
}
