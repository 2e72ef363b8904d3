//! One rule of a manifest, with its paths taken apart.

use serde_json::Value;

use super::path::{Condition, Expression, Path, TextPath};
use crate::config::harness_manifest::{LineMeaning, LineRule, UsageMode};
use crate::domain::Usage;

/// What to read from the lines that fit.
#[derive(Debug)]
pub(super) struct Rule {
    when: Vec<Condition>,
    pub(super) is: LineMeaning,
    pub(super) text: Option<TextPath>,
    pub(super) id: Option<Path>,
    pub(super) once: Option<Path>,
    pub(super) time: Option<Path>,
    pub(super) duration_ms: Option<Expression>,
    ok: Option<Path>,
    usage: Vec<(String, Expression)>,
    pub(super) mode: UsageMode,
    pub(super) cost: Option<Expression>,
    pub(super) turns: Option<Expression>,
    pub(super) wait_ms: Option<Expression>,
    pub(super) trajectory: bool,
    pub(super) each: Option<Path>,
    pub(super) input: Option<Path>,
    pub(super) output: Option<TextPath>,
}

impl Rule {
    /// Takes a rule apart; what only details need, only for a reader of them.
    pub(super) fn new(rule: &LineRule, detailed: bool) -> Self {
        let path = |text: &Option<String>| text.as_deref().map(Path::parse);
        let expression = |text: &Option<String>| text.as_deref().map(Expression::parse);
        Self {
            when: rule.when.iter().map(|(path, wanted)| Condition::new(path, wanted)).collect(),
            is: rule.is,
            text: rule.text.as_deref().map(TextPath::parse),
            id: path(&rule.id),
            once: path(&rule.once).filter(|_| detailed || !rule.usage.is_empty()),
            time: path(&rule.time).filter(|_| detailed || matches!(rule.is, LineMeaning::Tool | LineMeaning::ToolEnd)),
            trajectory: rule.trajectory,
            each: path(&rule.each),
            input: path(&rule.input).filter(|_| detailed),
            output: rule.output.as_deref().filter(|_| detailed).map(TextPath::parse),
            duration_ms: expression(&rule.duration_ms),
            ok: path(&rule.ok),
            usage: rule.usage.iter().map(|(class, path)| (class.clone(), Expression::parse(path))).collect(),
            mode: rule.usage_mode,
            cost: expression(&rule.cost),
            turns: expression(&rule.turns),
            wait_ms: expression(&rule.wait_ms),
        }
    }

    pub(super) fn fits(&self, line: &Value) -> bool {
        self.when.iter().all(|condition| condition.fits(line))
    }

    pub(super) fn ok(&self, line: &Value) -> Option<bool> {
        self.ok.as_ref().and_then(|path| path.flag(line))
    }

    pub(super) fn usage(&self, line: &Value) -> Usage {
        let mut usage = Usage::UNKNOWN;
        for (class, expression) in &self.usage {
            let tokens = expression.whole(line);
            match class.as_str() {
                "input" => usage.input = tokens,
                "output" => usage.output = tokens,
                "cache_read" => usage.cache_read = tokens,
                "cache_write" => usage.cache_write = tokens,
                "reasoning" => usage.reasoning = tokens,
                _ => {}
            }
        }
        usage
    }

    /// Returns the part of what was written to the cache that it keeps for an hour, as the class of its whole.
    pub(super) fn long_writes(&self, line: &Value) -> Usage {
        let told = self.usage.iter().find(|(class, _)| class == "cache_write_long");
        Usage { cache_write: told.and_then(|(_, tokens)| tokens.whole(line)), ..Usage::UNKNOWN }
    }

    /// Returns the paths of what may be long and is only shown.
    pub(super) fn excerpts(&self) -> Vec<Vec<String>> {
        let output = self.output.iter().flat_map(TextPath::paths);
        self.input.iter().chain(output).map(|path| self.way_to(path)).collect()
    }

    /// Returns the way from a line to what a path of the rule leads to.
    fn way_to(&self, path: &Path) -> Vec<String> {
        let items = self.each.iter().flat_map(|each| each.steps().iter().cloned().chain(["*".to_owned()]));
        items.chain(path.steps().iter().cloned()).collect()
    }

    /// Returns every path that the rule may look at.
    pub(super) fn paths(&self) -> Vec<Vec<String>> {
        let conditions = self.when.iter().flat_map(Condition::paths);
        let texts = self.text.iter().flat_map(TextPath::paths);
        let single = [&self.id, &self.once, &self.time, &self.ok].into_iter().flatten();
        let sums = [&self.duration_ms, &self.cost, &self.turns, &self.wait_ms].into_iter().flatten();
        let sums = sums.chain(self.usage.iter().map(|(_, sum)| sum)).flat_map(Expression::paths);
        conditions.chain(texts).chain(single).chain(sums).map(|path| self.way_to(path)).collect()
    }
}
