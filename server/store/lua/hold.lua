-- Holds. A hold is kept as its token, when that was minted (µs), 8 bytes each, its owner id, and its details, all
-- big-endian:
--
--   state        1 byte   'c'; or 'h' while a hand-off is unconfirmed: its client does not know of it, and no lock-delay
--                         is due. 'C' and 'H' are the same for a fresh hold in other modes: it was handed to a waiter,
--                         and has not been renewed since
--   lock-delay   8 bytes  ms
--   coordinator           length in 2 bytes, text
--   sessions              length in 1 byte, none, or the session, 16 bytes, and up to three that it was resumed from, the
--                         latest first
--   extras                length in 1 byte; none for an exclusive hold of no actor that is held once and has no bound;
--                         otherwise the mode 'x' (exclusive), 's' (shared) or 'p' (permits), permits and their limit,
--                         4 bytes each, the actor, 8 bytes, how many times it is held, 4 bytes; and of one that is bounded or
--                         has one of what follows the longest time from its grant for which it may be held (ms, 0: any),
--                         8 bytes; and of one whose limit has a revision or that has what follows that revision, 4 bytes;
--                         and of one whose acquire left the number of its permits to the store the fewest that it was
--                         content with, 4 bytes
--   client name           length in 2 bytes, text
--   value                 the rest
--
-- An exclusive one is the record; many.lua has the others.

local CLOSED, MANY = 'lh:closed', 'lh:many'
local CLAIM = '3000' -- ms that a hand-off to another coordinator stands unconfirmed
local DETAILS = 33   -- where they begin in a hold
local REVISION = 29  -- bytes of extras before the revision of a limit
local AT_LEAST = 33  -- bytes of extras before the fewest permits

-- Changes of the present operation to report (see watch.lua), nil while no feed follows the lock; and the view for a feed,
-- and that feed's channel.
local changes, looked

local holder -- value of the lock as found: false for nothing
local many   -- the functions of many.lua, while it is held together

-- Reads details at a place in a text: state, lock-delay, coordinator, session, extras, client name, where the value
-- begins.
local function read_details(text, at)
  return unpack_bytes('>c1I8I2c0Bc0Bc0I2c0', text, at)
end

-- Reads some details of a coordinator's request: the length of its session id, mode, permits, their limit and its revision, and
-- the permits that it needs at least. Faster than to read all of them.
local function read_request(details, coordinator)
  local session_at = 12 + #coordinator
  local session = details:byte(session_at)
  local extras_at = session_at + 1 + session
  local length = details:byte(extras_at)
  if length == 0 then return session, 'x', 0, 0, 0, 0 end
  local mode, permits, limit = unpack_bytes('>c1I4I4', details, extras_at + 1)
  if length <= REVISION then return session, mode, permits, limit, 0, permits end
  local revision = unpack_bytes('>I4', details, extras_at + 1 + REVISION)
  if length <= AT_LEAST then return session, mode, permits, limit, revision, permits end
  return session, mode, permits, limit, revision, math.min(permits, (unpack_bytes('>I4', details, extras_at + 1 + AT_LEAST)))
end

