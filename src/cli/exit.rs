//! Exit codes of the program; `docs/reference/exit-codes.md` lists them for users.

use crate::domain::event::RunSummary;

/// Everything that was asked for happened; for `run`, every cell reached a verdict.
pub(super) const OK: u8 = 0;
/// `run single`: the task was not solved.
pub(super) const NOT_SOLVED: u8 = 1;
/// `test`: a test failed.
pub(super) const TESTS_FAILED: u8 = 1;
/// `doctor --canary`: a key was found, or a place where one must be taken out was not reached.
pub(super) const LEAKED: u8 = 1;
/// `canary`, `gateway --check`: the meter and a provider tell different numbers, or the provider told none.
#[cfg(feature = "gateway")]
pub(super) const DIFFERS: u8 = 1;
/// The command line or a file that the user wrote is wrong.
pub(super) const USAGE: u8 = 2;
/// The runtime is not there.
pub(super) const RUNTIME: u8 = 3;
/// The store cannot be read or written.
pub(super) const STORE: u8 = 4;
/// `--fail-under` was missed, or `calibrate --min-agreement`.
pub(super) const THRESHOLD: u8 = 10;
/// Some cells ended in an error that is not the agent's; `calibrate`: an example has no score.
pub(super) const ERRORED: u8 = 11;
/// Cells were skipped for lack of budget.
pub(super) const BUDGET: u8 = 12;
/// Interrupted.
pub(super) const INTERRUPTED: u8 = 130;

/// Returns the code of `run`: failing cells are data, anything that kept a cell from its verdict is not.
pub(super) fn of_run(summary: &RunSummary, fail_under: Option<f64>) -> u8 {
    if summary.interrupted {
        return INTERRUPTED;
    }
    if summary.errored > 0 || summary.not_run > 0 {
        return ERRORED;
    }
    if !summary.skipped.is_empty() {
        return BUDGET;
    }
    match (fail_under, rate(summary)) {
        (Some(wanted), Some(rate)) if rate < wanted => THRESHOLD,
        (Some(_), None) => THRESHOLD,
        _ => OK,
    }
}

/// Returns the share of solved cells among those with a verdict, in percent; `None` where there are none.
pub(super) fn rate(summary: &RunSummary) -> Option<f64> {
    let decided = summary.passed + summary.failed;
    #[expect(clippy::cast_precision_loss, reason = "counts of cells are far below 2^52")]
    (decided > 0).then(|| 100.0 * summary.passed as f64 / decided as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(passed: usize, failed: usize, errored: usize) -> RunSummary {
        RunSummary { total: passed + failed + errored, passed, failed, errored, ..RunSummary::default() }
    }

    #[test]
    fn failing_cells_are_data() {
        assert_eq!(of_run(&summary(1, 3, 0), None), OK);
        assert_eq!(of_run(&summary(1, 3, 0), Some(50.0)), THRESHOLD);
        assert_eq!(of_run(&summary(3, 1, 0), Some(75.0)), OK);
    }

    #[test]
    fn what_is_not_the_agents_is_told() {
        assert_eq!(of_run(&summary(3, 0, 1), None), ERRORED);
        let skipped = RunSummary { skipped: vec![("Budget cap reached".to_owned(), 2)], ..summary(1, 0, 0) };
        assert_eq!(of_run(&skipped, None), BUDGET);
        let interrupted = RunSummary { interrupted: true, ..summary(1, 0, 1) };
        assert_eq!(of_run(&interrupted, None), INTERRUPTED);
    }

    #[test]
    fn a_threshold_over_nothing_is_missed() {
        assert_eq!(of_run(&summary(0, 0, 0), Some(1.0)), THRESHOLD);
    }
}
