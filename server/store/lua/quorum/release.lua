-- Ends a hold, complete or half acquired, and makes sure that a late extend does not bring it back.
--
-- KEYS  lock, record, others
-- ARGV  owner id, coordinator id, u if the end is unclean (then the name stays closed for the hold's lock-delay) or c, the
--       time to remember the token (ms)
-- Reply DONE, 1 if it held the lock, ms for which the name is closed now (0: it is not), its token or 0, number of
--       notified coordinators
-- Deletes first: after that Redis lets a script go on even when it is out of memory.

local owner, me = ARGV[3], ARGV[4]
local holder, found = call('GET', lock), call('GET', record)
local held, closed, token, woken = 0, 0, 0, 0
if holder == owner then
  call('DEL', lock)
  held = 1
end
if is_of(found, owner) then
  local _, delay = read_details(found)
  token = token_of(found)
  if held == 1 and ARGV[5] == 'u' and delay > 0 then
    call('SET', lock, CLOSED, 'PX', delay)
    closed = delay
  end
  -- The record gets shorter.
  if held == 0 then allow_when_full() end
  call('SET', record, pack('>I8I8', token + 1, now), 'PX', memory_of(token + 1, ARGV[6]))
end
if held == 1 and closed == 0 then woken = wake(me) end
return answer(DONE, held, closed, token, woken)
