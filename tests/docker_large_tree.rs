//! A tree of 20,000 files and 500 MB goes into a container and back, in bounded memory.

#![cfg(feature = "docker")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it measured"
)]

mod docker;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use docker::{BUSYBOX, runtime, spec};
use refrain::clock::{Clock, SystemClock};
use refrain::domain::{ContainerOptions, Network};
use refrain::runtime::{EnvironmentSpec, Runtime};

const FOLDERS: usize = 200;
const SMALL: usize = 100;
const BIG: usize = 10;
const BIG_BYTES: usize = 48 << 20;
/// The most memory that the whole test may ever have had, in kilobytes.
const MEMORY: u64 = 100 << 10;

fn small(folder: usize, file: usize) -> String {
    format!("{folder} {file}\n").repeat(100)
}

/// Writes a file that has no two equal megabytes.
fn big(path: &Path, number: usize) -> io::Result<()> {
    let mut file = File::create(path)?;
    let block = b"not a hole; ".repeat((1 << 20) / 12);
    for piece in 0..BIG_BYTES / block.len() {
        write!(file, "{number} {piece}")?;
        file.write_all(&block)?;
    }
    Ok(())
}

fn same(a: &Path, b: &Path) -> bool {
    let (mut a, mut b) = (File::open(a).unwrap(), File::open(b).unwrap());
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let length = a.read(&mut left).unwrap();
        if length == 0 {
            return b.read(&mut right).unwrap() == 0;
        }
        if b.read_exact(&mut right[..length]).is_err() || left[..length] != right[..length] {
            return false;
        }
    }
}

/// The most memory that this process has had so far, in kilobytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_files_and_half_a_gigabyte_go_in_and_out() {
    let Some(runtime) = runtime().await else { return };
    let dir = tempfile::tempdir().unwrap();
    let (from, back) = (dir.path().join("from"), dir.path().join("back"));
    for folder in 0..FOLDERS {
        let path = from.join(format!("folder{folder}"));
        fs::create_dir_all(&path).unwrap();
        for file in 0..SMALL {
            fs::write(path.join(format!("file{file}")), small(folder, file)).unwrap();
        }
    }
    for number in 0..BIG {
        big(&from.join(format!("big{number}")), number).unwrap();
    }

    let container = ContainerOptions { network: Network::None, ..ContainerOptions::default() };
    let spec = EnvironmentSpec { container, ..spec("large-tree", BUSYBOX, dir.path()) };
    let env = runtime.open(spec).await.unwrap();
    let clock = SystemClock::new();
    let (before, began) = (peak(), clock.elapsed());
    env.put(&from, env.workspace()).await.unwrap();
    let put = clock.elapsed();
    let notes = env.get(env.workspace(), &back).await.unwrap();
    let got = clock.elapsed();
    println!(
        "put in {:.1} s, got in {:.1} s; memory {before} kB before, {} kB at most",
        put.saturating_sub(began).as_secs_f64(),
        got.saturating_sub(put).as_secs_f64(),
        peak()
    );
    env.close().await.unwrap();

    assert_eq!(notes, Vec::<String>::new());
    for folder in 0..FOLDERS {
        for file in 0..SMALL {
            let path = back.join(format!("folder{folder}/file{file}"));
            assert_eq!(fs::read_to_string(path).unwrap(), small(folder, file));
        }
    }
    for number in 0..BIG {
        let name = format!("big{number}");
        assert!(same(&from.join(&name), &back.join(&name)), "{name}");
    }
    assert!(peak() < MEMORY, "{} kB", peak());
}
