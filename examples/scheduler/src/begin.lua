-- Begins the next tick, if one is due. The first time, this is how a new leader takes the job table over.
--
-- KEYS  1 jobs  hash  last, the last tick that was run; token, the largest fencing token seen; running, the tick that
--                     was begun and is not done yet; run:<tick>, who ran it; runs, how many runs there were;
--                     refused:<token>, the late write of the leader with that token
-- ARGV  1 the leader's fencing token, 2 the newest tick that is due
-- Reply the tick to run, 0 if none is due yet, or false if the token is smaller than one that was seen
--
-- Beginning raises the token: from then on no earlier leader can run anything, this tick in particular.
-- It is always the tick after the last that was run. So what an earlier leader left undone comes first, in order.
-- Tokens stay below 2^53, so that Lua's numbers compare them exactly; they are stored as they came.

local jobs, token = KEYS[1], ARGV[1]
if tonumber(token) < tonumber(redis.call('HGET', jobs, 'token') or 0) then return false end
redis.call('HSET', jobs, 'token', token)
local tick = tonumber(redis.call('HGET', jobs, 'last')) + 1
if tick > tonumber(ARGV[2]) then
  redis.call('HDEL', jobs, 'running')
  return 0
end
redis.call('HSET', jobs, 'running', tick)
return tick
