-- Makes a token the newest one, without a grant, unless there is a newer one or the newest one is that of the present hold.
--
-- KEYS  lock, record
-- ARGV  token, the time to remember it (ms), 1 if it ends the grant with the token before it, under any owner id, because a
--       resume may have missed this master; the owner id whose hold it ends in any case, or empty
-- Reply DONE

local token = tonumber(ARGV[3])
local holder, found = call('GET', lock), call('GET', record)
local newest = token_of(found)
local stands = holder and is_of(found, holder)
if holder and holder == ARGV[6] or stands and ARGV[5] == '1' and newest == token - 1 then
  call('DEL', lock)
  stands = false
end
if newest < token and not stands then
  -- The record gets no longer.
  if found then allow_when_full() end
  call('SET', record, pack('>I8I8', token, now), 'PX', memory_of(token, ARGV[4]))
end
return answer(DONE)
