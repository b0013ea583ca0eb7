-- Extends a hold, or confirms a hand-off. Never creates a key.
--
-- KEYS  lock, record: only keys that exist while it is held
-- ARGV  n: owner id, TTL (ms); the hold's lock-delay comes on top
-- Reply RENEWED | DELETED | TAKEN | EXPIRED (no more than the lock-delay was left)

-- The lock is the owner's, and `found` its record, if there is one.
local function extend(owner, ttl, found)
  if not found or found:sub(17, 32) ~= owner then
    call('PEXPIRE', lock, ttl)
    return RENEWED
  end
  local state, delay, coordinator = read_details(found, DETAILS)
  if state ~= 'h' and delay > 0 then
    local left = call('PTTL', lock)
    if left >= 0 and left <= delay then return EXPIRED end
  end
  call('PEXPIRE', lock, ttl + delay)
  if state == 'h' or coordinator ~= me then confirm(found) end
  return RENEWED
end

local function renew(owner, ttl)
  local holder = call('GET', lock)
  if holder ~= owner then return holder and TAKEN or DELETED end
  -- One command for both. That the token is remembered for longer does no harm should the hold have expired.
  return extend(owner, ttl, call('GETEX', record, 'PX', memory))
end
