//! The names of a file: what it declares, what it requires, and whether what it uses exists.

use std::collections::{BTreeMap, BTreeSet};

use super::calls;
use super::known::Known;
use super::lexer::{Kind, Token};
use super::syntax::{KEYWORDS, after_dot, begins_call, is_sign, name, parts, starts_statement};
use super::{Finding, Severity, finding};
use crate::script::api;
use crate::script::bind::{absent, suggestion};
use crate::script::library;

/// Names that a file declares, and what is known of them.
#[derive(Default)]
pub(super) struct Names<'t> {
    /// How often each name is declared: as a local, a parameter, a loop variable, a function or a type.
    declared: BTreeMap<&'t str, u32>,
    locals: Vec<(&'t str, u32)>,
    /// Globals that are written, with the line.
    written: Vec<(&'t str, u32)>,
    modules: BTreeMap<&'t str, &'t str>,
    /// Shapes of tables that locals hold; `None` where a local holds something else too.
    shapes: BTreeMap<&'t str, Option<&'static str>>,
}

impl<'t> Names<'t> {
    pub(super) fn read(tokens: &'t [Token]) -> Self {
        let mut names = Self::default();
        for (at, token) in tokens.iter().enumerate().filter(|(at, _)| !after_dot(tokens, *at)) {
            match name(Some(token)) {
                Some("local" | "const") if name(tokens.get(at + 1)) != Some("function") => {
                    names.list(tokens, at + 1, true);
                }
                Some("for") => names.list(tokens, at + 1, false),
                Some("function") => names.function(tokens, at + 1),
                Some("type" | "export") => {
                    if let Some(own) = name(tokens.get(at + 1)) {
                        names.declare(own);
                    }
                }
                Some(own) if is_assigned(tokens, at) => names.written.push((own, token.line)),
                _ => {}
            }
        }
        // A local may be declared after the function that writes it was read.
        names.written.retain(|(own, _)| !names.declared.contains_key(own));
        names.read_shapes(tokens);
        names
    }

    fn declare(&mut self, own: &'t str) {
        *self.declared.entry(own).or_default() += 1;
    }

    /// Tells whether the file declares a name, anywhere and as anything.
    pub(super) fn declares(&self, own: &str) -> bool {
        self.declared.contains_key(own)
    }

    /// Returns the module that a local holds, where it is the only thing of its name.
    pub(super) fn module_of(&self, own: &str) -> Option<&'t str> {
        self.modules.get(own).copied().filter(|_| self.declared.get(own) == Some(&1))
    }

    /// Reads `a, b: Type, c` up to `=` or `in`.
    fn list(&mut self, tokens: &'t [Token], mut at: usize, local: bool) {
        let mut own_names = Vec::new();
        while let Some(own) = name(tokens.get(at)) {
            self.declare(own);
            own_names.push(own);
            if local {
                self.locals.push((own, tokens[at].line));
            }
            at += 1;
            if is_sign(tokens.get(at), ":") {
                at = after_type(tokens, at);
            }
            if !is_sign(tokens.get(at), ",") {
                break;
            }
            at += 1;
        }
        if local && is_sign(tokens.get(at), "=") {
            self.values(&own_names, tokens, at + 1);
        }
    }

    /// Reads `require("a"), require("b")`, the values of locals, as far as they are that.
    fn values(&mut self, own_names: &[&'t str], tokens: &'t [Token], mut at: usize) {
        for own in own_names {
            if name(tokens.get(at)) != Some("require") {
                return;
            }
            let bracket = usize::from(is_sign(tokens.get(at + 1), "("));
            let Some(Kind::Text(module)) = tokens.get(at + 1 + bracket).map(|token| &token.kind) else { return };
            at += 2 + 2 * bracket;
            // `require("a").b` is not the module.
            if [".", ":", "("].iter().any(|sign| is_sign(tokens.get(at), sign)) {
                return;
            }
            self.modules.insert(own, module);
            if !is_sign(tokens.get(at), ",") {
                return;
            }
            at += 1;
        }
    }

    /// Reads the name and the parameters of a function.
    fn function(&mut self, tokens: &'t [Token], mut at: usize) {
        if let Some(own) = name(tokens.get(at)) {
            let plain = is_sign(tokens.get(at + 1), "(") || is_sign(tokens.get(at + 1), "<");
            if at >= 2 && name(tokens.get(at - 2)) == Some("local") {
                self.declare(own);
            } else if plain {
                self.written.push((own, tokens[at].line));
            }
        }
        self.declared.entry("self").or_default();
        while tokens.get(at).is_some() && !is_sign(tokens.get(at), "(") {
            at += 1;
        }
        let mut depth = 0_u32;
        for token in &tokens[at.min(tokens.len())..] {
            match &token.kind {
                Kind::Sign("(") => depth += 1,
                Kind::Sign(")") => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        break;
                    }
                }
                Kind::Name(own) => self.declare(own),
                _ => {}
            }
        }
    }

    /// Finds locals that hold nothing but results of one kind of host call: `local last = session(…)`.
    fn read_shapes(&mut self, tokens: &'t [Token]) {
        let mut shapes: BTreeMap<&str, Option<&'static str>> = BTreeMap::new();
        let mut singles = BTreeSet::new();
        for (at, own) in tokens.iter().enumerate().filter_map(|(at, token)| Some((at, name(Some(token))?))) {
            if after_dot(tokens, at) || self.declared.get(own) != Some(&1) {
                continue;
            }
            let next = tokens.get(at + 1);
            let is_local = at > 0 && name(tokens.get(at - 1)) == Some("local");
            if is_local && !is_sign(next, ",") && !is_sign(next, ":") {
                singles.insert(own);
            }
            let shape = if is_sign(next, "=") {
                self.shape_of(tokens, at + 2)
            } else if begins_list(tokens, at)
                || matches!(next.map(|token| &token.kind), Some(Kind::Sign(sign)) if sign.len() > 1 && sign.ends_with('=') && !["==", "~=", "<=", ">="].contains(sign))
            {
                None
            } else {
                continue;
            };
            shapes.entry(own).and_modify(|known| *known = known.filter(|known| Some(*known) == shape)).or_insert(shape);
        }
        shapes.retain(|own, _| singles.contains(own));
        self.shapes = shapes;
    }

    /// Returns the shape of what a call at `at` returns, where the call is the whole value.
    fn shape_of(&self, tokens: &[Token], at: usize) -> Option<&'static str> {
        let (function, next) = calls::function_at(self, tokens, at)?;
        let token = tokens.get(next).filter(|token| begins_call(Some(token)))?;
        let end = if matches!(token.kind, Kind::Text(_)) { next } else { parts(tokens, next)?.1 };
        let whole = match tokens.get(end + 1).map(|token| &token.kind) {
            None | Some(Kind::Sign(";")) => true,
            Some(Kind::Name(word)) => word != "and" && word != "or",
            _ => false,
        };
        (whole && api::fields(function.returns).next().is_some()).then_some(function.returns)
    }

    pub(super) fn check(&self, file: &str, tokens: &[Token], known: &Known) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            let Some(own) = name(Some(token)).filter(|own| !KEYWORDS.contains(own)) else { continue };
            if after_dot(tokens, at) {
                continue;
            }
            let error = |(line, message)| finding(Severity::Error, file, line, message);
            findings.extend(calls::check(self, tokens, at).into_iter().map(error));
            findings.extend(self.unknown(tokens, at, own, known).map(|message| error((token.line, message))));
        }
        findings.extend(self.unused(tokens).map(|(own, line)| {
            finding(
                Severity::Warning,
                file,
                line,
                format!("`{own}` is never used; begin its name with `_` if that is meant"),
            )
        }));
        findings.extend(self.written.iter().map(|(own, line)| {
            let message = if known.globals.contains(*own) {
                format!("`{own}` is the host's: writing it hides it from the whole script; take another name")
            } else {
                format!("`{own}` is written as a global; put `local` before where it begins")
            };
            finding(Severity::Warning, file, *line, message)
        }));
        findings.extend(unknown_modules(file, tokens));
        findings
    }

    /// Says what does not exist: a global, or a field of a table of the host.
    fn unknown(&self, tokens: &[Token], at: usize, own: &str, known: &Known) -> Option<String> {
        let field = name(tokens.get(at + 2)).filter(|_| is_sign(tokens.get(at + 1), "."));
        if let Some((module, next)) = calls::module_at(self, tokens, at) {
            let field = name(tokens.get(next + 1)).filter(|_| is_sign(tokens.get(next), "."));
            return unknown_function(module, field?);
        }
        if let Some(shape) = self.shapes.get(own).copied().flatten() {
            let field = field?;
            let exists = api::fields(shape).any(|known| known == field);
            let near = || suggestion(field, api::fields(shape));
            return if exists {
                written_field(tokens, at, own, field)
            } else {
                Some(format!("`{shape}` has no field `{field}`{}", near()))
            };
        }
        if self.declared.contains_key(own) || self.written.iter().any(|(written, _)| *written == own) {
            return None;
        }
        match known.fields.get(own) {
            Some(fields) => {
                let unknown = |field| unknown_field(own, field, fields);
                field.and_then(|field| unknown(field).or_else(|| written_field(tokens, at, own, field)))
            }
            None => unknown_global(tokens, at, own, known),
        }
    }

    /// Returns locals whose names come nowhere else in the file.
    fn unused(&self, tokens: &[Token]) -> impl Iterator<Item = (&'t str, u32)> {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for own in tokens.iter().filter_map(|token| name(Some(token))) {
            *counts.entry(own).or_default() += 1;
        }
        self.locals.iter().filter(move |(own, _)| !own.starts_with('_') && counts.get(own) == Some(&1)).copied()
    }
}

