-- Queue. The waiters of a coordinator are neighbours in it, in the order of their places, so that a script finds its first
-- one in O(log n), and need not walk past those of a dead one.
--
-- Record of a waiter: place, when it joined (µs), 8 bytes each; its coordinator and the TTL of its grant (ms, text), each
-- after its length in 2 bytes; the details of its hold (see hold.lua).
--
-- The first place is the time (µs), so that none comes back unless the clock steps back: operators name waiters by it.
--
-- The state is {next place, when the keys' expiry was last extended (µs), coordinator → {when it last showed that its
-- waiters live (µs), the first place that counts, whether there may be waiters below that, true if one of them was removed by
-- force, or because of a lowered limit, since its last refresh}, the limit in force of the waiters for permits, if there was one since the queue was empty, its
-- revision}. The waiters of a coordinator that is silent for too long lose their places and count as gone. Scripts remove them
-- some at a time, because thousands would block Redis.

local DEAD_AFTER = 2000000     -- µs without a sign of life after which a coordinator's waiters are skipped
local PLACES_KEPT = 10000000   -- µs without one after which they lose their places
local KEPT_FOR = '11000'       -- ms for which the keys are kept, renewed at most every so often (µs):
local KEEP_AFTER = 1000000     -- together no less than places are kept
local STATE = ''               -- the field that has it: no owner id is empty
local AT_ONCE = 200            -- waiters that an operation removes, at most
local GRANTED = 12             -- status of a reply, see acquire.lua
local GRANTS_AT_ONCE = 100     -- waiters that an operation grants the lock to, at most

local next_place, kept_at, attached, queue_limit, queue_revision -- the state, while there is a queue
local is_loaded -- whether the operation at hand has looked at it

-- Saves the state, and another field if given.
local function save_state(...)
  call('HSET', waiters, STATE, cmsgpack.pack({ next_place, kept_at, attached, queue_limit, queue_revision }), ...)
end

-- Returns the member that a coordinator's waiters from a place on sort after, and its earlier waiters before.
local function from(coordinator, place) return coordinator .. '\0' .. pack('>I8', place) end
local function beyond(coordinator) return '(' .. coordinator .. '\1' end

-- Reads a waiter: place, when it joined, coordinator, TTL, details. `found` is its field if already read, false if it has none.
local function read_waiter(owner, found)
  if found == nil then found = call('HGET', waiters, owner) end
  if not found then return nil end
  local place, since, coordinator, lasts, rest = unpack_bytes('>I8I8I2c0I2c0', found)
  return place, since, coordinator, lasts, found:sub(rest)
end

-- Returns the view of a waiter: {coordinator, since (µs), session, extras, client name, place}.
local function view_waiter(coordinator, since, details, place)
  local _, _, _, session, extras, client = read_details(details, 1)
  return { coordinator, since, session, extras, client, place }
end

-- Returns whether a place still counts.
local function counts(place, coordinator)
  local sign = attached and attached[coordinator]
  return sign and place >= sign[2]
end

-- Extends the keys' expiry to the time for which places are kept.
local function keep_keys()
  -- In this order, so that the queue never expires before its records.
  call('PEXPIRE', waiters, KEPT_FOR)
  call('PEXPIRE', queue, KEPT_FOR)
end

local function forget_queue_if_empty()
  if call('EXISTS', queue) == 0 then
    call('DEL', waiters)
    attached, queue_limit, queue_revision = nil, nil, nil
  end
end

-- Returns the number of waiters up to a place; of all without one.
local function count(place)
  local sum = 0
  for coordinator, sign in pairs(attached or {}) do
    local to = place and '(' .. from(coordinator, place + 1) or beyond(coordinator)
    sum = sum + call('ZLEXCOUNT', queue, '[' .. from(coordinator, sign[2]), to)
  end
  return sum
end

-- Removes some of the waiters that have lost their places.
local function purge(coordinator, sign)
  local gone = call('ZRANGEBYLEX', queue, '[' .. from(coordinator, 0), '(' .. from(coordinator, sign[2]),
    'LIMIT', '0', AT_ONCE)
  sign[3] = #gone == AT_ONCE
  if #gone == 0 then return false end
  call('ZREM', queue, unpack(gone))
  for i = 1, #gone do gone[i] = gone[i]:sub(-16) end
  call('HDEL', waiters, unpack(gone))
  return true
end

-- Fails while the slot is being moved to another node of a cluster. Called before steps that must not be done in part,
-- because a deleted key can't be made again here then, nor can two be read there unless both exist. The operation is tried
-- again.
local function check_settled()
  if IS_CLUSTER then
    local ours = record:match('^lh:{.-}')
    call('EXISTS', ours .. ':no', ours .. ':none')
  end
end

