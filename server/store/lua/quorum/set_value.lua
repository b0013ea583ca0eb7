-- Changes the value of a hold.
--
-- KEYS  lock, record
-- ARGV  owner id, value
-- Reply DONE | MISSING if it is not here

local owner = ARGV[3]
local found = call('GET', record)
if call('GET', lock) ~= owner or not is_of(found, owner) then return answer(MISSING) end
local _, _, _, _, _, _, value = read_details(found)
call('SET', record, found:sub(1, value - 1) .. ARGV[4], 'KEEPTTL')
return answer(DONE)
