//! Order of service.

use super::{Kind, Limits, Verdict, faults_in, seconds};
use crate::story::{Acquire, End, Fault, Span, Story};

/// Demands that of two acquires the one that began clearly earlier is served first, if it still waits then and no fault disturbed
/// its client. Of a lock with several queues, no fault may have disturbed the other client either: its session may have moved, and
/// its acquire joined another queue than it said.
pub(super) fn check(
    story: &Story,
    lock: &str,
    acquires: &[&Acquire],
    limits: Limits,
    verdict: &mut Verdict,
) {
    let mut asked = acquires.to_vec();
    asked.sort_by_key(|acquire| acquire.asked);
    for (index, later) in asked.iter().enumerate() {
        let End::Granted(served) = later.end else {
            continue;
        };
        let earlier = asked[..index]
            .iter()
            .take_while(|earlier| earlier.asked + limits.earlier < later.asked);
        for earlier in earlier {
            if earlier.end.at() <= later.asked || earlier.queue != later.queue {
                continue;
            }
            let waiting = Span::new(earlier.asked, served);
            let may_move = !later.queue.is_empty();
            let disturbed = faults_in(story, waiting, limits.settle).any(|fault| {
                Fault::names(&fault.effects.disturbs, &earlier.client)
                    || may_move && Fault::names(&fault.effects.disturbs, &later.client)
            });
            if disturbed {
                continue;
            }
            verdict.ordered_pairs += 1;
            if earlier.end.at() <= served.saturating_add(limits.earlier) {
                continue;
            }
            let sentence = format!(
                "{} (acquire {}, begun at {}) was granted {lock:?} at {}, although {} (acquire {}) waited since {} {}",
                later.client,
                later.ask,
                seconds(later.asked),
                seconds(served),
                earlier.client,
                earlier.ask,
                seconds(earlier.asked),
                match earlier.end {
                    End::None => "without end".to_owned(),
                    other => format!("until {}", seconds(other.at())),
                }
            );
            verdict.broken(Kind::Overtaken, Some(lock), waiting, sentence);
        }
    }
}
