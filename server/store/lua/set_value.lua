-- Changes the value of a hold.
--
-- KEYS  lock, record
-- ARGV  v: owner id, value
-- Reply CHANGED | NO_HOLD if it was lost before

local function set_value(owner, value)
  look()
  local found = find(owner)
  if not found then return NO_HOLD end
  local _, _, _, _, _, _, former = read_details(found, DETAILS)
  refuse_if_full()
  found = found:sub(1, former - 1) .. value
  keep(owner, found)
  if changes then note('value', view_hold(found, left(owner))) end
  return CHANGED
end
