//! Values across the border between Lua and the host: whatever is let through comes back as it was.

#![no_main]

use std::cell::RefCell;

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use refrain::script::fuzzing::{Border, Sample};

/// How deep a sample is built; beyond it, tables that contain themselves nest without end anyway.
const DEPTH: u32 = 40;

#[derive(Debug)]
enum Input {
    /// A value of a script.
    Lua(Sample),
    /// JSON, as a parameter, an answer of an agent, or `json.decode` may hold it.
    Json(String),
}

impl<'a> Arbitrary<'a> for Input {
    fn arbitrary(u: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        if u.ratio(1, 4)? {
            return Ok(Self::Json(String::from_utf8_lossy(u.bytes(u.len())?).into_owned()));
        }
        sample(u, DEPTH).map(Self::Lua)
    }
}

fn sample(u: &mut Unstructured<'_>, depth: u32) -> arbitrary::Result<Sample> {
    Ok(match u.int_in_range(0..=if depth == 0 { 7 } else { 10 })? {
        0 => Sample::Nil,
        1 => Sample::Boolean(u.arbitrary()?),
        2 => Sample::Integer(u.arbitrary()?),
        3 => Sample::Number(u.arbitrary()?),
        4 => Sample::Bytes(u.arbitrary()?),
        5 => Sample::Null,
        6 => Sample::Function,
        7 => Sample::Again(u.arbitrary()?),
        // Mostly tables, so that samples grow.
        _ => {
            let (mut items, mut fields) = (Vec::new(), Vec::new());
            while u.ratio(1, 2)? && !u.is_empty() {
                items.push(sample(u, depth - 1)?);
            }
            while u.ratio(1, 2)? && !u.is_empty() {
                fields.push((sample(u, depth - 1)?, sample(u, depth - 1)?));
            }
            Sample::Table(items, fields, u.arbitrary()?)
        }
    })
}

thread_local! {
    static BORDER: RefCell<Border> = RefCell::new(Border::new().expect("a VM"));
}

fuzz_target!(|input: Input| {
    BORDER.with_borrow(|border| {
        let checked = match &input {
            Input::Lua(sample) => border.lua_to_host(sample),
            Input::Json(text) => match serde_json::from_str(text) {
                Ok(json) => border.host_to_lua(&json),
                Err(_) => Ok(()),
            },
        };
        if let Err(difference) = checked {
            panic!("{difference}");
        }
    });
});
