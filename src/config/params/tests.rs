use test_case::test_case;

use super::*;
use crate::config::{toml_source, yaml};

const MANIFEST: &str = r#"
rounds = 3
[strict]
type = "boolean"
default = false
[share]
type = "number"
default = 1
min = 0
max = 1
[style]
default = "short"
choices = ["short", "long"]
help = "how much to say"
[words]
type = "list"
default = ["a"]
[name]
type = "string"
[topics]
type = "list"
items = "string"
default = ["style"]
[weights]
type = "list"
items = "number"
default = [1, 0.5]
"#;

fn specs(text: &str) -> (BTreeMap<String, ParamSpec>, Vec<String>) {
    let table = toml_source::parse(&Source::flag("orchestrator.toml", text)).expect("TOML");
    let mut out = Diagnostics::default();
    let specs = declared(&table, &mut out);
    let problems = out.finish().err().map(|error| error.diagnostics().to_vec()).unwrap_or_default();
    (specs, problems.iter().map(|problem| problem.message().to_owned()).collect())
}

#[test]
fn both_forms_declare() {
    let (specs, problems) = specs(MANIFEST);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(specs["rounds"].kind, ParamKind::Integer);
    assert_eq!(specs["rounds"].default, Some(ParamValue::Int(3)));
    assert_eq!(specs["share"].default, Some(ParamValue::Float(1.0)));
    assert_eq!(specs["style"].kind, ParamKind::String);
    assert_eq!(specs["name"].default, None);
    assert_eq!((specs["topics"].items, specs["words"].items), (Some(ParamKind::String), None));
    assert_eq!(specs["weights"].default, Some(ParamValue::List(vec![ParamValue::Float(1.0), ParamValue::Float(0.5)])));
}

#[test_case("[a]\ntype = \"integer\"\ndefault = \"x\"\n", "parameter `a` takes an integer, not a string"; "default of another type")]
#[test_case("[a]\ndefault = 5\nmax = 3\n", "parameter `a` must be at most 3"; "default out of range")]
#[test_case("[a]\ndefault = 5\nmin = 9\nmax = 3\n", "parameter `a`: `max` is less than `min`"; "empty range")]
#[test_case("[a]\ndefault = \"x\"\nmin = 1\n", "`min` has no meaning for a string"; "bound of a text")]
#[test_case("[a]\nhelp = \"x\"\n", "parameter `a` has neither a type nor a default"; "no type")]
#[test_case("[a]\ntype = \"int\"\n", "`type` must be one of"; "unknown type")]
#[test_case("[a]\ndefalt = 1\n", "the parameter has no key `defalt`"; "unknown key")]
#[test_case("[a]\ntype = \"list\"\nitems = \"integer\"\ndefault = [1, \"x\"]\n", "parameter `a` (item 2) takes an integer, not a string"; "item of another type")]
#[test_case("[a]\ndefault = 1\nitems = \"integer\"\n", "`items` has no meaning for an integer"; "items of no list")]
#[test_case("[a]\ntype = \"list\"\nitems = \"list\"\n", "`items` must be one of"; "unknown type of items")]
#[test_case("a-b = 1\n", "`a-b` cannot name a parameter"; "name")]
#[test_case("a = nan\n", "parameter `a` takes a finite number"; "nan")]
fn bad_declarations(text: &str, message: &str) {
    let (_, problems) = specs(text);
    assert!(problems.iter().any(|problem| problem.contains(message)), "{problems:?}");
}

fn give(text: &str) -> Result<Params, String> {
    let (specs, _) = specs(MANIFEST);
    let table = yaml::parse(&Source::flag("run.yaml", text)).expect("YAML");
    let mut out = Diagnostics::default();
    let params = given("mine", &specs, &table, &mut out);
    out.finish().map(|_| params).map_err(|error| error.to_string())
}

