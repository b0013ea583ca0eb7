-- Comes before every operation: what they share.
--
-- A call carries out up to 256 operations, one after the other, each under pcall and with a reply of its own, so that one
-- that fails (somebody else's WRONGTYPE key) fails alone.
--
-- KEYS  for each operation its lock's first keys, as many as the operation needs:
--       1 lock      string  the owner id of the hold, 'lh:closed', or whatever a foreign locker wrote; expires
--       2 hold      hash    what is known of the hold: o owner id, t token, a granted at (µs), d lock-delay (ms),
--                           w the same while a hand-off is unconfirmed (d is 0 then), k coordinator, s session,
--                           c client name, v value; valid only while o is what lock holds
--       3 token     string  the newest token of the name
--       4 queue     zset    the owner ids that wait, by place
--       5 waiters   hash    owner id → what it asked for (cmsgpack, see acquire.lua)
--       6 attached  hash    coordinator → when it last showed that its waiters live (µs)
-- ARGV  1 nonce, then for each operation: its name, the caller's coordinator id, the floor of the next token, how long
--       to remember the token (ms), the time after which it is to do nothing (µs, 0: never; releases and views take no
--       notice), and the operation's own arguments
-- Reply {nonce, now (µs), reply, …}; each reply is {handed, status, …} or an error; handed is false or
--       {owner id, token, coordinator, 1 if a session's}; status is 'late' where nothing was done
--
-- Tokens and times are integers below 2^53: exact in Lua, and exact when passed to redis.call or replied as numbers.
-- They never go through tostring, '..' or cjson, which round at 14 digits.

local lock, hold, token, queue, waiters, attached -- the keys of the operation at hand
local me, floor, memory                           -- what every operation is given
local refreshed                                   -- coordinator → µs, once the queue was loaded and is not empty
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

-- name → {keys that it is given, arguments of its own, whether it does nothing when late, function of where its own
-- arguments begin}
local operations = {}

local CLOSED = 'lh:closed'
local CLAIM = 3000           -- ms that a hand-off to another coordinator stands unconfirmed
local DEAD_AFTER = 2000000   -- µs without a refresh after which a coordinator's waiters are skipped
local PLACES_KEPT = 10000000 -- µs without a refresh after which they lose their places

-- A new token, greater than all before it.
local function mint()
  local last = tonumber(redis.call('GET', token) or 0)
  local minted = math.max(last + 1, now, floor)
  redis.call('SET', token, minted, 'PX', memory)
  return minted
end

-- Makes a hand-off from elsewhere, if it is one, a hold as every other. After a first write, so that Redis does not refuse
-- it when it is out of memory.
local function confirm(unconfirmed)
  redis.call('HDEL', hold, 'w')
  redis.call('HSET', hold, 'k', me)
  if unconfirmed > 0 then redis.call('HSET', hold, 'd', unconfirmed) end
end

-- Sets the lock, free until now, to the owner id.
local function grant(owner, ttl, delay, coordinator, session, client, value)
  local minted = mint()
  local lasts, unconfirmed = ttl + delay, 0
  -- Its client does not know of it before it is confirmed, so that no lock-delay is due.
  if coordinator ~= me then lasts, delay, unconfirmed = CLAIM, 0, delay end
  redis.call('SET', lock, owner, 'PX', lasts)
  redis.call('HSET', hold, 'o', owner, 't', minted, 'a', now, 'd', delay, 'w', unconfirmed, 'k', coordinator, 's', session,
    'c', client, 'v', value)
  redis.call('PEXPIRE', hold, lasts)
  return minted
end

local function forget_queue_if_empty()
  if redis.call('EXISTS', queue) == 0 then
    redis.call('DEL', attached)
    refreshed = nil
  end
end

-- Looks at the queue: drops the waiters of coordinators that have been silent for too long to keep their places.
local function load_queue()
  if redis.call('EXISTS', queue) == 0 then return end
  refreshed = {}
  local gone = nil
  local all = redis.call('HGETALL', attached)
  for i = 1, #all, 2 do
    local at = tonumber(all[i + 1])
    if at + PLACES_KEPT <= now then
      gone = gone or {}
      gone[all[i]] = true
      redis.call('HDEL', attached, all[i])
    else
      refreshed[all[i]] = at
    end
  end
  if not gone then return end
  for _, owner in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
    local waiter = redis.call('HGET', waiters, owner)
    if not waiter or gone[cmsgpack.unpack(waiter)[1]] then
      redis.call('ZREM', queue, owner)
      redis.call('HDEL', waiters, owner)
    end
  end
  forget_queue_if_empty()
end

local function leave(owner)
  if not refreshed or redis.call('ZREM', queue, owner) == 0 then return 0 end
  redis.call('HDEL', waiters, owner)
  forget_queue_if_empty()
  return 1
end

local function keep_queue()
  for _, key in ipairs({ queue, waiters, attached }) do
    redis.call('PEXPIRE', key, PLACES_KEPT / 1000)
  end
end

-- Grants a free lock to the next waiter whose coordinator lives. Those of a dead one are skipped but keep their places.
local function hand_on()
  if not refreshed then return false end
  local from = 0
  while true do
    local owners = redis.call('ZRANGE', queue, from, from + 15)
    if #owners == 0 then return false end
    for _, owner in ipairs(owners) do
      local coordinator, _, ttl, delay, session, client, value =
        unpack(cmsgpack.unpack(redis.call('HGET', waiters, owner)))
      local at = refreshed[coordinator]
      if at and at + DEAD_AFTER > now then
        leave(owner)
        local minted = grant(owner, ttl, delay, coordinator, session, client, value)
        if coordinator ~= me then
          -- Only a hint: where it is not allowed, a refresh finds the grant.
          local kind = session == '' and 'U' or 'G'
          redis.pcall('PUBLISH', 'lh:wake:' .. coordinator, kind .. owner .. string.format('%020.0f', minted) .. lock)
        end
        return { owner, minted, coordinator, session ~= '' and 1 or 0 }
      end
    end
    from = from + 16
  end
end

-- Who holds the lock: false if nobody, {'foreign', ms left}, or
-- {session, client name, coordinator, token, granted at (µs), ms left without the lock-delay, lock-delay (ms), value}.
local function view_holder(owner)
  if not owner or owner == CLOSED then return false end
  local left = redis.call('PTTL', lock)
  local o, s, c, k, t, a, d, v = unpack(redis.call('HMGET', hold, 'o', 's', 'c', 'k', 't', 'a', 'd', 'v'))
  if o ~= owner then return { 'foreign', left } end
  return { s, c, k, tonumber(t), tonumber(a), math.max(left - tonumber(d), 0), tonumber(d), v }
end