/// Returns the position after a type that begins with `:` at `at`. Types hold no commas outside brackets; what is inside
/// them is of no interest here.
fn after_type(tokens: &[Token], mut at: usize) -> usize {
    let mut depth = 0_u32;
    while let Some(token) = tokens.get(at) {
        match &token.kind {
            Kind::Sign("(" | "{" | "<") => depth += 1,
            Kind::Sign(")" | "}" | ">") => depth = depth.saturating_sub(1),
            Kind::Sign("," | "=") if depth == 0 => break,
            Kind::Name(word) if depth == 0 && matches!(word.as_str(), "local" | "in") => break,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Tells whether a name at the start of a statement is written: `name = …`.
fn is_assigned(tokens: &[Token], at: usize) -> bool {
    is_sign(tokens.get(at + 1), "=")
        && starts_statement(tokens, at)
        && !(at > 0 && is_sign(tokens.get(at - 1), "<"))
        && !name(tokens.get(at)).is_some_and(|own| KEYWORDS.contains(&own))
}

/// Tells whether a name is one of several that are written at once: `a, b = …`.
fn begins_list(tokens: &[Token], at: usize) -> bool {
    let last = is_sign(tokens.get(at + 1), "=") && at > 0 && is_sign(tokens.get(at - 1), ",");
    let statement = match at.checked_sub(1).and_then(|before| tokens.get(before)).map(|token| &token.kind) {
        None | Some(Kind::Text(_) | Kind::Number(_) | Kind::Sign(")" | "]" | "}" | ";")) => true,
        Some(Kind::Name(word)) => {
            !KEYWORDS.contains(&word.as_str()) || ["end", "then", "do", "else", "repeat"].contains(&word.as_str())
        }
        Some(_) => false,
    };
    last || statement && is_sign(tokens.get(at + 1), ",")
}

/// Names of types, which come where names of values do not.
const TYPES: &[&str] = &["any", "boolean", "buffer", "never", "number", "string", "thread", "unknown"];

fn unknown_global(tokens: &[Token], at: usize, own: &str, known: &Known) -> Option<String> {
    // `{ name = value }` is a field, not a global.
    if known.globals.contains(own) || TYPES.contains(&own) || is_sign(tokens.get(at + 1), "=") {
        return None;
    }
    // Nor is `name:` in a table's type.
    if is_sign(tokens.get(at + 1), ":") && at > 0 && ["{", ","].iter().any(|sign| is_sign(tokens.get(at - 1), sign)) {
        return None;
    }
    if let Some(hint) = absent(own) {
        return Some(format!("`{own}` does not exist in scripts: {hint}"));
    }
    Some(format!("unknown global `{own}`{}", suggestion(own, known.globals.iter().map(String::as_str))))
}

/// Says that a field of a frozen table is written: `own.field = …`.
fn written_field(tokens: &[Token], at: usize, own: &str, field: &str) -> Option<String> {
    is_sign(tokens.get(at + 3), "=")
        .then(|| format!("`{own}` is frozen, so `{own}.{field}` cannot be written; write to a table of your own"))
}

fn unknown_field(table: &str, field: &str, fields: &BTreeSet<String>) -> Option<String> {
    if fields.contains(field) {
        return None;
    }
    if let Some(hint) = absent(&format!("{table}.{field}")) {
        return Some(format!("`{table}.{field}` does not exist in scripts: {hint}"));
    }
    Some(format!("`{table}` has no field `{field}`{}", suggestion(field, fields.iter().map(String::as_str))))
}

fn unknown_function(module: &str, field: &str) -> Option<String> {
    let known: Vec<&str> = api::members(module).collect();
    if known.is_empty() || known.contains(&field) {
        return None;
    }
    Some(format!("`@std/{module}` has no `{field}`{}", suggestion(field, known.into_iter())))
}

fn unknown_modules<'a>(file: &'a str, tokens: &'a [Token]) -> impl Iterator<Item = Finding> + 'a {
    tokens.iter().enumerate().filter_map(move |(at, token)| {
        let text = tokens.get(at + if is_sign(tokens.get(at + 1), "(") { 2 } else { 1 })?;
        let (Some("require"), Kind::Text(module)) = (name(Some(token)), &text.kind) else { return None };
        let module = module.strip_prefix("@std/")?;
        let known = || library::names().chain(["test"]);
        if known().any(|other| other == module) {
            return None;
        }
        let message = format!("there is no `@std/{module}`{}", suggestion(module, known()));
        Some(finding(Severity::Error, file, token.line, message))
    })
}
