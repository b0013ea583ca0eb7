-- Gives permits of a hold back except some of them, and hands them on.
--
-- KEYS  all four
-- ARGV  p: owner id, permits that it keeps
-- Reply CHANGED, for a hold that has no more already too | {handed, 0, CHANGED} | NO_HOLD if it was lost before, or has no
--       permits

local function reduce(owner, kept)
  look()
  local found = many and many.mode() == 'p' and find(owner)
  if not found then return NO_HOLD end
  local by = many.permits(found) - math.max(tonumber(kept), 1)
  if by <= 0 then return CHANGED end
  load_queue()
  -- If it is sent again, it finds nothing to hand on.
  if attached then check_settled() end
  allow_when_full()
  found = many.reduce(owner, found, by)
  if changes then note('reduced', view_hold(found, left(owner)), by) end
  return answer(hand_on(), CHANGED)
end
