-- First part of the script: the arguments of the call, and functions that the operations share.
--
-- A call executes up to 256 operations, each with its own reply, so that one that fails (a foreign WRONGTYPE key) fails
-- alone. Three are by far the most frequent and nearly always have the same outcome: to acquire, renew or cleanly release
-- an uncontended lock. dispatch.lua executes those together, in as few commands as possible, because Redis takes longer to
-- begin a command than to execute it. The functions of the files in between execute all other operations and outcomes, and
-- report to feeds (watch.lua). A call makes these functions at most once, if it needs one, because making them takes as
-- long as several operations.
--
-- The keys of a lock:
--       lock      string  the owner id of the one hold, 'lh:many' for those that share it or hold permits, 'lh:closed',
--                         or the text of a foreign locker; expires
--       record    string  the newest token of the name, when it was minted (µs), 8 bytes each; then owner id and
--                         details (see hold.lua) of the grant that it was minted for, if any. They are of a hold only
--                         while lock holds that owner id. Outlives the hold
--       queue     zset    waiters: coordinator id, a zero byte, place (8 bytes), owner id; all of score 0
--       waiters   hash    owner id → its acquire; '' → the places given, the coordinators, the semaphore's limit in force
--                         (see queue.lua)
--       holders, holds    of holds in other modes: see many.lua, which makes their names
--       limit     string  the limit of a semaphore and its revision, once an acquire has named one: see limit.lua, which makes
--                         its name
--       replaced  zset    owner ids that resumes replaced, and, with an f behind, those of waiters that an operator removed,
--                         by when they are forgotten (µs): see hold.lua, which makes its name
-- KEYS, ARGV  see dispatch.lua
-- Reply {nonce, now (µs), reply, …}, one reply for each operation: an error, or the token of a grant, or one of the
--       negative numbers below, or {handed, status, …}. There handed is false or tells of the grants made to waiters:
--       {owner id, token, coordinator, 1 if a session's, its permits if their number was left to the store or 0, and so on,
--       at the end 1 if there could be more grants at once}; and the status is 0 before what would be the whole reply had
--       nothing been handed on
--
-- Redis checks its memory when a call begins. If it is full, it refuses writes that may take memory ("deny-oom"), but only
-- until the call has made any other write: from then on it lets all writes pass. Releases and renewals rely on that. So a
-- call that could make anything larger after such a write first asks whether Redis is full (see dispatch.lua), and an
-- operation that makes something larger then refuses by itself (refuse_if_full in hold.lua). A batch cannot take Redis
-- further beyond maxmemory than one command of Redis could.
--
-- Tokens and times are integers below 2^53: exact in Lua, and exact as 8 bytes or replied as numbers. They never go
-- through tostring, '..' or cjson, which round at 14 digits. Arguments to Redis are text or bytes wherever possible,
-- because numbers take long to format.

local call, pack, unpack_bytes = redis.call, struct.pack, struct.unpack

-- Replies without details; decode.rs has the same numbers.
local LATE, RENEWED, RELEASED, NOTHING, CANCELLED = -1, -2, -3, -4, -5
local DELETED, TAKEN, EXPIRED, CHANGED, NO_HOLD, LOOKED, UNHEARD, RESUMED = -6, -7, -8, -9, -10, -11, -12, -13
local FORCED_OUT = -14

-- Feeds are not told of a renewal that makes a hold end earlier by no more than this (ms).
local UNNOTICED = 100

local letter                       -- the operation at hand
local lock, record, queue, waiters -- its keys
local me, memory                   -- the caller's coordinator id; how long to remember a token that is not ahead (ms, text)
local mine                         -- how details begin that the caller has confirmed, with no lock-delay
local newest, stamp                -- a token minted now, and how a record with it begins
local newest_memory                -- how long to remember that one (ms, text)
local watch                        -- the functions of watch.lua, while a feed follows locks of this database
local late                         -- whether the caller has given up, so that little is to be done
local full                         -- the error of Redis while it is out of memory, nil while it is not
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- Returns how long to remember a token (ms, text): for the memory after the token's own time, or after now if that is later.
-- By then the time has passed the token, and so has every token that is minted without a record of it.
local function memory_of(token)
  if token <= now then return memory end
  return string.format('%.0f', memory + math.ceil((token - now) / 1000))
end

-- Returns whether an error of a command says that Redis is out of memory. Its code comes first; before version 7 the place in
-- the script does. Elsewhere in an error, the same letters may be part of a user's name.
local function is_oom(problem)
  return problem:match('^OOM ') or problem:match('^@user_script: %d+: %-OOM ')
end

-- Sets the caller: coordinator id, floor of the next token, how long to remember it (ms), and the time after which only
-- releases and views are executed (µs, 0: never). The floor is at most now plus the memory, so that one token of the
-- far future does not raise those of every name.
local function set_caller(coordinator, floor, token_memory, not_after)
  me, memory = coordinator, token_memory
  mine = pack('>c1I8I2', 'c', 0, #me) .. me
  newest = math.max(now, math.min(tonumber(floor), now + memory * 1000))
  newest_memory = memory_of(newest)
  stamp = pack('>I8I8', newest, now)
  not_after = tonumber(not_after)
  late = not_after > 0 and now > not_after
end
