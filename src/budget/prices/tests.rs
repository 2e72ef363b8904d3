use super::*;
use test_case::test_case;

fn table(rows: &str) -> PriceTable {
    PriceTable::parse("test.toml", rows).expect("valid")
}

fn entry(model: &str, rates: &str) -> String {
    format!("[[price]]\nmodel = \"{model}\"\n{rates}\ndate = \"2025-10-01\"\nsource = \"test\"\n")
}

const FIVE: &str = "input = 3\noutput = 15\ncache_read = 0.30\ncache_write = 3.75";

fn usage(input: u64, cache_write: u64, cache_read: u64, output: u64) -> Usage {
    Usage {
        input: Some(input),
        output: Some(output),
        cache_read: Some(cache_read),
        cache_write: Some(cache_write),
        reasoning: None,
    }
}

#[test]
fn cached_tokens_are_billed_once() {
    // A proxy once billed this session at 0.0913 dollars.
    let prices = table(&entry("m", FIVE));
    assert_eq!(prices.cost("m", &usage(3, 12_304, 0, 550)), Some(Micros::new(54_399)));
}

#[test]
fn the_uncached_remainder_alone_pays_the_full_rate() {
    // 17,111 prompt tokens of which 17,102 cached: 0.0022192 dollars, once billed 10.9 times as high.
    let prices = table(&entry("m", "input = 1\noutput = 5\ncache_read = 0.1\ncache_write = 1.25"));
    assert_eq!(prices.cost("m", &usage(17_111 - 17_102, 0, 17_102, 100)), Some(Micros::new(2_219)));
}

#[test]
fn rounding_happens_once_and_half_goes_up() {
    let prices = table(&entry("m", "input = 0.25\noutput = 0.25\ncache_read = 0\ncache_write = 0"));
    assert_eq!(prices.cost("m", &usage(1, 0, 0, 0)), Some(Micros::new(0)));
    assert_eq!(prices.cost("m", &usage(1, 0, 0, 1)), Some(Micros::new(1)));
}

#[test]
fn an_unknown_model_has_no_price() {
    assert_eq!(table(&entry("m", FIVE)).cost("other", &Usage::ZERO), None);
    assert_eq!(PriceTable::default().cost("m", &Usage::ZERO), None);
}

#[test]
fn a_stated_zero_is_a_price() {
    let free = table(&entry("local", "input = 0\noutput = 0\ncache_read = 0\ncache_write = 0"));
    assert_eq!(free.cost("local", &Usage::UNKNOWN), Some(Micros::ZERO));
    assert_eq!(free.cost("local", &usage(9, 9, 9, 9)), Some(Micros::ZERO));
}

#[test]
fn a_count_that_nobody_measured_makes_the_cost_unknown() {
    let prices = table(&entry("m", FIVE));
    let whole = usage(1, 1, 1, 1);
    assert!(prices.cost("m", &whole).is_some());
    for missing in [
        Usage { input: None, ..whole },
        Usage { output: None, ..whole },
        Usage { cache_read: None, ..whole },
        Usage { cache_write: None, ..whole },
    ] {
        assert_eq!(prices.cost("m", &missing), None);
    }
}

#[test]
fn a_rate_that_the_entry_lacks_is_needed_only_for_tokens_that_were_used() {
    let prices = table(&entry("m", "input = 1\noutput = 1"));
    assert_eq!(prices.cost("m", &usage(1, 0, 0, 0)), Some(Micros::new(1)));
    assert_eq!(prices.cost("m", &usage(1, 0, 7, 0)), None);
    assert_eq!(prices.cost("m", &Usage { cache_read: None, ..usage(1, 0, 0, 0) }), None);
}

#[test]
fn reasoning_is_part_of_the_output_and_never_added_again() {
    let reasoned = Usage { reasoning: Some(1_152), ..usage(0, 0, 0, 1_590) };
    assert_eq!(table(&entry("m", FIVE)).cost("m", &reasoned), Some(Micros::new(15 * 1_590)));
    let apart = table(&entry("m", "input = 1\noutput = 10\nreasoning = 2"));
    assert_eq!(apart.cost("m", &reasoned), Some(Micros::new(10 * 438 + 2 * 1_152)));
    assert_eq!(apart.cost("m", &Usage { reasoning: None, ..reasoned }), None);
}

