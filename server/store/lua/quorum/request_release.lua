-- Asks the session that holds a lock to release it. Changes nothing.
--
-- KEYS  lock, record
-- ARGV  coordinator id; the token of the hold that is meant (0: any); the request as ../request_release.lua has it
-- Reply DONE, owner id, coordinator and token of the hold, or empty and 0

local me, only, request = ARGV[3], tonumber(ARGV[4]), ARGV[5]
local holder, found = call('GET', lock), call('GET', record)
if not (holder and is_of(found, holder)) or only > 0 and token_of(found) ~= only then return answer(DONE, '', '', 0) end
local _, _, coordinator, session = read_details(found)
if session == '' then return answer(DONE, '', '', 0) end
if coordinator ~= me then try('PUBLISH', 'lh:wake:' .. coordinator, 'A' .. holder .. found:sub(1, 8) .. request .. lock) end
return answer(DONE, holder, coordinator, token_of(found))
