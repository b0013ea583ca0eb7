//! Text format that Prometheus had before OpenMetrics, which its tools still read.

use std::borrow::Cow;

/// Converts OpenMetrics text into it. The formats differ in the names that introduce counters, and in units and the end mark, which
/// only OpenMetrics has.
pub(super) fn prometheus(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len() + 1024);
    let mut lines = open_metrics.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let line = match line.strip_prefix("# HELP ") {
            Some(help) => {
                // The next line has the type.
                let is_counter = lines.peek().is_some_and(|next| next.ends_with(" counter"));
                introduced("# HELP ", help, is_counter)
            }
            None => match line.strip_prefix("# TYPE ") {
                Some(of) => introduced("# TYPE ", of, of.ends_with(" counter")),
                None => Cow::Borrowed(line),
            },
        };
        out.push_str(&line);
        out.push('\n');
    }
    out
}

fn introduced<'a>(keyword: &str, rest: &str, is_counter: bool) -> Cow<'a, str> {
    let (name, what) = rest.split_once(' ').unwrap_or((rest, ""));
    let total = if is_counter { "_total" } else { "" };
    Cow::Owned(format!("{keyword}{name}{total} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_introduced_under_their_whole_name() {
        let open_metrics = "\
# HELP leasehold_grants Locks granted.
# TYPE leasehold_grants counter
leasehold_grants_total 1
# HELP leasehold_wait_seconds Waits.
# TYPE leasehold_wait_seconds histogram
# UNIT leasehold_wait_seconds seconds
leasehold_wait_seconds_sum 0.0
# EOF
";
        let text = "\
# HELP leasehold_grants_total Locks granted.
# TYPE leasehold_grants_total counter
leasehold_grants_total 1
# HELP leasehold_wait_seconds Waits.
# TYPE leasehold_wait_seconds histogram
leasehold_wait_seconds_sum 0.0
";
        assert_eq!(prometheus(open_metrics), text);
    }
}
