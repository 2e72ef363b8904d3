//! A subscription's login: where it is while a session runs, and what becomes of one that its program renews.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness_bed;

use std::fs;
use std::sync::{Arc, Mutex};

use refrain::domain::model::AuthMode;
use refrain::domain::session::SessionEnd;

use harness_bed::{Bed, keeping};

#[tokio::test]
async fn a_login_is_the_agents_alone_and_gone_when_the_session_is_over() {
    let mut bed = Bed::new().await;
    let home = bed.dir.path().join("user");
    fs::create_dir_all(home.join(".keeping")).unwrap();
    fs::write(home.join(".keeping/auth.json"), "the-login").unwrap();
    fs::write(home.join(".keeping/history"), "private").unwrap();
    bed.request.model.auth_mode = AuthMode::Subscription;
    bed.request.model.credentials_path = Some(home.to_string_lossy().into_owned());
    let line = r#"test "$(stat -c '%a %u' ~/.keeping/auth.json)" = "600 $(id -u)" || exit 3
        echo "{\"type\":\"say\",\"text\":\"$(cat ~/.keeping/auth.json) $(ls -A ~/.keeping)\"}"; echo '{"type":"end"}'"#;
    let result = bed.run_with(&keeping(line), None).await.unwrap();
    assert_eq!(result.reading.text.as_deref(), Some("the-login auth.json"), "{:?}", result.end);
    let inside = bed.env.host_path(bed.env.home()).unwrap();
    assert!(!inside.join(".keeping/auth.json").exists());
    bed.request.model.credentials_path = Some(bed.dir.path().join("nowhere").to_string_lossy().into_owned());
    let refused = bed.run_with(&keeping("true"), None).await.unwrap_err().to_string();
    assert!(refused.contains("has no `.keeping/auth.json`"), "{refused}");
    bed.close().await;
}

#[tokio::test]
async fn a_login_that_its_program_renews_is_heard_of_before_the_session_is_over() {
    let mut bed = Bed::new().await;
    let home = bed.dir.path().join("user");
    fs::create_dir_all(home.join(".keeping")).unwrap();
    fs::write(home.join(".keeping/auth.json"), r#"{"token": "first-0123456789abcdef"}"#).unwrap();
    bed.request.model.auth_mode = AuthMode::Subscription;
    bed.request.model.credentials_path = Some(home.to_string_lossy().into_owned());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&heard);
    bed.options.on_login = Some(Arc::new(move |secret| listener.lock().unwrap().push(secret.to_owned())));
    // What is no token is none, though it is long.
    let line = r#"printf '{"token":"second-0123456789abcdef","at":{"kind":"the agent wrote this"}}' > ~/.keeping/auth.json
        echo '{"type":"say","text":"hi"}'; echo '{"type":"end"}'"#;
    let result = bed.run_with(&keeping(line), None).await.unwrap();
    assert_eq!(result.end, SessionEnd::Completed);
    assert_eq!(*heard.lock().unwrap(), ["second-0123456789abcdef"]);
    let inside = bed.env.host_path(bed.env.home()).unwrap();
    assert!(!inside.join(".keeping/auth.json").exists());
    bed.close().await;
}
