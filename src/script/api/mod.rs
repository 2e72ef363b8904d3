//! The table of everything that scripts can call.
//!
//! One descriptor a function: from it arguments are checked, `types.d.luau` and `docs/reference/lua.md` are generated, and
//! tests hold what is installed against it.

mod agents;
mod data;
mod strategy;
mod test;
mod world;

/// A function that scripts can call.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// `""` for a global function, `deadline` or `log` for a global table, else the name after `@std/`; a type's name
    /// for methods.
    pub module: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Its result, as a Luau type.
    pub returns: &'static str,
    /// What it does, when it raises.
    pub doc: &'static str,
    /// A line or two of Lua.
    pub example: &'static str,
}

/// A parameter of a function, or an option of an options table.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// What may be passed.
    pub kind: Kind,
    /// Whether nil may be passed.
    pub optional: bool,
    /// What it means.
    pub doc: &'static str,
}

/// What may be passed for a parameter.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Anything.
    Any,
    /// Anything but nil.
    Some,
    /// Any bytes.
    Bytes,
    /// Valid UTF-8 without NUL.
    Text,
    /// A finite number.
    Number,
    /// A whole number from the first to the second bound.
    Integer(i64, i64),
    /// A finite number of seconds, 0 or more.
    Seconds,
    /// A finite number of dollars, 0 or more.
    Dollars,
    /// `true` or `false`.
    Boolean,
    /// A table.
    Table,
    /// A table with the keys 1 to n.
    List,
    /// A function.
    Function,
    /// What `session` returned.
    Session,
    /// What `@std/fork` returned, or `workspace.main`.
    Workspace,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A table with only these fields.
    Options(&'static [Param]),
}

impl Kind {
    /// Says what is expected, for error messages.
    #[must_use]
    pub fn expected(self) -> String {
        match self {
            Self::Any => "anything".to_owned(),
            Self::Some => "a value".to_owned(),
            Self::Bytes => "a string".to_owned(),
            Self::Text => "a string of valid UTF-8 without NUL".to_owned(),
            Self::Number => "a finite number".to_owned(),
            Self::Integer(min, max) => format!("a whole number from {min} to {max}"),
            Self::Seconds => "a finite number of seconds, 0 or more".to_owned(),
            Self::Dollars => "a finite number of dollars, 0 or more".to_owned(),
            Self::Boolean => "true or false".to_owned(),
            Self::Table => "a table".to_owned(),
            Self::List => "a list".to_owned(),
            Self::Function => "a function".to_owned(),
            Self::Session => "the result of an earlier session".to_owned(),
            Self::Workspace => "a workspace: `workspace.main` or what @std/fork returned".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Options(_) => "a table of options".to_owned(),
        }
    }
}

pub(crate) const fn required(name: &'static str, kind: Kind, doc: &'static str) -> Param {
    Param { name, kind, optional: false, doc }
}

pub(crate) const fn optional(name: &'static str, kind: Kind, doc: &'static str) -> Param {
    Param { name, kind, optional: true, doc }
}

/// Names of the global functions and tables of the host, besides Luau's own.
pub const GLOBALS: &[&str] = &["session", "deadline", "params", "task", "log", "print"];

/// Returns every function, in the order of the reference.
pub fn functions() -> impl Iterator<Item = &'static Function> {
    agents::FUNCTIONS
        .iter()
        .chain(world::FUNCTIONS)
        .chain(strategy::FUNCTIONS)
        .chain(data::FUNCTIONS)
        .chain(test::FUNCTIONS)
}

/// Returns everything that a standard module holds, besides functions too.
pub fn members(module: &str) -> impl Iterator<Item = &'static str> {
    let values: &[&str] = match module {
        "workspace" => &["main"],
        "json" => &["null"],
        _ => &[],
    };
    functions()
        .filter(move |function| function.module == module)
        .map(|function| function.name)
        .chain(values.iter().copied())
}

/// Finds a function by `module.name`, or by `name` for a global one.
#[must_use]
pub fn find(path: &str) -> Option<&'static Function> {
    let (module, name) = path.rsplit_once('.').unwrap_or(("", path));
    functions().find(|function| function.module == module && function.name == name)
}

/// Returns the options that a function takes in a table, by `module.name`; none where it takes no such table.
#[must_use]
pub fn options(path: &str) -> &'static [Param] {
    let params = find(path).map_or(&[][..], |function| function.params);
    let tables = params.iter().find_map(|param| match param.kind {
        Kind::Options(fields) => Some(fields),
        _ => None,
    });
    tables.unwrap_or(&[])
}

/// A table that the host hands out, with the fields that it may have.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Its name, as error messages and types say it.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Its fields: name, Luau type, meaning.
    pub fields: &'static [(&'static str, &'static str, &'static str)],
}

/// What the host reads of a table that a script returns.
pub const RETURNED: Shape = agents::RETURNED;

/// Returns the fields of a table of the host; none where there is no such table.
pub fn fields(shape: &str) -> impl Iterator<Item = &'static str> {
    let found = SHAPES.iter().chain(TEST_SHAPES).find(|known| known.name == shape);
    found.into_iter().flat_map(|shape| shape.fields).map(|(field, _, _)| *field)
}

/// Returns a function's name as scripts write it, with the usual name of its module.
#[must_use]
pub fn path(function: &Function) -> String {
    match function.module {
        "" => function.name.to_owned(),
        module => format!("{module}.{}", function.name),
    }
}

/// Every table that the host hands out.
pub const SHAPES: &[Shape] = &[
    agents::SESSION,
    agents::USAGE,
    agents::TASK,
    agents::PHASE,
    world::CHECKS,
    world::CHECK,
    world::EXEC,
    world::WORKSPACE,
    agents::ERROR,
];

/// Tables that test files get besides.
pub const TEST_SHAPES: &[Shape] =
    &[test::RUN_REPORT, test::RUN_SESSION, test::RUN_CALL, test::RUN_LOG, test::RUN_WORKSPACE];
