//! Amounts of money on the command line.

use crate::domain::Micros;

/// Reads an amount in dollars that is not negative. For arguments that let `-1` through, so that it is told what is wrong.
pub(super) fn dollars(text: &str) -> Result<Micros, String> {
    let amount = Micros::parse(text).map_err(|error| error.to_string())?;
    if amount < Micros::ZERO { Err("an amount of money here is zero or more".to_owned()) } else { Ok(amount) }
}
