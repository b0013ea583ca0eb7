-- Takes the lock from whoever holds it, raises the token, and hands the lock on.
--
-- KEYS  all four
-- ARGV  x
-- Reply {handed, 5, 1 if anything was released, token now, false | {owner id, coordinator} of our former hold}

local FORCED = 5

local function force_release()
  load_queue()
  local holder = call('GET', lock)
  local former = false
  if holder then
    local found = record_of(holder)
    if found then
      local _, _, coordinator = read_details(found, DETAILS)
      former = { holder, coordinator }
      if coordinator ~= me then redis.pcall('PUBLISH', 'lh:wake:' .. coordinator, 'F' .. holder .. lock) end
    end
    call('DEL', lock)
    mint('')
  end
  local handed = hand_on()
  return { handed, FORCED, holder and 1 or 0, token_of(call('GET', record)), former }
end
