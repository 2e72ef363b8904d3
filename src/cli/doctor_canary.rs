//! `refrain doctor --canary`: plants keys in a run of this very program and proves that nothing it left holds them.
//!
//! The proof has two halves: no file, no column and no line of output holds a piece of a key, and the places where a key
//! must have come by hold the marker that took its place. Without the second half a run that did nothing would pass.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::read::MultiGzDecoder;
use serde::Serialize;

use super::{Failed, Outcome, exit, output};
use crate::store::Store;

/// The project that the canary runs: relative path and content.
const FILES: &[(&str, &str)] = &[
    ("runs/canary.yaml", include_str!("doctor_canary/run.yaml")),
    ("tasks/canary/task.yaml", include_str!("doctor_canary/task.yaml")),
    ("tasks/canary/repo/README", "nothing is to be done here\n"),
    ("tasks/canary/tests/hidden.sh", include_str!("doctor_canary/hidden.sh")),
    ("agent.sh", include_str!("doctor_canary/agent.sh")),
    ("orchestrators/canary-sings/orchestrator.toml", SINGS),
    ("orchestrators/canary-sings/runner.lua", include_str!("doctor_canary/sings.lua")),
    ("orchestrators/canary-fails/orchestrator.toml", FAILS),
    ("orchestrators/canary-fails/runner.lua", include_str!("doctor_canary/fails.lua")),
];

const SINGS: &str = "slug = \"canary-sings\"\nname = \"Canary sings\"\ndescription = \"Says what it knows.\"\n\
                     runner = \"runner.lua\"\napi = 1\n";
const FAILS: &str = "slug = \"canary-fails\"\nname = \"Canary fails\"\ndescription = \"Says it in an error.\"\n\
                     runner = \"runner.lua\"\napi = 1\n";

/// Where a key must have come by, as what is scanned calls it.
const REACHED: &[&str] = &[
    "run_results.harness_stdout",
    "run_results.harness_stderr",
    "run_results.test_output",
    "run_results.diff",
    "run_results.error_message",
    "attempts.record_json",
    "sessions.record_json",
    "events.event_json",
    "journal.answer",
    "run_record.json",
    "diff.patch",
    "stdout.log.gz",
    "stderr.log.gz",
    "output of `refrain run`",
    "output of `refrain show`",
    "output of `refrain show --trajectory`",
    "output of `refrain replay`",
    // What `refrain export` writes.
    ".a1.s1.json",
];

/// What takes a key's place.
const MARKER: &[u8] = b"[redacted:REFRAIN_CANARY_";

/// The first line of the key of several lines.
const BLOCK_HEAD: &str = "canary block";

/// Bytes of a piece: long enough to be nothing else, short enough to find what was cut.
const PIECE: usize = 12;

/// What the scan came to.
#[derive(Debug, Default, Serialize)]
struct Findings {
    /// Where a piece of a key is.
    leaks: Vec<String>,
    /// Where the marker of a key is.
    markers: Vec<String>,
    /// Where no marker is although a key came by: the proof is void.
    unproven: Vec<&'static str>,
    files: usize,
    columns: usize,
}

pub(super) fn main(json: bool) -> Outcome {
    let dir = tempfile::Builder::new().prefix("refrain-canary-").tempdir()?;
    let keys = [("REFRAIN_CANARY_LINE", line_key()), ("REFRAIN_CANARY_BLOCK", block_key())];
    write_project(dir.path())?;
    let needles = Needles::of(keys.iter().map(|(_, key)| key.as_str()));
    let outputs = carry_out(dir.path(), &keys)?;
    let findings = scan(dir.path(), &outputs, &needles)?;
    report(&findings, json)?;
    Ok(if findings.leaks.is_empty() && findings.unproven.is_empty() { exit::OK } else { exit::LEAKED })
}

/// A key of one line, with characters that JSON, URLs and shells write in other ways.
fn line_key() -> String {
    format!("canary-{}\"+={}\\&{}", random(), random(), random())
}

