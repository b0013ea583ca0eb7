-- Tells that the caller's waiters live, hands a free lock on, and looks for a grant that the caller may have missed.
--
-- KEYS  all four
-- ARGV  f: the caller's oldest waiter, or empty
-- Reply {handed, 4, false | {owner id, token, 1 if a session's} of the hold if it is the caller's,
--       ms until the key expires (below 0: never, or no key), 1 if the oldest waiter waits or holds}

local REFRESHED = 4

local function refresh(oldest)
  load_queue()
  if attached then attach() end
  local holder = call('GET', lock)
  local handed = false
  if not holder then
    handed = hand_on()
    holder = handed and handed[1]
  end
  local current = false
  local found = holder and record_of(holder)
  if found then
    local _, _, coordinator, session = read_details(found, DETAILS)
    if coordinator == me then current = { holder, token_of(found), session ~= '' and 1 or 0 } end
  end
  local known = oldest == '' or (found and holder == oldest) or waits(oldest)
  return { handed, REFRESHED, current, call('PTTL', lock), known and 1 or 0 }
end
