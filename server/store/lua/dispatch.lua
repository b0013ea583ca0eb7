-- Last part of the script: executes the operations.
--
-- It executes exclusive acquires, renewals and clean releases of the same caller together, if each is the first operation
-- on its lock in this call, so that their order does not matter. The others follow, one by one, in order. An acquire or
-- release on a followed lock is one of the others, because it has changes to report; a renewal has none, unless it fails or
-- makes the hold end much earlier.
--
-- Of the releases together with others, those whose record may have something to remove come first.
--
-- KEYS  queue of each release together with others, of each acquire; lock of each acquire, release, renewal; record of
--       each release, renewal, acquire; waiters of each release, acquire; and of each of the others lock and record,
--       and, unless it needs but those, queue and waiters
-- ARGV  1 nonce
--       2 a letter for each operation (see its file), R for a release whose record may have something to remove, or '.' for
--         the others
--       3 how many releases, renewals, acquires; and releases whose record may have something to remove
--       7 the caller: coordinator id, floor, token memory, not after (see set_caller)
--       then each release's owner id; each renewal's arguments; each acquire's arguments; and of each of the others: c and
--       the caller, where that changes; its letter; its own arguments

local KEYS, ARGV, try, letters = KEYS, ARGV, redis.pcall, ARGV[2]
local releases, renewals, acquires, fuller = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
set_caller(ARGV[7], ARGV[8], ARGV[9], ARGV[10])

local queues = releases + acquires
local acquired_locks = queues
local released_locks = acquired_locks + acquires
local renewed_locks = released_locks + releases
local released_records = renewed_locks + renewals
local renewed_records = released_records + releases
local acquired_records = renewed_records + renewals
local all_waiters = acquired_records + acquires
local rest_keys = all_waiters + queues
local rest_at = 11 + releases + 3 * renewals + 3 * acquires

if watch then watch.ask(acquired_locks + 1, released_records) end
local has_others = letters:find('.', 1, true)

local replies = { tonumber(ARGV[1]), now }
-- Number of queues that exist: if it is not all or none, each is checked.
local contended = queues > 0 and call('EXISTS', unpack(KEYS, 1, queues)) or 0
-- Asks whether Redis is out of memory, if something may take memory after another write. Uncontended acquires alone begin
-- with a write that Redis refuses by itself, and so does one that joins the queue. The question itself adds nothing to any key.
if has_others or acquires > 0 and letters ~= 'w' and (watch or contended > 0 or releases + renewals > 0) then
  local ours = (queues > 0 and KEYS[1] or KEYS[rest_keys + 2]):match('^lh:{.-}')
  local added = try('ZADD', ours .. ':none', 'XX', '0', '')
  full = type(added) == 'table' and is_oom(added.err) and added or nil
end
local function is_contended(q)
  return contended > 0 and (contended == queues or call('EXISTS', KEYS[q]) == 1)
end
-- Contents of the locks of releases and renewals, and then the records that may have something to remove.
local holders
if releases + renewals > 0 then holders = call('MGET', unpack(KEYS, released_locks + 1, released_records + fuller)) end