#[test]
fn numbers_too_large_for_the_ledger_are_unknown_and_do_not_wrap() {
    let prices = table(&entry("m", "input = 1000000\noutput = 1000000\ncache_read = 1\ncache_write = 1"));
    assert_eq!(prices.cost("m", &usage(u64::MAX, u64::MAX, u64::MAX, u64::MAX)), None);
}

#[test]
fn the_most_exact_entry_wins_and_an_override_beats_them_all() {
    let rows = [entry("claude-*", "input = 1\noutput = 0"), entry("claude-opus-*", "input = 2\noutput = 0")].concat()
        + &entry("claude-opus-4", "input = 3\noutput = 0");
    let prices = table(&rows);
    let rate = |table: &PriceTable, model: &str| table.find(model).map(|price| price.input);
    assert_eq!(rate(&prices, "claude-haiku"), Rate::from_dollars(1.0));
    assert_eq!(rate(&prices, "claude-opus-5"), Rate::from_dollars(2.0));
    assert_eq!(rate(&prices, "claude-opus-4"), Rate::from_dollars(3.0));
    assert_eq!(rate(&prices, "gpt-5"), None);
    let own = prices.overridden_by(table(&entry("claude-opus-*", "input = 9\noutput = 0")));
    assert_eq!(rate(&own, "claude-opus-4"), Rate::from_dollars(9.0));
    assert_eq!(rate(&own, "claude-haiku"), Rate::from_dollars(1.0));
}

#[test_case("input = -1\noutput = 1", "`-1` is no price"; "negative")]
#[test_case("input = nan\noutput = 1", "is no price"; "nan")]
#[test_case("input = inf\noutput = 1", "is no price"; "infinite")]
#[test_case("input = 0.0000001\noutput = 1", "at most six decimals"; "too fine")]
#[test_case("input = \"3\"\noutput = 1", "dollars per million tokens"; "text")]
#[test_case("input = 1", "missing field `output`"; "missing")]
#[test_case("input = 1\noutput = 1\ncached = 1", "unknown field `cached`"; "unknown key")]
fn wrong_rates_are_refused(rates: &str, expected: &str) {
    let error = PriceTable::parse("mine.toml", &entry("m", rates)).expect_err("refused").to_string();
    assert!(error.contains("mine.toml") && error.contains(expected), "{error}");
}

#[test]
fn an_entry_says_when_and_where_it_was_looked_up() {
    let undated = "[[price]]\nmodel = \"m\"\ninput = 1\noutput = 1\nsource = \"x\"\ndate = \"yesterday\"\n";
    let error = PriceTable::parse("f", undated).expect_err("refused").to_string();
    assert!(error.contains("`yesterday` is no day"), "{error}");
    let unsourced = "[[price]]\nmodel = \"m\"\ninput = 1\noutput = 1\nsource = \" \"\ndate = \"2025-10-01\"\n";
    assert!(PriceTable::parse("f", unsourced).is_err());
}

#[test]
fn two_entries_for_one_model_are_refused() {
    let twice = entry("m", FIVE) + &entry("m", FIVE);
    let expected = PriceError::Duplicate { file: "f".to_owned(), pattern: "m".to_owned() };
    assert_eq!(PriceTable::parse("f", &twice).expect_err("refused"), expected);
    assert!(matches!(PriceTable::parse("f", &entry("m[", FIVE)), Err(PriceError::Pattern { .. })));
}

#[test]
fn the_bundled_table_is_readable_and_prices_what_it_names() {
    let prices = PriceTable::bundled().expect("bundled files are valid");
    assert!(prices.entries().count() >= 10);
    let session = usage(1_000_000, 0, 0, 1_000_000);
    assert_eq!(prices.cost("scripted-small", &session), Some(Micros::new(6_000_000)));
    assert_eq!(prices.cost("claude-sonnet-4-5-20250929", &session), Some(Micros::new(18_000_000)));
    assert_eq!(prices.cost("gpt-5", &session), Some(Micros::new(11_250_000)));
    assert_eq!(prices.cost("gpt-5-mini", &session), Some(Micros::new(2_250_000)));
    assert_eq!(prices.cost("some-model-of-tomorrow", &session), None);
    // The offline agent counts no cache; its cost is known all the same.
    let scripted = Usage { input: Some(10), output: Some(10), ..Usage::UNKNOWN };
    assert_eq!(prices.cost("scripted-small", &scripted), Some(Micros::new(60)));
}

