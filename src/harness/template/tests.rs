use std::path::{Path, PathBuf};

use test_case::test_case;

use super::*;
use crate::domain::{CostMode, Key, Micros, Model, ModelRole};

fn request(prompt: &str) -> SessionRequest {
    let mut config = serde_json::Map::new();
    config.insert("base_url".to_owned(), "http://127.0.0.1:1".into());
    config.insert("retries".to_owned(), 3.into());
    SessionRequest {
        prompt: prompt.to_owned(),
        model: Model {
            name: "m-1".to_owned(),
            provider: "acme".to_owned(),
            api_key_env: None,
            role: ModelRole::Implementation,
            cost_mode: CostMode::Platform,
            auth_mode: crate::domain::model::AuthMode::ApiKey,
            credentials_path: None,
            config,
        },
        task: "t".to_owned(),
        phase: None,
        label: None,
        index: 2,
        resume: None,
        workspace: PathBuf::from("/w"),
        home: PathBuf::from("/h"),
        session_dir: PathBuf::from("/s"),
        max_cost: Some(Micros::new(1_500_000)),
        base_url: None,
        api_key: None,
    }
}

fn fill(text: &str, prompt: &str) -> Result<Option<String>, String> {
    let request = request(prompt);
    let config = serde_json::Map::from_iter([("flag".to_owned(), true.into()), ("empty".to_owned(), "".into())]);
    let template = Template::parse(text, Names { config: &["flag", "empty"] })?;
    template.fill(&Values {
        request: Some(&request),
        prompt_file: "/s/prompt.md",
        config: &config,
        refrain: Path::new("/bin/refrain"),
        dir: None,
        base_path: &BasePath::default(),
    })
}

#[test]
fn the_gateway_stands_in_for_the_provider_and_else_its_own_address_counts() {
    let by_provider = [("acme".to_owned(), "/api/v2".to_owned())].into();
    let base_path = BasePath { otherwise: "/v1".to_owned(), by_provider };
    let config = serde_json::Map::new();
    let filled = |request: &SessionRequest, text: &str| {
        let template = Template::parse(text, Names::default()).expect("parses");
        let refrain = Path::new("/bin/refrain");
        let values = Values {
            request: Some(request),
            prompt_file: "",
            config: &config,
            refrain,
            dir: None,
            base_path: &base_path,
        };
        template.fill(&values).expect("fills")
    };
    let mut request = request("");
    assert_eq!(filled(&request, "{base_url}").as_deref(), Some("http://127.0.0.1:1"), "as the run file has it");
    assert_eq!(filled(&request, "{api_key?}"), None);
    request.base_url = Some("http://10.0.0.1:8877/session/4f".to_owned());
    request.api_key = Some(Key::new("token"));
    assert_eq!(filled(&request, "{base_url}").as_deref(), Some("http://10.0.0.1:8877/session/4f/api/v2"));
    request.model.provider = "other".to_owned();
    assert_eq!(filled(&request, "{base_url?}").as_deref(), Some("http://10.0.0.1:8877/session/4f/v1"));
    assert_eq!(filled(&request, "{api_key}").as_deref(), Some("token"));
    (request.base_url, request.model.config) = (None, serde_json::Map::new());
    assert_eq!(filled(&request, "{base_url?}"), None, "left out where there is neither");
}

#[test_case("{prompt}", "{model} {{x}} $(y) '\n", Some("{model} {{x}} $(y) '\n"); "what comes in is not looked at again")]
#[test_case("a{model}b{session}", "", Some("am-1b2"); "several in one text")]
#[test_case("{{\"k\": \"{task}\"}}", "", Some("{\"k\": \"t\"}"); "braces")]
#[test_case("{model.config.base_url}/v1", "", Some("http://127.0.0.1:1/v1"); "setting of the model")]
#[test_case("{model.config.retries}", "", Some("3"); "number")]
#[test_case("{model.config.absent?}", "", None; "left out")]
#[test_case("--phase={phase?}", "", None; "left out with its text")]
#[test_case("{config.flag}", "", Some("true"); "setting")]
#[test_case("{config.empty?}", "", None; "an empty setting counts as none")]
#[test_case("{max_cost}", "", Some("1.5"); "money")]
#[test_case("{prompt}", "", Some(""); "an empty prompt is a value")]
#[test_case("", "", Some(""); "nothing")]
#[test_case("{prompt?}", "a\0b", None; "a prompt that is no argument")]
fn fills(text: &str, prompt: &str, expected: Option<&str>) {
    assert_eq!(fill(text, prompt), Ok(expected.map(str::to_owned)));
}

#[test_case("{promt}", "did you mean `{prompt}`?"; "typing error")]
#[test_case("{prompt_fil}", "did you mean `{prompt_file}`?"; "nearest of two")]
#[test_case("{config.flog}", "did you mean `{config.flag}`?"; "setting")]
#[test_case("{\"json\": 1}", "write `{{` and `}}` for braces"; "json")]
#[test_case("{prompt", "a lone `{`"; "open")]
#[test_case("x}", "a lone `}`"; "closed")]
#[test_case("{phase}", "`{phase}` has no value here"; "missing value")]
#[test_case("{}", "unknown placeholder"; "empty name")]
fn refuses(text: &str, expected: &str) {
    let message = fill(text, "p").expect_err("refused");
    assert!(message.contains(expected), "{message}");
}

#[test]
fn a_prompt_beyond_the_limit_of_an_argument_is_left_out_where_it_may_be() {
    let long = "x".repeat(200_000);
    assert_eq!(fill("{prompt?}", &long), Ok(None));
    assert_eq!(fill("{prompt}", &long).map(|text| text.map(|text| text.len())), Ok(Some(200_000)));
}
