-- Ends the hold, or the place in the queue, of an owner id, and hands the lock on.
--
-- KEYS  all four
-- ARGV  r, or u for an unclean end, after which the hold stays closed for its lock-delay: owner id
-- Reply RELEASED | NOTHING | CANCELLED | {handed, 0, RELEASED | CANCELLED}
--       | {false, 3, ms for which the name is closed now} if it held
-- Begins by removing a hold or a waiter: after that Redis lets a script go on even when it is out of memory.

local CLOSING = 3

-- Removes a waiter, and reports it as 'withdrawn', or as another change if it did not ask for that. Returns its coordinator,
-- or false.
local function withdraw(owner, as)
  local coordinator, since, details, place = leave(owner)
  if coordinator and changes then note(as or 'withdrawn', view_waiter(coordinator, since, details, place)) end
  if as and coordinator and attached then
    -- Its coordinator may not hear of this before its next refresh.
    attached[coordinator][4] = true
    save_state()
  end
  return coordinator
end

local function release(owner, known)
  load_queue()
  if attached then check_settled() end
  if known and known ~= MANY then
    holder = known
  else
    local is_lock, problem = pcall(look, known)
    if not is_lock then
      withdraw(owner)
      error(problem, 0)
    end
  end
  local is_unclean = letter == 'u'
  local found = many and many.get(owner) or is_unclean and holder == owner and record_of(owner)
  if not found and changes and holder == owner then
    -- Only for the report: a clean release does not fail because of it.
    local is_read, record_now = pcall(record_of, owner)
    found = is_read and record_now
  end
  if not found and holder ~= owner then
    if not withdraw(owner) then
      -- The record of an expired hold.
      strip(owner)
      return NOTHING
    end
    return answer(hand_on(), CANCELLED)
  end
  local delay = 0
  if is_unclean and found then
    local state, of = read_details(found, DETAILS)
    if is_confirmed(state) then delay = of end
  end
  local was_alone = not many
  if many then
    many.remove(owner, found, delay)
  else
    holder = false
    if delay > 0 then
      call('DEL', lock)
      call('SET', lock, CLOSED, 'PX', delay)
      strip(owner)
    end
  end
  note('released', changes and found and view_hold(found, 0), delay)
  if delay > 0 then return { false, CLOSING, delay } end
  -- A grant overwrites the lock, after it has removed the waiter.
  local is_done, handed = pcall(hand_on)
  if was_alone and not holder then call('DEL', lock) end
  if not is_done then error(handed, 0) end
  -- A granted waiter has a record of its own.
  if was_alone and not holder then strip(owner) end
  return answer(handed, RELEASED)
end
