-- Ends whatever an owner id stands for, a hold or a place in the queue, and hands the lock on.
--
-- KEYS  all four
-- ARGV  r, or u if the end is unclean, when the name stays closed for the hold's lock-delay: owner id
-- Reply RELEASED | NOTHING | CANCELLED
--       | {handed, 3, ms for which the name is closed now (0: it is not)} where it held
-- Deletes first: after that Redis lets a script go on even when it is out of memory.

local ENDED = 3

local function release(owner, unclean, holder)
  load_queue()
  holder = holder or redis.pcall('GET', lock)
  if holder ~= owner then
    local waited = leave(owner)
    -- An error: it is no lock.
    if type(holder) == 'table' then return holder end
    return waited and CANCELLED or NOTHING
  end
  local found = unclean and record_of(owner)
  call('DEL', lock)
  if found then
    local state, delay = read_details(found, DETAILS)
    if state ~= 'h' and delay > 0 then
      call('SET', lock, CLOSED, 'PX', delay)
      return { false, ENDED, delay }
    end
  end
  local handed = hand_on()
  return handed and { handed, ENDED, 0 } or RELEASED
end
