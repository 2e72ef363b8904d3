//! The Test Anything Protocol: plan, bail out, skip and todo, YAML blocks, nested subtests (versions 13 and 14, and
//! what `node --test` writes).
//!
//! A point with subtests stands for them: the subtests count, the point itself only where it failed and none of them
//! did.

use super::{Results, SuiteReport, leading_number, to_count};
use crate::domain::TestStatus;

#[derive(Debug)]
struct Point {
    id: String,
    status: TestStatus,
}

#[derive(Debug, Default)]
struct Level {
    plan: Option<u32>,
    /// Points seen, parents included: what the plan counts.
    points: u32,
    numbers: Vec<u32>,
    /// Results, parents resolved into their subtests.
    leaves: Vec<Point>,
}

#[derive(Debug, Default)]
struct Reader {
    levels: Vec<Level>,
    conflict: Option<String>,
    bailed: bool,
    versioned: bool,
}

pub(super) fn read(text: &str) -> Option<SuiteReport> {
    let mut reader = Reader::default();
    // Indentation of the YAML block we are in.
    let mut yaml: Option<usize> = None;
    for line in text.lines().map(str::trim_end) {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        if let Some(start) = yaml {
            if indent == start && content == "..." {
                yaml = None;
            }
            continue;
        }
        if content == "---" && indent % 4 == 2 {
            yaml = Some(indent);
        } else if indent % 4 == 0 {
            reader.line(indent / 4, content);
        }
    }
    reader.report(yaml.is_some())
}

impl Reader {
    /// Deeper than any real suite; an output may be made to be deep.
    const MAX_DEPTH: usize = 32;

    fn line(&mut self, depth: usize, content: &str) {
        if depth >= Self::MAX_DEPTH {
            return;
        }
        if content.starts_with("Bail out!") {
            self.bailed = true;
        } else if content.starts_with("TAP version ") {
            self.versioned = true;
        } else if let Some(plan) = plan_line(content) {
            let level = self.level(depth);
            if level.plan.is_some_and(|earlier| earlier != plan) {
                self.conflict = Some("two plans disagree".to_owned());
            } else {
                level.plan = Some(plan);
            }
        } else if let Some((ok, rest)) = point_line(content) {
            self.point(depth, ok, rest);
        }
    }

    fn level(&mut self, depth: usize) -> &mut Level {
        while self.levels.len() <= depth {
            self.levels.push(Level::default());
        }
        &mut self.levels[depth]
    }

    fn point(&mut self, depth: usize, ok: bool, rest: &str) {
        let point = parse_point(ok, rest);
        let children =
            if self.levels.len() > depth + 1 { self.levels.drain(depth + 1..).collect() } else { Vec::new() };
        let level = self.level(depth);
        level.points = level.points.saturating_add(1);
        if let Some(number) = point.number {
            level.numbers.push(number);
        }
        let id = if point.name.is_empty() { level.points.to_string() } else { point.name };
        let own = Point { id: id.clone(), status: point.status };
        let mut leaves = Vec::new();
        let mut conflict = None;
        let mut children = children.into_iter();
        match children.next().filter(|child| !child.leaves.is_empty()) {
            None => leaves.push(own),
            Some(child) => {
                conflict = child.contradiction();
                let child_failed = child.leaves.iter().any(|leaf| leaf.status == TestStatus::Failed);
                if own.status == TestStatus::Passed && child_failed {
                    conflict = Some(format!("`{id}` is ok, one of its subtests is not"));
                }
                for mut leaf in child.leaves {
                    // What fails inside a todo is expected to.
                    if own.status == TestStatus::Skipped && leaf.status == TestStatus::Failed {
                        leaf.status = TestStatus::Skipped;
                    }
                    leaf.id = format!("{id} > {}", leaf.id);
                    leaves.push(leaf);
                }
                if own.status == TestStatus::Failed && !child_failed {
                    leaves.push(own);
                }
            }
        }
        self.level(depth).leaves.extend(leaves);
        self.conflict = self.conflict.take().or(conflict);
    }

    fn report(mut self, in_yaml: bool) -> Option<SuiteReport> {
        let nested_open = self.levels.iter().skip(1).any(|level| !level.leaves.is_empty());
        let top = if self.levels.is_empty() { Level::default() } else { self.levels.swap_remove(0) };
        let recognised = self.versioned || top.plan.is_some() || (self.bailed && top.points > 0);
        if !recognised || (top.plan.is_none() && top.points == 0 && !self.bailed && !nested_open) {
            return None;
        }
        let conflict = self.conflict.take().or_else(|| top.contradiction());
        let complete = top.plan.is_some_and(|plan| plan == top.points) && !nested_open && !in_yaml;
        let mut results = Results::default();
        for leaf in top.leaves {
            results.push(leaf.id, leaf.status);
        }
        let mut report = SuiteReport { conflict, ..SuiteReport::of(results) };
        report.finished = complete || self.bailed;
        if self.bailed {
            report.errored = report.errored.saturating_add(1);
        }
        Some(report)
    }
}

impl Level {
    /// Too many points or a number twice; too few points is an end that is missing, not a contradiction.
    fn contradiction(&self) -> Option<String> {
        if let Some(plan) = self.plan.filter(|plan| self.points > *plan) {
            return Some(format!("{plan} tests were planned, {} were seen", self.points));
        }
        let mut numbers = self.numbers.clone();
        numbers.sort_unstable();
        numbers.dedup();
        (to_count(numbers.len()) < to_count(self.numbers.len())).then(|| "a test number was seen twice".to_owned())
    }
}

fn plan_line(content: &str) -> Option<u32> {
    let (count, rest) = leading_number(content.strip_prefix("1..")?)?;
    (rest.is_empty() || rest.trim_start().starts_with('#')).then_some(count)
}

fn point_line(content: &str) -> Option<(bool, &str)> {
    let (ok, rest) = match content.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, content.strip_prefix("ok")?),
    };
    (rest.is_empty() || rest.starts_with(' ')).then(|| (ok, rest.trim_start()))
}

struct Parsed {
    number: Option<u32>,
    name: String,
    status: TestStatus,
}

fn parse_point(ok: bool, rest: &str) -> Parsed {
    let (number, rest) = match leading_number(rest) {
        Some((number, rest)) if rest.is_empty() || rest.starts_with(' ') => (Some(number), rest.trim_start()),
        _ => (None, rest),
    };
    let (name, directive) = match rest.rfind(" #").or_else(|| rest.starts_with('#').then_some(0)) {
        Some(at) => (&rest[..at], rest[at..].trim_start().trim_start_matches('#').trim_start().to_ascii_lowercase()),
        None => (rest, String::new()),
    };
    let name = name.strip_prefix("- ").unwrap_or(name).trim().to_owned();
    let status = if directive.starts_with("skip") || (directive.starts_with("todo") && !ok) {
        TestStatus::Skipped
    } else if ok {
        TestStatus::Passed
    } else {
        TestStatus::Failed
    };
    Parsed { number, name, status }
}
