//! Deadline, clock, money.

use std::time::Duration;

use mlua::Value;

use super::Binder;
use super::session::unexpected;
use crate::domain::Micros;
use crate::script::gate::{Raised, misuse};
use crate::script::port::{Answer, HostCall};

pub(super) fn install(binder: &Binder<'_>) -> mlua::Result<()> {
    binder.waiting("remaining", |_, gate, ()| async move {
        match gate.call(HostCall::Remaining).await? {
            Answer::Seconds(seconds) => Ok(seconds.unwrap_or(f64::INFINITY)),
            other => unexpected("deadline.remaining", &other),
        }
    })?;
    binder.waiting("now", |_, gate, ()| async move {
        match gate.call(HostCall::Now).await? {
            Answer::Seconds(Some(seconds)) => Ok(seconds),
            other => unexpected("clock.now", &other),
        }
    })?;
    binder.waiting("sleep", |_, gate, seconds: f64| async move {
        let Ok(duration) = Duration::try_from_secs_f64(seconds) else {
            return misuse(format!("clock.sleep: {seconds} s is no time to wait"));
        };
        gate.call(HostCall::Sleep { duration }).await?;
        Ok::<(), Raised>(())
    })?;
    binder.waiting("budget", |_, gate, ()| async move {
        match gate.call(HostCall::Budget).await? {
            Answer::Budget(budget) => {
                let remaining = budget.remaining.map_or(Value::Nil, |money| Value::Number(money.dollars()));
                Ok((remaining, Micros::dollars(budget.spent)))
            }
            other => unexpected("budget", &other),
        }
    })
}
