-- Extends a hold, or confirms a hand-off. Never creates a key.
--
-- KEYS  lock, hold, token: only keys that exist while it is held
-- ARGV  owner id, TTL (ms); the hold's lock-delay comes on top
-- Reply 'renewed' | 'lost', 'deleted' | 'taken' | 'expired' (no more than the lock-delay was left)

operations.renew = { 3, 2, true, function(at)
  local owner, ttl = ARGV[at], tonumber(ARGV[at + 1])

  local holder = redis.call('GET', lock)
  if not holder then return { false, 'lost', 'deleted' } end
  if holder ~= owner then return { false, 'lost', 'taken' } end
  local coordinator, delay, unconfirmed = unpack(redis.call('HMGET', hold, 'k', 'd', 'w'))
  delay, unconfirmed = tonumber(delay or 0), tonumber(unconfirmed or 0)
  local left = redis.call('PTTL', lock)
  if left >= 0 and left <= delay then return { false, 'lost', 'expired' } end
  if unconfirmed > 0 then delay = unconfirmed end
  redis.call('PEXPIRE', lock, ttl + delay)
  redis.call('PEXPIRE', hold, ttl + delay)
  redis.call('PEXPIRE', token, memory)
  if unconfirmed > 0 or coordinator ~= me then confirm(unconfirmed) end
  return { false, 'renewed' }
end }
