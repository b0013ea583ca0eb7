-- Changes the value of a hold.
--
-- KEYS  lock, record
-- ARGV  v: owner id, value
-- Reply VALUE_SET | NO_HOLD if it was lost before

local function set_value(owner, value)
  local found = call('GET', lock) == owner and record_of(owner)
  if not found then return NO_HOLD end
  local _, _, _, _, _, former = read_details(found, DETAILS)
  call('SET', record, found:sub(1, former - 1) .. value, 'KEEPTTL')
  return VALUE_SET
end
