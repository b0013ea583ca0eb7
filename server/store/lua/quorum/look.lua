-- Shows what is here.
--
-- KEYS  lock, record
-- Reply DONE, what the lock holds or false, ms until that expires (below 0: never), the record or false, the owner ids that
--       were replaced

local former = table.concat(call('ZRANGEBYSCORE', replaced(), '(' .. whole(now), '+inf'))
return answer(DONE, call('GET', lock), call('PTTL', lock), call('GET', record), former)
