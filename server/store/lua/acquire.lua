-- Takes the lock, or joins its queue.
--
-- KEYS  all four
-- ARGV  a to take it or be told who has it, w to wait for it: owner id, TTL and lock-delay together (ms), details of
--       the hold to be
-- Reply token | {handed, 1, place, ms until the key in the way expires (below 0: never)}
--       | {handed, 2, holder (see view_holder)}
-- The same owner id again: its grant or place stands.

local QUEUED, BUSY = 1, 2

-- The reply was lost, or the waiter was granted meanwhile, from elsewhere perhaps.
local function take_again(owner, lasts, details)
  local found = record_of(owner)
  call('PEXPIRE', lock, lasts)
  -- Without one: somebody deleted it.
  if not found then return mint(owner .. details) end
  confirm(found)
  return token_of(found)
end

local function acquire(owner, lasts, details, waits)
  local holder = call('GET', lock)
  if holder == owner then return take_again(owner, lasts, details) end
  load_queue()
  if not holder and not attached then return grant(owner, lasts, details, me) end

  local handed = false
  if waits then
    local place = join(owner, lasts, details)
    if not holder then
      handed = hand_on()
      if handed and handed[1] == owner then return handed[2] end
    end
    return { handed, QUEUED, count(place), call('PTTL', lock) }
  end

  if not holder then
    handed = hand_on()
    if not handed then
      leave(owner)
      return grant(owner, lasts, details, me)
    end
    holder = handed[1]
  end
  return { handed, BUSY, view_holder(holder) }
end
