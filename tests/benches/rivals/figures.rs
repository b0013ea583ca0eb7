//! Figures of the table with their spread, beside the limit to be met.

use std::fmt;

use serde_json::{Value, json};

/// One figure, measured several times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread(Vec<f64>);

impl FromIterator<f64> for Spread {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Self {
        values.iter().copied().collect()
    }

    pub(crate) fn once(value: f64) -> Self {
        Self(vec![value])
    }

    /// Returns the median, which is what counts; the upper of the two middle ones.
    pub(crate) fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// Returns the median, with the lowest and the highest if there are several.
    pub(crate) fn show(&self, digits: usize) -> String {
        let median = self.median();
        match self.0.as_slice() {
            [low, .., high] => format!("{median:.digits$} ({low:.digits$}–{high:.digits$})"),
            _ => format!("{median:.digits$}"),
        }
    }
}

/// Target of a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(limit) => value >= limit,
            Self::AtMost(limit) => value <= limit,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(limit) => write!(f, "≥ {limit}"),
            Self::AtMost(limit) => write!(f, "≤ {limit}"),
        }
    }
}

/// A figure beside its target; or the reason why there is none.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub(crate) what: String,
    measured: Maybe<Spread>,
    pub(crate) limit: Limit,
    /// After the number; empty for a ratio.
    pub(crate) unit: &'static str,
    digits: usize,
    /// The basis of a ratio; empty if there is nothing to say.
    from: String,
}

impl Check {
    /// Returns a figure with so many digits and a unit, beside its limit.
    pub(crate) fn new(
        what: impl Into<String>,
        measured: Maybe<Spread>,
        limit: Limit,
        unit: &'static str,
        digits: usize,
    ) -> Self {
        Self {
            what: what.into(),
            measured,
            limit,
            unit,
            digits,
            from: String::new(),
        }
    }

    /// Adds the basis of a ratio.
    pub(crate) fn from(mut self, basis: String) -> Self {
        self.from = basis;
        self
    }

    /// Returns `met`, `missed`, or that nothing was measured.
    pub(crate) fn verdict(&self) -> &'static str {
        match &self.measured {
            Ok(spread) if self.limit.is_met(spread.median()) => "met",
            Ok(_) => "**missed**",
            Err(_) => "not measured",
        }
    }

    pub(crate) fn shown(&self) -> String {
        match &self.measured {
            Ok(spread) => format!("{}{}{}", spread.show(self.digits), self.unit, self.from),
            Err(reason) => reason.clone(),
        }
    }

    fn json(&self) -> Value {
        json!({
            "what": self.what,
            "values": self.measured.as_ref().ok().map(|spread| &spread.0),
            "shown": self.shown(),
            "to_reach": self.limit.to_string(),
            "verdict": self.verdict().trim_matches('*'),
        })
    }
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// `1` to `7`.
    pub(crate) number: &'static str,
    pub(crate) work: String,
    pub(crate) checks: Vec<Check>,
    /// Further observations: the subject, and the finding.
    pub(crate) beside: Vec<(String, String)>,
    /// Its lines in the table that compares all services.
    pub(crate) compared: Vec<Comparison>,
    /// The meaning of the figures for a user: the topic, and a sentence or two.
    pub(crate) meaning: Option<(&'static str, String)>,
}

impl Row {
    pub(crate) fn json(&self) -> Value {
        let checks: Vec<_> = self.checks.iter().map(Check::json).collect();
        json!({"row": self.number, "work": self.work, "checks": checks, "beside": self.beside})
    }
}

/// One figure of all services for which it was measured: a line of the table that compares them.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) what: String,
    pub(crate) ours: String,
    /// Not measured, or the reason; none if it is not compared.
    pub(crate) etcd: Option<Maybe<String>>,
    pub(crate) rslock: Option<Maybe<String>>,
    pub(crate) polling: Option<String>,
}

impl Comparison {
    /// Returns a line that has Leasehold's own figure.
    pub(crate) fn new(what: impl Into<String>, ours: String) -> Self {
        Self {
            what: what.into(),
            ours,
            etcd: None,
            rslock: None,
            polling: None,
        }
    }

    /// Returns the cells of the line.
    pub(crate) fn cells(&self) -> [String; 5] {
        let rival = |figure: &Option<Maybe<String>>| match figure {
            None => "–".to_owned(),
            Some(Ok(figure)) => figure.clone(),
            Some(Err(_)) => "not measured".to_owned(),
        };
        [
            self.what.clone(),
            self.ours.clone(),
            rival(&self.etcd),
            rival(&self.rslock),
            self.polling.clone().unwrap_or_else(|| "–".to_owned()),
        ]
    }
}

/// Measured, or why not.
pub(crate) type Maybe<T> = Result<T, String>;

/// Returns the ratios of two figures that were measured in turns.
pub(crate) fn ratios(ours: &[f64], theirs: &Maybe<Vec<f64>>) -> Maybe<Spread> {
    let theirs = theirs.as_ref().map_err(Clone::clone)?;
    let both = ours.iter().zip(theirs);
    Ok(both.map(|(ours, theirs)| ours / theirs).collect())
}

/// Returns a rival's figure, or the note that it was not measured.
pub(crate) fn told(figure: Maybe<String>) -> String {
    figure.unwrap_or_else(|reason| reason)
}
