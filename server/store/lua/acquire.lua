-- Takes the lock, or joins its queue.
--
-- KEYS  all six
-- ARGV  owner id, TTL (ms), lock-delay (ms), 1 to wait, session, client name, value
-- Reply 'granted', token | 'queued', place, ms until the key in the way expires (below 0: never)
--       | 'busy', holder (see view_holder)
-- The same owner id again: its grant or place stands.

local function join(owner, ttl, delay, session, client, value)
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

operations.acquire = { 6, 7, true, function(at)
  local owner, ttl, delay = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local wait = ARGV[at + 3] == '1'
  local session, client, value = ARGV[at + 4], ARGV[at + 5], ARGV[at + 6]

  local holder = redis.call('GET', lock)
  if holder == owner then
    redis.call('PEXPIRE', lock, ttl + delay)
    redis.call('PEXPIRE', hold, ttl + delay)
    confirm(tonumber(redis.call('HGET', hold, 'w') or 0))
    return { false, 'granted', tonumber(redis.call('HGET', hold, 't')) }
  end

  load_queue()
  local handed = false
  if wait then
    if not holder and not refreshed then
      return { false, 'granted', grant(owner, ttl, delay, me, session, client, value) }
    end
    join(owner, ttl, delay, session, client, value)
    if not holder then
      handed = hand_on()
      if handed and handed[1] == owner then return { false, 'granted', handed[2] } end
    end
    local place = redis.call('ZRANK', queue, owner)
    return { handed, 'queued', place + 1, redis.call('PTTL', lock) }
  end

  if not holder then
    handed = hand_on()
    if not handed then
      return { false, 'granted', grant(owner, ttl, delay, me, session, client, value) }
    end
    holder = handed[1]
  end
  return { handed, 'busy', view_holder(holder) }
end }
