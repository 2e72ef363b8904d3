use super::*;

fn openai(input: u64, read: Count, output: u64, reasoning: Count, total: Count) -> Usage {
    let counts = Counts {
        input: Count::Told(input),
        cache_read: read,
        output: Count::Told(output),
        reasoning,
        total,
        ..Counts::default()
    };
    counts.usage(Family::OpenAi, true)
}

#[test]
fn numbers() {
    assert_eq!(Count::parse("12"), Count::Told(12));
    assert_eq!(Count::parse("12.0"), Count::Told(12));
    for wrong in ["-1", "1.5", "1e3", "18446744073709551616", "", "."] {
        assert_eq!(Count::parse(wrong), Count::Wrong, "{wrong}");
    }
}

#[test]
fn more_cached_than_read_is_no_count() {
    let usage = openai(10, Count::Told(11), 5, Count::Untold, Count::Untold);
    assert_eq!((usage.input, usage.cache_read, usage.cache_write, usage.output), (None, None, None, Some(5)));
}

#[test]
fn a_wrong_part_makes_what_it_is_taken_from_unknown() {
    let usage = openai(10, Count::Wrong, 5, Count::Untold, Count::Untold);
    assert_eq!((usage.input, usage.cache_read, usage.cache_write), (None, None, Some(0)));
}

#[test]
fn reasoning_beside_the_output_is_known_by_the_total() {
    let told = openai(10, Count::Untold, 5, Count::Told(7), Count::Told(22));
    assert_eq!((told.output, told.reasoning), (Some(12), Some(7)));
    let untold = openai(758, Count::Untold, 102, Count::Untold, Count::Told(1725));
    assert_eq!((untold.output, untold.reasoning), (Some(967), Some(865)));
    let within = openai(10, Count::Untold, 12, Count::Told(7), Count::Told(22));
    assert_eq!((within.output, within.reasoning), (Some(12), Some(7)));
}

#[test]
fn totals_that_fit_nothing_leave_the_output_unknown() {
    for (reasoning, total) in [(Count::Told(7), 23), (Count::Untold, 14)] {
        let usage = openai(10, Count::Untold, 5, reasoning, Count::Told(total));
        assert_eq!((usage.output, usage.reasoning), (None, None));
    }
}

#[test]
fn more_reasoning_than_output_is_no_count() {
    let usage = openai(10, Count::Untold, 5, Count::Told(6), Count::Told(15));
    assert_eq!((usage.output, usage.reasoning), (None, None));
}

#[test]
fn sums_never_wrap() {
    let counts =
        Counts { input: Count::Told(1), output: Count::Told(u64::MAX), reasoning: Count::Told(2), ..Counts::default() };
    assert_eq!(counts.usage(Family::Gemini, true).output, None);
    let sum = counts.plus(counts);
    assert_eq!((sum.input, sum.output), (Count::Told(2), Count::Wrong));
}

#[test]
fn counts_that_grow_keep_the_larger() {
    let start = Counts { input: Count::Told(100), output: Count::Told(1), ..Counts::default() };
    let end = Counts { input: Count::Told(0), output: Count::Told(50), cache_read: Count::Null, ..Counts::default() };
    let grown = start.grown(end);
    assert_eq!((grown.input, grown.output, grown.cache_read), (Count::Told(100), Count::Told(50), Count::Null));
    let usage = grown.usage(Family::Anthropic, true);
    assert_eq!((usage.cache_read, usage.cache_write), (Some(0), None));
}

#[test]
fn what_a_cache_keeps_for_an_hour_is_told_apart() {
    let long = |written, short, long| {
        let counts = Counts {
            input: Count::Told(1),
            cache_write: written,
            cache_write_short: short,
            cache_write_long: long,
            ..Counts::default()
        };
        (counts.usage(Family::Anthropic, true).cache_write, counts.cache_write_long(Family::Anthropic))
    };
    let told = Count::Told;
    assert_eq!(long(told(30), told(10), told(20)), (Some(30), Some(20)));
    assert_eq!(long(Count::Untold, told(10), told(20)), (Some(30), Some(20)));
    assert_eq!(long(told(30), Count::Untold, told(20)), (Some(30), Some(20)));
    assert_eq!(long(told(30), Count::Untold, Count::Untold), (Some(30), Some(0)));
    // Parts that do not make the whole.
    assert_eq!(long(told(30), told(5), told(20)), (Some(30), None));
    assert_eq!(long(told(30), Count::Untold, told(31)), (Some(30), None));
    assert_eq!(long(told(30), told(30), Count::Wrong), (Some(30), None));
}
