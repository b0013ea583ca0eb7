-- Takes the lock from whoever holds it, raises the token, and hands the lock on.
--
-- KEYS  all six
-- Reply 'forced', 1 if anything was released, token now, false | {owner id, coordinator} of our former hold

operations.force_release = { 6, 0, true, function(at)
  load_queue()
  local holder = redis.call('GET', lock)
  local former = false
  if holder then
    local o, k = unpack(redis.call('HMGET', hold, 'o', 'k'))
    if o == holder then
      former = { o, k }
      if k ~= me then redis.pcall('PUBLISH', 'lh:wake:' .. k, 'F' .. o .. lock) end
    end
    redis.call('DEL', lock, hold)
    mint()
  end
  local handed = false
  if holder or redis.call('EXISTS', lock) == 0 then handed = hand_on() end
  return { handed, 'forced', holder and 1 or 0, tonumber(redis.call('GET', token) or 0), former }
end }
