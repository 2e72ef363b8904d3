//! Owners of containers, with real files and locks.

use std::collections::HashMap;

use super::*;

fn image() -> Image {
    Image { id: "sha256:1".to_owned(), digest: "sha256:2".to_owned(), path: None, labels: HashMap::new() }
}

/// Makes the host of a container another one that is gone: same number, another start.
fn bury(folder: &Path) {
    let text = fs::read_to_string(folder.join(FILE)).expect("a deed");
    fs::write(folder.join(FILE), text.replace("\"started\":", "\"started\":9")).expect("written");
}

#[tokio::test]
async fn only_what_a_dead_host_had_is_taken_over() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("cell/agent");
    assert!(Abandoned::at(&folder).await.expect("looked").is_none(), "there is nothing");
    Deed::make_out(&folder, "one", &image()).expect("made");
    assert!(Deed::make_out(&folder, "two", &image()).is_err(), "one folder, one container");
    assert!(Abandoned::at(&folder).await.expect("looked").is_none(), "its host lives");
    bury(&folder);
    let taken = Abandoned::at(&folder).await.expect("looked").expect("abandoned");
    assert_eq!(taken.deed.container, "one");
    taken.take_over().expect("taken");
    assert!(Abandoned::at(&folder).await.expect("looked").is_none(), "it has an owner again");
    assert_eq!(find(dir.path()).await.expect("found"), std::slice::from_ref(&folder));
    remove(&folder).expect("removed");
    remove(&folder).expect("nothing to do");
    assert_eq!(find(dir.path()).await.expect("found"), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_want_it_one_gets_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("agent");
    Deed::make_out(&folder, "one", &image()).expect("made");
    bury(&folder);
    let first = Abandoned::at(&folder).await.expect("looked").expect("abandoned");
    let second = Abandoned::at(&folder);
    tokio::pin!(second);
    let early = tokio::time::timeout(std::time::Duration::from_millis(200), &mut second).await;
    assert!(early.is_err(), "it waits until the first one is done");
    first.take_over().expect("taken");
    assert!(second.await.expect("looked").is_none());
}
