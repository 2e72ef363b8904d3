//! What commands print, and what becomes of their logs.

use std::process::Command as Process;
use std::time::Duration;

use refrain::domain::ContainerOptions;
use refrain::domain::failure::Timer;
use refrain::runtime::{Command, ExecEnd, Limits, Output};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::docker::{BUSYBOX, DEBIAN, docker};
use super::{Place, text};

#[tokio::test]
async fn much_output_and_endless_lines_arrive_whole() {
    let Some(place) = Place::open("much", BUSYBOX, ContainerOptions::default()).await else { return };
    let script = "yes 0123456789abcde | head -c 200000000; head -c 50000000 /dev/zero | tr '\\0' x; echo end";
    let (sender, mut listener) = mpsc::channel(1);
    let output = Output::Spool { stdout: place.log("out"), stderr: place.log("err"), live: Some(sender) };
    let (command, stop) = (Command::shell(script), CancellationToken::new());
    let mut heard = 0_u64;
    let listening = async {
        while let Some(chunk) = listener.recv().await {
            heard += chunk.bytes.len() as u64;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let (report, ()) = tokio::join!(place.env.exec(&command, output, &stop), listening);
    let report = report.expect("runs");
    assert_eq!((report.end, report.stdout.total), (ExecEnd::Exited(0), 250_000_004));
    assert_eq!(report.notes, Vec::<String>::new());
    assert!(heard > 0 && heard <= 250_000_004);
    let file = std::fs::read(place.log("out")).expect("a file");
    assert_eq!(file.len(), 250_000_004);
    assert!(file[..200_000_000].chunks(16).all(|line| line == b"0123456789abcde\n"));
    assert!(file[200_000_000..250_000_000].iter().all(|&byte| byte == b'x') && file.ends_with(b"xend\n"));
    place.close().await;
}

#[tokio::test]
async fn bytes_that_are_no_text_stay_as_they_are() {
    let Some(place) = Place::open("odd-bytes", DEBIAN, ContainerOptions::default()).await else { return };
    let script = "printf '\\377\\376\\033[31mred\\033[0m\\000\\036refrain \\036\\r\\n\\303'";
    let expected = b"\xff\xfe\x1b[31mred\x1b[0m\0\x1erefrain \x1e\r\n\xc3";
    let (report, out, _) = place.spool(&Command::shell(script)).await;
    assert_eq!((report.end, &out[..]), (ExecEnd::Exited(0), &expected[..]));
    assert_eq!(place.capture(&Command::shell(script)).await.stdout.bytes, expected);
    place.close().await;
}

#[tokio::test]
async fn a_log_that_the_agent_removes_is_still_read() {
    let Some(place) = Place::open("removed", BUSYBOX, ContainerOptions::default()).await else { return };
    let script = "echo first; rm -f /refrain/log/*; echo second; echo error >&2; exit 2";
    let (report, out, err) = place.spool(&Command::shell(script)).await;
    assert_eq!((report.end, text(&out), text(&err)), (ExecEnd::Exited(2), "first\nsecond\n".into(), "error\n".into()));
    place.close().await;
}

#[tokio::test]
async fn a_log_that_the_agent_cuts_short_loses_nothing_that_was_streamed() {
    let Some(place) = Place::open("truncated", DEBIAN, ContainerOptions::default()).await else { return };
    let script = "echo a first line >&2; sleep 1; echo last > /dev/stderr";
    let (report, _, err) = place.spool(&Command::shell(script)).await;
    assert_eq!((report.end, text(&err)), (ExecEnd::Exited(0), "a first line\nlast\n".to_owned()));
    assert!(report.notes.iter().any(|note| note.contains("cut short")), "{:?}", report.notes);
    place.close().await;
}

#[tokio::test]
async fn where_no_log_can_be_made_the_stream_is_kept() {
    let Some(place) = Place::open("no-log", BUSYBOX, ContainerOptions::default()).await else { return };
    place.says("chmod 000 /refrain/log").await;
    let (report, out, err) = place.spool(&Command::shell("echo out; echo err >&2; exit 6")).await;
    assert_eq!((report.end, text(&out), text(&err)), (ExecEnd::Exited(6), "out\n".into(), "err\n".into()));
    assert_eq!(report.notes.len(), 2, "{:?}", report.notes);
    place.close().await;
}

#[tokio::test]
async fn a_full_disk_is_the_commands_own_trouble_and_its_end_is_known() {
    let Some(place) = Place::open("full", DEBIAN, ContainerOptions::default()).await else { return };
    let pid = docker(&["inspect", "--format", "{{.State.Pid}}", &place.id()]);
    let mount = ["-t", &pid, "-m", "mount", "-t", "tmpfs", "-o", "size=256k,mode=1777", "tmpfs", "/refrain/log"];
    let mounted = Process::new("nsenter").args(mount).status().expect("nsenter runs");
    assert!(mounted.success(), "this test mounts a small disk, as root");
    let script = "echo begin; head -c 1000000 /dev/zero | tr '\\0' x; echo disk: $? >&2; exit 7";
    let (report, out, _) = place.spool(&Command::shell(script)).await;
    assert_eq!(report.end, ExecEnd::Exited(7));
    assert!(out.starts_with(b"begin\nxxx") && out.len() < 262_145, "{}", out.len());
    let (report, out, _) = place.spool(&Command::shell("echo still; exit 8")).await;
    assert_eq!((report.end, text(&out).starts_with("still") || out.is_empty()), (ExecEnd::Exited(8), true));
    place.close().await;
}

#[tokio::test]
async fn what_comes_after_the_end_holds_nothing_up() {
    let Some(place) = Place::open("late", BUSYBOX, ContainerOptions::default()).await else { return };
    let script = "(trap '' TERM HUP; sleep 60; echo late) & echo done";
    let (report, out, _) = place.spool(&Command::shell(script)).await;
    assert_eq!((report.end, text(&out), report.leftovers > 0), (ExecEnd::Exited(0), "done\n".to_owned(), true));
    assert!(report.duration < Duration::from_secs(30), "{:?}", report.duration);
    place.close().await;
}

#[tokio::test]
async fn a_log_that_outgrows_its_limit_ends_the_command() {
    let Some(place) = Place::open("flood", BUSYBOX, ContainerOptions::default()).await else { return };
    let limits = Limits { output_bytes: Some(1_000_000), ..Limits::default() };
    let command = Command { limits, ..Command::shell("truncate -s 1T /refrain/log/*.out; yes") };
    let (report, out, _) = place.spool(&command).await;
    assert_eq!(report.end, ExecEnd::OutputLimit { limit: 1_000_000 });
    assert!(out.len() < 2_000_000, "the host keeps what is allowed, and a piece more: {}", out.len());
    place.close().await;
}

#[tokio::test]
async fn a_silent_session_is_idle_although_its_log_is_watched_and_a_busy_one_is_not() {
    let Some(place) = Place::open("idle", BUSYBOX, ContainerOptions::default()).await else { return };
    let limit = Duration::from_secs(3);
    let limits = Limits { idle: Some(limit), ..Limits::default() };
    let (report, out, _) =
        place.spool(&Command { limits: limits.clone(), ..Command::shell("echo up; sleep 60") }).await;
    assert_eq!((report.end, text(&out)), (ExecEnd::TimedOut { timer: Timer::Idle, limit }, "up\n".to_owned()));
    assert!(report.longest_silence >= limit, "{:?}", report.longest_silence);
    let build = "end=$(($(date +%s) + 6)); while [ $(date +%s) -lt $end ]; do :; done; echo built";
    let (report, out, _) = place.spool(&Command { limits, ..Command::shell(build) }).await;
    assert_eq!((report.end, text(&out)), (ExecEnd::Exited(0), "built\n".to_owned()));
    place.close().await;
}

#[tokio::test]
async fn events_come_while_the_command_runs() {
    let Some(place) = Place::open("live", DEBIAN, ContainerOptions::default()).await else { return };
    let (sender, mut listener) = mpsc::channel(16);
    let output = Output::Spool { stdout: place.log("out"), stderr: place.log("err"), live: Some(sender) };
    let stop = CancellationToken::new();
    // It goes on until its first line has been heard.
    let command = Command::shell("echo heard; while :; do sleep 1; done");
    let listening = async {
        let chunk = listener.recv().await;
        stop.cancel();
        chunk.map(|chunk| text(&chunk.bytes))
    };
    let (report, heard) = tokio::join!(place.env.exec(&command, output, &stop), listening);
    assert_eq!((report.expect("runs").end, heard), (ExecEnd::Stopped, Some("heard\n".to_owned())));
    place.close().await;
}
