//! The output of a harness: any bytes, cut anywhere, are read in the same way.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use refrain::config::harness_manifest::{HarnessManifest, JsonLinesSpec, OutputSpec};
use refrain::harness::json_lines::JsonLinesReader;
use refrain::harness::lines::LineSplitter;
use refrain::harness::{OutputReader, Reading};
use refrain::runtime::Stream;

/// Short, so that lines which are too long are met too.
const LONGEST_LINE: usize = 4096;

static SPECS: LazyLock<Vec<JsonLinesSpec>> = LazyLock::new(|| {
    let all = HarnessManifest::builtins().expect("the manifests of the program are right");
    let specs = all.into_iter().filter_map(|manifest| match manifest.output {
        OutputSpec::JsonLines(spec) => Some(spec),
        OutputSpec::Text => None,
    });
    specs.collect()
});

fn read(spec: u8, exit_code: u8, chunks: impl Iterator<Item = impl AsRef<[u8]>>) -> Reading {
    let mut reader = JsonLinesReader::new(&SPECS[usize::from(spec) % SPECS.len()]);
    let (mut lines, mut events) = (LineSplitter::new(LONGEST_LINE), Vec::new());
    for chunk in chunks {
        lines.push(chunk.as_ref(), &mut |line| reader.line(Stream::Stdout, line, &mut events));
    }
    lines.finish(&mut |line| reader.line(Stream::Stdout, line, &mut events));
    Box::new(reader).finish((exit_code < 128).then(|| exit_code.into()))
}

// What is chosen stands at the end, so that transcripts serve as seeds.
fuzz_target!(|input: &[u8]| {
    let Some((output, [spec, exit_code, step])) = input.split_last_chunk::<3>() else { return };
    let whole = read(*spec, *exit_code, std::iter::once(output));
    let cut = read(*spec, *exit_code, output.chunks(usize::from(*step).max(1)));
    assert_eq!(format!("{whole:?}"), format!("{cut:?}"), "the cuts of a stream are no part of what it says");
});
