-- Shows a name.
--
-- KEYS  all six
-- ARGV  most waiters to show
-- Reply 'seen', holder (see view_holder), ms for which the name stays closed (0: it is not closed), newest token or 0,
--       how many wait, {{coordinator, since (µs), session, client name}, …} in order

operations.view = { 6, 1, false, function(at)
  local most = tonumber(ARGV[at])

  load_queue()
  local holder = redis.call('GET', lock)
  local shown = {}
  if refreshed and most > 0 then
    for i, owner in ipairs(redis.call('ZRANGE', queue, 0, most - 1)) do
      local coordinator, since, _, _, session, client = unpack(cmsgpack.unpack(redis.call('HGET', waiters, owner)))
      shown[i] = { coordinator, since, session, client }
    end
  end
  local closed = 0
  if holder == CLOSED then closed = math.max(redis.call('PTTL', lock), 1) end
  return { false, 'seen', view_holder(holder), closed, tonumber(redis.call('GET', token) or 0),
    redis.call('ZCARD', queue), shown }
end }
