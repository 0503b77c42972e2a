// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(250);
const LAST: Duration = Duration::from_secs(15);

/// The pause before repetition `n`, counted from 0: 250 ms growing to 15 s, of
/// which the upper half is random.
pub(crate) fn pause(n: u32) -> Duration {
    let half = FIRST.saturating_mul(1 << n.min(10)).min(LAST) / 2;
    let share = u32::from_le_bytes(crate::token::random());
    half + half.mul_f64(f64::from(share) / (f64::from(u32::MAX) + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        for n in 0..40 {
            let want = FIRST.saturating_mul(1 << n.min(10)).min(LAST);
            for _ in 0..100 {
                let got = pause(n);
                assert!(got >= want / 2 && got <= want, "pause {n} is {got:?}");
            }
        }
    }
}
