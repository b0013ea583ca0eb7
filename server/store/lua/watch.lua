-- Tells those who follow locks what operations change. The functions for it are made where anybody listens to the gate,
-- as every feed does.
--
-- Channels:
--       GATE                see gate.lua; nothing is ever published there
--       EVERYTHING          what happens to any lock
--       EVERYTHING:lock     to one
-- and a feed has one of its own. keys.rs makes them, and the lines that go ahead of the script with the first two.
--
-- A message is {lock, now (µs), {change, …}, how many wait after it or false, false or what was seen (as view.lua replies
-- it, from the holders on)} in RESP, and has no owner ids. What was seen is told to its feed alone, without changes. A
-- change is one of these; hold is what view_hold gives, or false where nothing is known of it, waiter what view_waiter
-- does:
--       'granted', hold
--       'queued', waiter, position
--       'withdrawn', waiter
--       'released', hold, ms for which what it took stays closed (0: it does not)
--       'expired', hold
--       'lost', hold, DELETED | TAKEN | EXPIRED
--       'forced', hold
--       'value', hold
--       'downgraded', hold
--       'resumed', hold

local format, try = string.format, redis.pcall
local functions = {}
local one = EVERYTHING .. ':' -- what the channels of single locks begin with
local are_all_followed
local listened_to = {}        -- lock → whether anybody listens to its channel, as far as that was asked

-- Asks at once whether anybody follows everything, or one of some of KEYS, which are locks.
function functions.ask(from, to)
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

-- Whether anybody follows a lock.
function functions.follows(of)
  return are_all_followed or is_listened_to(of)
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

-- Tells what an operation changed on the lock at hand.
function functions.tell(changes, waiting)
  local told = message(changes, waiting, false)
  if are_all_followed then try('PUBLISH', EVERYTHING, told) end
  if is_listened_to(lock) then try('PUBLISH', one .. lock, told) end
end

-- Tells a feed what was seen of it: {channel, view}. Gives whether anybody hears it.
function functions.show(looked, waiting)
  local view = looked[2]
  local heard_by = try('PUBLISH', looked[1], message({}, waiting, { unpack(view, 3) }))
  return type(heard_by) == 'number' and heard_by > 0
end

return functions
