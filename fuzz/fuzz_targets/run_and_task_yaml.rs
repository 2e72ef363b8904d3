//! Run files with a `--set`, task files and plays: any text is either accepted or refused with a message that can be shown.

#![no_main]

use libfuzzer_sys::fuzz_target;
use refrain::config::fuzzing::{run_file, task_file};
use refrain::harness::scripted::Play;

fuzz_target!(|text: &str| {
    // The first line is a comment in the files of this repository, so they serve as seeds.
    let set = text.lines().next().unwrap_or_default();
    run_file(text, set.trim_start_matches(['#', ' ']));
    task_file(text);
    // The third kind of YAML that people write.
    let _ = Play::parse(text);
});
