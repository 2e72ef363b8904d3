//! Money as pure policy: what is left, what a cell will probably cost, whether it may start, and what tokens cost.
//!
//! Nothing here touches a disk, a clock or a task. The store keeps [`Entry`] values inside its own transactions and
//! folds them with [`Ledger`]; the engine asks [`admit`]. Three rules run through all of it: unknown is never zero, the
//! balance is signed (a debt stays a debt), and exemption is a flag, never inferred from an amount.
//! Start with [`Ledger`]; [`prices`] turns tokens into money.

pub mod admission;
pub mod estimate;
pub mod ledger;
pub mod prices;

pub use admission::{Admission, admit, is_exempt};
pub use estimate::{Basis, Estimate, EstimateInputs, estimate, typical_cost};
pub use ledger::{Entry, EntryKind, Ledger, Totals};
pub use prices::{Price, PriceError, PriceTable, Rate, tells_cost};
