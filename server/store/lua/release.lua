-- Ends whatever an owner id stands for, a hold or a place in the queue, and hands the lock on.
--
-- KEYS  all six
-- ARGV  owner id, 1 if the end is unclean: then the name stays closed for the hold's lock-delay
-- Reply 'released', 1 if it held, 1 if it waited, ms for which the name is closed now (0: it is not)
-- Deletes first: after that Redis lets a script go on even when it is out of memory.

operations.release = { 6, 2, false, function(at)
  local owner, unclean = ARGV[at], ARGV[at + 1] == '1'

  load_queue()
  local waited = leave(owner)
  if redis.call('GET', lock) ~= owner then return { false, 'released', 0, waited, 0 } end
  local delay = unclean and tonumber(redis.call('HGET', hold, 'd') or 0) or 0
  redis.call('DEL', lock, hold)
  if delay > 0 then
    redis.call('SET', lock, CLOSED, 'PX', delay)
    return { false, 'released', 1, waited, delay }
  end
  return { hand_on(), 'released', 1, waited, 0 }
end }
