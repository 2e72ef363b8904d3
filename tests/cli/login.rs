//! A subscription's login is in nothing that a run keeps, also where its program renews it during a session.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::bed::TestBed;

const FIRST: &str = "first-login-0123456789abcdef";
const RENEWED: &str = "renewed-login-0123456789abcdef";

/// An agent that renews its login, and shows both wherever it can.
const AGENT: &str = r#"
name = "renewing"
credentials = [".renewing/auth.json"]
[run]
argv = ["sh", "{dir}/agent.sh"]
prompt = "stdin"
"#;

fn project() -> TestBed {
    let bed = TestBed::with_play("plays: []\n");
    bed.file("renewing/harness.toml", AGENT);
    bed.file(
        "renewing/agent.sh",
        &format!(
            "was=$(cat ~/.renewing/auth.json); printf '{{\"refresh\": \"{RENEWED}\"}}' > ~/.renewing/auth.json\n\
             echo 'echo hello world' > greet.sh; echo \"$was {RENEWED}\" | tee notes.txt >&2; cat notes.txt\n"
        ),
    );
    bed.file("user/.renewing/auth.json", &format!("{{\"refresh\": \"{FIRST}\"}}"));
    bed.file(
        "runs/demo.yaml",
        "name: demo\nharnesses: [{name: renewing, adapter: ../renewing}]\nmodels: [{name: m, provider: none, \
         auth_mode: subscription, cost_mode: subscription, credentials_path: ../user}]\ntasks: [greeting]\n\
         runtime: local\norchestrators: [one-shot]\nrepeats: 1\n",
    );
    bed
}

/// Every file that the run has left, unpacked.
fn left_by_the_run(bed: &TestBed) -> Vec<(PathBuf, Vec<u8>)> {
    let mut folders = vec![bed.path().join(".refrain")];
    let mut files = Vec::new();
    let mut keep = |path: &Path| {
        let mut content = fs::read(path).unwrap();
        if path.extension().is_some_and(|kind| kind == "gz") {
            let packed = std::mem::take(&mut content);
            flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut content).unwrap();
        }
        files.push((path.to_owned(), content));
    };
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() { folders.push(entry.path()) } else { keep(&entry.path()) }
        }
    }
    fs::read_dir(bed.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .for_each(|path| keep(&path));
    files
}

#[test]
fn a_login_is_in_nothing_that_is_kept_also_a_renewed_one() {
    let bed = project();
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "none"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let files = left_by_the_run(&bed);
    let holds = |text: &str| {
        let found = files.iter().filter(|(_, content)| content.windows(text.len()).any(|part| part == text.as_bytes()));
        found.map(|(path, _)| path.clone()).collect::<Vec<_>>()
    };
    for login in [FIRST, RENEWED] {
        assert_eq!(holds(login), Vec::<PathBuf>::new(), "{login}");
    }
    // The log, the record and the diff were looked into.
    assert!(holds("[redacted:LOGIN]").len() >= 3, "{:?}", holds("[redacted:LOGIN]"));
    let shown = bed.run(&["show", "renewing__m__greeting__r1", "--diff"]).stdout;
    assert!(shown.contains("[redacted:LOGIN]") && !shown.contains(RENEWED), "{shown}");
}
