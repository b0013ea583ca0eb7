-- Moves a hold, or a place in the queue, to another stream: its owner id changes, so that nothing that still uses the old
-- stream can affect it.
--
-- KEYS  all four
-- ARGV  m: its next owner id and its possible former ones, TTL (ms), how many times a hold is held (4 bytes) with the longest
--       time from its grant for which it may be held (ms, 0: any; 8 bytes), session id (after its length: none for a unary
--       call) and client name
-- Reply {handed, 9, token, extras, lock-delay (ms), granted at (µs), sessions} of a hold, or of a waiter that was just
--       granted one
--       | {handed, 10, owner id, sessions, extras, client name, TTL, lock-delay (ms), value, place, ms until the first that
--       blocks it expires (below 0: never)}
--       | RESUMED | FORCED_OUT | DELETED | TAKEN | EXPIRED (no more than the lock-delay was left,
--       or it was held for as long as it may)
-- If it is sent again, it has no further effect.

local HOLD_RESUMED, PLACE_RESUMED = 9, 10

-- Wakes the coordinator that had it.
local function tell_former(coordinator, owner)
  -- Only a hint: if it is not permitted, its next renewal or refresh finds out.
  if coordinator ~= me then tell_owner(coordinator, 'M' .. owner .. lock) end
end

-- Returns the new details, from a place in a text. If Redis is out of memory, a longer client name is left out.
local function taken_over(text, at, session, client, bound)
  local _, delay, _, _, extras, former, value = read_details(text, at)
  extras = with_bound(extras, bound)
  if full and #client > #former then client = former end
  return pack('>c1I8I2c0Bc0Bc0I2c0', 'c', delay, #me, me, #session, session, #extras, extras, #client, client)
    .. text:sub(value)
end

local function resume_hold(owner, found, next, ttl, times, bound, session, client)
  if has_run_out(owner, found) then return EXPIRED end
  local _, delay, coordinator, sessions, extras = read_details(found, DETAILS)
  sessions, extras = resumed_by(session, sessions, full), with_bound(extras, bound)
  -- Otherwise one who resumes it again and again holds it for ever. What is left is for the coordinator that had it to end: the
  -- caller, if it repeats a resume.
  local token, granted = unpack_bytes('>I8I8', found)
  if owner ~= next and is_bound_over(found, extras) then return EXPIRED end
  -- First, and not only for the token: after such a write, Redis lets a call go on even if it is out of memory.
  remember()
  local resumed = found
  -- A repeated resume finds the hold as it left it, or the grant of the waiter that it moved.
  if owner ~= next and (times > 1 or extras ~= '') then resumed = with_extras(found, nil, times) end
  resumed = resumed:sub(1, 16) .. next .. taken_over(resumed, DETAILS, sessions, client, bound)
  if many then
    many.replace(owner, found, next, resumed, ttl + delay)
  else
    call('SET', lock, next, 'PX', ttl + delay)
    call('SET', record, resumed, 'KEEPTTL')
    holder = next
  end
  if changes then note('resumed', view_hold(resumed, ttl + delay)) end
  tell_former(coordinator, owner)
  return { false, HOLD_RESUMED, token, extras, delay, granted, sessions }
end

local function resume_place(owner, next, ttl, bound, session, client)
  allow_when_full()
  local place, since, coordinator, _, details = read_waiter(owner)
  local sign = attached[me]
  if not sign then
    attached[me] = { now, place, false }
  elseif place < sign[2] then
    -- From here on places below its first one count again, so no dropped place may be left.
    while sign[3] do purge(me, sign) end
    sign[2] = place
  end
  local _, delay, _, sessions, extras, _, value_at = read_details(details, 1)
  sessions, extras = resumed_by(session, sessions, full), with_bound(extras, bound)
  local value, lasts = details:sub(value_at), string.format('%.0f', ttl + delay)
  -- Joins before it leaves: a queue that becomes empty in between would come back without an expiry.
  local was, is = from(coordinator, place) .. owner, from(me, place) .. next
  call('ZADD', queue, '0', is)
  attach(next, pack('>I8I8I2c0I2c0', place, since, #me, me, #lasts, lasts) .. taken_over(details, 1, sessions, client, bound))
  if was ~= is then call('ZREM', queue, was) end
  if owner ~= next then call('HDEL', waiters, owner) end
  tell_former(coordinator, owner)

  local handed, token = take(hand_on(), next)
  if token then
    -- The limit in force may be another one than that of the request.
    if many then _, _, _, _, extras = read_details(many.get(next), DETAILS) end
    return { handed, HOLD_RESUMED, token, extras, delay, now, sessions }
  end
  -- It is left out, because the limit in force has fewer permits.
  if not waits(next) then return { handed, 0, holder and TAKEN or DELETED } end
  return { handed, PLACE_RESUMED, next, sessions, extras, client, tonumber(ttl), delay, value, count(place),
    many and many.first_left() or call('PTTL', lock) }
end

local function resume(owners, ttl, stream)
  local times, bound, session, client_at = unpack_bytes('>I4I8Bc0', stream)
  local client, next, from = stream:sub(client_at), owners:sub(1, 16), {}
  for at = 17, #owners, 16 do from[#from + 1] = owners:sub(at, at + 15) end
  load_queue()
  look()
  -- The key of replaced ids may have moved to another node.
  check_settled()

  local function taken_hold(owner, found)
    local reply = resume_hold(owner, found, next, ttl, times, bound, session, client)
    if reply ~= EXPIRED and owner ~= next then remember_void(owner) end
    return reply
  end
  local function taken_place(owner)
    if owner ~= next then remember_void(owner) end
    return resume_place(owner, next, ttl, bound, session, client)
  end

  -- A hold or place under the next id already was resumed by this stream, unless another client made the same id.
  local found = find(next)
  if found then
    local _, _, coordinator, of = read_details(found, DETAILS)
    if coordinator == me and of:sub(1, 16) == session then return taken_hold(next, found) end
  elseif waits(next) then
    local _, _, coordinator = read_waiter(next)
    if coordinator == me then return taken_place(next) end
  elseif not void_of(next) then
    for _, owner in ipairs(from) do
      found = find(owner)
      if found then return taken_hold(owner, found) end
    end
    for _, owner in ipairs(from) do
      if waits(owner) then return taken_place(owner) end
    end
  end

  table.insert(from, 1, next)
  for _, owner in ipairs(from) do
    local void = void_of(owner, true)
    if void then return void end
  end
  return holder and TAKEN or DELETED
end
