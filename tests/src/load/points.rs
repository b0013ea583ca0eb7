//! Points of a distribution, for charts, and units of times.

use std::time::Duration;

use leasehold_load::Distribution;

/// Number of nines in the distribution: up to 99.99 %.
const NINES: u32 = 4;
/// Points per nine. They are evenly spaced by the number of nines, which is the axis that shows a tail.
const POINTS_PER_NINE: u32 = 15;

/// Returns shares from 0 to 0.9999, and the microseconds that they did not exceed. Leaves out shares of which there were too
/// few times.
pub fn points(times: &Distribution) -> Vec<(f64, f64)> {
    (0..=NINES * POINTS_PER_NINE)
        .map(|point| 1.0 - 10_f64.powf(-f64::from(point) / f64::from(POINTS_PER_NINE)))
        // A chart does not show the last bits of a power.
        .map(|share| (share * 1e6).round() / 1e6)
        .take_while(|share| (1.0 - share) * times.count() as f64 >= 1.0)
        .map(|share| (share, micros(times.quantile(share))))
        .collect()
}

/// Returns a time in microseconds.
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Returns a time in milliseconds.
pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_go_as_far_as_there_are_times_to_tell() -> anyhow::Result<()> {
        let mut times = Distribution::new()?;
        assert_eq!(points(&times), []);
        for micros in 1..=1000 {
            times.record(Duration::from_micros(micros));
        }
        let points = points(&times);
        // Three of the four nines, and both ends.
        assert_eq!(points.len(), 46);
        assert_eq!(points.first().map(|point| point.0), Some(0.0));
        assert_eq!(points.last().map(|point| point.0), Some(0.999));
        assert!(points.windows(2).all(|pair| pair[0] < pair[1]));
        assert!((499.0..=501.0).contains(&micros(times.quantile(0.5))));
        Ok(())
    }
}
