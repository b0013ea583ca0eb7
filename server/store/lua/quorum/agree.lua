-- Has the coordinators that use a master agree on how long a hold lasts at most, and tells what is known of the master. A
-- script of its own: it is about no lock.
--
-- KEYS  agreement  hash: hold → the longest TTL and lock-delay together (ms), served → 1 once a coordinator has counted the
--                  master's votes, first → the run of the master that was declared to be a first start. Expires
-- ARGV  the longest hold (ms), how long to remember it (ms), 1 if the master's votes are counted from here on, the run that
--       is declared to be a first start or empty
-- Reply {hold, 1 if the master has served, first or empty}: a master that has served is not declared anything any more, and
--       nothing changes where another hold is agreed on

local call, agreement = redis.call, KEYS[1]
local known = call('HMGET', agreement, 'hold', 'served', 'first')
local hold, served, first = known[1], known[2], known[3]
if not hold or hold == ARGV[1] then
  hold = ARGV[1]
  if ARGV[4] ~= '' and not served then first = ARGV[4] end
  if ARGV[3] == '1' then served = '1' end
  call('HSET', agreement, 'hold', hold)
  if served then call('HSET', agreement, 'served', '1') end
  if first then call('HSET', agreement, 'first', first) end
  call('PEXPIRE', agreement, ARGV[2])
end
return { hold, served and 1 or 0, first or '' }
