//! What is sent to a command's shell: over its standard input, so that neither variables nor arguments stand in any
//! description that the daemon keeps or shows.

use std::path::Path;

use super::super::layout;
use crate::runtime::{Command, RuntimeError, Stdin};

/// The wrapper.
const WRAPPER: &str = concat!(include_str!("tree.sh"), include_str!("session.sh"));
/// The most bytes of one argument or variable, its end included: the kernel's own limit.
const LONGEST_WORD: usize = 128 * 1024;
/// The most bytes of all of them; the kernel's limit is 2 MiB where nobody has changed it, and holds some of its own.
const LONGEST_LIST: usize = 2 * 1024 * 1024 - 64 * 1024;
/// The longest standard input that is sent along; more goes by archive, because some shells read scripts bytewise.
const INLINE: usize = 64 * 1024;
/// Variables that some shell does not let be set, and ends if one tries.
const STUBBORN: &[&str] = &["UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO", "OPTIND"];

/// A command as its shell reads it.
#[derive(Debug)]
pub(super) struct Script {
    /// Marks the command's processes.
    pub(super) id: String,
    /// Marks the wrapper's words.
    pub(super) nonce: String,
    /// The script.
    pub(super) text: Vec<u8>,
    /// Standard input that has to be in the container before.
    pub(super) upload: Option<Vec<u8>>,
}

impl Script {
    /// Writes the script of a command with `env` as its surroundings' variables, sent by a host with this token.
    pub(super) fn new(
        (env, token): (&[(String, String)], &str),
        command: &Command,
        spool: bool,
    ) -> Result<Self, RuntimeError> {
        let refuse = |reason: String| RuntimeError::NotRunnable { program: program(command).to_owned(), reason };
        let env: Vec<_> = env.iter().chain(&command.env).collect();
        check(&env, command).map_err(refuse)?;
        let unique = || uuid::Uuid::new_v4().simple().to_string();
        let (id, nonce) = (unique(), unique());
        let base = base(&id);
        let path = env.iter().rev().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value);
        let folder = Path::new(layout::WORKSPACE).join(command.cwd.as_deref().unwrap_or(Path::new("")));

        let mut text = Vec::with_capacity(WRAPPER.len() + 4096);
        let input = if command.stdin == Stdin::Null { String::new() } else { format!("{base}.in") };
        let spool = if spool { base.as_str() } else { "" };
        for (name, value) in [
            ("nonce", nonce.as_str()),
            ("id", &id),
            ("token", token),
            ("spool", spool),
            ("input", &input),
            ("folder", &folder.to_string_lossy()),
            ("path", path),
        ] {
            text.extend_from_slice(format!("refrain_{name}=").as_bytes());
            quote(value.as_bytes(), &mut text);
            text.push(b'\n');
        }
        text.extend_from_slice(b"refrain_variables() {\n:\n");
        for (name, value) in env {
            export(name, value, &mut text);
        }
        text.extend_from_slice(b"}\n");
        let upload = match &command.stdin {
            Stdin::Bytes(bytes) if bytes.len() > INLINE || bytes.contains(&0) => Some(bytes.clone()),
            Stdin::Bytes(bytes) => {
                text.extend_from_slice(b"printf %s ");
                quote(bytes, &mut text);
                text.extend_from_slice(b" 2> /dev/null > \"$refrain_input\"\n");
                None
            }
            Stdin::Null => None,
        };
        text.extend_from_slice(b"set --");
        for word in &command.argv {
            text.push(b' ');
            quote(word.as_bytes(), &mut text);
        }
        text.push(b'\n');
        text.extend_from_slice(WRAPPER.as_bytes());
        // Nothing runs before this last line has come: half a script does nothing.
        text.extend_from_slice(b"refrain_main \"$@\"\n");
        Ok(Self { id, nonce, text, upload })
    }
}

/// Returns where a command keeps its files, without their suffixes.
pub(super) fn base(id: &str) -> String {
    format!("{}/{id}", layout::LOGS)
}

pub(super) fn program(command: &Command) -> &str {
    command.argv.first().map(String::as_str).unwrap_or_default()
}

