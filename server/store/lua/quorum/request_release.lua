-- Asks the session that holds a lock to release it. Changes nothing.
--
-- KEYS  lock, record
-- ARGV  coordinator id; the token of the hold that is meant (0: any); the request as ../request_release.lua has it
-- Reply DONE, owner id and coordinator of the hold, or empty

local me, only, request = ARGV[3], tonumber(ARGV[4]), ARGV[5]
local holder, found = call('GET', lock), call('GET', record)
if not (holder and is_of(found, holder)) or only > 0 and token_of(found) ~= only then return answer(DONE, '', '') end
local _, _, coordinator, session = read_details(found)
if session == '' then return answer(DONE, '', '') end
if coordinator ~= me then try('PUBLISH', 'lh:wake:' .. coordinator, 'R' .. holder .. request .. lock) end
return answer(DONE, holder, coordinator)
