//! How commands end, and what is left of them.

use std::time::Duration;

use refrain::domain::ContainerOptions;
use refrain::domain::failure::Timer;
use refrain::runtime::{Command, ExecEnd, Limits, OutOfMemory, Stdin};

use super::docker::{BUSYBOX, DEBIAN, docker};
use super::{Place, text};

const S: Duration = Duration::from_secs(1);

fn limited(script: &str, timeout: Duration) -> Command {
    let limits = Limits { timeout: Some((Timer::Session, timeout)), grace: Some(S / 5), ..Limits::default() };
    Command { limits, ..Command::shell(script) }
}

#[tokio::test]
async fn an_agent_cannot_forge_its_own_end() {
    for image in [BUSYBOX, DEBIAN] {
        let Some(place) = Place::open("forger", image, ContainerOptions::default()).await else { return };
        // The wrapper's own words, as far as an agent can know them: from the script's text, and from the records of others.
        let script = "line='ended status=0 how=exit killed=0 from=1.00 to=2.00 ooms=0 hits=0 limit=max out=0 err=0'; \
            nonce=$(cat /refrain/log/*.end 2> /dev/null | cut -d ' ' -f 2 | head -n 1); \
            for nonce in ${nonce:-none} $REFRAIN_COMMAND; do \
            printf '\\036refrain %s %s\\n' $nonce \"$line\"; printf '\\036refrain %s %s\\n' $nonce \"$line\" >&2; \
            printf '\\036refrain %s over\\n' $nonce; \
            printf '\\036refrain %s %s\\n' $nonce \"$line\" > /refrain/log/$REFRAIN_COMMAND.end; done; echo after; exit 5";
        for _ in 0..2 {
            let (report, out, err) = place.spool(&Command::shell(script)).await;
            assert_eq!((report.end, report.exit_code), (ExecEnd::Exited(5), Some(5)));
            assert!(text(&out).ends_with("after\n"), "{}", text(&out));
            assert_eq!(text(&err).matches("ended status=0").count(), 2, "it is the agent's own output");
            let captured = place.capture(&Command::shell(script)).await;
            assert_eq!(captured.end, ExecEnd::Exited(5));
        }
        place.close().await;
    }
}

#[tokio::test]
async fn the_four_causes_of_137_are_told_apart() {
    let container = ContainerOptions { memory_bytes: Some(64 << 20), ..ContainerOptions::default() };
    let Some(place) = Place::open("causes", BUSYBOX, container).await else { return };
    let hungry = "x=0123456789; while :; do x=$x$x; done";

    let (report, _, _) = place.spool(&Command::shell(format!("sh -c '{hungry}'; echo child: $?; exit 3"))).await;
    assert_eq!(report.end, ExecEnd::Exited(3));
    assert_eq!(report.out_of_memory, Some(OutOfMemory::Limit(64 << 20)), "a child of it");
    let report = place.capture(&Command::shell(hungry)).await;
    assert_eq!((report.end, report.out_of_memory), (ExecEnd::Signaled(9), Some(OutOfMemory::Limit(64 << 20))));

    let report = place.capture(&Command::shell("kill -9 $$")).await;
    assert_eq!((report.end, report.out_of_memory), (ExecEnd::Signaled(9), None), "its own kill");
    let report = place.capture(&Command::shell("exit 137")).await;
    assert_eq!((report.end, report.out_of_memory), (ExecEnd::Exited(137), None), "a code that only looks like it");

    let report = place.capture(&limited("trap '' TERM; while :; do sleep 1; done", S)).await;
    assert_eq!(report.end, ExecEnd::TimedOut { timer: Timer::Session, limit: S }, "ours");
    assert_eq!((report.signal, report.out_of_memory), (Some(9), None));
    place.close().await;
    // The fourth, a container that vanishes, is among the faults.
}

#[tokio::test]
async fn an_agent_that_kills_all_it_can_has_killed_itself() {
    let Some(place) = Place::open("killer", DEBIAN, ContainerOptions::default()).await else { return };
    let (report, out, _) = place.spool(&Command::shell("echo before; kill -9 -1; sleep 30")).await;
    assert_eq!((report.end, text(&out)), (ExecEnd::Signaled(9), "before\n".to_owned()));
    assert!(place.env.quiesce().await.expect("quiet").killed > 0, "the shell has spared itself");
    assert_eq!(place.says("echo alive").await, "alive\n");
    place.close().await;
}

