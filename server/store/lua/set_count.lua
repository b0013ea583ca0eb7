-- Sets how many times a hold is held.
--
-- KEYS  lock, record
-- ARGV  k: owner id, how many times
-- Reply CHANGED | NO_HOLD if it was lost before

local function set_count(owner, times)
  look()
  local found = find(owner)
  if not found then return NO_HOLD end
  local counted = with_extras(found, nil, times)
  if #counted > #found then refuse_if_full() else allow_when_full() end
  keep(owner, counted)
  return CHANGED
end
