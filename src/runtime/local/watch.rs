//! The limits of a running command, checked against the monotonic clock.

use std::time::Duration;

use super::processes::TICKS_PER_SECOND;
use crate::domain::failure::Timer;
use crate::runtime::{ExecEnd, Limits};

/// The longest time between two checks.
const TICK: Duration = Duration::from_millis(50);
/// The share of one core from which on a silent command counts as busy. An agent that hangs in a request still wakes
/// up now and then (up to 2 % of a core was seen), a compiler or a test run takes a whole core.
const BUSY_SHARE: f64 = 0.05;

/// What is known of a command's progress. Times are those of the clock.
#[derive(Debug)]
pub(in crate::runtime) struct Watch {
    limits: Limits,
    started: Duration,
    last_output: Duration,
    longest_silence: Duration,
    last_busy: Duration,
    /// When CPU use was last read, and what it was.
    sample: Option<(Duration, u64)>,
}

impl Watch {
    pub(in crate::runtime) fn new(limits: Limits, started: Duration) -> Self {
        Self {
            limits,
            started,
            last_output: started,
            longest_silence: Duration::ZERO,
            last_busy: started,
            sample: None,
        }
    }

    /// Notes that output came.
    pub(in crate::runtime) fn output(&mut self, now: Duration) {
        self.longest_silence = self.silence(now);
        self.last_output = now;
    }

    /// Returns the longest time without output, the current one included.
    pub(in crate::runtime) fn silence(&self, now: Duration) -> Duration {
        self.longest_silence.max(now.saturating_sub(self.last_output))
    }

    /// Returns how long to wait at most before the next check.
    pub(in crate::runtime) fn pause(&self, now: Duration) -> Duration {
        match self.limits.timeout {
            Some((_, limit)) => TICK.min((self.started + limit).saturating_sub(now)),
            None => TICK,
        }
    }

    /// Returns the limit that the command has reached, if one is.
    ///
    /// `cpu` tells how many clock ticks of CPU the command has used; it is asked only when [`Watch::cpu_is_due`].
    pub(in crate::runtime) fn check(
        &mut self,
        now: Duration,
        total: u64,
        cpu: impl FnOnce() -> Option<u64>,
    ) -> Option<ExecEnd> {
        self.over_output(total).or_else(|| self.over_idle(now, cpu)).or_else(|| self.over_time(now))
    }

    /// Tells whether CPU use is to be read: only after a while of silence, and then seldom, because it costs.
    pub(in crate::runtime) fn cpu_is_due(&self, now: Duration) -> bool {
        let sampled = self.sample.map_or(self.started, |(at, _)| at);
        let since = now.saturating_sub(self.last_output.max(sampled));
        self.limits.idle.is_some_and(|limit| since >= (limit / 8).max(TICK))
    }

    /// Tells whether the output is more than allowed.
    pub(in crate::runtime) fn over_output(&self, total: u64) -> Option<ExecEnd> {
        let limit = self.limits.output_bytes?;
        (total > limit).then_some(ExecEnd::OutputLimit { limit })
    }

    fn over_time(&self, now: Duration) -> Option<ExecEnd> {
        let (timer, limit) = self.limits.timeout?;
        (now.saturating_sub(self.started) >= limit).then_some(ExecEnd::TimedOut { timer, limit })
    }

    fn over_idle(&mut self, now: Duration, cpu: impl FnOnce() -> Option<u64>) -> Option<ExecEnd> {
        let limit = self.limits.idle?;
        if self.cpu_is_due(now)
            && let Some(ticks) = cpu()
        {
            if let Some((at, before)) = self.sample {
                #[expect(clippy::cast_precision_loss, reason = "a share needs no more than a few digits")]
                let used = ticks.saturating_sub(before) as f64 / TICKS_PER_SECOND as f64;
                if used > 0.0 && used >= BUSY_SHARE * now.saturating_sub(at).as_secs_f64() {
                    self.last_busy = now;
                }
            }
            self.sample = Some((now, ticks));
        }
        let idle = now.saturating_sub(self.last_output.max(self.last_busy));
        (idle >= limit).then_some(ExecEnd::TimedOut { timer: Timer::Idle, limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn watch(idle: Duration) -> Watch {
        Watch::new(Limits { idle: Some(idle), ..Limits::default() }, Duration::ZERO)
    }

    #[test]
    fn silence_without_cpu_is_idle_and_silence_with_cpu_is_not() {
        let mut hung = watch(8 * S);
        let mut busy = watch(8 * S);
        for second in 1..=7 {
            assert_eq!(hung.over_idle(second * S, || Some(10)), None);
            assert_eq!(busy.over_idle(second * S, || Some(100 * u64::from(second))), None);
        }
        let end = Some(ExecEnd::TimedOut { timer: Timer::Idle, limit: 8 * S });
        assert_eq!(hung.over_idle(8 * S, || Some(10)), end);
        assert_eq!(busy.over_idle(8 * S, || Some(800)), None);
        // Where nobody can tell CPU use, output alone decides.
        assert_eq!(watch(8 * S).over_idle(8 * S, || None), end);
    }

    #[test]
    fn a_process_that_only_wakes_up_now_and_then_is_idle() {
        let mut hung = watch(80 * S);
        let ends: Vec<bool> =
            (1..=80_u32).map(|second| hung.over_idle(second * S, || Some(2 * u64::from(second))).is_some()).collect();
        assert_eq!(ends.iter().position(|&end| end), Some(79));
    }

    #[test]
    fn output_starts_the_idle_time_anew_and_the_longest_silence_is_kept() {
        let mut watch = watch(8 * S);
        watch.output(7 * S);
        assert_eq!(watch.over_idle(9 * S, || Some(0)), None);
        watch.output(9 * S);
        assert_eq!(watch.silence(10 * S), 7 * S);
        assert_eq!(watch.silence(20 * S), 11 * S);
    }

    #[test]
    fn the_next_check_comes_no_later_than_the_deadline() {
        let limits = Limits { timeout: Some((Timer::Session, S)), ..Limits::default() };
        let watch = Watch::new(limits, 5 * S);
        assert_eq!(watch.pause(5 * S), TICK);
        assert_eq!(watch.pause(Duration::from_millis(5_990)), Duration::from_millis(10));
        assert_eq!(watch.over_time(Duration::from_millis(5_999)), None);
        assert_eq!(watch.over_time(6 * S), Some(ExecEnd::TimedOut { timer: Timer::Session, limit: S }));
    }
}
