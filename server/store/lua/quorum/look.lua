-- Returns the contents of a lock's keys.
--
-- KEYS  lock, record
-- Reply DONE, value of the lock or false, ms until it expires (below 0: never), the record or false, the replaced owner ids

local former = table.concat(call('ZRANGEBYSCORE', replaced(), '(' .. whole(now), '+inf'))
return answer(DONE, call('GET', lock), call('PTTL', lock), call('GET', record), former)
