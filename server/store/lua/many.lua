-- Holds that share a name: shared ones, or permits of a semaphore. A call makes the functions for them when it meets the
-- first such name.
--
-- These keys count only while the lock is 'lh:many':
--
--       holders   zset    holders, by the end of their holds (µs): the owner id; or a ghost, 'z' and the owner id: a hold
--                         that ended uncleanly, and stays taken for its lock-delay
--       holds     hash    owner id → the hold (see hold.lua); ghost → its permits in 4 bytes; 'fresh at coordinator:'
--                         and a coordinator id → the owner ids of its fresh holds, oldest first;
--                         '' → {mode, limit, permits taken, by ghosts too, how many ghosts, revision of the limit} as
--                         MessagePack
--
-- Their names are those of the record, 'lh:{…}:token:' and the lock key, with their own names for 'token', so that
-- operations do not need them as keys. The lock expires with the last hold, to the millisecond, and these a second later.

local FRESH = 'fresh at coordinator:' -- longer than an owner id and a ghost
local PORTION = 500                   -- holders that are asked for at once
local KEPT_LONGER = 1000              -- ms

local functions = {}
local holders, holds                  -- their keys
local mode, limit, taken, ghosts, revision -- the state
local fresh                           -- coordinator → its fresh holds, as far as they were looked at
local has_changed, has_moved          -- whether any of those has, or only when something ends

local function text(number) return string.format('%.0f', number) end

local function name_keys()
  local _, tag_ends = record:find('}', 1, true)
  local ours = record:sub(1, tag_ends)
  holders, holds = ours .. ':holders:' .. lock, ours .. ':holds:' .. lock
  fresh, has_changed, has_moved = {}, false, false
end

local function fresh_of(coordinator)
  if not fresh[coordinator] then fresh[coordinator] = call('HGET', holds, FRESH .. coordinator) or '' end
  return fresh[coordinator]
end

-- Notes that a hold is no longer fresh.
local function no_longer_fresh(owner, coordinator)
  local list = fresh_of(coordinator)
  local at = list:find(owner, 1, true)
  while at and at % 16 ~= 1 do at = list:find(owner, at + 1, true) end
  if at then
    fresh[coordinator] = list:sub(1, at - 1) .. list:sub(at + 16)
    has_changed = true
  end
end

-- Subtracts a removed hold or ghost from the counts.
local function discount(member, found)
  has_changed, has_moved = true, true
  if not found then return end
  if #member > 16 then
    taken, ghosts = taken - unpack_bytes('>I4', found), ghosts - 1
    return
  end
  local state, _, coordinator, _, extras = read_details(found, DETAILS)
  taken = taken - unpack_bytes('>I4', extras, 2)
  if state == 'C' or state == 'H' then no_longer_fresh(member, coordinator) end
end

-- Ends it if nothing is left of it.
local function end_if_empty()
  if call('ZCARD', holders) == 0 then functions.drop() end
end

local function purge()
  local has_purged = false
  repeat
    local gone = call('ZRANGEBYSCORE', holders, '-inf', text(now), 'LIMIT', '0', PORTION)
    if #gone > 0 then
      has_purged = true
      local found = call('HMGET', holds, unpack(gone))
      call('ZREM', holders, unpack(gone))
      call('HDEL', holds, unpack(gone))
      for i = 1, #gone do
        discount(gone[i], found[i])
        if changes and found[i] and #gone[i] == 16 then note('expired', view_hold(found[i], 0)) end
      end
    end
  until #gone < PORTION
  if has_purged then end_if_empty() end
end

-- Reads the holders of a lock that is 'lh:many', and drops expired ones. Without these keys the lock counts as foreign.
function functions.load()
  name_keys()
  -- The call did not name them. While their slot moves to another node, either may be there already: asked for both at once,
  -- Redis refuses, and the operation is tried again before it takes anything for gone.
  if IS_CLUSTER then call('EXISTS', holders, holds) end
  local state = call('HGET', holds, '')
  if not state then return end
  mode, limit, taken, ghosts, revision = unpack(cmsgpack.unpack(state))
  -- Coordinators that know no revisions save none.
  revision = revision or 0
  many = functions
  purge()
end

-- Begins with a free lock.
function functions.begin(as, of, at)
  name_keys()
  call('DEL', holders, holds)
  mode, limit, taken, ghosts, revision = as, of, 0, 0, at
  holder, many = MANY, functions
end

-- Ends the last hold.
function functions.drop()
  call('DEL', lock, holders, holds)
  holder, many = false, nil
end