fn check(env: &[&(String, String)], command: &Command) -> Result<(), String> {
    if program(command).is_empty() {
        return Err("the command is empty".to_owned());
    }
    if command.argv.iter().any(|word| word.contains('\0')) {
        return Err("an argument holds a NUL byte".to_owned());
    }
    for (name, value) in env {
        if value.contains('\0') {
            return Err(format!("the variable `{}` cannot be set: it holds a NUL byte", name.escape_default()));
        }
        let mut bytes = name.bytes();
        let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        if !bytes.next().is_some_and(letter) || !bytes.all(|byte| letter(byte) || byte.is_ascii_digit()) {
            return Err(format!(
                "the variable `{}` cannot be set in a container: a name has letters, digits and underscores only",
                name.escape_default()
            ));
        }
    }
    let words = command.argv.iter().map(String::len);
    let lengths: Vec<usize> = words.chain(env.iter().map(|(name, value)| name.len() + value.len() + 1)).collect();
    // Each has an end and a pointer to it.
    let total = lengths.iter().map(|length| length + 9).sum::<usize>();
    let longest = lengths.iter().max().copied().unwrap_or(0);
    if longest >= LONGEST_WORD || total > LONGEST_LIST {
        return Err(format!(
            "its arguments are too long for the operating system ({total} bytes in all, the longest argument or variable \
             has {longest}; the limits are 128 KiB for one and 2 MiB for all): pass long texts by file or standard input"
        ));
    }
    Ok(())
}

fn export(name: &str, value: &str, text: &mut Vec<u8>) {
    if STUBBORN.contains(&name) {
        text.extend_from_slice(format!("({name}=").as_bytes());
        quote(value.as_bytes(), text);
        text.extend_from_slice(b") && ");
    }
    text.extend_from_slice(format!("export {name}=").as_bytes());
    quote(value.as_bytes(), text);
    text.push(b'\n');
}

/// Writes a word that a shell reads back as it is.
fn quote(word: &[u8], text: &mut Vec<u8>) {
    text.push(b'\'');
    for (at, part) in word.split(|&byte| byte == b'\'').enumerate() {
        if at > 0 {
            text.extend_from_slice(b"'\\''");
        }
        text.extend_from_slice(part);
    }
    text.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(command: &Command) -> String {
        match Script::new((&[], ""), command, false) {
            Err(RuntimeError::NotRunnable { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_no_process_can_be_given_is_refused_before_anything_is_sent() {
        assert_eq!(refused(&Command::default()), "the command is empty");
        assert_eq!(refused(&Command::new(["a", "b\0"])), "an argument holds a NUL byte");
        let long = refused(&Command::new(["a".to_owned(), "x".repeat(LONGEST_WORD)]));
        assert!(long.contains("131072") && long.contains("standard input"), "{long}");
        let many = refused(&Command::new(vec!["x".repeat(1024); 2048]));
        assert!(many.contains("too long"), "{many}");
        let odd = Command { env: vec![("a-b".to_owned(), String::new())], ..Command::new(["true"]) };
        assert!(refused(&odd).contains("`a-b`"));
        assert!(Script::new((&[], ""), &Command::new(["a".to_owned(), "x".repeat(LONGEST_WORD - 1)]), true).is_ok());
    }

    #[test]
    fn words_are_quoted_and_later_variables_come_later() {
        let env = [("PATH".to_owned(), "/first".to_owned())];
        let command = Command {
            env: vec![("PATH".to_owned(), "/it's".to_owned()), ("UID".to_owned(), "7".to_owned())],
            cwd: Some("sub".into()),
            ..Command::new(["a'b", "$x\n`y`"])
        };
        let script = Script::new((&env, "mine"), &command, true).expect("a script");
        let text = String::from_utf8_lossy(&script.text);
        assert!(text.contains("refrain_path='/it'\\''s'\n"), "{text}");
        assert!(text.contains("export PATH='/first'\nexport PATH='/it'\\''s'\n(UID='7') && export UID='7'\n"));
        assert!(text.contains("set -- 'a'\\''b' '$x\n`y`'\n"));
        assert!(text.contains("refrain_folder='/work/sub'\n") && text.contains("refrain_token='mine'\n"));
        assert!(text.contains(&format!("refrain_spool='/refrain/log/{}'\n", script.id)));
    }

    #[test]
    fn long_or_binary_input_goes_another_way() {
        let with = |bytes: Vec<u8>| {
            let command = Command { stdin: Stdin::Bytes(bytes), ..Command::new(["cat"]) };
            Script::new((&[], ""), &command, false).expect("a script")
        };
        assert!(with(vec![0]).upload.is_some());
        assert!(with(vec![b'x'; INLINE + 1]).upload.is_some());
        let small = with(b"it's".to_vec());
        assert_eq!(small.upload, None);
        assert!(String::from_utf8_lossy(&small.text).contains("printf %s 'it'\\''s' 2> /dev/null > "));
    }
}
