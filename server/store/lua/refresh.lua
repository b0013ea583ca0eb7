-- Notes that the caller's waiters live, hands a free lock on, and finds grants that the caller may have missed.
--
-- KEYS  all four
-- ARGV  f: the caller's oldest waiter, or empty
-- Reply {handed, 4, {{owner id, token, 1 if a session's, its permits if their number was left to the store or 0}, …} of the
--       caller's hold if it holds it alone, or of its first 100 fresh ones, oldest first, ms until the first hold or lock-delay
--       expires (below 0: never, or there is none), 1 if the oldest waiter waits or holds, and none was removed by force, or
--       because of a lowered limit, since the last refresh}

local REFRESHED = 4
local CURRENT_AT_ONCE = 100

local function waits(owner)
  if not attached then return false end
  local place, _, coordinator = read_waiter(owner)
  return place and counts(place, coordinator)
end

local function refresh(oldest)
  load_queue()
  local sign = attached and attached[me]
  local has_lost = sign and sign[4]
  -- A refresh that replaces an earlier one takes no memory; without it the queue would lose its waiters.
  if attached and (attached[me] or not full) then
    allow_when_full()
    if sign then sign[4] = nil end
    attach()
  end
  look()
  local handed = hand_on()
  local current = {}
  local alone = not many and holder and record_of(holder)
  for _, found in ipairs(many and many.fresh(CURRENT_AT_ONCE) or { alone or nil }) do
    local _, _, coordinator, session = read_details(found, DETAILS)
    if coordinator == me then
      current[#current + 1] = { found:sub(17, 32), token_of(found), session ~= '' and 1 or 0, permits_left(found) }
    end
  end
  local is_known = oldest == '' or (alone and holder == oldest) or (many and many.get(oldest)) or waits(oldest)
  return { handed, REFRESHED, current, many and many.first_left() or call('PTTL', lock), is_known and not has_lost and 1 or 0 }
end
