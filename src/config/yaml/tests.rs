use test_case::test_case;

use super::*;

const ESCAPE: char = '\u{1b}';

fn node(text: &str) -> Node {
    parse(&Source::flag("x.yaml", text)).unwrap_or_else(|error| panic!("{error}"))
}

fn problem(text: &str) -> String {
    parse(&Source::flag("x.yaml", text)).expect_err("must not parse").to_string()
}

#[test]
fn keeps_order_places_and_types() {
    let root = node("# top\nz: 1\na:\n  - x  # remark\n  - \"y\"\nt: |\n  one\n  two\n\nn:\n");
    let keys: Vec<&str> = root.entries().iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["z", "a", "t", "n"]);
    assert_eq!(root.get("z").expect("z").value, Value::Int(1));
    let list = root.get("a").expect("a");
    assert_eq!(list.items()[0].raw(), "x");
    assert!(list.items()[0].plain && !list.items()[1].plain);
    assert_eq!(list.items()[1].span.position(), (5, 5));
    assert_eq!(root.get("t").expect("t").text(), Some("one\ntwo\n"));
    assert!(root.entries()[3].value.is_null());
}

#[test]
fn places_count_characters_not_bytes() {
    let root = node("käse: [ä, \"ö\"]\n");
    let list = root.get("käse").expect("there");
    assert_eq!(list.raw(), "[ä, \"ö\"]");
    assert_eq!(list.items()[1].raw(), "\"ö\"");
    assert_eq!(list.items()[1].span.position(), (1, 11));
}

#[test]
fn tags_can_force_text_and_nothing_else() {
    assert_eq!(node("a: !!str 007\n").get("a").expect("a").text(), Some("007"));
    assert!(problem("a: !custom x\n").contains("the tag `!custom` has no meaning here"));
    assert!(problem("a: !!binary x\n").contains("has no meaning here"));
}

#[test]
fn aliases_and_merges_bring_copies() {
    let root = node("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\nagain: *b\n");
    assert_eq!(root.get("use").expect("use").to_json(), serde_json::json!({"y": 3, "x": 1}));
    assert_eq!(root.get("again").expect("again").to_json(), serde_json::json!({"x": 1, "y": 2}));
    assert!(problem("a: &a 1\nb:\n  <<: *a\n").contains("`<<` takes a mapping"));
}

#[test]
fn an_alias_bomb_is_refused_before_it_grows() {
    use std::fmt::Write;
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        writeln!(text, "a{level}: &a{level} [{}]", vec![alias; 10].join(", ")).expect("written");
    }
    assert!(problem(&text).contains("aliases expand to more than 10000 values"));
}

#[test_case("a: 1\nb: 2\na: 3\n", "key `a` is written twice"; "twice")]
#[test_case("a: 1\n\"a\": 3\n", "key `a` is written twice"; "twice in quotes")]
#[test_case("a: 1\n---\nb: 2\n", "a second document begins here"; "documents")]
#[test_case("a:\n\tb: 1\n", "a tab cannot indent YAML"; "tab")]
#[test_case("", "`x.yaml` is empty"; "empty")]
#[test_case("# only a remark\n", "`x.yaml` is empty"; "remark only")]
#[test_case("a: [1, 2\n", "this is not YAML"; "open list")]
#[test_case("a: b: c\n", "this is not YAML"; "two colons")]
#[test_case("[1]: x\n", "a key must be text"; "list as a key")]
#[test_case("a: &a [*a]\n", "an alias refers to a value that contains it"; "endless")]
#[test_case("a: *nope\n", "this is not YAML"; "unknown alias")]
fn refuses(text: &str, message: &str) {
    let problem = problem(text);
    assert!(problem.contains(message), "{problem}");
}

#[test]
fn deep_nesting_is_refused() {
    let flow = format!("a: {}1{}\n", "[".repeat(70), "]".repeat(70));
    assert!(problem(&flow).contains("nested deeper than 64 levels"));
    let lines: Vec<String> = (0..100).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    assert!(problem(&lines.concat()).contains("nested deeper than 64 levels"));
    assert!(problem(&"[".repeat(100_000)).contains("nested deeper than 64 levels"));
}

#[test]
fn a_block_ends_where_its_text_ends() {
    let root = node("a:\n  b: 1\n  c: two\n\n\nd: 1\n");
    assert_eq!(root.get("a").expect("a").raw(), "b: 1\n  c: two");
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[a-z0-9 :\\-\\[\\]{}&*!|>'\"#\\\\\n\t,?%@~.äü\u{1F600}\u{1b}]{0,80}") {
        let source = Source::flag("x.yaml", &text);
        match parse(&source) {
            Ok(node) => {
                let mut out = crate::config::diagnostic::Diagnostics::default();
                crate::config::shape::check::section(&node, &crate::config::shape::run::RUN, &node.span, &mut out);
                let problems = out.finish().expect_err("a random text lacks keys").to_string();
                proptest::prop_assert!(!problems.contains(ESCAPE));
            }
            Err(problem) => proptest::prop_assert!(!problem.to_string().contains(ESCAPE)),
        }
    }
}
