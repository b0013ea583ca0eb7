-- Changes the value of a hold.
--
-- KEYS  lock, hold
-- ARGV  owner id, value
-- Reply 'value_set', 1 | 0 if the hold was lost before

operations.set_value = { 2, 2, true, function(at)
  if redis.call('GET', lock) ~= ARGV[at] or redis.call('HGET', hold, 'o') ~= ARGV[at] then
    return { false, 'value_set', 0 }
  end
  redis.call('HSET', hold, 'v', ARGV[at + 1])
  return { false, 'value_set', 1 }
end }