-- Returns whether a record is that of an owner id and has a value or a long client name.
local function has_more(found, owner)
  if not found or found:sub(17, 32) ~= owner then return false end
  -- After the coordinator come the session and the extras, each after its length, the client name, and the value.
  local at = found:sub(33, 32 + #mine) == mine and 33 + #mine
  at = at and at + 1 + (found:byte(at) or 0)
  at = at and at + 1 + (found:byte(at) or 0)
  if not at or #found < at + 1 then return true end
  local client = unpack_bytes('>I2', found, at)
  return client > KEPT_CLIENT or #found > at + 1 + client
end

-- Releases: a lock with waiters, or in an unexpected state, is left to release.lua.
local released = {}
if releases > 0 then
  local doomed = {}
  for i = 1, releases do
    local l = KEYS[released_locks + i]
    if holders[i] == ARGV[10 + i] and not is_contended(i) and not (watch and watch.follows(l)) then
      released[i] = RELEASED
      doomed[#doomed + 1] = l
    end
  end
  if doomed[1] then
    local result = try('DEL', unpack(doomed))
    if type(result) == 'table' then
      for i in pairs(released) do released[i] = result end
    else
      -- As strip does in hold.lua, where it pays.
      for i = 1, fuller do
        local found = released[i] and holders[releases + renewals + i]
        if has_more(found, ARGV[10 + i]) then
          try('SET', KEYS[released_records + i], found:sub(1, 16), 'KEEPTTL')
        end
      end
    end
  end
end

local carry_out, rest
local function uncommon(letter, l, r, q, ...)
  if not carry_out then carry_out, rest = unpack(operations()) end
  lock, record, queue = KEYS[l], KEYS[r], KEYS[q]
  waiters = KEYS[all_waiters + q]
  return carry_out(letter, ...)
end

local full_release, release, renewal, acquire = 0, fuller, 0, 0
local others = false
for i = 1, #letters do
  local letter, reply = letters:byte(i), nil
  if letter == 114 or letter == 82 then -- r or R
    local at
    if letter == 82 then
      full_release = full_release + 1
      at = full_release
    else
      release = release + 1
      at = release
    end
    reply = released[at]
      or uncommon('r', released_locks + at, released_records + at, at, ARGV[10 + at], holders[at])
  elseif letter == 46 then -- .
    others = true
    reply = false
  elseif letter == 110 then -- n
    renewal = renewal + 1
    local at = 8 + releases + 3 * renewal
    if late then
      reply = LATE
    elseif holders[releases + renewal] == ARGV[at] then
      -- As in renew.lua.
      local l, ttl = KEYS[renewed_locks + renewal], ARGV[at + 1]
      local is_shorter = watch and watch.follows(l) and call('PTTL', l) > ttl + UNNOTICED
      local found = not is_shorter and try('GETEX', KEYS[renewed_records + renewal], 'PX', memory)
      local known = ARGV[at + 2]
      if type(found) == 'string' and found:sub(33, 32 + #mine) == mine and (known == '' or found:sub(1, 8) == known) then
        local token = unpack_bytes('>I8', found)
        if token > now then try('PEXPIRE', KEYS[renewed_records + renewal], memory_of(token)) end
        local result = try('PEXPIRE', l, ttl)
        reply = type(result) == 'table' and result or RENEWED
      end
    end
    reply = reply or uncommon('n', renewed_locks + renewal, renewed_records + renewal, 0, ARGV[at], ARGV[at + 1],
      ARGV[at + 2])
  else -- a or w
    acquire = acquire + 1
    local q, at = releases + acquire, 8 + releases + 3 * renewals + 3 * acquire
    local l, r = acquired_locks + acquire, acquired_records + acquire
    if late then
      reply = LATE
    elseif full then
      reply = full
    elseif not is_contended(q) and not (watch and watch.follows(KEYS[l])) then
      reply = try('SET', KEYS[l], ARGV[at], 'PX', ARGV[at + 1], 'NX')
      if reply and not reply.err then
        -- As mint does in hold.lua.
        local of = ARGV[at] .. ARGV[at + 2]
        local last = try('SET', KEYS[r], stamp .. of, 'PX', newest_memory, 'GET')
        if type(last) == 'table' then
          try('DEL', KEYS[l])
          reply = last
        else
          reply = newest
          last = last and #last >= 8 and unpack_bytes('>I8', last)
          if last and last >= newest then
            reply = last + 1
            try('SET', KEYS[r], pack('>I8I8', reply, now) .. of, 'PX', memory_of(reply))
          end
        end
      end
    end
    reply = reply or uncommon(letter == 97 and 'a' or 'w', l, r, q, ARGV[at], ARGV[at + 1], ARGV[at + 2])
  end
  replies[i + 2] = reply
end
if others then
  if not rest then carry_out, rest = unpack(operations()) end
  rest(letters, replies, rest_keys, rest_at)
end
return replies