-- Reads the queue, and drops the places of coordinators that have been silent for too long. Saves nothing before it has
-- removed something, so that Redis does not refuse it when out of memory. Drops nothing while the slot is being moved to
-- another node: coordinators may be silent only because their keys are on two nodes, and an operation that empties the
-- queue there fails after it has done so. Returns the field of a waiter, false without one, nil if it was not asked for or may
-- have been removed.
local function load_queue(owner)
  attached, queue_limit, queue_revision, is_loaded = nil, nil, nil, true
  local state, found
  if owner then
    local both = call('HMGET', waiters, STATE, owner)
    state, found = both[1], both[2]
  else
    state = call('HGET', waiters, STATE)
  end
  if not state then return found end
  next_place, kept_at, attached, queue_limit, queue_revision = unpack(cmsgpack.unpack(state))
  -- Coordinators that know no revisions save none.
  queue_revision = queue_limit and (queue_revision or 0)
  local removed, are_more, is_settled, has_stepped = 0, false, nil, kept_at > now
  for coordinator, sign in pairs(attached) do
    -- Redis's clock has stepped back. A refresh in the future would make its coordinator live until the clock reaches it, so it
    -- counts as one of now.
    if sign[1] > now then sign[1], has_stepped = now, true end
    local is_over = sign[1] > 0 and sign[1] + PLACES_KEPT <= now
    if is_over or sign[3] then
      if is_settled == nil then is_settled = pcall(check_settled) end
      if not is_settled then return found end
    end
    if is_over then
      sign[1], sign[2], sign[3], sign[4] = 0, next_place, true, nil
    end
    if sign[3] and removed == 0 then removed = purge(coordinator, sign) and 1 or 0 end
    if sign[1] == 0 and not sign[3] then attached[coordinator] = nil end
    are_more = are_more or sign[3]
  end
  if are_more and count() == 0 then
    -- No waiter is left whose place counts: they count as gone, and so does the queue's limit.
    call('UNLINK', queue, waiters)
    attached, queue_limit, queue_revision = nil, nil, nil
    return nil
  end
  if removed > 0 or has_stepped then
    if has_stepped then
      -- The new state is no longer than the old one.
      allow_when_full()
      kept_at = now
    end
    save_state()
    if has_stepped then keep_keys() end
    if removed > 0 then forget_queue_if_empty() end
  end
  if removed == 0 then return found end
end

-- Notes that the caller's waiters live, and saves the state, and another field if given.
local function attach(...)
  local sign = attached[me]
  if sign then sign[1] = now else attached[me] = { now, next_place, false } end
  local keep = math.abs(now - kept_at) >= KEEP_AFTER
  if keep then kept_at = now end
  save_state(...)
  if keep then keep_keys() end
end

-- Returns the semaphore's limit in force and its revision, nil unless there are holders of permits, or waiters for them.
local function limit_in_use()
  if many and many.mode() == 'p' then return many.limit() end
  return queue_limit, queue_revision
end

