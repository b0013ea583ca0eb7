-- Resumes a hold for another stream, on a master that has it. Its owner id changes, so that a coordinator that still believes
-- in the old stream can't change it any more. Never creates a key: only restore.lua does. A repetition changes nothing.
--
-- KEYS  lock, record
-- ARGV  its next owner id, those that it may be under, one after the other, TTL (ms; the hold's lock-delay comes on top), the
--       time to remember the token and the owner ids (ms), coordinator id, session id (empty for a unary call), client name, hold count,
--       the longest time from its grant for which it may be held (ms, 0: any)
-- Reply DONE, token, the record | MISSING (also if there is no record of it) | TAKEN | EXPIRED (no more than the
--       lock-delay was left, or it was held for as long as it may) | REPLACED

local next, from, ttl, memory = ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
local me, session, client, times, bound = ARGV[7], ARGV[8], ARGV[9], tonumber(ARGV[10]), tonumber(ARGV[11])
local holder, found = call('GET', lock), call('GET', record)

-- Returns the number of owner ids in `from` that were replaced, and the number of all.
local function count_replaced()
  local number = 0
  for at = 1, #from, 16 do
    if is_replaced(from:sub(at, at + 15)) then number = number + 1 end
  end
  return number, #from / 16
end

local is_known = is_of(found, holder)
local is_next = holder == next
if is_next and is_known then
  local _, _, coordinator, of = read_details(found)
  is_next = coordinator == me and of:sub(1, 16) == session
end
if not is_next then
  if is_replaced(next) then return answer(REPLACED) end
  if not holder then
    -- If only some were replaced, the hold may stand on other masters under another one.
    local number, all = count_replaced()
    return answer(number > 0 and number == all and REPLACED or MISSING)
  end
  if not is_among(from, holder) then return answer(count_replaced() > 0 and REPLACED or TAKEN) end
end
if not is_known then return answer(MISSING) end

local _, delay, coordinator, sessions, extras, former, value = read_details(found)
local left = call('PTTL', lock)
if delay > 0 and left >= 0 and left <= delay then return answer(EXPIRED) end
extras = with_bound(extras, bound)
if not is_next and is_bound_over(found, extras) then return answer(EXPIRED) end
local full = is_full()
-- First: after a write like this one Redis lets a script go on even when it is out of memory. Then it
-- keeps the old client name if the new one is longer, and remembers no owner ids: those only tell a coordinator that still
-- believes in one of them that the hold was resumed.
if full and #client > #former then client = former end
sessions = resumed_by(session, sessions, full)
call('PEXPIRE', record, memory_of(token_of(found), memory))
if not is_next and (times > 1 or extras ~= '') then extras = with_times(extras, times) end
found = found:sub(1, 16) .. next .. pack('>c1I8I2c0Bc0Bc0I2c0', 'c', delay, #me, me, #sessions, sessions, #extras, extras,
  #client, client) .. found:sub(value)
call('SET', lock, next, 'PX', ttl + delay)
call('SET', record, found, 'KEEPTTL')
if not full then replace(from, next, memory) end
-- Only a hint: if Redis does not allow it, the coordinator learns of the resume by its next renewal.
if coordinator ~= me then try('PUBLISH', 'lh:wake:' .. coordinator, 'M' .. holder .. lock) end
return answer(DONE, token_of(found), found)
