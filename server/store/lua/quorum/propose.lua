-- Takes the lock if it is free, and proposes a token. Stores no token: only a majority makes it a grant.
--
-- KEYS  lock, record, others
-- ARGV  owner id, TTL and lock-delay together (ms), floor of the token, the coordinator if it has waiters, or empty, the
--       time for which the token will be remembered (ms): the floor is at most now plus that time
-- Reply DONE, token, 1 if it is that of the grant that stands here already
--       | TAKEN, value of the lock, ms until it expires (below 0: never), the record or false
--       | REPLACED: it was granted and resumed

local owner, lasts, waiter = ARGV[3], ARGV[4], ARGV[6]
local floor = math.min(tonumber(ARGV[5]), now + ARGV[7] * 1000)
if is_replaced(owner) then return answer(REPLACED) end
local holder, found = call('GET', lock), call('GET', record)
if not holder or holder == owner then
  -- A repetition never shortens the hold: it may be late, and the hold may have been renewed for longer.
  if not holder or call('PTTL', lock) < tonumber(lasts) then call('SET', lock, owner, 'PX', lasts) end
  if holder and is_of(found, owner) then return answer(DONE, token_of(found), 1) end
  return answer(DONE, math.max(token_of(found) + 1, now, floor), 0)
end
if waiter ~= '' then
  -- First, so that Redis refuses it while it is out of memory, unless the coordinator is an element already.
  local until_then = whole(now / 1000 + WAITS_FOR)
  local added = try('ZADD', others, until_then, waiter)
  try('ZREMRANGEBYSCORE', others, '-inf', whole(now / 1000))
  if type(added) == 'table' then try('ZADD', others, 'XX', until_then, waiter) end
  try('PEXPIRE', others, WAITS_FOR)
end
return answer(TAKEN, holder, call('PTTL', lock), found)