-- Adds a waiter at the end, or leaves it in its place. Returns the place, and whether it joined. If it waits for permits, it
-- comes with the limit in force and its revision. `found` is its field as load_queue returned it.
local function join(owner, found, lasts, details, limit, revision)
  if not attached then
    if call('EXISTS', queue, waiters) > 0 then call('DEL', queue, waiters) end
    next_place, kept_at, attached, found = now, 0, {}, false
  end
  if limit and not queue_limit then queue_limit, queue_revision = limit, revision end
  local place, _, coordinator = read_waiter(owner, found)
  local member = place and from(coordinator, place) .. owner
  if place and counts(place, coordinator) and call('ZSCORE', queue, member) then
    attach()
    return place, false
  end
  -- A place that no longer counts, and has not been removed yet.
  if place then call('ZREM', queue, member) end
  place = next_place
  call('ZADD', queue, '0', from(me, place) .. owner)
  if not attached[me] then attached[me] = { now, place, false } end
  next_place = place + 1
  attach(owner, pack('>I8I8I2c0I2c0', place, now, #me, me, #lasts, lasts) .. details)
  return place, true
end

-- Removes a waiter that is in the queue, perhaps the last.
local function remove(owner, member, may_be_last)
  call('ZREM', queue, member)
  call('HDEL', waiters, owner)
  if may_be_last then forget_queue_if_empty() end
end

-- Removes a waiter. Returns false if it was not in the queue, or coordinator, when it joined, details, place.
local function leave(owner)
  if not attached then return false end
  local place, since, coordinator, _, details = read_waiter(owner)
  if not place or not counts(place, coordinator) then return false end
  check_settled()
  remove(owner, from(coordinator, place) .. owner, true)
  return coordinator, since, details, place
end

-- Wakes another coordinator: its waiter was granted the lock, or a hold or place of its own has changed. The message is only
-- a hint: if the user may not publish, a refresh finds the grant. From version 7 on, a cluster has channels of a slot, which
-- only the slot's node carries. A coordinator subscribes there if it has waiters or has renewed a hold. A message without a
-- subscriber there goes to all nodes: after a slot has moved, a coordinator does not subscribe at its new node before it
-- knows of the move.
local function tell_owner(coordinator, message)
  if IS_CLUSTER and (redis.REDIS_VERSION_NUM or 0) >= 0x070000 then
    local heard_by = redis.pcall('SPUBLISH', 'lh:' .. queue:match('{.-}') .. ':wake:' .. coordinator, message)
    if type(heard_by) == 'number' and heard_by > 0 then return end
  end
  redis.pcall('PUBLISH', 'lh:wake:' .. coordinator, message)
end

-- Grants the lock to the next waiters whose coordinators live, one after the other, as long as the next one fits. Waiters of
-- a dead one are skipped but keep their places. A waiter that needs more permits than the limit in force leaves the queue when it
-- is the next, so that it blocks nobody: its coordinator's next refresh says so, the coordinator asks again, and is refused.
-- Returns what common.lua calls handed, and, unless a hold is exclusive, whether there is a next waiter.
local function hand_on()
  if not attached or (holder and not many) then return false, false end
  check_settled()
  -- The first two waiters of each coordinator, which suffice to grant one; `at` is the next one, from the second on.
  local lines = {}
  for coordinator, sign in pairs(attached) do
    if sign[1] + DEAD_AFTER > now then
      lines[coordinator] = call('ZRANGEBYLEX', queue, '[' .. from(coordinator, sign[2]), beyond(coordinator), 'LIMIT',
        '0', '2')
    end
  end

  local handed, minted, done = false, nil, 0
  while true do
    local coordinator, place = nil, math.huge
    for candidate, line in pairs(lines) do
      local member = line[line.at or 1]
      local of = member and unpack_bytes('>I8', member, #member - 23)
      if of and of < place then coordinator, place = candidate, of end
    end
    if not coordinator then return handed, false end

    local line = lines[coordinator]
    local at = line.at or 1
    local member, is_last = line[at], not line[at + 1]
    local owner = member:sub(-16)
    local _, since, _, lasts, details = read_waiter(owner)
    local session, mode, limit, revision, needed, in_force, fits_never
    if lasts then
      session, mode, _, limit, revision, needed = read_request(details, coordinator)
      in_force = limit_in_use()
      fits_never = mode == 'p' and in_force and needed > in_force
      if not fits_never and not fits(mode, needed) then return handed, true end
      if done == GRANTS_AT_ONCE then
        handed = handed or {}
        handed[#handed + 1] = 1
        return handed, true
      end
      done = done + 1
    end
    if fits_never then
      remove(owner, member, is_last)
      if changes then note('withdrawn', view_waiter(coordinator, since, details, place)) end
      if attached then
        attached[coordinator][4] = true
        save_state()
      end
    elseif lasts then
      if mode == 'p' then
        local revision_in_force
        in_force, revision_in_force = limit_in_use()
        if in_force then limit, revision = in_force, revision_in_force end
      end
      remove(owner, member, is_last)
      local permits
      minted, permits = grant(owner, lasts, details, coordinator, mode, limit, revision, true, minted)
      if coordinator ~= me then
        local letter, number = session == 0 and 'U' or 'G', ''
        if permits > 0 then letter, number = letter:lower(), string.format('%07.0f', permits) end
        tell_owner(coordinator, letter .. owner .. string.format('%020.0f', minted) .. number .. lock)
      end
      local of_session = session > 0 and 1 or 0
      if handed then
        local size = #handed
        handed[size + 1], handed[size + 2], handed[size + 3], handed[size + 4], handed[size + 5] =
          owner, minted, coordinator, of_session, permits
      else
        handed = { owner, minted, coordinator, of_session, permits }
      end
      if mode == 'x' then return handed, false end
    else
      -- Another program changed the keys.
      remove(owner, member, is_last)
    end

    line.at = at + 1
    if is_last and at > 1 then
      lines[coordinator] = call('ZRANGEBYLEX', queue, '(' .. member, beyond(coordinator), 'LIMIT', '0', GRANTS_AT_ONCE)
    end
  end
end

-- Takes the caller's own grant out of the grants, because the answer itself has it. Returns the rest, and the token and permits
-- if there is one.
local function take(handed, owner)
  for i = 1, handed and #handed or 0, 5 do
    if handed[i] == owner then
      local token, permits = handed[i + 1], handed[i + 4]
      for _ = 1, 5 do table.remove(handed, i) end
      return handed[1] and handed or false, token, permits
    end
  end
  return handed, nil
end

-- Returns a reply that is a number unless a waiter was granted.
local function answer(handed, number) return handed and { handed, 0, number } or number end

-- Returns the reply to an acquire that was granted: with the number of permits unless that is 0.
local function granted(handed, token, permits)
  if permits > 0 then return { handed, GRANTED, token, permits } end
  return answer(handed, token)
end
