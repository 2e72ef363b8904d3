//! What a cell will probably cost, before it has.

use crate::domain::Micros;

/// What an estimate is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EstimateInputs {
    /// Whether the cell is free of the budget (see [`super::is_exempt`]).
    pub exempt: bool,
    /// The cell's own ceiling (`limits.cell_cost`).
    pub own_budget: Option<Micros>,
    /// What finished attempts of the same model on the same task typically cost.
    pub history: Option<Micros>,
    /// The run's cap.
    pub cap: Option<Micros>,
    /// Cells of the whole matrix.
    pub total_cells: usize,
}

/// Where an estimate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Basis {
    /// The cell costs the budget nothing.
    Exempt,
    /// The cell's own ceiling.
    OwnBudget,
    /// Earlier attempts.
    History,
    /// An equal share of the cap.
    EqualShare,
    /// Nothing is known, and without a cap nothing needs to be.
    Uncapped,
}

/// What a cell will probably cost, and where the figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// The figure that is reserved.
    pub amount: Micros,
    /// Where it comes from.
    pub basis: Basis,
}

/// Estimates a cell: exempt → 0, else its own budget, else history, else an equal share of the cap.
#[must_use]
pub fn estimate(inputs: &EstimateInputs) -> Estimate {
    let made = |amount: Micros, basis| Estimate { amount, basis };
    if inputs.exempt {
        return made(Micros::ZERO, Basis::Exempt);
    }
    if let Some(own) = inputs.own_budget {
        return made(own, Basis::OwnBudget);
    }
    if let Some(history) = inputs.history {
        return made(history, Basis::History);
    }
    match inputs.cap {
        // Rounded down, so that as many shares as there are cells always fit the cap.
        Some(cap) => {
            let cells = i64::try_from(inputs.total_cells.max(1)).unwrap_or(i64::MAX);
            made(Micros::new(cap.get() / cells), Basis::EqualShare)
        }
        None => made(Micros::ZERO, Basis::Uncapped),
    }
}

/// Returns the mean of what earlier attempts cost, rounded up; `None` without any.
///
/// Attempts of unknown cost are no part of `costs`: they would pull the mean to zero.
#[must_use]
pub fn typical_cost(costs: impl IntoIterator<Item = Micros>) -> Option<Micros> {
    let mut sum = 0i128;
    let mut count = 0i128;
    for cost in costs {
        sum += i128::from(cost.get());
        count += 1;
    }
    if count == 0 {
        return None;
    }
    let mean = sum.div_euclid(count) + i128::from(sum.rem_euclid(count) != 0);
    i64::try_from(mean).ok().map(Micros::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOLLAR: Micros = Micros::new(1_000_000);

    fn capped() -> EstimateInputs {
        EstimateInputs { cap: Some(DOLLAR), total_cells: 3, ..EstimateInputs::default() }
    }

    #[test]
    fn the_first_known_source_decides() {
        let share = estimate(&capped());
        assert_eq!((share.amount.get(), share.basis), (333_333, Basis::EqualShare));
        let history = estimate(&EstimateInputs { history: Some(Micros::new(7)), ..capped() });
        assert_eq!((history.amount.get(), history.basis), (7, Basis::History));
        let own =
            estimate(&EstimateInputs { own_budget: Some(Micros::new(9)), history: Some(Micros::new(7)), ..capped() });
        assert_eq!((own.amount.get(), own.basis), (9, Basis::OwnBudget));
        let exempt = estimate(&EstimateInputs { exempt: true, own_budget: Some(DOLLAR), ..capped() });
        assert_eq!((exempt.amount, exempt.basis), (Micros::ZERO, Basis::Exempt));
    }

    #[test]
    fn a_history_of_zero_is_a_real_zero() {
        let free = estimate(&EstimateInputs { history: Some(Micros::ZERO), ..capped() });
        assert_eq!((free.amount, free.basis), (Micros::ZERO, Basis::History));
    }

    #[test]
    fn an_empty_matrix_divides_by_nothing() {
        let share = estimate(&EstimateInputs { total_cells: 0, ..capped() });
        assert_eq!(share.amount, DOLLAR);
        assert_eq!(estimate(&EstimateInputs::default()).basis, Basis::Uncapped);
    }

    #[test]
    fn the_mean_is_rounded_up() {
        assert_eq!(typical_cost([]), None);
        assert_eq!(typical_cost([Micros::new(1), Micros::new(2)]), Some(Micros::new(2)));
        assert_eq!(typical_cost([Micros::new(i64::MAX), Micros::new(i64::MAX)]), Some(Micros::new(i64::MAX)));
    }
}
