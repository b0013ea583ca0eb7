-- Takes the lock, or joins its queue.
--
-- KEYS  all six
-- ARGV  5 owner id, 6 TTL (ms), 7 lock-delay (ms), 8 1 to wait, 9 not after (µs, 0: any time), 10 session, 11 client
--       name, 12 value
-- Reply 'late' | 'granted', token | 'queued', place, ms until the key in the way expires (below 0: never)
--       | 'busy', holder (see view_holder)
-- The same owner id again: its grant or place stands.

local owner, ttl, delay, wait, not_after = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] == '1', tonumber(ARGV[9])
local session, client, value = ARGV[10], ARGV[11], ARGV[12]

local function join()
  redis.call('HSET', attached, me, now)
  if redis.call('HEXISTS', waiters, owner) == 0 then
    local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')
    redis.call('ZADD', queue, (tonumber(last[2]) or 0) + 1, owner)
    redis.call('HSET', waiters, owner, cmsgpack.pack({ me, now, ttl, delay, session, client, value }))
  end
  refreshed = refreshed or {}
  refreshed[me] = now
  keep_queue()
end

if not_after > 0 and now > not_after then return { nonce, now, false, 'late' } end

local holder = redis.call('GET', lock)
if holder == owner then
  redis.call('HSET', hold, 'k', me)
  redis.call('PEXPIRE', hold, ttl + delay)
  redis.call('PEXPIRE', lock, ttl + delay)
  return { nonce, now, false, 'granted', tonumber(redis.call('HGET', hold, 't')) }
end

load_queue()
local handed = false
if wait then
  if not holder and not refreshed then
    return { nonce, now, false, 'granted', grant(owner, ttl, delay, me, session, client, value) }
  end
  join()
  if not holder then
    handed = hand_on()
    if handed and handed[1] == owner then return { nonce, now, false, 'granted', handed[2] } end
  end
  local place = redis.call('ZRANK', queue, owner)
  return { nonce, now, handed, 'queued', place + 1, redis.call('PTTL', lock) }
end

if not holder then
  handed = hand_on()
  if not handed then
    return { nonce, now, false, 'granted', grant(owner, ttl, delay, me, session, client, value) }
  end
  holder = handed[1]
end
return { nonce, now, handed, 'busy', view_holder(holder) }