#[test]
fn given_values_are_converted() {
    let params = give("{rounds: 5, share: 0, style: long, name: \"007\", words: [x, 1]}").expect("fit");
    assert_eq!(params["rounds"], ParamValue::Int(5));
    assert_eq!(params["share"], ParamValue::Float(0.0));
    assert_eq!(params["name"], ParamValue::Text("007".to_owned()));
    assert_eq!(params["words"], ParamValue::List(vec![ParamValue::Text("x".to_owned()), ParamValue::Int(1)]));
}

#[test_case("{round: 5}", "orchestrator `mine` rejected parameter `round`"; "unknown")]
#[test_case("{rounds: 5.5}", "parameter `rounds` takes an integer, not a number"; "kind")]
#[test_case("{share: 2}", "parameter `share` must be at most 1"; "range")]
#[test_case("{share: .nan}", "takes a finite number"; "nan")]
#[test_case("{style: medium}", "parameter `style` must be one of `short`, `long`"; "choice")]
#[test_case("{name: no}", "`name` is text, but some readers take `no` for a boolean"; "changed type")]
#[test_case("{name: 007}", "put quotes around it: \"007\""; "number for text")]
#[test_case("{topics: [a, no]}", "`topics` is text, but some readers take `no` for a boolean"; "changed type of an item")]
#[test_case("{topics: [a, 2.5]}", "put quotes around it: \"2.5\""; "number for an item of text")]
#[test_case("{weights: [1, x]}", "parameter `weights` (item 2) takes a number, not a string"; "item kind")]
#[test_case("{rounds: {a: 1}}", "cannot hold a mapping"; "mapping")]
fn bad_values(text: &str, message: &str) {
    let error = give(text).expect_err("must not fit");
    assert!(error.contains(message), "{error}");
}

#[test]
fn completing_fills_in_defaults_and_wants_the_rest() {
    let (specs, _) = specs(MANIFEST);
    let error = complete(&specs, Params::new()).expect_err("`name` is missing");
    assert_eq!(error.message, "parameter `name` has no default and must be given");
    let all =
        complete(&specs, Params::from([("name".to_owned(), ParamValue::Text("x".to_owned()))])).expect("complete");
    assert_eq!(all.len(), specs.len());
    let error = complete(&specs, Params::from([("nam".to_owned(), ParamValue::Bool(true))])).expect_err("unknown");
    assert_eq!(error.hint.as_deref(), Some("did you mean `name`?"));
}

#[test_case("name", "007", ParamValue::Text("007".to_owned()); "text stays text")]
#[test_case("rounds", "7", ParamValue::Int(7); "number")]
#[test_case("strict", "true", ParamValue::Bool(true); "boolean")]
#[test_case("share", "0.5", ParamValue::Float(0.5); "fraction")]
#[test_case("words", "a,b c", ParamValue::List(vec![ParamValue::Text("a".into()), ParamValue::Text("b c".into())]); "plain list")]
#[test_case("words", "[1, 'x']", ParamValue::List(vec![ParamValue::Int(1), ParamValue::Text("x".into())]); "list in brackets")]
#[test_case("topics", "1,no", ParamValue::List(vec![ParamValue::Text("1".into()), ParamValue::Text("no".into())]); "items of text stay text")]
#[test_case("words", "", ParamValue::List(vec![]); "empty list")]
fn flags_are_read_by_the_declared_type(name: &str, text: &str, expected: ParamValue) {
    let (specs, _) = specs(MANIFEST);
    let source = Source::flag("--param", text);
    let node = from_text(&specs[name], &source, 0);
    let mut out = Diagnostics::default();
    assert_eq!(value_of(&node, name, &mut out), Some(expected));
}

#[test]
fn a_parameter_that_must_be_given_and_says_nothing_is_a_warning() {
    let table = toml_source::parse(&Source::flag("orchestrator.toml", "[a]\ntype = \"list\"\n")).expect("TOML");
    let mut out = Diagnostics::default();
    declared(&table, &mut out);
    let warnings = out.finish().expect("no error").to_string();
    assert!(warnings.contains("parameter `a` must be given, and nothing says what it is"), "{warnings}");
}
