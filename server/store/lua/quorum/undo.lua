-- Undoes a failed attempt. The call may come late, after another try with the same owner id: a master that counts for the
-- grant of a later try has a record of it, with a larger token than any try before.
--
-- KEYS  lock, record, others
-- ARGV  owner id, coordinator id, the largest token that the attempt wrote back, or 0, 1 to notify coordinators that may have
--       failed because of it
-- Reply DONE

local owner = ARGV[3]
local found = call('GET', record)
if call('GET', lock) == owner and not (is_of(found, owner) and token_of(found) > tonumber(ARGV[5])) then
  call('DEL', lock)
  -- Keeps the token alone: the details of a hold that never was are of no use.
  if is_of(found, owner) then call('SET', record, found:sub(1, 16), 'KEEPTTL') end
  if ARGV[6] == '1' then wake(ARGV[4]) end
end
return answer(DONE)
