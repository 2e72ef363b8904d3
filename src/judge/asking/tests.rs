//! Asking a judge that answers what it is told to.

use std::collections::VecDeque;
use std::sync::Mutex;

use serde_json::json;

use super::*;
use crate::clock::SystemClock;
use crate::config::judge::JudgeInterface;
use crate::domain::model::{AuthMode, CostMode, Model, ModelRole};
use crate::domain::rubric::Criterion;

/// Plays answers one after the other, and never answers once they are used up.
struct Played(Mutex<VecDeque<Result<Reply, DoorError>>>);

#[async_trait]
impl Door for Played {
    async fn post(&self, path: &str, body: Vec<u8>) -> Result<Reply, DoorError> {
        assert_eq!(path, "/v1/chat/completions");
        assert!(String::from_utf8_lossy(&body).contains("what is asked"));
        let next = self.0.lock().expect("whole").pop_front();
        match next {
            Some(reply) => reply,
            None => std::future::pending().await,
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "what comes through a door")]
fn says(text: &str) -> Result<Reply, DoorError> {
    let body = json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]});
    Ok(Reply { status: 200, body: body.to_string().into_bytes() })
}

fn scores(points: f64) -> Result<Reply, DoorError> {
    says(
        &json!({"scores": {"good": points}, "reasons": {"good": format!("{points} sk-live-0123456789abcdef0123")}})
            .to_string(),
    )
}

#[expect(clippy::unnecessary_wraps, reason = "what comes through a door")]
fn refuses(status: u16) -> Result<Reply, DoorError> {
    Ok(Reply { status, body: br#"{"error": {"message": "not now"}}"#.to_vec() })
}

fn plan(samples: u32, retries: u32) -> JudgePlan {
    JudgePlan {
        model: Model {
            name: "m".to_owned(),
            provider: "p".to_owned(),
            api_key_env: None,
            role: ModelRole::Review,
            cost_mode: CostMode::Platform,
            auth_mode: AuthMode::ApiKey,
            credentials_path: None,
            config: serde_json::Map::new(),
        },
        interface: JudgeInterface::OpenAiChat,
        samples,
        retries,
        timeout: Duration::from_secs(60),
        max_cost: None,
        max_tokens: 100,
        evidence_bytes: 1000,
        min_agreement: None,
    }
}

async fn asked(plan: &JudgePlan, played: Vec<Result<Reply, DoorError>>) -> Asked {
    let (name, question) = ("good".to_owned(), "Is it?".to_owned());
    let criteria = vec![Criterion { name, question, weight: 1.0, points: 10, anchors: Vec::new() }];
    let rubric = Rubric { version: 1, criteria, pass_score: 0.5, files: Vec::new() };
    let prompt = Prompt { system: "system".to_owned(), text: "what is asked".to_owned() };
    let door = Played(Mutex::new(played.into()));
    ask(plan, (&prompt, &rubric), &door, &SystemClock::new(), &Redactor::default()).await
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_none_is_asked_for_again_and_kept() {
    let asked =
        asked(&plan(1, 2), vec![says("hm"), says(r#"{"scores": {"good": 11}, "reasons": {"good": ""}}"#), scores(8.0)])
            .await;
    assert_eq!((asked.score, asked.error), (Some(0.8), None));
    let tries: Vec<(u32, u32)> = asked.answers.iter().map(|answer| (answer.sample, answer.attempt)).collect();
    assert_eq!(tries, [(1, 1), (1, 2), (1, 3)]);
    assert_eq!(asked.answers[0].raw, "hm");
    assert_eq!(asked.answers[1].error.as_deref(), Some("the score for `good` is 11, not from 0 to 10"));
    let kept = format!("{:?}", (&asked.answers, &asked.criteria));
    assert!(!kept.contains("sk-live-0123456789"), "{kept}");
}

#[tokio::test(start_paused = true)]
async fn after_the_last_try_there_is_no_score() {
    let asked = asked(&plan(1, 1), vec![says("hm"), says("[ERROR] 429 after 1 try")]).await;
    assert_eq!((asked.score, asked.answers.len()), (None, 2));
    assert_eq!(asked.error.as_deref(), Some("there is no JSON object"));
    assert_eq!(asked.answers[1].raw, "[ERROR] 429 after 1 try");
}

#[tokio::test(start_paused = true)]
async fn a_busy_provider_is_waited_for_and_a_refusal_is_final() {
    let broken = || Err(DoorError { message: "the connection broke".to_owned() });
    let came = asked(&plan(1, 3), vec![refuses(429), refuses(529), broken(), scores(5.0)]).await;
    assert_eq!((came.score, came.answers.len()), (Some(0.5), 4));
    let refused = asked(&plan(1, 3), vec![refuses(403), scores(5.0)]).await;
    assert_eq!((refused.score, refused.error.as_deref()), (None, Some("status 403: not now")));
    let silent = asked(&plan(1, 1), vec![]).await;
    assert_eq!((silent.answers.len(), silent.error.as_deref()), (2, Some("no answer within 60 s")));
}

#[tokio::test(start_paused = true)]
async fn a_score_needs_all_of_its_answers() {
    let three = asked(&plan(3, 0), vec![scores(2.0), scores(9.0), scores(6.0)]).await;
    assert_eq!((three.score, three.answers.len()), (Some(0.6), 3));
    assert!((three.spread.expect("three") - 0.7).abs() < 1e-12);
    let two = asked(&plan(3, 0), vec![scores(2.0), says("no"), scores(6.0)]).await;
    assert_eq!((two.score, two.criteria.len(), two.answers.len()), (None, 0, 2));
}
