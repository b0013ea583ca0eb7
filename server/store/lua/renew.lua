-- Extends a hold, or confirms a hand-off. Never creates a key.
--
-- KEYS  lock, hold, token: only keys that exist while it is held
-- ARGV  5 owner id, 6 TTL (ms); the hold's lock-delay comes on top
-- Reply 'renewed' | 'lost', 'deleted' | 'taken' | 'expired' (no more than the lock-delay was left)

local owner, ttl = ARGV[5], tonumber(ARGV[6])

local holder = redis.call('GET', lock)
if not holder then return { nonce, now, false, 'lost', 'deleted' } end
if holder ~= owner then return { nonce, now, false, 'lost', 'taken' } end
local coordinator, delay = unpack(redis.call('HMGET', hold, 'k', 'd'))
delay = tonumber(delay or 0)
local left = redis.call('PTTL', lock)
if left >= 0 and left <= delay then return { nonce, now, false, 'lost', 'expired' } end
if coordinator ~= me then redis.call('HSET', hold, 'k', me) end
redis.call('PEXPIRE', lock, ttl + delay)
redis.call('PEXPIRE', hold, ttl + delay)
redis.call('PEXPIRE', token, memory)
return { nonce, now, false, 'renewed' }
