-- Takes the lock, or joins its queue.
--
-- KEYS  all four
-- ARGV  a to take it or get its holder, w to wait for it, A and W the same if it was sent before: owner id, TTL and
--       lock-delay together (ms), details of the hold to be
-- Reply token | {handed, 0, token} | {handed, 12, token, permits} if it left their number to the store
--       | {handed, 1, place, ms until the first hold or lock-delay expires (below 0: never)}
--       | {handed, 2, false | its holder (see view_holders)}
--       | {false, 7, the semaphore's limit in force, its revision}: it is another one of this revision, or less than the permits
--       that are needed
--       | RESUMED | FORCED_OUT if it was sent before, and another stream has resumed it since, or an operator removed it
--       | EXPIRED if it was granted before, and no more than its lock-delay is left
-- If it is sent again, its grant or place stands, and never ends sooner, because this one may be late, and the hold may have
-- been renewed for longer since.

local QUEUED, BUSY = 1, 2

local function acquire(owner, lasts, details)
  look()
  local is_again = letter == 'A' or letter == 'W'
  local void = is_again and void_of(owner, true)
  if void then return void end
  -- The reply was lost, or another operation granted the waiter meanwhile.
  if many then
    local found = many.get(owner)
    if found then
      if has_run_out(owner, found) then return EXPIRED end
      many.extend(owner, found, math.max(tonumber(lasts), many.left(owner)))
      return granted(false, token_of(found), permits_left(found))
    end
  elseif holder == owner then
    local found = record_of(owner)
    if found and has_run_out(owner, found) then return EXPIRED end
    call('PEXPIRE', lock, math.max(tonumber(lasts), call('PTTL', lock)))
    -- Without a record: it was deleted.
    if not found then
      refuse_if_full()
      return mint(owner .. details)
    end
    call('SET', record, with(found, 'c', me), 'KEEPTTL')
    return token_of(found)
  end

  refuse_if_full()
  local waits = letter == 'w' or letter == 'W'
  local waiter = load_queue(waits and owner)
  local _, mode, _, asked, of, needed = read_request(details, me)
  local limit, revision
  if mode == 'p' then
    limit, revision = settle_limit(needed, asked, of)
    if not limit then return revision end
  end
  if not attached and fits(mode, needed) then
    return granted(false, grant(owner, lasts, details, me, mode, limit, revision))
  end

  local place, has_joined
  if waits then place, has_joined = join(owner, waiter, lasts, details, limit, revision) end
  local handed, is_waited_for = hand_on()
  local token, permits
  handed, token, permits = take(handed, owner)
  if token then return granted(handed, token, permits) end
  if waits then
    local position = count(place)
    if has_joined and changes then note('queued', view_waiter(me, now, details, place), position) end
    return { handed, QUEUED, position, many and many.first_left() or call('PTTL', lock) }
  end
  if is_waited_for or not fits(mode, needed) then
    return { handed, BUSY, view_holders(1)[1] or false }
  end
  -- It may wait at a coordinator that counts as dead.
  leave(owner)
  return granted(handed, grant(owner, lasts, details, me, mode, limit, revision))
end
