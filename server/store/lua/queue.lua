-- The queue. A waiter is kept as its coordinator, when it joined (µs), for how long its grant is to last (ms, text), and
-- the details of the hold to be (see hold.lua).

local DEAD_AFTER = 2000000     -- µs without a refresh after which a coordinator's waiters are skipped
local PLACES_KEPT = 10000000   -- µs without a refresh after which they lose their places
local PLACES_KEPT_MS = '10000'

local refreshed -- coordinator → µs, once the queue was loaded and is not empty

local function forget_queue_if_empty()
  if call('EXISTS', queue) == 0 then
    call('DEL', attached)
    refreshed = nil
  end
end

-- Looks at the queue: drops the waiters of coordinators that have been silent for too long to keep their places.
local function load_queue()
  refreshed = nil
  if call('EXISTS', queue) == 0 then return end
  refreshed = {}
  local gone = nil
  local all = call('HGETALL', attached)
  for i = 1, #all, 2 do
    local at = tonumber(all[i + 1])
    if at + PLACES_KEPT <= now then
      gone = gone or {}
      gone[all[i]] = true
      call('HDEL', attached, all[i])
    else
      refreshed[all[i]] = at
    end
  end
  if not gone then return end
  for _, owner in ipairs(call('ZRANGE', queue, 0, -1)) do
    local waiter = call('HGET', waiters, owner)
    if not waiter or gone[cmsgpack.unpack(waiter)[1]] then
      call('ZREM', queue, owner)
      call('HDEL', waiters, owner)
    end
  end
  forget_queue_if_empty()
end

local function keep_queue()
  call('PEXPIRE', queue, PLACES_KEPT_MS)
  call('PEXPIRE', waiters, PLACES_KEPT_MS)
  call('PEXPIRE', attached, PLACES_KEPT_MS)
end

-- Notes that the caller's waiters live.
local function attach()
  call('HSET', attached, me, now)
  refreshed = refreshed or {}
  refreshed[me] = now
end

-- Joins the queue at its end, or stays where it is.
local function join(owner, lasts, details)
  attach()
  if call('HEXISTS', waiters, owner) == 0 then
    local last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')
    call('ZADD', queue, (tonumber(last[2]) or 0) + 1, owner)
    call('HSET', waiters, owner, cmsgpack.pack({ me, now, lasts, details }))
  end
  keep_queue()
end

local function leave(owner)
  if not refreshed or call('ZREM', queue, owner) == 0 then return 0 end
  call('HDEL', waiters, owner)
  forget_queue_if_empty()
  return 1
end

-- Grants a free lock to the next waiter whose coordinator lives. Those of a dead one are skipped but keep their places.
local function hand_on()
  if not refreshed then return false end
  local from = 0
  while true do
    local owners = call('ZRANGE', queue, from, from + 15)
    if #owners == 0 then return false end
    for _, owner in ipairs(owners) do
      local coordinator, _, lasts, details = unpack(cmsgpack.unpack(call('HGET', waiters, owner)))
      local at = refreshed[coordinator]
      if at and at + DEAD_AFTER > now then
        leave(owner)
        local minted = grant(owner, lasts, details, coordinator)
        local _, _, _, session = read_details(details, 1)
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