#[tokio::test]
async fn nothing_escapes_a_stop_by_leaving_its_session_or_wiping_its_variables() {
    let Some(place) = Place::open("escape", DEBIAN, ContainerOptions::default()).await else { return };
    let beat = |name: &str| format!("sh -c 'trap \"\" TERM HUP; while :; do echo x >> /work/{name}; sleep 0.05; done'");
    let script = format!(
        "(setsid env -i PATH=$PATH {} &) ; (setsid {} &); trap '' TERM; while :; do sleep 1; done",
        beat("wiped"),
        beat("daemon")
    );
    let report = place.capture(&limited(&script, S * 2)).await;
    assert_eq!(report.end, ExecEnd::TimedOut { timer: Timer::Session, limit: S * 2 });
    let before = place.says("wc -c wiped daemon").await;
    tokio::time::sleep(S / 2).await;
    assert_eq!(place.says("wc -c wiped daemon").await, before);
    assert!(!before.is_empty());
    assert_eq!(place.env.quiesce().await.expect("quiet").killed, 0);
    place.close().await;
}

#[tokio::test]
async fn commands_side_by_side_do_not_end_each_other() {
    let Some(place) = Place::open("parallel", BUSYBOX, ContainerOptions::default()).await else { return };
    let slow = Command::shell("(trap '' TERM HUP; sleep 3; echo child) & echo slow; wait; echo end; exit 4");
    let quick = Command::shell("(trap '' TERM HUP; sleep 300) & echo quick");
    let stopped = limited("trap '' TERM; while :; do sleep 0.1; done", S);
    let (slow, quick, stopped) = tokio::join!(place.capture(&slow), place.capture(&quick), place.capture(&stopped));
    assert_eq!((slow.end, text(&slow.stdout.bytes)), (ExecEnd::Exited(4), "slow\nchild\nend\n".to_owned()));
    assert_eq!((quick.end, quick.leftovers > 0), (ExecEnd::Exited(0), true));
    assert_eq!(stopped.end, ExecEnd::TimedOut { timer: Timer::Session, limit: S });
    assert_eq!(place.env.quiesce().await.expect("quiet").killed, 0);
    place.close().await;
}

#[tokio::test]
async fn a_fork_bomb_ends_at_its_limit_and_leaves_a_usable_container() {
    let container = ContainerOptions { pids: 100, ..ContainerOptions::default() };
    let Some(place) = Place::open("bomb", BUSYBOX, container).await else { return };
    let report =
        place.capture(&limited("bomb() { bomb | bomb & }; trap '' TERM; bomb; while :; do :; done", S * 2)).await;
    assert_eq!(report.end, ExecEnd::TimedOut { timer: Timer::Session, limit: S * 2 });
    place.env.quiesce().await.expect("quiet");
    assert_eq!(place.says("echo alive").await, "alive\n");
    // Whatever it took to end it, the limit is what it was.
    assert_eq!(docker(&["inspect", "--format", "{{.HostConfig.PidsLimit}}", &place.id()]).trim(), "100");
    place.close().await;
}

#[tokio::test]
async fn secrets_stand_in_no_description_and_no_argument() {
    const SECRET: &str = "s3cr3t-value-of-a-key";
    let Some(place) = Place::open("secrets", DEBIAN, ContainerOptions::default()).await else { return };
    let mut command = Command::shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; printf '%s' \"$KEY\" | wc -c; sleep 2");
    command.env = vec![("KEY".to_owned(), SECRET.to_owned())];
    let id = place.id();
    let looking = async {
        tokio::time::sleep(S).await;
        docker(&["inspect", &id]) + &docker(&["top", &id, "-ef"])
    };
    let (report, described) = tokio::join!(place.capture(&command), looking);
    let out = text(&report.stdout.bytes);
    assert!(out.trim().ends_with(&SECRET.len().to_string()), "the command has it: {out}");
    assert!(!out.contains(SECRET) && !described.contains(SECRET));
    assert!(described.contains("sleep 2"), "it was looked at while it ran: {described}");
    place.close().await;
}

#[tokio::test]
async fn any_bytes_arrive_as_they_are() {
    for image in [BUSYBOX, DEBIAN] {
        let Some(place) = Place::open("bytes", image, ContainerOptions::default()).await else { return };
        let odd: String = (1..=0x2ff_u32).filter_map(char::from_u32).collect();
        let mut command = Command::new(["sh", "-c", "printf '%s' \"$1$ODD\"; cat >&2", "sh", &odd]);
        command.env = vec![("ODD".to_owned(), odd.clone())];
        for bytes in [odd.clone().into_bytes(), (0..=255).cycle().take(100_000).collect::<Vec<u8>>()] {
            command.stdin = Stdin::Bytes(bytes.clone());
            let report = place.capture(&command).await;
            assert_eq!(text(&report.stdout.bytes), format!("{odd}{odd}"));
            assert_eq!(report.stderr.bytes, bytes);
        }
        place.close().await;
    }
}
