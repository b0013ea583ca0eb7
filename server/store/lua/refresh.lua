-- Tells that the caller's waiters live, hands a free lock on, and looks for a grant that the caller may have missed.
--
-- KEYS  all six
-- ARGV  the caller's oldest waiter, or empty
-- Reply 'refreshed', false | {owner id, token, 1 if a session's} of the hold if it is the caller's,
--       ms until the key expires (below 0: never, or no key), 1 if the oldest waiter waits or holds

operations.refresh = { 6, 1, true, function(at)
  local oldest = ARGV[at]

  load_queue()
  if refreshed then
    redis.call('HSET', attached, me, now)
    refreshed[me] = now
    keep_queue()
  end
  local holder = redis.call('GET', lock)
  local handed = false
  if not holder then
    handed = hand_on()
    holder = handed and handed[1]
  end
  local current = false
  local o, t, k, s = unpack(redis.call('HMGET', hold, 'o', 't', 'k', 's'))
  local ours = holder and o == holder
  if ours and k == me then current = { o, tonumber(t), s ~= '' and 1 or 0 } end
  local known = oldest == '' or (ours and o == oldest) or redis.call('HEXISTS', waiters, oldest) == 1
  return { handed, 'refreshed', current, redis.call('PTTL', lock), known and 1 or 0 }
end }
