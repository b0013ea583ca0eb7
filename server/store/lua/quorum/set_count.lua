-- Sets the hold count of a hold.
--
-- KEYS  lock, record
-- ARGV  owner id, hold count
-- Reply DONE | MISSING if it is not here

local owner = ARGV[3]
local found = call('GET', record)
if call('GET', lock) ~= owner or not is_of(found, owner) then return answer(MISSING) end
local state, delay, coordinator, session, extras, client, value = read_details(found)
local former = #extras
extras = with_times(extras, tonumber(ARGV[4]))
if #extras <= former then allow_when_full() end
call('SET', record, found:sub(1, DETAILS - 1) .. pack('>c1I8I2c0Bc0Bc0I2c0', state, delay, #coordinator, coordinator,
  #session, session, #extras, extras, #client, client) .. found:sub(value), 'KEEPTTL')
return answer(DONE)
