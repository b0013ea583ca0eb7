-- Changes the value of a hold.
--
-- KEYS  lock, hold
-- ARGV  5 owner id, 6 value
-- Reply 'value_set', 1 | 0 if the hold was lost before

if redis.call('GET', lock) ~= ARGV[5] or redis.call('HGET', hold, 'o') ~= ARGV[5] then
  return { nonce, now, false, 'value_set', 0 }
end
redis.call('HSET', hold, 'v', ARGV[6])
return { nonce, now, false, 'value_set', 1 }
