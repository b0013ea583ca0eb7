-- Makes the coordinators of a master agree on the longest hold, and records the time for which they have seen this run of
-- the master's server. A separate script, because it concerns no lock.
--
-- KEYS  agreement  hash: hold → the longest TTL and lock-delay together (ms), served → 1 once a coordinator has counted the
--                  master's votes. Expires
--       mark       hash: run → the run of the server that was seen last, seen → the shortest time that it had run by then
--                  (ms, by coordinators' monotonic clocks), first → the run that an operator declared to be a first start
--                  (see bootstrap.lua), voted → 1 once the votes of a master with this data were counted. Expires
-- ARGV  1 the longest hold (ms), 2 the time to remember it (ms), 3 1 if the master's votes are counted from now on, 4 the run
--       that answers now, 5 the time for which the caller has seen it (ms), 6 the time to keep the mark (ms)
-- Reply {hold, 1 if the master has served, the shortest time that this run has run (ms), 1 if this run was declared to be a
--       first start, 1 if votes of a master with this data were ever counted}. Changes nothing if another hold is agreed on

local call, agreement, mark = redis.call, KEYS[1], KEYS[2]
local hold, served = unpack(call('HMGET', agreement, 'hold', 'served'))
local run, seen, first, voted = unpack(call('HMGET', mark, 'run', 'seen', 'first', 'voted'))
-- The time of another run says nothing about this one.
local is_known = run == ARGV[4]
seen = is_known and tonumber(seen) or 0
if not hold or hold == ARGV[1] then
  -- First, if both keys exist: after a write like this one Redis lets a script go on even when it is out of memory. The writes
  -- that follow add some bytes at most. Without them the votes of a full master would not count.
  if hold and run then call('PEXPIRE', agreement, ARGV[2]) end
  hold = ARGV[1]
  seen = math.max(seen, tonumber(ARGV[5]))
  call('HSET', agreement, 'hold', hold)
  call('HSET', mark, 'run', ARGV[4], 'seen', string.format('%.0f', seen))
  -- A server that was restarted after it had reported its run does not know that run: its votes do not count.
  if ARGV[3] == '1' and is_known then
    served, voted = '1', '1'
    call('HSET', agreement, 'served', served)
    call('HSET', mark, 'voted', voted)
  end
  call('PEXPIRE', agreement, ARGV[2])
  call('PEXPIRE', mark, ARGV[6])
end
return { hold, served and 1 or 0, seen, first == ARGV[4] and 1 or 0, voted and 1 or 0 }
