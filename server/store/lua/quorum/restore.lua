-- Sets a hold again on a master that has lost it or never had it, unless it was released or followed by another grant: both
-- leave a newer token. A hold that a resume missed, the same grant under a replaced owner id, counts as lost.
--
-- KEYS  lock, record
-- ARGV  owner id, TTL (ms), the time to remember the token and the owner ids (ms), the hold's record from another master,
--       the owner ids that were replaced there, one after the other
-- Reply DONE | TAKEN | ABOVE, the newest token | REPLACED

local owner, ttl, memory, given, former = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7]
local holder, found = call('GET', lock), call('GET', record)
local token, newest = token_of(given), token_of(found)
if is_replaced(owner) then return answer(REPLACED) end
if holder and holder ~= owner then
  local is_same = is_among(former, holder) and not (is_of(found, holder) and newest ~= token)
  if not is_same then return answer(TAKEN) end
end
if newest > token then return answer(ABOVE, newest) end
local _, delay = read_details(given)
call('SET', lock, owner, 'PX', ttl + delay)
call('SET', record, given, 'PX', memory_of(token, memory))
replace(former, owner, memory)
return answer(DONE)
