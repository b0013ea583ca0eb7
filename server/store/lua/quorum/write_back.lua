-- Makes a token the newest one, with the details of its grant, if the grant's owner id holds the lock.
--
-- KEYS  lock, record
-- ARGV  owner id, token, the time to remember it (ms), details of the hold (see hold.lua)
-- Reply DONE | TAKEN | ABOVE, the newest token, which is not below this one

local owner, token = ARGV[3], tonumber(ARGV[4])
if call('GET', lock) ~= owner then return answer(TAKEN) end
local found = call('GET', record)
local newest = token_of(found)
if newest > token or newest == token and not is_of(found, owner) then return answer(ABOVE, newest) end
call('SET', record, pack('>I8I8', token, now) .. owner .. ARGV[6], 'PX', memory_of(token, ARGV[5]))
return answer(DONE)
