-- Declares the present run of a master to be a first start, unless votes of the master were counted. A separate script,
-- because it concerns no lock.
--
-- KEYS  agreement, mark  see agree.lua
-- ARGV  1 the run that answers now, 2 1 to declare it, 0 only to report, 3 the time to keep the mark (ms)
-- Reply {1 if the master's votes were counted, 1 if its present run is declared to be a first start}

local call, agreement, mark = redis.call, KEYS[1], KEYS[2]
local served, first = call('HGET', agreement, 'served'), call('HGET', mark, 'first')
if ARGV[2] == '1' and not served then
  first = ARGV[1]
  call('HSET', mark, 'first', first)
  call('PEXPIRE', mark, ARGV[3])
end
return { served and 1 or 0, first == ARGV[1] and 1 or 0 }
