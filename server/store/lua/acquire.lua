-- Takes the lock, or joins its queue.
--
-- KEYS  all four
-- ARGV  a to take it or get its holder, w to wait for it, A and W the same if it was sent before: owner id, TTL and
--       lock-delay together (ms), details of the hold to be
-- Reply token | {handed, 0, token}
--       | {handed, 1, place, ms until the first hold or lock-delay expires (below 0: never)}
--       | {handed, 2, false | its holder (see view_holders)}
--       | {false, 7, the semaphore's limit in force, its revision}: it is another one of this revision, or less than the permits
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
      return token_of(found)
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
  load_queue()
  local _, mode, permits, asked, of = read_request(details, me)
  local limit, revision
  local here = details
  if mode == 'p' then
    limit, revision = settle_limit(permits, asked, of)
    if not limit then return revision end
    if limit ~= asked or revision ~= of then here = with_limit(details, me, limit, revision) end
  end
  if not attached and fits(mode, permits) then return grant(owner, lasts, here, me, mode, limit, revision) end

  local waits = letter == 'w' or letter == 'W'
  local place, has_joined
  if waits then place, has_joined = join(owner, lasts, details, limit, revision) end
  local handed, is_waited_for = hand_on()
  local token
  handed, token = take(handed, owner)
  if token then return answer(handed, token) end
  if waits then
    local position = count(place)
    if has_joined and changes then note('queued', view_waiter(me, now, details, place), position) end
    return { handed, QUEUED, position, many and many.first_left() or call('PTTL', lock) }
  end
  if is_waited_for or not fits(mode, permits) then
    return { handed, BUSY, view_holders(1)[1] or false }
  end
  -- It may wait at a coordinator that counts as dead.
  leave(owner)
  return answer(handed, grant(owner, lasts, here, me, mode, limit, revision))
end
