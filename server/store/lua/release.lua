-- Ends whatever an owner id stands for, a hold or a place in the queue, and hands the lock on.
--
-- KEYS  all five
-- ARGV  r, or u if the end is unclean, when the name stays closed for the hold's lock-delay: owner id
-- Reply RELEASED | NOTHING | CANCELLED
--       | {handed, 3, 1 if it held, 1 if it waited, ms for which the name is closed now (0: it is not)}
-- Deletes first: after that Redis lets a script go on even when it is out of memory.

local ENDED = 3

local function release(owner, unclean)
  load_queue()
  local waited = leave(owner)
  if call('GET', lock) ~= owner then return waited == 1 and CANCELLED or NOTHING end
  local found = unclean and record_of(owner)
  call('DEL', lock)
  if found then
    local state, delay = read_details(found, DETAILS)
    if state ~= 'h' and delay > 0 then
      call('SET', lock, CLOSED, 'PX', delay)
      return { false, ENDED, 1, waited, delay }
    end
  end
  local handed = hand_on()
  if not handed and waited == 0 then return RELEASED end
  return { handed, ENDED, 1, waited, 0 }
end
