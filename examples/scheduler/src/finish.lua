-- Runs a tick's job, which is to count the runs, and records that the tick was run: both in one step, or neither.
--
-- KEYS  1 jobs  hash  as for begin.lua
-- ARGV  1 the leader's fencing token, 2 the tick, 3 the leader's number, 4 by how many milliseconds it was begun late
-- Reply 1, or 0 if the token is smaller than one that was seen or the tick was run already: then nothing is done

local jobs, token, tick = KEYS[1], ARGV[1], ARGV[2]
if tonumber(token) < tonumber(redis.call('HGET', jobs, 'token') or 0) then
  redis.call('HSET', jobs, 'refused:' .. token, ARGV[3] .. ' ' .. tick)
  return 0
end
redis.call('HSET', jobs, 'token', token)
if tonumber(tick) <= tonumber(redis.call('HGET', jobs, 'last')) then return 0 end
redis.call('HINCRBY', jobs, 'runs', 1)
redis.call('HSET', jobs, 'last', tick, 'run:' .. tick, ARGV[3] .. ' ' .. token .. ' ' .. ARGV[4])
redis.call('HDEL', jobs, 'running')
return 1
