//! The script's own frames on the VM's stack.

use mlua::Lua;

use super::error::Frame;

/// How deep a stack is walked.
const MAX_WALK: usize = 200;
/// How many frames a trace keeps.
pub(crate) const MAX_FRAMES: usize = 24;

/// Prefix of the names of the script's own chunks. Host chunks have none of it.
pub(crate) const SCRIPT: &str = "=";
/// Prefix of the names of the standard modules.
pub(crate) const STD: &str = "=@std/";
/// Name of the chunks of the host itself.
pub(crate) const HOST: &str = "=[refrain]";

/// Tells whether a chunk name belongs to the script rather than to the host, the library or native code.
fn is_script(source: &str) -> bool {
    source.starts_with(SCRIPT)
        && !source.starts_with(STD)
        && !source.starts_with("=[")
        && !source.starts_with("=__mlua")
}

/// Returns up to `max` frames of the script, innermost first, leaving out the `skip` innermost levels of the stack.
pub(crate) fn script_frames(lua: &Lua, skip: usize, max: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    for level in skip..skip + MAX_WALK {
        let frame = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let source = source.source.as_deref().unwrap_or("");
            if !is_script(source) {
                return None;
            }
            let line = u32::try_from(debug.current_line()?).ok()?;
            let function = debug.names().name.map(std::borrow::Cow::into_owned).filter(|name| !name.is_empty());
            Some(Frame { file: source.trim_start_matches(SCRIPT).to_owned(), line, function, branch: None })
        });
        match frame {
            None => break,
            Some(None) => {}
            Some(Some(frame)) => {
                frames.push(frame);
                if frames.len() == max {
                    break;
                }
            }
        }
    }
    frames
}

/// Returns the file that called the running native function.
pub(crate) fn calling_file(lua: &Lua) -> Option<String> {
    for level in 1..MAX_WALK {
        let source = lua.inspect_stack(level, |debug| debug.source().source.map(std::borrow::Cow::into_owned))?;
        if let Some(source) = source
            && !source.starts_with("=[")
            && !source.starts_with("=__mlua")
        {
            return Some(source.trim_start_matches(SCRIPT).to_owned());
        }
    }
    None
}
