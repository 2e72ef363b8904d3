//! JUnit XML: `testsuites`, nested `testsuite`, `testcase` with `failure`, `error` or `skipped`.
//!
//! Entities that a document defines itself are never expanded, so none can grow; a document without its end is no
//! report.

use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};

use super::{Results, SuiteReport};
use crate::domain::TestStatus;

#[derive(Debug, Default)]
struct Case {
    id: String,
    failed: bool,
    errored: bool,
    skipped: bool,
}

impl Case {
    /// A failure that is also marked as skipped is a todo: expected. An error never is.
    fn status(&self) -> TestStatus {
        match (self.errored, self.skipped, self.failed) {
            (true, ..) => TestStatus::Errored,
            (_, true, _) => TestStatus::Skipped,
            (_, _, true) => TestStatus::Failed,
            (false, false, false) => TestStatus::Passed,
        }
    }
}

#[derive(Debug, Default)]
struct Document {
    results: Results,
    case: Option<Case>,
    depth: usize,
    root_seen: bool,
    /// Failures and errors that suites claim in their attributes.
    claimed_bad: u64,
}

pub(super) fn read(bytes: &[u8]) -> Option<SuiteReport> {
    let text = String::from_utf8_lossy(bytes);
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    let mut document = Document::default();
    loop {
        match reader.read_event().ok()? {
            Event::Start(element) => {
                document.open(&element)?;
                document.depth += 1;
            }
            Event::Empty(element) => {
                document.open(&element)?;
                document.close(element.name().as_ref());
            }
            Event::End(element) => {
                document.depth = document.depth.checked_sub(1)?;
                document.close(element.name().as_ref());
            }
            Event::Eof => break,
            _ => {}
        }
    }
    document.report()
}

impl Document {
    fn open(&mut self, element: &BytesStart<'_>) -> Option<()> {
        let name = element.name();
        let name = name.as_ref();
        if self.depth == 0 {
            // Anything else is some other XML.
            if self.root_seen || !matches!(name, "testsuites" | "testsuite") {
                return None;
            }
            self.root_seen = true;
        }
        match name {
            "testcase" => {
                let class = attribute(element, "classname").unwrap_or_default();
                let own = attribute(element, "name").unwrap_or_default();
                let id = if class.is_empty() || class == own { own } else { format!("{class}.{own}") };
                self.case = Some(Case { id, ..Case::default() });
            }
            "testsuite" => {
                for claim in ["failures", "errors"] {
                    let number = attribute(element, claim).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
                    self.claimed_bad = self.claimed_bad.saturating_add(number);
                }
            }
            "failure" | "error" | "skipped" => {
                if let Some(case) = &mut self.case {
                    case.failed |= name == "failure";
                    case.errored |= name == "error";
                    case.skipped |= name == "skipped";
                }
            }
            _ => {}
        }
        Some(())
    }

    fn close(&mut self, name: &str) {
        if name == "testcase"
            && let Some(case) = self.case.take()
        {
            let status = case.status();
            self.results.push(case.id, status);
        }
    }

    fn report(self) -> Option<SuiteReport> {
        if !self.root_seen || self.depth != 0 || self.case.is_some() {
            return None;
        }
        // Duplicate ids are counted apart (a parameterised test may repeat its name), but kept once.
        let total = |status| super::to_count(self.results.0.iter().filter(|test| test.status == status).count());
        let (passed, failed, errored, skipped) = (
            total(TestStatus::Passed),
            total(TestStatus::Failed),
            total(TestStatus::Errored),
            total(TestStatus::Skipped),
        );
        let shows_bad = failed > 0 || errored > 0 || skipped > 0;
        let conflict = (self.claimed_bad > 0 && !shows_bad)
            .then(|| format!("a suite counts {} failures, no test case shows one", self.claimed_bad));
        Some(SuiteReport { tests: self.results.worst(), passed, failed, errored, skipped, finished: true, conflict })
    }
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = element.attributes().flatten().find(|attribute| attribute.key.as_ref() == name)?;
    // An entity that is not one of XML's own five stays as it is written.
    let value = found.normalized_value(XmlVersion::Explicit1_0);
    Some(value.map_or_else(|_| found.value.to_string(), std::borrow::Cow::into_owned))
}
