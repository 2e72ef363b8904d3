//! A relay between real sockets.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

use super::*;

/// A relay in a task of its own, and what it leads to.
struct Place {
    at: SocketAddr,
    socket: PathBuf,
    tasks: JoinSet<()>,
    _dir: tempfile::TempDir,
}

impl Place {
    async fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let socket = dir.path().join("sock");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let at = listener.local_addr().expect("an address");
        let relay = Relay { listen: at, to: socket.clone() };
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { relay.serve_on(listener).await.expect("serves") });
        Self { at, socket, tasks, _dir: dir }
    }

    /// Answers every connection with what `answer` makes of it.
    fn behind<F: Future<Output = io::Result<()>> + Send + 'static>(
        &mut self,
        answer: impl Fn(UnixStream) -> F + Send + 'static,
    ) {
        let listener = UnixListener::bind(&self.socket).expect("bound");
        self.tasks.spawn(async move {
            let mut answers = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                answers.spawn(answer(stream));
            }
        });
    }

    async fn client(&self) -> TcpStream {
        TcpStream::connect(self.at).await.expect("connected")
    }
}

/// Reads to the end, then says how much it was and the last byte.
async fn count(mut stream: UnixStream) -> io::Result<()> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await?;
    stream.write_all(format!("{} {:?}", all.len(), all.last()).as_bytes()).await
}

#[tokio::test]
async fn the_end_of_one_direction_is_not_the_end_of_the_other() {
    let mut place = Place::new().await;
    place.behind(count);
    let mut client = place.client().await;
    let sent = vec![7; 3 * PIECE + 5];
    client.write_all(&sent).await.expect("sent");
    client.shutdown().await.expect("ended");
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.expect("answered");
    assert_eq!(answer, format!("{} Some(7)", sent.len()));
}

#[tokio::test]
async fn a_reader_that_is_late_gets_every_byte_in_order() {
    let mut place = Place::new().await;
    let numbers: Vec<u8> = (0_u32..2_000_000).flat_map(u32::to_be_bytes).collect();
    let sent = numbers.clone();
    place.behind(move |mut stream| {
        let sent = sent.clone();
        async move { stream.write_all(&sent).await }
    });
    let mut client = place.client().await;
    // Until here everybody's buffers are full.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut got = Vec::new();
    client.read_to_end(&mut got).await.expect("read");
    assert!(got == numbers, "{} of {} bytes", got.len(), numbers.len());
}

#[tokio::test]
async fn a_side_that_goes_away_takes_the_other_with_it() {
    let mut place = Place::new().await;
    let (sender, mut gone) = tokio::sync::mpsc::unbounded_channel();
    place.behind(move |mut stream| {
        let sender = sender.clone();
        async move {
            while stream.write_all(&[0; 4096]).await.is_ok() {}
            let _ = sender.send(());
            Ok(())
        }
    });
    let mut client = place.client().await;
    client.read_exact(&mut [0; 100]).await.expect("a beginning");
    drop(client);
    let heard = tokio::time::timeout(Duration::from_secs(30), gone.recv()).await;
    assert_eq!(heard.expect("the writer hears of it"), Some(()));
}

#[tokio::test]
async fn a_socket_that_is_not_there_ends_only_who_wanted_it() {
    let mut place = Place::new().await;
    let relay = Relay { listen: place.at, to: place.socket.clone() };
    let mut early = place.client().await;
    assert_eq!(early.read(&mut [0; 8]).await.unwrap_or(0), 0, "closed");
    let error = relay.check(Duration::from_millis(100)).await.expect_err("nobody is behind it").to_string();
    assert!(error.contains(&place.socket.display().to_string()), "{error}");

    place.behind(count);
    relay.check(Duration::from_secs(30)).await.expect("both answer");
    // More than a listener keeps waiting.
    let mut clients = Vec::new();
    for _ in 0..300 {
        clients.push(place.client().await);
    }
    for mut client in clients {
        client.write_all(b"ab").await.expect("sent");
        client.shutdown().await.expect("ended");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("answered");
        assert_eq!(answer, "2 Some(98)");
    }
    let nowhere = Relay { listen: "127.0.0.1:1".parse().expect("an address"), to: place.socket.clone() };
    let error = nowhere.check(Duration::from_millis(100)).await.expect_err("no relay").to_string();
    assert!(error.starts_with("127.0.0.1:1: "), "{error}");
}
