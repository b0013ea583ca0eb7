-- Extends a hold on a master that has it. Never creates a key: only restore.lua does.
--
-- KEYS  lock, record
-- ARGV  owner id, TTL (ms; the hold's lock-delay comes on top), the time to remember the token (ms), coordinator id
-- Reply DONE, token, or 0 if the record is not this hold's: then it does not count before restore.lua has written it
--       | MISSING | TAKEN, token of the hold that stands here instead, or 0 | EXPIRED (no more than the lock-delay was left)
--       | REPLACED

local owner, ttl, me = ARGV[3], tonumber(ARGV[4]), ARGV[6]
local holder = call('GET', lock)
local found = call('GET', record)
if holder ~= owner then
  if is_replaced(owner) then return answer(REPLACED) end
  if not holder then return answer(MISSING) end
  return answer(TAKEN, is_of(found, holder) and token_of(found) or 0)
end
if not is_of(found, owner) then
  call('PEXPIRE', lock, ttl)
  return answer(DONE, 0)
end
local state, delay, coordinator = read_details(found)
local left = call('PTTL', lock)
if delay > 0 and left >= 0 and left <= delay then return answer(EXPIRED) end
call('PEXPIRE', lock, ttl + delay)
if coordinator ~= me then
  local rest = DETAILS + 9 + 2 + #coordinator
  found = found:sub(1, DETAILS - 1) .. pack('>c1I8I2c0', state, delay, #me, me) .. found:sub(rest)
end
call('SET', record, found, 'PX', memory_of(token_of(found), ARGV[5]))
return answer(DONE, token_of(found))
