-- Reports the changes of operations to feeds. The script makes these functions only while the gate has a subscriber, which
-- every feed is.
--
-- Channels:
--       GATE                see gate.lua; nothing is ever published there
--       EVERYTHING          changes of all locks
--       EVERYTHING:lock     changes of one lock
-- and each feed has one of its own. keys.rs makes them, and the lines before the script that define the first two.
--
-- On a cluster from version 7 on, lh:{tag}:watch of each slot replaces the last two and those of feeds: only the slot's
-- node gets its messages, whereas the bus carries a message on any other channel to every node. If the slot's channel has no
-- subscriber, as at a node that is just being given the slot, the script uses the others.
--
-- A message is {lock, now (µs), {change, …}, number of waiters after it or false, false or a view (as view.lua replies it,
-- from the holders on)} in RESP, and has no owner ids. A view goes only to the feed that asked for it, without changes; on the
-- channel of a slot, the name of the feed's own channel ends the message. A change is one of these, where hold is the result
-- of view_hold, or false for an unknown hold, and waiter is that of view_waiter:
--       'granted', hold
--       'queued', waiter, position
--       'withdrawn', waiter
--       'released', hold, ms for which the lock stays closed (0: it does not)
--       'expired', hold
--       'lost', hold, DELETED | TAKEN | EXPIRED
--       'forced', hold: it was taken from everybody
--       'forced holder', hold
--       'forced waiter', waiter
--       'value', hold
--       'downgraded', hold
--       'requested', hold: an operator asks its holder to release it
--       'resumed', hold
--       'shortened', hold: a renewal made it end much earlier
--       'reduced', hold, the permits that it gave back
--       'limit', limit, its revision
--       'doubtful': a command changed it after its caller had given up. The server may be a master that was replaced

local format, try = string.format, redis.pcall
local functions = {}
local one = EVERYTHING .. ':' -- prefix of the channels of single locks
local are_all_followed
local listened_to = {}        -- lock → whether its channel has a subscriber, as far as that was asked
local of_slot                 -- the channel of the slot, if it has a subscriber

-- Looks for subscribers of the slot, or else of everything and of locks among KEYS. The last key is no lock.
function functions.ask(from, to)
  if IS_CLUSTER and (redis.REDIS_VERSION_NUM or 0) >= 0x070000 then
    local channel = 'lh:' .. KEYS[#KEYS]:match('{.-}') .. ':watch'
    if (try('PUBSUB', 'SHARDNUMSUB', channel)[2] or 0) > 0 then
      of_slot = channel
      return
    end
  end
  local channels, next = { EVERYTHING }, 2
  for i = from, to do
    channels[next] = one .. KEYS[i]
    next = next + 1
  end
  local found = try('PUBSUB', 'NUMSUB', unpack(channels))
  are_all_followed = (found[2] or 0) > 0
  next = 4
  for i = from, to do
    listened_to[KEYS[i]] = (found[next] or 0) > 0
    next = next + 2
  end
end

local function is_listened_to(of)
  if listened_to[of] == nil then
    listened_to[of] = (try('PUBSUB', 'NUMSUB', one .. of)[2] or 0) > 0
  end
  return listened_to[of]
end

-- Returns whether a feed follows a lock.
function functions.follows(of)
  return of_slot or are_all_followed or is_listened_to(of)
end

local function encode(value, parts)
  local kind = type(value)
  if kind == 'table' then
    parts[#parts + 1] = format('*%d\r\n', #value)
    for i = 1, #value do encode(value[i], parts) end
  elseif kind == 'string' then
    parts[#parts + 1] = format('$%d\r\n', #value)
    parts[#parts + 1] = value
    parts[#parts + 1] = '\r\n'
  else
    parts[#parts + 1] = value and format(':%.0f\r\n', value) or '$-1\r\n'
  end
end

local function message(...)
  local parts = {}
  encode({ lock, now, ... }, parts)
  return table.concat(parts)
end

-- Reports the changes of an operation on the present lock.
function functions.tell(changes, waiting)
  local told = message(changes, waiting, false)
  if of_slot then
    try('SPUBLISH', of_slot, told)
    return
  end
  if are_all_followed then try('PUBLISH', EVERYTHING, told) end
  if is_listened_to(lock) then try('PUBLISH', one .. lock, told) end
end

-- Sends a feed a view of the present lock: {channel, view}. Returns whether the feed receives it.
function functions.show(looked, waiting)
  local channel, view = looked[1], { unpack(looked[2], 3) }
  local heard_by
  if of_slot then
    heard_by = try('SPUBLISH', of_slot, message({}, waiting, view, channel))
  else
    heard_by = try('PUBLISH', channel, message({}, waiting, view))
  end
  return type(heard_by) == 'number' and heard_by > 0
end

return functions
