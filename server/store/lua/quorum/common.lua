-- First part of every operation on one of several independent masters. Each operation is a separate script, and concerns one
-- lock.
--
-- The keys of a lock, on each master:
--       lock      string  the owner id of the hold, 'lh:closed', or the text of a foreign locker; expires
--       record    string  as in hold.lua: the newest token that was written back here, the time of that (µs), and the
--                         details of its grant. A release leaves a token that is one higher, without a grant. The
--                         record belongs to a hold only while lock holds its owner id. Outlives the hold
--       others    zset    coordinator id → the time until which it counts as waiting for the lock (ms). Expires
--       replaced  zset    owner ids that resumes replaced, by the time at which they are forgotten (µs). Named after
--                         the record. Expires
-- KEYS  lock, record, and others if an operation needs it
-- ARGV  1 nonce, 2 the time after which the script does nothing (µs, 0: never), then the operation's own
-- Reply {nonce, now (µs), LATE} or {nonce, now (µs), status, …}

local call, try, pack, unpack_bytes = redis.call, redis.pcall, struct.pack, struct.unpack

local LATE, DONE, MISSING, TAKEN, EXPIRED, ABOVE, REPLACED = -1, 0, 1, 2, 3, 4, 5
local CLOSED = 'lh:closed'
local DETAILS = 33      -- where the details begin in a record
local MOST_REPLACED = 128 -- replaced owner ids that are remembered of a name; replaced.rs has the same
local WAITS_FOR = 2500  -- ms for which a coordinator counts as waiting after its last sign

local lock, record, others = KEYS[1], KEYS[2], KEYS[3]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local function answer(...) return { tonumber(ARGV[1]), now, ... } end

local not_after = tonumber(ARGV[2])
if not_after > 0 and now > not_after then return answer(LATE) end

local function token_of(found) return found and unpack_bytes('>I8', found) or 0 end

-- Returns the time to remember a token (ms): for the memory (ms) after the token's own time, or after now if that is later.
-- Masters' clocks differ, so a token may be ahead of this one's.
local function memory_of(token, memory)
  return string.format('%.0f', memory + math.max(0, math.ceil((token - now) / 1000)))
end

local function is_of(found, owner) return found and found:sub(17, 32) == owner end

-- Reads the details of a record: state, lock-delay (ms), coordinator, session, extras, client name, where the value begins.
local function read_details(found) return unpack_bytes('>c1I8I2c0Bc0Bc0I2c0', found, DETAILS) end

-- Returns the same extras with another hold count.
local function with_times(extras, times)
  local mode, permits, limit, actor = 'x', 0, 0, ('\0'):rep(8)
  if extras ~= '' then mode, permits, limit, actor = unpack_bytes('>c1I4I4c8', extras) end
  -- Behind them is the bound, if there is one.
  return pack('>c1I4I4c8I4', mode, permits, limit, actor, times) .. extras:sub(22)
end

-- Formats a number for Redis, which would keep 14 digits at most.
local function whole(number) return string.format('%.0f', number) end

-- Tells all waiting coordinators but the caller that the lock came free. Returns their number. Skips a coordinator whose last
-- sign lies in the future, because the master's clock has stepped back: it gives another sign if it still waits.
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

-- Returns whether a resume has replaced an owner id.
local function is_replaced(owner)
  local forgotten_at = call('ZSCORE', replaced(), owner)
  return forgotten_at and tonumber(forgotten_at) > now
end

-- Returns whether an owner id is one of several in a text; false is not.
local function is_among(owners, owner)
  for at = 1, #owners, 16 do
    if owners:sub(at, at + 15) == owner then return true end
  end
  return false
end

-- Returns the error of Redis if it is out of memory, otherwise nil. To be called before the first other write: after that
-- Redis refuses nothing any more. Adds nothing to any key.
local function is_full()
  local added = try('ZADD', replaced(), 'XX', '0', '')
  if type(added) ~= 'table' then return nil end
  -- As is_oom does in common.lua.
  local is_oom = added.err:match('^OOM ') or added.err:match('^@user_script: %d+: %-OOM ')
  return is_oom and added or nil
end

-- Lets the writes that follow pass while Redis is out of memory. They must make nothing larger.
local function allow_when_full() try('GETEX', record) end

-- Remembers for a time (ms) that all owner ids but the next are replaced. Includes those that a client only tried, because
-- they may have been the owner ids on a master that missed a write which this one has. Their number is bounded.
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
  -- Coordinators may remember them for different times: the key is kept for the longest.
  local last = call('ZREVRANGE', key, '0', '0', 'WITHSCORES')
  call('PEXPIREAT', key, whole(math.ceil(last[2] / 1000)))
end
