-- Holds. The details of one, besides its token, time and owner id, all big-endian:
--
--   state        1 byte   'c', or 'h' while a hand-off is unconfirmed: its client knows nothing yet, no lock-delay is due
--   lock-delay   8 bytes  ms
--   coordinator           length in 2 bytes, text
--   session               length in 1 byte, 0 or 16 bytes
--   client name           length in 2 bytes, text
--   value                 the rest

local CLOSED = 'lh:closed'
local CLAIM = '3000' -- ms that a hand-off to another coordinator stands unconfirmed
local DETAILS = 33   -- where they begin in a record

-- Of details at a place in a text: state, lock-delay, coordinator, session, client name, where the value begins.
local function read_details(text, at)
  return unpack_bytes('>c1I8I2c0Bc0I2c0', text, at)
end

-- The record, if it is of this hold.
local function record_of(owner)
  local found = call('GET', record)
  return found and found:sub(17, 32) == owner and found
end

-- The token of a record, 0 without one.
local function token_of(found)
  return found and unpack_bytes('>I8', found) or 0
end

-- Makes the hold of a record one that the caller has confirmed and keeps.
local function confirm(found)
  local _, delay, _, session, client, value = read_details(found, DETAILS)
  local details = pack('>c1I8I2c0Bc0I2c0', 'c', delay, #me, me, #session, session, #client, client)
  call('SET', record, found:sub(1, DETAILS - 1) .. details .. found:sub(value), 'KEEPTTL')
end

-- Writes a record, and gives its token: greater than all before it.
local function mint(of)
  local last = token_of(call('SET', record, stamp .. of, 'PX', memory, 'GET'))
  if last < newest then return newest end
  call('SET', record, pack('>I8I8', last + 1, now) .. of, 'PX', memory)
  return last + 1
end

-- Sets the lock, free until now, to the owner id, for `lasts` ms (text), or for the claim time if it waits elsewhere.
local function grant(owner, lasts, details, coordinator)
  if coordinator ~= me then
    lasts, details = CLAIM, 'h' .. details:sub(2)
  end
  local minted = mint(owner .. details)
  call('SET', lock, owner, 'PX', lasts)
  return minted
end

-- Who holds the lock: false if nobody, {'foreign', ms left}, or {session, client name, coordinator, token, granted at
-- (µs), ms left without the lock-delay, lock-delay (ms), value}.
local function view_holder(owner)
  if not owner or owner == CLOSED then return false end
  local left = call('PTTL', lock)
  local found = record_of(owner)
  if not found then return { 'foreign', left } end
  local token, granted = unpack_bytes('>I8I8', found)
  local state, delay, coordinator, session, client, value = read_details(found, DETAILS)
  if state == 'h' then delay = 0 end
  return { session, client, coordinator, token, granted, math.max(left - delay, 0), delay, found:sub(value) }
end
