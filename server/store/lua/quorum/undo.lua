-- Takes back what an attempt left that came to nothing. It may come late, when the same owner id has been tried again: a
-- master that counts for the grant of a later try has a record of it, with a larger token than any try before.
--
-- KEYS  lock, record, others
-- ARGV  owner id, coordinator id, the largest token that the attempt wrote back, or 0, 1 if others may have failed because
--       of it and are to be told
-- Reply DONE

local owner = ARGV[3]
local found = call('GET', record)
if call('GET', lock) == owner and not (is_of(found, owner) and token_of(found) > tonumber(ARGV[5])) then
  call('DEL', lock)
  -- What is known of the hold that never was is of no use to anybody; the token is.
  if is_of(found, owner) then call('SET', record, found:sub(1, 16), 'KEEPTTL') end
  if ARGV[6] == '1' then wake(ARGV[4]) end
end
return answer(DONE)
