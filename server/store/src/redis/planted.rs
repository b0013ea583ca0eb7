//! Planted faults in the scripts: those that `leasehold_core::planted` has in the rules.

use leasehold_core::planted::{Fault, is_planted};

/// Text of a script, and the text with the fault.
type Change = (&'static str, &'static str);

/// Faults that the scripts can have, each with its changes.
const FAULTS: [(Fault, &[Change]); 7] = [
    (
        Fault::ReleaseByAnyone,
        &[
            (
                "if holders[i] == ARGV[10 + i] and not is_contended(i)",
                "if holders[i] and not is_contended(i)",
            ),
            (
                "if not found and holder ~= owner then\n    if not withdraw(owner) then",
                "if not found and not holder then\n    if not withdraw(owner) then",
            ),
        ],
    ),
    (
        Fault::TokenStays,
        &[
            (
                "if last < newest then return newest end",
                "if last == 0 then return newest end",
            ),
            (
                "call('SET', record, pack('>I8I8', last + 1, now) .. of, 'PX', memory_of(last + 1))\n  return last + 1",
                "call('SET', record, pack('>I8I8', last, now) .. of, 'PX', memory_of(last))\n  return last",
            ),
            (
                "if last and last >= newest then\n            reply = last + 1",
                "if last then\n            reply = last",
            ),
        ],
    ),
    (
        Fault::LastFirst,
        &[
            (
                "call('ZRANGEBYLEX', queue, '[' .. from(coordinator, sign[2]), beyond(coordinator), 'LIMIT',\n        '0', '2')",
                "call('ZREVRANGEBYLEX', queue, beyond(coordinator), '[' .. from(coordinator, sign[2]), 'LIMIT',\n        '0', '2')",
            ),
            (
                "local coordinator, place = nil, math.huge",
                "local coordinator, place = nil, -1",
            ),
            ("if of and of < place then", "if of and of > place then"),
            (
                "call('ZRANGEBYLEX', queue, '(' .. member, beyond(coordinator), 'LIMIT', '0', GRANTS_AT_ONCE)",
                "{}",
            ),
        ],
    ),
    (
        Fault::OneAboveLimit,
        &[("taken + permits <= limit", "taken + permits <= limit + 1")],
    ),
    (
        Fault::PermitsTwice,
        &[(
            "taken = taken - unpack_bytes('>I4', extras, 2)\n  if state",
            "taken = math.max(taken - 2 * unpack_bytes('>I4', extras, 2), 0)\n  if state",
        )],
    ),
    (
        Fault::LockDelayIgnored,
        &[("if is_confirmed(state) then delay = of end", "")],
    ),
    (
        Fault::WatcherMissesEnd,
        &[(
            "note('released', changes and found and view_hold(found, 0), delay)",
            "",
        )],
    ),
];

/// Returns the script with the planted fault, if it is one of the scripts'.
pub(super) fn plant(script: String) -> String {
    let mut faults = FAULTS.iter();
    let Some((_, changes)) = faults.find(|(fault, _)| is_planted(*fault)) else {
        return script;
    };
    changes.iter().fold(script, |script, (right, wrong)| {
        script.replacen(right, wrong, 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::encode::LockScript;

    #[test]
    fn every_change_is_of_text_that_the_script_has_once() {
        let text = LockScript::of_cluster().text();
        for (fault, changes) in FAULTS {
            for (right, _) in changes {
                assert_eq!(text.matches(right).count(), 1, "{fault:?}: {right}");
            }
        }
    }
}
