-- Comes before every operation on one of several independent masters. Each is a script of its own, and is about one lock.
--
-- The keys of a lock, on each master:
--       lock      string  the owner id of the hold, 'lh:closed', or whatever a foreign locker wrote; expires
--       record    string  as hold.lua has it: the newest token that was written back here, when (µs), and whose it is.
--                         A release leaves a token that is one higher, of nobody. It is of a hold only while lock holds
--                         its owner id. Outlives the hold
--       others    zset    coordinator id → until when it counts as waiting for the lock (ms). Expires
--       replaced  zset    owner ids that resumes gave another one for, by when they are forgotten (µs). Named after the
--                         record. Expires
-- KEYS  lock, record, and others where an operation needs it
-- ARGV  1 nonce, 2 the time after which nothing is to be done (µs, 0: never), then as each operation says
-- Reply {nonce, now (µs), LATE} or {nonce, now (µs), status, …}

local call, try, pack, unpack_bytes = redis.call, redis.pcall, struct.pack, struct.unpack

local LATE, DONE, MISSING, TAKEN, EXPIRED, ABOVE, REPLACED = -1, 0, 1, 2, 3, 4, 5
local CLOSED = 'lh:closed'
local DETAILS = 33      -- where the details begin in a record
local MOST_REPLACED = 128 -- replaced owner ids that are remembered of a name; replaced.rs has the same
local WAITS_FOR = 2500  -- ms for which a coordinator counts as waiting since it last said so

local lock, record, others = KEYS[1], KEYS[2], KEYS[3]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local function answer(...) return { tonumber(ARGV[1]), now, ... } end

local not_after = tonumber(ARGV[2])
if not_after > 0 and now > not_after then return answer(LATE) end

local function token_of(found) return found and unpack_bytes('>I8', found) or 0 end

-- Gives how long to remember a token, of a memory (both ms): for the memory after the token's own time, or after now if that
-- is later. Masters' clocks differ, so a token may be ahead of this one's.
local function memory_of(token, memory)
  return string.format('%.0f', memory + math.max(0, math.ceil((token - now) / 1000)))
end

local function is_of(found, owner) return found and found:sub(17, 32) == owner end

-- Of a record: state, lock-delay (ms), coordinator, session, extras, client name, where the value begins.
local function read_details(found) return unpack_bytes('>c1I8I2c0Bc0Bc0I2c0', found, DETAILS) end

-- The same extras for a hold that is held so many times.
local function with_times(extras, times)
  local mode, permits, limit, actor = 'x', 0, 0, ('\0'):rep(8)
  if extras ~= '' then mode, permits, limit, actor = unpack_bytes('>c1I4I4c8', extras) end
  return pack('>c1I4I4c8I4', mode, permits, limit, actor, times)
end

-- As a number for Redis, which gets at most 14 digits right otherwise.
local function whole(number) return string.format('%.0f', number) end

-- Tells the coordinators that wait, but for one, that the lock came free. Gives how many those are. A coordinator that said
-- so later than now did before the master's clock stepped back: it says so again if it still waits.
local function wake(me)
  local woken = 0
  local waiting = try('ZRANGEBYSCORE', others, whole(now / 1000), whole(now / 1000 + WAITS_FOR))
  for _, coordinator in ipairs(waiting) do
    if coordinator ~= me then
      try('PUBLISH', 'lh:wake:' .. coordinator, 'W' .. lock)
      woken = woken + 1
    end
  end
  return woken
end

local function replaced()
  local _, tag_ends = record:find('}', 1, true)
  return record:sub(1, tag_ends) .. ':replaced:' .. lock
end

-- Whether a resume gave what an owner id stood for another one.
local function is_replaced(owner)
  local forgotten_at = call('ZSCORE', replaced(), owner)
  return forgotten_at and tonumber(forgotten_at) > now
end

-- Whether an owner id is one of several in a text; that of nothing is not.
local function is_among(owners, owner)
  for at = 1, #owners, 16 do
    if owners:sub(at, at + 15) == owner then return true end
  end
  return false
end

-- The error of Redis while it is out of memory, nil while it is not. Comes before the first other write: after that Redis
-- refuses nothing any more. It adds nothing to any key.
local function is_full()
  local added = try('ZADD', replaced(), 'XX', '0', '')
  if type(added) ~= 'table' then return nil end
  -- As is_oom does in common.lua.
  local is_oom = added.err:match('^OOM ') or added.err:match('^@user_script: %d+: %-OOM ')
  return is_oom and added or nil
end

-- Lets the writes that follow pass while Redis is out of memory. They must make nothing larger.
local function allow_when_full() try('GETEX', record) end

-- Remembers for so long (ms) that owner ids, but for one, stand for nothing any more. Those that a client merely tried are
-- among them: they may have been the owner ids on a master that missed what this one has. Their number is bounded.
local function replace(owners, next, memory)
  local key, until_then, entries = replaced(), whole(now + memory * 1000), {}
  for at = 1, #owners, 16 do
    local owner = owners:sub(at, at + 15)
    if owner ~= next then
      entries[#entries + 1] = until_then
      entries[#entries + 1] = owner
    end
  end
  if not entries[1] then return end
  call('ZREMRANGEBYSCORE', key, '-inf', whole(now))
  call('ZADD', key, unpack(entries))
  call('ZREMRANGEBYRANK', key, '0', -MOST_REPLACED - 1)
  -- Not every coordinator remembers them for as long: the key is kept for the longest.
  local last = call('ZREVRANGE', key, '0', '0', 'WITHSCORES')
  call('PEXPIREAT', key, whole(math.ceil(last[2] / 1000)))
end
