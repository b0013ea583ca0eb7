//! A share of requests.

use std::{fmt, str::FromStr};

/// A share: from none to all, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

const ALL: u32 = 1_000_000;

impl Share {
    /// One in a hundred.
    pub const ONE_IN_A_HUNDRED: Self = Self(ALL / 100);

    /// Returns this share of [`u32::MAX`].
    #[must_use]
    pub fn of_max(self) -> u32 {
        let share = u64::from(self.0) * u64::from(u32::MAX) / u64::from(ALL);
        u32::try_from(share).unwrap_or(u32::MAX)
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "it is between 0 and a million"
                )]
                let millionths = (share * f64::from(ALL)).round() as u32;
                Ok(Self(millionths))
            }
            _ => Err(format!("expected a number from 0 to 1; found {text:?}")),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / f64::from(ALL))
    }
}

#[cfg(test)]
mod tests {
    use super::Share;

    #[test]
    fn shares_read_back_as_shown() {
        for (text, shown, of_max) in [
            ("0", "0", 0),
            ("0.0", "0", 0),
            ("1", "1", u32::MAX),
            ("0.01", "0.01", 42_949_672),
            ("1e-6", "0.000001", 4294),
        ] {
            let share: Share = text.parse().unwrap();
            assert_eq!(share.to_string(), shown);
            assert_eq!(share.of_max(), of_max);
        }
        for text in ["", "-0.1", "1.1", "NaN", "inf", "1%", "half"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }
}