#[test]
fn what_a_cache_keeps_for_an_hour_has_its_own_rate() {
    let written = usage(0, 1_000, 0, 0);
    let price = |rates: &str| table(&entry("m", rates)).find("m").expect("an entry").clone();
    let five = price(FIVE);
    assert_eq!(five.cost_with_long(&written, Some(0)), Some(Micros::new(3_750)));
    assert_eq!(five.cost_with_long(&written, Some(1)), None, "there is no rate for it");
    let long = price(&format!("{FIVE}\ncache_write_long = 6"));
    assert_eq!(long.cost(&written), Some(Micros::new(3_750)));
    assert_eq!(long.cost_with_long(&written, Some(400)), Some(Micros::new(600 * 15 / 4 + 400 * 6)));
    assert_eq!(long.cost_with_long(&written, Some(1_000)), Some(Micros::new(6_000)));
    assert_eq!(long.cost_with_long(&written, None), None);
    assert_eq!(long.cost_with_long(&written, Some(1_001)), None, "a part is no more than the whole");
    let free = price("input = 0\noutput = 0\ncache_read = 0\ncache_write = 0");
    assert_eq!(free.cost_with_long(&Usage::UNKNOWN, None), Some(Micros::ZERO));
    let bundled = PriceTable::bundled().expect("bundled files are valid");
    let sonnet = bundled.find("claude-sonnet-4-5-20250929").expect("an entry");
    assert_eq!(sonnet.cost_with_long(&usage(0, 1_000_000, 0, 0), Some(1_000_000)), Some(Micros::new(6_000_000)));
}

#[test_case("m-5", Some("m-5"); "itself")]
#[test_case("m-5-2025-08-07", Some("m-5"); "a date with hyphens")]
#[test_case("m-5-20250807", Some("m-5"); "a date without")]
#[test_case("m-5@20250807", Some("m-5"); "a date behind a sign")]
#[test_case("m-5-2025-09-01", Some("m-5-2025-09-01"); "one that has an entry")]
#[test_case("m-5-mini", None; "another model")]
#[test_case("m-5-08-07", None; "no year")]
#[test_case("2025-08-07", None; "nothing but a date")]
fn a_dated_release_has_the_price_of_its_alias(model: &str, expected: Option<&str>) {
    let prices = table(&[entry("m-5", FIVE), entry("m-5-2025-09-01", FIVE)].concat());
    assert_eq!(prices.find(model).map(|price| price.model.as_str()), expected);
}

#[test_case("claude-sonnet-4-5-20250929", 3_000_000; "anthropic")]
#[test_case("claude-opus-5", 5_000_000; "not the next minor version")]
#[test_case("claude-opus-5-5", 4_000_000; "the next minor version")]
#[test_case("gpt-5-2025-08-07", 1_250_000; "openai")]
#[test_case("gemini-2.5-flash-lite", 100_000; "gemini")]
fn bundled_models_cost_what_their_page_says(model: &str, a_million_in: i64) {
    let prices = PriceTable::bundled().expect("the table is right");
    assert_eq!(prices.cost(model, &usage(1_000_000, 0, 0, 0)), Some(Micros::new(a_million_in)));
}

#[test_case("https://openrouter.ai/api/v1", true; "openrouter")]
#[test_case("https://eu.openrouter.ai:443/api/v1", true; "one of its places")]
#[test_case("https://openrouter.ai.example.org/v1", false; "another")]
#[test_case("https://api.openai.com/v1", false; "openai")]
#[test_case("", false; "none")]
fn who_tells_what_an_answer_cost(base_url: &str, expected: bool) {
    assert_eq!(tells_cost(base_url), expected);
}