local function save()
  local state, gone = { '', cmsgpack.pack({ mode, limit, taken, ghosts, revision }) }, {}
  for coordinator, list in pairs(fresh) do
    if list == '' then
      gone[#gone + 1] = FRESH .. coordinator
    else
      state[#state + 1], state[#state + 2] = FRESH .. coordinator, list
    end
  end
  if gone[1] then call('HDEL', holds, unpack(gone)) end
  call('HSET', holds, unpack(state))
end

-- Comes after everything else that an operation does.
function functions.settle()
  if has_changed then save() end
  if not has_moved then return end
  local last = call('ZREVRANGE', holders, '0', '0', 'WITHSCORES')
  local ends = math.ceil(last[2] / 1000)
  local keep = text(ends + KEPT_LONGER)
  call('PEXPIREAT', holders, keep)
  call('PEXPIREAT', holds, keep)
  call('SET', lock, MANY, 'PXAT', text(ends))
end

-- Returns whether one more hold in this mode fits, which needs this many permits.
function functions.fits(as, permits)
  return as == mode and (as == 's' or taken + permits <= limit)
end

-- Returns the semaphore's limit in force and its revision, nil in other modes.
function functions.limit()
  if mode == 'p' then return limit, revision end
end

-- Extends the time for which the semaphore's limit is remembered, if it has a revision. The call did not name its key: while
-- the slot is being moved to another node, it may be there, and stays as it is.
function functions.remember_limit()
  if mode == 'p' and revision > 0 then redis.pcall('PEXPIRE', limit_key(), memory) end
end

-- Replaces the semaphore's limit.
function functions.set_limit(of, at) limit, revision, has_changed = of, at, true end

function functions.permits_taken() return taken end

function functions.mode() return mode end

-- Adds a hold that fits.
function functions.add(owner, found, ends)
  local state, _, coordinator, _, extras = read_details(found, DETAILS)
  call('ZADD', holders, text(ends), owner)
  call('HSET', holds, owner, found)
  taken = taken + unpack_bytes('>I4', extras, 2)
  if state == 'C' or state == 'H' then fresh[coordinator] = fresh_of(coordinator) .. owner end
  has_changed, has_moved = true, true
end

-- Returns a hold, false without one.
function functions.get(owner) return call('HGET', holds, owner) end

-- Replaces the record of a hold.
function functions.put(owner, found) call('HSET', holds, owner, found) end

-- Returns the number of permits of a hold.
function functions.permits(found)
  local _, _, _, _, extras = read_details(found, DETAILS)
  return (unpack_bytes('>I4', extras, 2))
end

-- Takes this many permits from a hold. Returns what is left of it.
function functions.reduce(owner, found, by)
  local _, _, _, _, extras = read_details(found, DETAILS)
  local permits = unpack_bytes('>I4', extras, 2)
  local reduced = with(found, nil, nil, extras:sub(1, 1) .. pack('>I4', permits - by) .. extras:sub(6))
  call('HSET', holds, owner, reduced)
  taken, has_changed = taken - by, true
  return reduced
end

-- Makes a hold one that the caller has confirmed and keeps, for `lasts` ms.
function functions.extend(owner, found, lasts)
  local state, _, coordinator = read_details(found, DETAILS)
  if state == 'C' or state == 'H' then no_longer_fresh(owner, coordinator) end
  if state ~= 'c' or coordinator ~= me then call('HSET', holds, owner, with(found, 'c', me)) end
  call('ZADD', holders, text(now + lasts * 1000), owner)
  has_moved = true
end

-- Gives a hold another owner id and record; it lasts for `lasts` ms and is no longer fresh.
function functions.replace(owner, found, next, resumed, lasts)
  local state, _, coordinator = read_details(found, DETAILS)
  if state == 'C' or state == 'H' then no_longer_fresh(owner, coordinator) end
  call('ZREM', holders, owner)
  call('HDEL', holds, owner)
  call('ZADD', holders, text(now + lasts * 1000), next)
  call('HSET', holds, next, resumed)
  has_moved = true
end

-- Returns the remaining time of a hold (ms, not rounded).
function functions.left(owner) return (call('ZSCORE', holders, owner) - now) / 1000 end

-- Returns the shortest remaining time of all (ms, rounded up).
function functions.first_left()
  local first = call('ZRANGE', holders, '0', '0', 'WITHSCORES')
  return math.ceil((first[2] - now) / 1000)
end

-- Ends a hold, which stays taken for `delay` ms.
function functions.remove(owner, found, delay)
  call('ZREM', holders, owner)
  call('HDEL', holds, owner)
  discount(owner, found)
  if delay == 0 then return end_if_empty() end
  local ghost = 'z' .. owner
  local former = call('HGET', holds, ghost)
  if former then discount(ghost, former) end
  local _, _, _, _, extras = read_details(found, DETAILS)
  local permits = unpack_bytes('>I4', extras, 2)
  call('ZADD', holders, text(now + delay * 1000), ghost)
  call('HSET', holds, ghost, pack('>I4', permits))
  taken, ghosts = taken + permits, ghosts + 1
end

-- Returns the number of holds without ghosts.
function functions.count() return call('ZCARD', holders) - ghosts end

-- Returns the first holds to end, at most this many: {owner id, hold, ms left, rounded up}.
function functions.first(most)
  local shown, from = {}, 0
  repeat
    local portion = math.min(most + ghosts, PORTION)
    local page = call('ZRANGE', holders, from, from + portion - 1, 'WITHSCORES')
    for i = 1, #page, 2 do
      local found = #shown < most and #page[i] == 16 and call('HGET', holds, page[i])
      if found then shown[#shown + 1] = { page[i], found, math.ceil((page[i + 1] - now) / 1000) } end
    end
    from = from + portion
  until #shown == most or #page < 2 * portion
  return shown
end

-- Returns all holds, unordered.
function functions.all()
  local found, from = {}, 0
  repeat
    local page = call('ZRANGE', holders, from, from + PORTION - 1)
    for i = 1, #page do
      found[#found + 1] = #page[i] == 16 and call('HGET', holds, page[i]) or nil
    end
    from = from + PORTION
  until #page < PORTION
  return found
end

-- Returns the remaining time of the last ghost (ms, rounded up), 0 without one.
function functions.haunted_for()
  local from = 0
  while ghosts > 0 do
    local page = call('ZREVRANGE', holders, from, from + PORTION - 1, 'WITHSCORES')
    for i = 1, #page, 2 do
      if #page[i] > 16 then return math.ceil((page[i + 1] - now) / 1000) end
    end
    if #page < 2 * PORTION then break end
    from = from + PORTION
  end
  return 0
end

-- Returns the caller's fresh holds, oldest first, at most this many.
function functions.fresh(most)
  local list, found = fresh_of(me), {}
  for at = 1, math.min(#list, 16 * most), 16 do
    found[#found + 1] = call('HGET', holds, list:sub(at, at + 15)) or nil
  end
  return found
end

return functions
