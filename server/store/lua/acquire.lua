-- Takes the lock, or joins its queue.
--
-- KEYS  all four
-- ARGV  a to take it or be told who has it, w to wait for it: owner id, TTL and lock-delay together (ms), details of
--       the hold to be
-- Reply token | {handed, 0, token}
--       | {handed, 1, place, ms until the first that is in the way expires (below 0: never)}
--       | {handed, 2, false | who holds it (see view_holders)}
--       | {false, 7, the semaphore's limit in force, which is another one}
-- The same owner id again: its grant or place stands.

local QUEUED, BUSY, OTHER_LIMIT = 1, 2, 7

local function acquire(owner, lasts, details)
  look()
  -- The reply was lost, or the waiter was granted meanwhile, from elsewhere perhaps.
  if many then
    local found = many.get(owner)
    if found then
      many.extend(owner, found, lasts)
      return token_of(found)
    end
  elseif holder == owner then
    local found = record_of(owner)
    call('PEXPIRE', lock, lasts)
    -- Without one: somebody deleted it.
    if not found then return mint(owner .. details) end
    call('SET', record, with(found, 'c', me), 'KEEPTTL')
    return token_of(found)
  end

  load_queue()
  local _, mode, permits, limit = read_request(details, me)
  if mode == 'p' then
    local in_force = many and many.limit() or queue_limit
    if in_force and in_force ~= limit then return { false, OTHER_LIMIT, in_force } end
  end
  if not attached and fits(mode, permits, limit) then return grant(owner, lasts, details, me, mode, limit) end

  local waits = letter == 'w'
  local place, has_joined
  if waits then place, has_joined = join(owner, lasts, details, mode == 'p' and limit) end
  local handed, is_waited_for = hand_on()
  for i = 1, handed and #handed or 0, 4 do
    if handed[i] == owner then
      local token = handed[i + 1]
      for _ = 1, 4 do table.remove(handed, i) end
      return answer(handed[1] and handed, token)
    end
  end
  if waits then
    local position = count(place)
    if has_joined and changes then note('queued', view_waiter(me, now, details), position) end
    return { handed, QUEUED, position, many and many.first_left() or call('PTTL', lock) }
  end
  if is_waited_for or not fits(mode, permits, limit) then
    return { handed, BUSY, view_holders(1)[1] or false }
  end
  -- It may wait at a coordinator that is taken for dead.
  leave(owner)
  return answer(handed, grant(owner, lasts, details, me, mode, limit))
end