/// A key of several lines.
fn block_key() -> String {
    format!("{BLOCK_HEAD}\n{}{}\n{}{}", random(), random(), random(), random())
}

fn random() -> String {
    uuid::Uuid::new_v4().simple().to_string()[..20].to_owned()
}

fn write_project(dir: &Path) -> Result<(), Failed> {
    for (name, content) in FILES {
        let path = dir.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, content.replace("[agent]", &dir.join("agent.sh").display().to_string()))?;
    }
    Ok(())
}

/// Runs the project with this very program, everything logged, and looks at it as a user would.
fn carry_out(dir: &Path, keys: &[(&str, String)]) -> Result<Vec<(&'static str, Vec<u8>)>, Failed> {
    let program = std::env::current_exe()?;
    let cells = [
        "agent__line__canary__r1__orch-canary-sings",
        "agent__block__canary__r1__orch-canary-sings",
        "agent__line__canary__r1__orch-canary-fails",
        "agent__block__canary__r1__orch-canary-fails",
    ];
    let mut commands: Vec<(&'static str, Vec<&str>)> = vec![
        (
            "output of `refrain run`",
            vec!["run", "runs/canary.yaml", "--progress", "json", "--orchestrator-dir", "orchestrators"],
        ),
        ("output of `refrain results`", vec!["results", "--json"]),
        ("output of `refrain status`", vec!["status"]),
        // What it writes is looked at with the other files.
        ("output of `refrain export`", vec!["export", "--out", "trajectories"]),
    ];
    for cell in cells {
        commands.push(("output of `refrain show`", vec!["show", cell]));
        commands.push(("output of `refrain show`", vec!["show", cell, "--json"]));
        commands.push(("output of `refrain show --trajectory`", vec!["show", cell, "--trajectory"]));
        commands.push(("output of `refrain replay`", vec!["replay", cell]));
    }
    let mut outputs = Vec::new();
    for (name, args) in commands {
        let mut command = Command::new(&program);
        command.args(args).current_dir(dir).stdin(Stdio::null()).env("REFRAIN_LOG", "trace").env_remove("REFRAIN_DB");
        if name.ends_with("run`") {
            command.envs(keys.iter().map(|(name, key)| (name, key.as_str())));
        }
        let ran = command.output()?;
        outputs.push((name, ran.stdout));
        outputs.push((name, ran.stderr));
    }
    Ok(outputs)
}

/// Pieces of keys in every form, as a hash set would find them: by their first bytes.
struct Needles(Vec<Vec<u8>>);

impl Needles {
    fn of<'a>(keys: impl Iterator<Item = &'a str>) -> Self {
        let mut pieces = Vec::new();
        for key in keys {
            for form in forms(key) {
                pieces.extend(form.windows(PIECE).map(<[u8]>::to_vec));
            }
        }
        pieces.sort();
        pieces.dedup();
        Self(pieces)
    }

    fn occur_in(&self, text: &[u8]) -> bool {
        text.windows(PIECE).any(|window| self.0.binary_search_by(|piece| piece.as_slice().cmp(window)).is_ok())
    }
}

/// A key line by line, in hex, and in base64 behind any number of other bytes. What JSON and URLs make of it keeps pieces
/// of it as they are. A first line that is the same in every key, as in a key block, is no secret.
fn forms(key: &str) -> Vec<Vec<u8>> {
    use data_encoding::{BASE64_NOPAD, HEXLOWER};
    let mut forms = vec![HEXLOWER.encode(key.as_bytes()).into_bytes()];
    forms.extend(key.lines().filter(|line| *line != BLOCK_HEAD).map(|line| line.as_bytes().to_vec()));
    for shift in 0..3usize {
        let mut padded = vec![0; shift];
        padded.extend_from_slice(key.as_bytes());
        let encoded = BASE64_NOPAD.encode(&padded).into_bytes();
        // The characters at both ends hold bits of the neighbours too.
        forms.push(encoded[(shift * 8).div_ceil(6)..padded.len() * 8 / 6].to_vec());
    }
    forms
}

