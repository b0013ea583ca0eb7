-- Tells which actors of a coordinator wait while they hold something, and gives what all coordinators told lately. A
-- script of its own: it is about no lock.
--
-- KEYS  blocked, a hash: coordinator id → when it told (µs, 8 bytes), and what; expires
-- ARGV  coordinator id; what it tells, for blocked.rs to read, empty for nothing
-- Reply {what was told, …}

local LATELY = 3000000    -- µs for which it counts: a coordinator that has more to say comes again before that
local KEPT_FOR = '10000'  -- ms

local blocked, me, mine = KEYS[1], ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if mine == '' then
  redis.call('HDEL', blocked, me)
else
  redis.call('HSET', blocked, me, struct.pack('>I8', now) .. mine)
  redis.call('PEXPIRE', blocked, KEPT_FOR)
end
local told = {}
local fields = redis.call('HGETALL', blocked)
for i = 1, #fields, 2 do
  local at = struct.unpack('>I8', fields[i + 1])
  if math.abs(now - at) < LATELY then
    told[#told + 1] = fields[i + 1]:sub(9)
  else
    redis.call('HDEL', blocked, fields[i])
  end
end
return told