-- Returns the same request with as many permits of this limit.
local function with_permits(details, coordinator, permits, limit, revision)
  local extras_at = 13 + #coordinator + details:byte(12 + #coordinator)
  local extras = details:sub(extras_at + 1, extras_at + details:byte(extras_at))
  local rest = details:sub(extras_at + #extras + 1)
  local at_least = extras:sub(AT_LEAST + 1)
  extras = extras:sub(1, 1) .. pack('>I4I4', permits, limit) .. extras:sub(10, REVISION)
  if revision > 0 or at_least ~= '' then
    extras = extras .. ('\0'):rep(REVISION - #extras) .. pack('>I4', revision) .. at_least
  end
  return details:sub(1, extras_at - 1) .. string.char(#extras) .. extras .. rest
end

-- Returns the number of permits of a hold whose acquire left it to the store, 0 of any other hold.
local function permits_left(found)
  local _, _, _, _, extras = read_details(found, DETAILS)
  return #extras > AT_LEAST and unpack_bytes('>I4', extras, 2) or 0
end

-- Returns the same hold with another state, coordinator or extras.
local function with(found, state, coordinator, extras)
  local now_state, delay, now_coordinator, session, now_extras, client, value = read_details(found, DETAILS)
  state, coordinator, extras = state or now_state, coordinator or now_coordinator, extras or now_extras
  return found:sub(1, DETAILS - 1) .. pack('>c1I8I2c0Bc0Bc0I2c0', state, delay, #coordinator, coordinator, #session,
    session, #extras, extras, #client, client) .. found:sub(value)
end

local function is_confirmed(state) return state == 'c' or state == 'C' end

-- Returns the record, if it is that of this hold.
local function record_of(owner)
  local found = call('GET', record)
  return found and found:sub(17, 32) == owner and found
end

-- Returns the token of a record, 0 without one.
local function token_of(found)
  return found and unpack_bytes('>I8', found) or 0
end

-- Writes a record, and returns its token: greater than all before it. `last` is the previous one if this operation has
-- minted it.
local function mint(of, last)
  last = last or token_of(call('SET', record, stamp .. of, 'PX', newest_memory, 'GET'))
  if last < newest then return newest end
  call('SET', record, pack('>I8I8', last + 1, now) .. of, 'PX', memory_of(last + 1))
  return last + 1
end

-- Extends the time for which the newest token is remembered, and the limit of the permits that are held. Returns the record,
-- false without one.
local function remember()
  if many then many.remember_limit() end
  local found = call('GETEX', record, 'PX', memory)
  local token = found and #found >= 8 and token_of(found) or 0
  if token > now then call('PEXPIRE', record, memory_of(token)) end
  return found
end

-- Fails if Redis is out of memory. Called before every write that makes something larger: this call may have made writes
-- already, after which Redis refuses nothing any more.
local function refuse_if_full()
  if full then error(full, 0) end
end

-- Lets the writes that follow pass while Redis is out of memory. They must make nothing larger.
local function allow_when_full()
  -- A write that changes nothing and takes no memory.
  if full then redis.pcall('GETEX', record) end
end

-- Removes all but the token from the record of a hold that is over, because its value and client name are no longer needed.
-- With an owner id, only if the record is that one's. It never makes an operation fail.
local function strip(owner)
  local found = redis.pcall('GET', record)
  if type(found) ~= 'string' or #found <= 16 or owner and found:sub(17, 32) ~= owner then return end
  allow_when_full()
  redis.pcall('SET', record, found:sub(1, 16), 'KEEPTTL')
end

-- Returns a hold without value and client name.
local function anonymous(found)
  local _, _, _, _, _, client, value = read_details(found, DETAILS)
  return found:sub(1, value - #client - 3) .. '\0\0'
end

-- Returns a key of the lock that calls do not name: 'lh:{…}', its kind, and the lock key, derived from the record's.
local function companion(kind)
  local _, tag_ends = record:find('}', 1, true)
  return record:sub(1, tag_ends) .. kind .. lock
end

-- Returns the key of the void owner ids.
local function replaced() return companion(':replaced:') end

-- Returns the key of a semaphore's limit that has a revision (see limit.lua).
local function limit_key() return companion(':limit:') end

-- Returns why an owner id is void, nil if it is not: RESUMED (a resume replaced it, see resume.lua), or, if that is asked for
-- too, FORCED_OUT (an operator removed its waiter, see force_release.lua).
local function void_of(owner, or_forced)
  local forgotten_at = call('ZSCORE', replaced(), owner)
  if forgotten_at and tonumber(forgotten_at) > now then return RESUMED end
  if or_forced and void_of(owner .. 'f') then return FORCED_OUT end
end

local function note(...)
  if changes then changes[#changes + 1] = { ... } end
end

-- Returns the view of a hold with this many ms left: {session, extras, client name, coordinator, token, granted at (µs), ms
-- left without the lock-delay, lock-delay (ms), value}.
local function view_hold(found, left)
  local token, granted = unpack_bytes('>I8I8', found)
  local state, delay, coordinator, session, extras, client, value = read_details(found, DETAILS)
  if not is_confirmed(state) then delay = 0 end
  return { session, extras, client, coordinator, token, granted, math.max(left - delay, 0), delay, found:sub(value) }
end