fn scan(dir: &Path, outputs: &[(&'static str, Vec<u8>)], needles: &Needles) -> Result<Findings, Failed> {
    let mut findings = Findings::default();
    for (name, text) in outputs {
        findings.look((*name).to_owned(), text, needles);
    }
    let mut files = Vec::new();
    list(dir, &mut files)?;
    findings.files = files.len();
    for path in files {
        let name = path.strip_prefix(dir).unwrap_or(&path).display().to_string();
        findings.look(format!("name of {name}"), name.as_bytes(), needles);
        findings.look(name, &content(&path)?, needles);
    }
    let store = Store::open_read_only(&dir.join("refrain.db"))?;
    findings.columns = store.columns_with(|_| true).wait()?.len();
    let pieces = Needles(needles.0.clone());
    findings.leaks.extend(store.columns_with(move |text| pieces.occur_in(text)).wait()?);
    findings.markers.extend(store.columns_with(|text| contains(text, MARKER)).wait()?);
    let reached = |place: &str| findings.markers.iter().any(|marker| marker.ends_with(place));
    findings.unproven = REACHED.iter().copied().filter(|place| !reached(place)).collect();
    Ok(findings)
}

impl Findings {
    fn look(&mut self, name: String, text: &[u8], needles: &Needles) {
        if contains(text, MARKER) {
            self.markers.push(name.clone());
        }
        if needles.occur_in(text) {
            self.leaks.push(name);
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn list(dir: &Path, into: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            list(&entry.path(), into)?;
        } else if entry.file_type()?.is_file() {
            into.push(entry.path());
        }
    }
    Ok(())
}

/// What a file says, unpacked where it is compressed.
fn content(path: &Path) -> std::io::Result<Vec<u8>> {
    let bytes = fs::read(path)?;
    if path.extension().is_none_or(|extension| extension != "gz") {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut plain)?;
    Ok(plain)
}

fn report(findings: &Findings, json: bool) -> Result<(), Failed> {
    let ok = findings.leaks.is_empty() && findings.unproven.is_empty();
    if json {
        return output::write_json(&serde_json::json!({
            "schema": 1,
            "ok": ok,
            "leaks": findings.leaks,
            "unproven": findings.unproven,
            "markers": findings.markers,
            "files": findings.files,
            "columns": findings.columns,
        }));
    }
    for leak in &findings.leaks {
        output::write(&format!("{:>12}  {}\n", "leaked", crate::redact::printable(leak)))?;
    }
    for place in &findings.unproven {
        output::write(&format!("{:>12}  {place}: no key came by, so nothing is proved there\n", "unproven"))?;
    }
    output::write(&format!(
        "{:>12}  {} files, {} columns and all output scanned; a key was taken out in {} places, {} hold one\n",
        if ok { "ok" } else { "failed" },
        findings.files,
        findings.columns,
        findings.markers.len(),
        findings.leaks.len(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_of_a_key_is_found_in_every_form() {
        let key = line_key();
        let needles = Needles::of(std::iter::once(key.as_str()));
        let json = serde_json::to_string(&key).expect("a string");
        for text in [
            key.clone(),
            key[8..28].to_owned(),
            json,
            data_encoding::BASE64.encode(key.as_bytes()),
            data_encoding::BASE64.encode(format!("u:{key}").as_bytes()),
            data_encoding::HEXLOWER.encode(key.as_bytes()),
        ] {
            assert!(needles.occur_in(format!("before {text} after").as_bytes()), "{text}");
        }
        assert!(!needles.occur_in(b"canary-sings and canary-fails say [redacted:REFRAIN_CANARY_LINE]"));
    }

    #[test]
    fn what_is_compressed_is_unpacked() {
        use std::io::Write as _;
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("stdout.log.gz");
        let mut sink =
            flate2::write::GzEncoder::new(fs::File::create(&path).expect("made"), flate2::Compression::fast());
        sink.write_all(b"secret words").expect("written");
        sink.finish().expect("written");
        assert_eq!(content(&path).expect("read"), b"secret words");
    }
}
