-- Makes an exclusive hold a shared one, with the same token and times, and grants shared waiters.
--
-- KEYS  all four
-- ARGV  d: owner id
-- Reply CHANGED, for one that is shared already too | {handed, 0, CHANGED} | NO_HOLD

local function downgrade(owner)
  look()
  local found = find(owner)
  if not found or many then return found and many.mode() == 's' and CHANGED or NO_HOLD end
  -- It needs keys that an exclusive hold lacks.
  refuse_if_full()
  load_queue()
  local left = call('PTTL', lock)
  -- Its expiry was removed. Its holder renews it in time.
  if left < 0 then left = memory end
  many_made = many_made or many_functions()
  many_made.begin('s', 0, 0)
  found = with_extras(found, 's', nil)
  many.add(owner, found, now + left * 1000)
  strip(owner)
  if changes then note('downgraded', view_hold(found, left)) end
  return answer(hand_on(), CHANGED)
end
