-- Sets the hold count of a hold.
--
-- KEYS  lock, record
-- ARGV  k: owner id, hold count
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
